//! Updates of variables by an optimizer's rule, dense and of some rows.

mod ftrl;
mod scalar;

use super::variable_at;
use crate::graph::{Op, Output, UpdateRule};
use crate::import::translate::{Importer, Node, NodeProblem, Translate, Values};
use crate::import::value::Value;
use crate::optimizer::{
    AdadeltaRule, AdagradDaRule, AdagradRule, AdamRule, GradientDescentRule, MomentumRule,
    ProximalAdagradRule, ProximalGradientDescentRule, RmsPropRule,
};
use scalar::Scalar;

const POWERS: [Scalar; 2] = [Scalar::power(3, "beta1_power"), Scalar::power(4, "beta2_power")];
const STEP: [Scalar; 1] = [Scalar::step(7)];

/// The positions of an update's inputs; the variable is the first.
struct Update {
    /// The slots, in the order in which the rule has them here.
    slots: &'static [usize],
    rate: usize,
    gradient: usize,
    rule: fn(&Importer<'_>, &Node<'_>) -> Result<UpdateRule, NodeProblem>,
    /// The inputs that the rule has as scalars beside its slots.
    scalars: &'static [Scalar],
}

impl Update {
    /// The same of a gradient of some rows, whose ids follow the gradient.
    fn after_ids(&self, i: usize, is_sparse: bool) -> usize {
        i + usize::from(is_sparse && i > self.gradient)
    }
}

/// Whether there is an update `kind`.
pub(super) fn is_known(kind: &str) -> bool {
    find(kind).is_some()
}

/// The inputs of the update `kind` that are slots.
pub(super) fn slots(kind: &str) -> &'static [usize] {
    let kind = kind.strip_prefix("Resource").unwrap_or(kind);
    by_rule(kind.strip_prefix("Sparse").unwrap_or(kind)).map_or(&[], |update| update.slots)
}

/// The translation of the update `kind`; `None` if it does not exist here.
pub(super) fn find(kind: &str) -> Option<Translate> {
    let kind = kind.strip_prefix("Resource").unwrap_or(kind);
    let (kind, is_sparse) =
        kind.strip_prefix("Sparse").map_or((kind, false), |dense| (dense, true));
    let update = by_rule(kind)?;
    let has_rows = !matches!(kind, "ApplyGradientDescent" | "ApplyAdam");
    (has_rows || !is_sparse)
        .then(|| -> Translate { Box::new(move |i, node| apply(i, node, &update, is_sparse)) })
}

/// The update `kind` of TensorFlow's, whose inputs are listed as `(…)`.
fn by_rule(kind: &str) -> Option<Update> {
    let update = |slots: &'static [usize], [rate, gradient]: [usize; 2], rule| {
        Some(Update { slots, rate, gradient, rule, scalars: &[] })
    };
    match kind {
        // (v, rate, g)
        "ApplyGradientDescent" => update(&[], [1, 2], |_, _| Ok(GradientDescentRule.into())),
        // (v, m, rate, g, μ)
        "ApplyMomentum" => update(&[1], [2, 3], |_, node| momentum(node)),
        // (v, a, rate, g)
        "ApplyAdagrad" => update(&[1], [2, 3], |_, node| adagrad(node)),
        // (v, m, s, β1 power, β2 power, rate, β1, β2, ε, g)
        "ApplyAdam" => Some(Update {
            slots: &[1, 2],
            rate: 5,
            gradient: 9,
            rule: |_, node| adam(node),
            scalars: &POWERS,
        }),
        // (v, s, m, rate, ρ, μ, ε, g)
        "ApplyRMSProp" => update(&[1, 2], [3, 7], |_, node| rms_prop(node, 4, false)),
        // (v, c, s, m, rate, ρ, μ, ε, g)
        "ApplyCenteredRMSProp" => update(&[2, 1, 3], [4, 8], |_, node| rms_prop(node, 5, true)),
        // (v, a, u, rate, ρ, ε, g)
        "ApplyAdadelta" => update(&[1, 2], [3, 6], |_, node| {
            Ok(AdadeltaRule { rho: node.float(4)?, epsilon: node.float(5)? }.into())
        }),
        // (v, a, z, g, rate, l1, l2, power)
        "ApplyFtrl" => update(&[1, 2], [4, 3], |importer, node| ftrl::rule(importer, node, false)),
        // (v, a, z, g, rate, l1, l2, shrinkage, power)
        "ApplyFtrlV2" => update(&[1, 2], [4, 3], |importer, node| ftrl::rule(importer, node, true)),
        // (v, rate, l1, l2, g)
        "ApplyProximalGradientDescent" => update(&[], [1, 4], |_, node| {
            Ok(ProximalGradientDescentRule { l1: node.float(2)?, l2: node.float(3)? }.into())
        }),
        // (v, a, rate, l1, l2, g)
        "ApplyProximalAdagrad" => update(&[1], [2, 5], |_, node| {
            let (l1, l2) = (node.float(3)?, node.float(4)?);
            Ok(ProximalAdagradRule { l1, l2, ..ProximalAdagradRule::default() }.into())
        }),
        // (v, G, Q, g, rate, l1, l2, step)
        "ApplyAdagradDA" => Some(Update {
            slots: &[1, 2],
            rate: 4,
            gradient: 3,
            rule: |_, node| adagrad_da(node),
            scalars: &STEP,
        }),
        _ => None,
    }
}

