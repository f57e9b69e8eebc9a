//! How many cases a sweep tries: a spread of them, or all.

use std::iter::StepBy;

/// Every `stride`-th of `cases`; all of them where `TRAINYARD_THOROUGH` is set. It is for long
/// lists in which the kinds of cases take turns: a stride that has no factor in common with the
/// number of kinds meets every kind.
pub(crate) fn spread<I: IntoIterator>(cases: I, stride: usize) -> StepBy<I::IntoIter> {
    let is_thorough = std::env::var_os("TRAINYARD_THOROUGH").is_some();
    cases.into_iter().step_by(if is_thorough { 1 } else { stride })
}
