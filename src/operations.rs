//! The operations that are defined in one file each, and those that a program registers.
//!
//! A file has the definition ([`OpDef`](crate::graph::OpDef)), the method of
//! [`Output`](crate::graph::Output) that builds the operation, and its tests; the table below has
//! one line for it.

mod indexed;
mod log_sum_exp;
mod order;
mod registry;

use crate::graph::Defined;
use crate::tensor::{DType, Shape};

pub use indexed::Indexed;
pub use log_sum_exp::LogSumExp;
pub use order::Order;
pub use registry::register_operation;

/// One of each kind, with any attributes.
fn built_in() -> Vec<Defined> {
    vec![
        Indexed::Gather { axis: 0 }.into(),
        Indexed::GatherGrad { axis: 0 }.into(),
        Indexed::GatherNd.into(),
        Indexed::ScatterNd(Shape::SCALAR).into(),
        Indexed::TensorScatterAdd.into(),
        Indexed::TensorScatterUpdate.into(),
        Indexed::OneHot { depth: 1, axis: 0, on: 1f32.into(), off: 0f32.into() }.into(),
        LogSumExp::default().into(),
        Order::ArgMax { axis: 0, dtype: DType::I64 }.into(),
        Order::ArgMin { axis: 0, dtype: DType::I64 }.into(),
        Order::TopK { k: 1 }.into(),
        Order::TopKGrad.into(),
        Order::InTopK { k: 1 }.into(),
    ]
}
