//! Arithmetic: functions of each element, products of matrices, losses.

use super::{Importer, Node, NodeProblem, Translate, Values, of_inputs, plain, with_attributes};
use crate::graph::{Array, Binary, Op, Output, Unary};
use crate::tensor::PartialShape;

pub(super) fn find(kind: &str) -> Option<Translate> {
    if let Some(unary) = unary(kind) {
        return Some(plain(Op::Unary(unary)));
    }
    if let Some(binary) = binary(kind) {
        return Some(Box::new(move |importer, node| broadcast(importer, node, &Op::Binary(binary))));
    }
    Some(match kind {
        "Identity" | "Snapshot" | "PreventGradient" => Box::new(super::state::identity),
        "NoOp" => plain(Op::NoOp),
        "AddN" => plain(Op::AddN),
        "Equal" => plain(Op::Equal),
        "Cast" => with_attributes(|def| Ok(Op::Cast(def.dtype("DstT")?))),
        "MatMul" => with_attributes(|def| {
            Ok(Op::MatMul { transpose_a: def.flag("transpose_a")?, transpose_b: def.flag("transpose_b")? })
        }),
        "BiasAdd" => with_attributes(|def| channels_last(def).map(|()| Op::BiasAdd)),
        "BiasAddGrad" => with_attributes(|def| channels_last(def).map(|()| Op::BiasAddGrad)),
        "ReluGrad" => plain(Op::UnaryGrad(Unary::Relu)),
        "SigmoidGrad" => of_inputs([1, 0], Op::UnaryGrad(Unary::Sigmoid)),
        "TanhGrad" => of_inputs([1, 0], Op::UnaryGrad(Unary::Tanh)),
        "BatchMatMul" | "BatchMatMulV2" => {
            with_attributes(|def| Ok(Op::BatchMatMul { adj_x: def.flag("adj_x")?, adj_y: def.flag("adj_y")? }))
        }
        _ => return None,
    })
}

fn unary(kind: &str) -> Option<Unary> {
    Some(match kind {
        "Relu" => Unary::Relu,
        "Sigmoid" => Unary::Sigmoid,
        "Tanh" => Unary::Tanh,
        "Exp" => Unary::Exp,
        "Log" => Unary::Log,
        "Square" => Unary::Square,
        "Neg" => Unary::Neg,
        _ => return None,
    })
}

fn binary(kind: &str) -> Option<Binary> {
    Some(match kind {
        "Add" | "AddV2" => Binary::Add,
        "Sub" => Binary::Sub,
        "Mul" => Binary::Mul,
        "RealDiv" | "Div" => Binary::Div,
        _ => return None,
    })
}

/// That the data format of `def` is the one that exists here.
pub(super) fn channels_last(def: &super::NodeDef) -> Result<(), NodeProblem> {
    match def.text("data_format")? {
        "" | "NHWC" | "NDHWC" => Ok(()),
        other => Err(NodeProblem::unsupported(format!("the data format {other} does not exist here; use NHWC"))),
    }
}

/// `op` of two operands, each first repeated to the shape that they have together.
fn broadcast(importer: &mut Importer<'_>, node: &Node<'_>, op: &Op) -> Values {
    let (a, b) = (importer.input(node, 0)?, importer.input(node, 1)?);
    let together = common_shape(a.tensor_type().shape, b.tensor_type().shape);
    let spread = |x: Output, part: &str| {
        let shape = x.tensor_type().shape;
        match together.filter(|together| shape.rank() > 0 && shape != *together) {
            Some(together) => importer.helper(node, part, Op::Array(Array::BroadcastTo(together)), &[&x]),
            None => Ok(x),
        }
    };
    let (a, b) = (spread(a, "a")?, spread(b, "b")?);
    importer.emit(node, op.clone(), &[a, b])
}

/// The shape that two operands have together; none where they don't go together.
fn common_shape(a: PartialShape, b: PartialShape) -> Option<PartialShape> {
    let rank = a.rank().max(b.rank());
    let dim = |x: &PartialShape, from_end: usize| match x.rank().checked_sub(from_end + 1) {
        Some(axis) => x.dims()[axis],
        None => Some(1),
    };
    let together = |from_end: usize| match (dim(&a, from_end), dim(&b, from_end)) {
        (Some(1), other) | (other, Some(1)) => Some(other),
        (None, other) | (other, None) => Some(other),
        (Some(a), Some(b)) => (a == b).then_some(Some(a)),
    };
    let dims: Option<Vec<_>> = (0..rank).rev().map(together).collect();
    dims.map(|dims| PartialShape::new(&dims))
}
