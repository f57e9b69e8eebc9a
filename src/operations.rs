//! What each operation means: the library's, a family a file, and those that a program registers.
//!
//! A file has the definitions ([`OpDef`](crate::graph::OpDef)) of its operations and the methods of
//! [`Output`](crate::graph::Output) that build them; the table below has a line for it. The graph,
//! the executor and the cost model ask the definition, and know no operation by its name.

/// The kind of an operation without attributes: its `name()`, or the one that is given.
macro_rules! without_attributes {
    ($($kind:literal)?) => {
        fn kind(&self) -> &'static str {
            without_attributes!(@kind self $($kind)?)
        }

        fn attributes(&self, _: &mut crate::graph::Attributes) -> Defined {
            (*self).into()
        }
    };
    (@kind $self:ident) => { $self.name() };
    (@kind $self:ident $kind:literal) => { $kind };
}

mod array;
mod atan2;
mod binary;
mod broadcast;
mod cast;
mod chain;
mod choose;
mod comparison;
mod control;
mod cumprod;
mod dispatch;
mod dynamic;
mod guards;
mod indexed;
mod library;
mod list;
mod log_sum_exp;
mod loss;
mod norm;
mod operators;
mod order;
mod product;
mod random;
mod reduce;
mod registry;
mod roll;
mod rows;
mod sparse;
mod synthetic;
#[cfg(test)]
mod tests;
mod types;
mod unary;
mod window;
mod wire;

use crate::graph::Defined;

pub use array::Array;
pub(crate) use array::{MAX_PARTS, check_direction};
pub use atan2::Atan2;
pub use binary::Binary;
pub use broadcast::Broadcast;
pub use cast::Cast;
pub(crate) use chain::{ChainOp, follows, run as run_chain};
pub use choose::Choose;
pub use comparison::{Compare, Logical};
pub(crate) use control::{Flow, Next, until_given_up};
pub use control::{If, While, WhileGrad};
pub use cumprod::Cumprod;
pub use dispatch::KernelError;
#[cfg(test)]
pub(crate) use dispatch::call;
pub(crate) use dispatch::cost as cost_of;
pub(crate) use dynamic::subscripts;
pub use dynamic::{Change, Dynamic};
pub use guards::Guard;
pub use indexed::Indexed;
pub use library::Library;
pub(crate) use library::{erfc, gamma};
pub use list::List;
pub use loss::LossFunction;
pub use norm::Norm;
pub use order::Order;
pub use product::Product;
pub use random::Random;
pub use reduce::{Reduce, ReduceGrad};
pub use registry::register_operation;
pub use roll::Roll;
pub use rows::Rows;
pub use sparse::Sparse;
pub(crate) use synthetic::Synthetic;
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
        order::kinds(),
        dynamic::kinds(),
        guards::kinds(),
        library::kinds(),
        cumprod::kinds(),
        choose::kinds(),
        roll::kinds(),
        atan2::kinds(),
        control::kinds(),
        list::kinds(),
        synthetic::kinds(),
    ]
    .concat()
}