/// Its factor is the last input.
fn momentum(node: &Node<'_>) -> Result<UpdateRule, NodeProblem> {
    let momentum = node.float(node.inputs.len().saturating_sub(1))?;
    Ok(MomentumRule { momentum, use_nesterov: node.def.flag("use_nesterov")? }.into())
}

/// Adagrad with its defaults: the graph's own initializer sets the accumulator's initial value.
fn adagrad(node: &Node<'_>) -> Result<UpdateRule, NodeProblem> {
    node.def.must_be("update_slots", true)?;
    Ok(AdagradRule::default().into())
}

fn adam(node: &Node<'_>) -> Result<UpdateRule, NodeProblem> {
    node.def.must_be("use_nesterov", false)?;
    let (beta1, beta2, epsilon) = (node.float(6)?, node.float(7)?, node.float(8)?);
    Ok(AdamRule { beta1, beta2, epsilon, lazy: false }.into())
}

/// ρ, μ and ε are the inputs from `first` on.
fn rms_prop(node: &Node<'_>, first: usize, centered: bool) -> Result<UpdateRule, NodeProblem> {
    let [decay, momentum, epsilon] =
        [node.float(first)?, node.float(first + 1)?, node.float(first + 2)?];
    Ok(RmsPropRule { decay, momentum, epsilon, centered }.into())
}

fn adagrad_da(node: &Node<'_>) -> Result<UpdateRule, NodeProblem> {
    let back = |i: usize| node.float(node.inputs.len().saturating_sub(i));
    Ok(AdagradDaRule { l1: back(3)?, l2: back(2)?, ..AdagradDaRule::default() }.into())
}

/// Applies an update. A gradient of some rows is followed by their ids.
fn apply(importer: &mut Importer<'_>, node: &Node<'_>, update: &Update, is_sparse: bool) -> Values {
    let places = std::iter::once(&0).chain(update.slots);
    let mut variables = places.map(|i| variable_at(node, *i)).collect::<Result<Vec<_>, _>>()?;
    let (own, mut controls) = (variables.clone(), node.controls.clone());
    for scalar in update.scalars {
        let given = importer.input(node, update.after_ids(scalar.input, is_sparse))?;
        let (kept, set) = scalar.set(importer, node, &own, &given)?;
        variables.push(kept);
        controls.push(set);
    }
    let rate = importer.input(node, update.after_ids(update.rate, is_sparse))?;
    let mut inputs: Vec<Output> = vec![rate, importer.input(node, update.gradient)?];
    if is_sparse {
        inputs.push(importer.input(node, update.gradient + 1)?);
    }
    let op = Op::ApplyGradient { rule: (update.rule)(importer, node)?, is_sparse, replica: None };
    let after = Node { inputs: node.inputs.clone(), ..node.with_controls(controls) };
    let id = importer.emit_on(&after, op, &inputs, &variables)?;
    Ok(vec![Value { variable: Some((variables[0], Some(id))), ..Value::default() }])
}
