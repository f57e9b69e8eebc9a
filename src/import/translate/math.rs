//! Arithmetic: functions of each element, products of matrices, losses.

use super::{Importer, Node, NodeProblem, Translate, Values, of_inputs, plain, with_attributes};
use crate::graph::{Op, OpDef, Output};
use crate::operations::{
    Array, Atan2, Binary, Broadcast, Cast, Compare, Guard, Library, Logical, Product, Rows, Unary,
    UnaryGrad,
};
use crate::tensor::PartialShape;

pub(super) fn find(kind: &str) -> Option<Translate> {
    if let Some(op) = same_inputs(kind) {
        return Some(plain(op));
    }
    if let Some(op) = unary(kind.strip_suffix("Grad").unwrap_or_default()) {
        let inputs = if op.gradient_takes_result_first() { [1, 0] } else { [0, 1] };
        return Some(of_inputs(inputs, UnaryGrad(op)));
    }
    Some(match kind {
        "Identity" | "RefIdentity" | "Snapshot" | "PreventGradient" => {
            Box::new(super::state::identity)
        }
        "IdentityN" => Box::new(|importer, node| {
            importer.emit(node, Op::NoOp, &[])?;
            Ok(node.inputs.clone())
        }),
        "NoOp" => plain(Op::NoOp),
        "DivNoNan" => Box::new(divide_no_nan),
        "Xdivy" => Box::new(|importer, node| zero_times(importer, node, None)),
        "Xlogy" => Box::new(|importer, node| zero_times(importer, node, Some(Unary::Log))),
        "Xlog1py" => Box::new(|importer, node| zero_times(importer, node, Some(Unary::Log1p))),
        "Atan2" => plain(Atan2),
        "Polygamma" => Box::new(polygamma),
        "Einsum" => Box::new(super::einsum::einsum),
        "AddN" => plain(Broadcast::AddN),
        "LeakyRelu" => with_attributes(|def| Ok(Unary::LeakyRelu(def.float("alpha", 0.2)?))),
        "LeakyReluGrad" => {
            with_attributes(|def| Ok(UnaryGrad(Unary::LeakyRelu(def.float("alpha", 0.2)?))))
        }
        "Select" => Box::new(select),
        "SelectV2" => plain(Broadcast::Select),
        "IsNan" => of_inputs([0, 0], Compare::NotEqual),
        "Cast" => with_attributes(|def| {
            def.must_be("Truncate", false)?;
            Ok(Cast(def.dtype("DstT")?))
        }),
        "Equal" => equality(Compare::Equal),
        "NotEqual" => equality(Compare::NotEqual),
        "StopGradient" => plain(Guard::StopGradient),
        "CheckNumerics" => with_attributes(|def| {
            Ok(Guard::CheckNumerics { message: def.text("message")?.to_owned() })
        }),
        "Print" => Box::new(print),
        "Assert" => Box::new(assertion),
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

/// The operation of TensorFlow's name for the same inputs.
fn same_inputs(kind: &str) -> Option<Op> {
    let kind = match kind {
        "AddV2" => "Add",
        "Div" => "RealDiv",
        kind => kind,
    };
    // `Trigamma` is a `Polygamma` there, and an attribute of equalities is checked.
    let library = named(Library::ALL, kind).filter(|op| *op != Library::Trigamma);
    let compared =
        named(Compare::ALL, kind).filter(|op| !matches!(op, Compare::Equal | Compare::NotEqual));
    unary(kind)
        .map(Op::from)
        .or_else(|| named(Binary::ALL, kind).map(Op::from))
        .or_else(|| library.map(Op::from))
        .or_else(|| compared.map(Op::from))
        .or_else(|| named(Logical::ALL, kind).map(Op::from))
}

/// The function that TensorFlow has under this name, without attributes.
fn unary(kind: &str) -> Option<Unary> {
    let kind = match kind {
        "Inv" => "Reciprocal",
        "Rint" => "Round",
        kind => kind,
    };
    let is_other = |function: &Unary| {
        use Unary::{Gelu, LeakyRelu, LogSigmoid, Silu};
        matches!(function, Gelu { .. } | LeakyRelu(_) | LogSigmoid | Silu)
    };
    named(Unary::ALL, kind).filter(|function| !is_other(function))
}

fn named<D: OpDef>(all: impl IntoIterator<Item = D>, kind: &str) -> Option<D> {
    all.into_iter().find(|op| op.kind() == kind)
}

/// A comparison whose operands must broadcast.
fn equality(compare: Compare) -> Translate {
    with_attributes(move |def| def.must_be("incompatible_shape_error", true).map(|()| compare))
}

/// A choice between two values of one shape; a vector as condition chooses whole rows.
fn select(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let mut inputs = importer.inputs(node)?;
    let ranks: Vec<usize> = inputs.iter().map(|input| input.tensor_type().shape.rank()).collect();
    match ranks.as_slice() {
        [condition, x, _] if *condition == 0 || condition == x => {}
        [1, x, _] if *x > 1 => {
            let dims: Vec<_> = std::iter::once(None).chain(vec![Some(1); x - 1]).collect();
            let column = Array::Reshape(PartialShape::new(&dims));
            inputs[0] = importer.helper(node, "rows", column, &[&inputs[0]])?;
        }
        _ => {
            return Err(NodeProblem::unsupported(
                "its condition must be a scalar, of the shape of the values, or one a row",
            ));
        }
    }
    importer.emit(node, Broadcast::Select, &inputs)
}

/// `(x, data…)`: the same value; the data is printed.
fn print(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    if !node.branches.is_empty() {
        return Err(NodeProblem::unsupported(
            "it prints in a branch of a condition: both branches are computed here",
        ));
    }
    let message = node.def.text("message")?.to_owned();
    let data = (0..node.inputs.len()).filter(|i| *i == 0 || node.inputs[*i].text.is_none());
    let inputs = data.map(|i| importer.input(node, i)).collect::<Result<Vec<_>, _>>()?;
    importer.emit(node, Guard::Print { message }, &inputs)
}

/// `(condition, data…)`: the texts of the data are the error's message.
fn assertion(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let texts: Vec<&str> = node.inputs.iter().filter_map(|input| input.text.as_deref()).collect();
    let message = texts.join(" ");
    let mut condition = importer.input(node, 0)?;
    for branch in &node.branches {
        let other = importer.other_branch(node, branch)?;
        condition = importer.helper(node, "or", Logical::Or, &[&condition, &other])?;
    }
    importer.emit(node, Guard::Assert { message }, &[condition])
}

/// `a / b`, and 0 where `b` is 0: by a divisor of 1 there, and the gradient's rules of each part.
fn divide_no_nan(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (a, b) = (importer.input(node, 0)?, importer.input(node, 1)?);
    guarded(importer, node, &b, |importer, zero, is_zero| {
        let one = importer.scalar(node, "one", &b, 1.0)?;
        let divisor = importer.helper(node, "divisor", Broadcast::Select, &[is_zero, &one, &b])?;
        let quotient = importer.helper(node, "quotient", Binary::Div, &[&a, &divisor])?;
        Ok([is_zero.clone(), zero.clone(), quotient])
    })
}

/// `a · function(b)` or `a / b`, and 0 where `a` is 0: by a `b` there that has a finite result, or
/// the gradient would be 0 times infinity.
fn zero_times(importer: &mut Importer<'_>, node: &Node<'_>, function: Option<Unary>) -> Values {
    let (a, b) = (importer.input(node, 0)?, importer.input(node, 1)?);
    guarded(importer, node, &a, |importer, zero, is_zero| {
        let harmless = if function == Some(Unary::Log1p) { 0.0 } else { 1.0 };
        let harmless = importer.scalar(node, "harmless", &b, harmless)?;
        let b = importer.helper(node, "safe", Broadcast::Select, &[is_zero, &harmless, &b])?;
        let product = match function {
            None => importer.helper(node, "quotient", Binary::Div, &[&a, &b])?,
            Some(function) => {
                let value = importer.helper(node, "function", function, &[&b])?;
                importer.helper(node, "product", Binary::Mul, &[&a, &value])?
            }
        };
        Ok([is_zero.clone(), zero.clone(), product])
    })
}

/// A choice that depends on where `x` is 0.
fn guarded(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    x: &Output,
    choice: impl FnOnce(&Importer<'_>, &Output, &Output) -> Result<[Output; 3], NodeProblem>,
) -> Values {
    let zero = importer.scalar(node, "zero", x, 0.0)?;
    let is_zero = importer.helper(node, "is_zero", Compare::Equal, &[x, &zero])?;
    let inputs = choice(importer, &zero, &is_zero)?;
    importer.emit(node, Broadcast::Select, &inputs)
}

/// `(n, x)`: the n-th derivative of the digamma function, of which the first exists here.
fn polygamma(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let order = node.constant(0)?;
    let is_one = order.item::<f32>() == Ok(1.0) || order.item::<f64>() == Ok(1.0);
    if !is_one {
        return Err(NodeProblem::unsupported("only the first derivative exists here"));
    }
    let x = importer.input(node, 1)?;
    importer.emit(node, Library::Trigamma, &[x])
}

/// Checks that the data format of `def` is the one that exists here.
pub(super) fn channels_last(def: &super::Def<'_>) -> Result<(), NodeProblem> {
    match def.text("data_format")? {
        "" | "NHWC" | "NDHWC" => Ok(()),
        other => Err(NodeProblem::unsupported(format!(
            "the data format {other} does not exist here; use NHWC"
        ))),
    }
}
