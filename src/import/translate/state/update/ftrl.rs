//! The rule of `ApplyFtrl`, whose β TensorFlow writes into its l2: `l2 + β / (2 · rate)`.

use crate::graph::{Edge, Op, UpdateRule};
use crate::import::translate::{Importer, Node, NodeProblem};
use crate::operations::Binary;
use crate::optimizer::FtrlRule;

/// The last inputs are the rate, l1, l2, the shrinkage where there is one, and the power.
pub(super) fn rule(
    importer: &Importer<'_>,
    node: &Node<'_>,
    has_shrinkage: bool,
) -> Result<UpdateRule, NodeProblem> {
    node.def.must_be("multiply_linear_by_lr", false)?;
    let at = |i: usize| node.inputs.len().saturating_sub(i);
    let back = |i: usize| node.float(at(i));
    let shift = usize::from(has_shrinkage);
    let (l2, beta) = match back(2 + shift) {
        Ok(l2) => (l2, 0.0),
        Err(_) => l2_and_beta(importer, node, at(4 + shift)).ok_or_else(|| {
            NodeProblem::unsupported(
                "its l2 must be a number, or `l2 + beta / (2 * rate)` of two numbers and its own \
                 learning rate, as TensorFlow's FtrlOptimizer writes it",
            )
        })?,
    };
    Ok(FtrlRule {
        l1: back(3 + shift)?,
        l2,
        l2_shrinkage: if has_shrinkage { back(2)? } else { 0.0 },
        learning_rate_power: back(1)?,
        beta,
        ..FtrlRule::default()
    }
    .into())
}

/// The numbers in the sum that is l2, the second input after the rate.
fn l2_and_beta(importer: &Importer<'_>, node: &Node<'_>, rate: usize) -> Option<(f32, f32)> {
    let edge = |i: usize| Some(node.value(i).ok()?.output.as_ref()?.edge());
    let (own, sum) = (edge(rate)?, edge(rate + 2)?);
    let [l2, quotient] = operands(importer, sum, Binary::Add)?;
    let [beta, twice] = operands(importer, quotient, Binary::Div)?;
    let (l2, beta) = (number(importer, l2)?, number(importer, beta)?);
    let [two, rate] = operands(importer, twice, Binary::Mul)?;
    // The rate is kept from 0 by the least number, which is no part of the rule.
    let rate = match operands(importer, rate, Binary::Maximum) {
        Some([rate, least]) => (0.0..1e-30).contains(&number(importer, least)?).then_some(rate)?,
        None => rate,
    };
    let is_own = number(importer, two)? == 2.0 && rate == own;
    (beta == 0.0 || is_own).then_some((l2, beta))
}

/// The two inputs of the operation that gives `value`, if it is `binary`.
fn operands(importer: &Importer<'_>, value: Edge, binary: Binary) -> Option<[Edge; 2]> {
    importer.graph.with_operation(value.op, |operation| match &operation.op {
        Op::Defined(op) if op.get() == Some(&binary) => operation.inputs.as_slice().try_into().ok(),
        _ => None,
    })
}

/// The number that `value` is in every step.
fn number(importer: &Importer<'_>, value: Edge) -> Option<f32> {
    importer.graph.with_operation(value.op, |operation| match &operation.op {
        Op::Const(number) => number.item::<f32>().ok(),
        _ => None,
    })
}
