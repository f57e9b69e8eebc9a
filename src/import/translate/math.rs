//! Arithmetic: functions of each element, products of matrices, losses.

use super::{Importer, Node, NodeProblem, Translate, Values, of_inputs, plain, with_attributes};
use crate::graph::Op;
use crate::operations::{
    Binary, Broadcast, Cast, Compare, Logical, Product, Rows, Unary, UnaryGrad,
};
use crate::tensor::{DType, Tensor};

pub(super) fn find(kind: &str) -> Option<Translate> {
    let same_inputs = unary(kind).map(Op::from).or_else(|| binary(kind).map(Op::from));
    if let Some(op) = same_inputs.or_else(|| compared(kind)) {
        return Some(plain(op));
    }
    if let Some(op) = unary(kind.strip_suffix("Grad").unwrap_or_default()).map(UnaryGrad) {
        let is_result_first = matches!(
            kind,
            "SigmoidGrad" | "TanhGrad" | "SqrtGrad" | "RsqrtGrad" | "ReciprocalGrad"
        );
        return Some(of_inputs(if is_result_first { [1, 0] } else { [0, 1] }, op));
    }
    Some(match kind {
        "Identity" | "Snapshot" | "PreventGradient" | "StopGradient" => {
            Box::new(super::state::identity)
        }
        "IdentityN" => Box::new(|importer, node| {
            importer.emit(node, Op::NoOp, &[])?;
            Ok(node.inputs.clone())
        }),
        "NoOp" => plain(Op::NoOp),
        "AddN" => plain(Broadcast::AddN),
        "LeakyRelu" => with_attributes(|def| Ok(Unary::LeakyRelu(def.float("alpha", 0.2)?))),
        "LeakyReluGrad" => {
            with_attributes(|def| Ok(UnaryGrad(Unary::LeakyRelu(def.float("alpha", 0.2)?))))
        }
        "Select" => Box::new(select),
        "SelectV2" => plain(Broadcast::Select),
        "IsNan" => of_inputs([0, 0], Compare::NotEqual),
        "IsFinite" => Box::new(is_finite),
        "Cast" => with_attributes(|def| Ok(Cast(def.dtype("DstT")?))),
        "MatMul" => with_attributes(|def| {
            Ok(Product::MatMul {
                transpose_a: def.flag("transpose_a")?,
                transpose_b: def.flag("transpose_b")?,
            })
        }),
        "BatchMatMul" | "BatchMatMulV2" => with_attributes(|def| {
            let (adj_x, adj_y) = (def.flag("adj_x")?, def.flag("adj_y")?);
            Ok(Product::BatchMatMul { adj_x, adj_y })
        }),
        "BiasAdd" => with_attributes(|def| channels_last(def).map(|()| Rows::BiasAdd)),
        "BiasAddGrad" => with_attributes(|def| channels_last(def).map(|()| Rows::BiasAddGrad)),
        _ => return None,
    })
}

fn unary(kind: &str) -> Option<Unary> {
    Some(match kind {
        "Relu" => Unary::Relu,
        "Relu6" => Unary::Relu6,
        "Elu" => Unary::Elu,
        "Selu" => Unary::Selu,
        "Sigmoid" => Unary::Sigmoid,
        "Tanh" => Unary::Tanh,
        "Softplus" => Unary::Softplus,
        "Softsign" => Unary::Softsign,
        "Exp" => Unary::Exp,
        "Expm1" => Unary::Expm1,
        "Log" => Unary::Log,
        "Log1p" => Unary::Log1p,
        "Sqrt" => Unary::Sqrt,
        "Rsqrt" => Unary::Rsqrt,
        "Reciprocal" | "Inv" => Unary::Reciprocal,
        "Square" => Unary::Square,
        "Abs" => Unary::Abs,
        "Sign" => Unary::Sign,
        "Neg" => Unary::Neg,
        "Floor" => Unary::Floor,
        "Ceil" => Unary::Ceil,
        "Round" | "Rint" => Unary::Round,
        "Sin" => Unary::Sin,
        "Cos" => Unary::Cos,
        "Erf" => Unary::Erf,
        _ => return None,
    })
}

fn binary(kind: &str) -> Option<Binary> {
    Some(match kind {
        "Add" | "AddV2" => Binary::Add,
        "Sub" => Binary::Sub,
        "Mul" => Binary::Mul,
        "RealDiv" | "Div" => Binary::Div,
        "FloorDiv" => Binary::FloorDiv,
        "FloorMod" => Binary::FloorMod,
        "Pow" => Binary::Pow,
        "Maximum" => Binary::Maximum,
        "Minimum" => Binary::Minimum,
        "SquaredDifference" => Binary::SquaredDifference,
        _ => return None,
    })
}

fn compared(kind: &str) -> Option<Op> {
    Some(match kind {
        "Equal" => Compare::Equal.into(),
        "NotEqual" => Compare::NotEqual.into(),
        "Less" => Compare::Less.into(),
        "LessEqual" => Compare::LessEqual.into(),
        "Greater" => Compare::Greater.into(),
        "GreaterEqual" => Compare::GreaterEqual.into(),
        "LogicalAnd" => Logical::And.into(),
        "LogicalOr" => Logical::Or.into(),
        "LogicalNot" => Logical::Not.into(),
        _ => return None,
    })
}

/// Refuses a vector as a condition for whole rows, which TensorFlow's first `Select` takes.
fn select(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let inputs = importer.inputs(node)?;
    let ranks: Vec<usize> = inputs.iter().map(|input| input.tensor_type().shape.rank()).collect();
    match ranks.as_slice() {
        [condition, x, _] if *condition == 0 || condition == x => {
            importer.emit(node, Broadcast::Select, &inputs)
        }
        _ => Err(NodeProblem::unsupported(
            "a condition for whole rows does not exist here; use SelectV2",
        )),
    }
}

/// Whether each element is neither NaN nor infinite.
fn is_finite(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let greatest = match x.tensor_type().dtype {
        DType::F32 => Tensor::scalar(f32::MAX),
        DType::F64 => Tensor::scalar(f64::MAX),
        dtype => {
            return Err(NodeProblem::unsupported(format!("{dtype} is no type of real numbers")));
        }
    };
    let greatest = importer.helper(node, "greatest", Op::Const(greatest), &[])?;
    let size = importer.helper(node, "abs", Unary::Abs, &[&x])?;
    importer.emit(node, Compare::LessEqual, &[size, greatest])
}

/// Checks that the data format of `def` is the one that exists here.
pub(super) fn channels_last(def: &super::NodeDef) -> Result<(), NodeProblem> {
    match def.text("data_format")? {
        "" | "NHWC" | "NDHWC" => Ok(()),
        other => Err(NodeProblem::unsupported(format!(
            "the data format {other} does not exist here; use NHWC"
        ))),
    }
}
