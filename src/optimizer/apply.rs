//! Applies an update to its variable: to the whole variable, or to some of its rows.

use super::update::{Mean, Update};
use crate::graph::RuleState;
use crate::tensor::Tensor;

/// Applies `update` to its values, in place unless they are shared. Does nothing to hollow values.
/// It takes all memory before it changes a value: if that is refused, by unwinding, the values are
/// what they were.
pub(crate) fn apply(update: &mut Update) {
    let read = update.compensation.as_ref().map(|compensation| &compensation.read);
    if update.values.iter().chain(read).any(Tensor::is_hollow) {
        return;
    }
    let mean = update.mean();
    let (gradient, rows) = match &mean {
        Mean::Nothing => return,
        Mean::Dense(gradient) => (gradient.slice(), None),
        Mean::Rows(rows) => (rows.values(), Some(rows.at())),
    };
    update.values.iter_mut().for_each(Tensor::unshare);
    let mut state = RuleState { values: update.values.as_mut_slice(), gradient, rows };
    update.rule.apply(update.learning_rate, &mut state);
}
