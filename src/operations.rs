//! What each operation means: the library's, a family a file, and those that a program registers.
//!
//! A file has the definitions ([`OpDef`](crate::graph::OpDef)) of its operations and the methods of
//! [`Output`](crate::graph::Output) that build them; the table below has a line for it. The graph,
//! the executor and the cost model ask the definition, and know no operation by its name.

mod array;
mod binary;
mod broadcast;
mod cast;
mod chain;
mod comparison;
mod dispatch;
mod indexed;
mod log_sum_exp;
mod loss;
mod norm;
mod operators;
mod order;
mod product;
mod random;
mod reduce;
mod registry;
mod rows;
mod sparse;
#[cfg(test)]
mod tests;
mod types;
mod unary;
mod window;
mod wire;

use crate::graph::Defined;

pub use array::Array;
pub use binary::Binary;
pub use broadcast::Broadcast;
pub use cast::Cast;
pub(crate) use chain::{Link, follows, run as run_chain};
pub use comparison::{Compare, Logical};
pub use dispatch::KernelError;
#[cfg(test)]
pub(crate) use dispatch::call;
pub(crate) use dispatch::cost as cost_of;
pub use indexed::Indexed;
pub use log_sum_exp::LogSumExp;
pub use loss::LossFunction;
pub use norm::Norm;
pub use order::Order;
pub use product::Product;
pub use random::Random;
pub use reduce::{Reduce, ReduceGrad};
pub use registry::register_operation;
pub use rows::Rows;
pub use sparse::Sparse;
#[cfg(test)]
pub(crate) use unary::Seen;
pub use unary::{Unary, UnaryGrad};
pub use window::{Channels, Convolution, Pool, Window};

/// One of each kind, with any attributes. An operation's place is its number in messages.
fn built_in() -> Vec<Defined> {
    [
        random::kinds(),
        unary::kinds(),
        binary::kinds(),
        comparison::kinds(),
        broadcast::kinds(),
        cast::kinds(),
        product::kinds(),
        rows::kinds(),
        reduce::kinds(),
        loss::kinds(),
        norm::kinds(),
        array::kinds(),
        indexed::kinds(),
        sparse::kinds(),
        window::kinds(),
        log_sum_exp::kinds(),
        order::kinds(),
    ]
    .concat()
}
