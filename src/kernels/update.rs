//! The update rules of the optimizers, in place: of a whole variable, or of one row after the
//! other.
//!
//! They are TensorFlow's (`training_ops.cc`). A [`Rule`] says what becomes of one element, and
//! [`apply`] does that to all of them: an element's update depends on that element alone, so chunks
//! can't change a bit. LAMB alone looks at the whole variable ([`lamb()`]).

mod adadelta;
mod adagrad;
mod adam;
mod delay;
mod ftrl;
mod lamb;
mod momentum;
mod proximal;
mod rms_prop;

use std::array::from_fn;

use pulp::NullaryFnOnce;
use rayon::prelude::*;

use super::cost::Cost;
use super::parallel::{CHUNK, PARALLEL_FROM, vectorised};
use crate::graph::UpdateRule;

pub(crate) use adadelta::Adadelta;
pub(crate) use adagrad::{Adagrad, AdagradDa};
pub(crate) use adam::{Adam, AdamW};
pub(crate) use delay::compensate;
pub(crate) use ftrl::Ftrl;
pub(crate) use lamb::{Lamb, lamb};
pub(crate) use momentum::{GradientDescent, Momentum};
pub(crate) use proximal::{ProximalAdagrad, ProximalGradientDescent};
pub(crate) use rms_prop::{CenteredRmsProp, RmsProp};

/// An update rule, with its constants at one step. Its definition is at once what the tests take
/// for an element and what is compiled for vectors, so `step` is marked `#[inline(always)]`.
pub(crate) trait Rule<const N: usize>: Copy + Send + Sync {
    /// What becomes of an element of the variable and those of its `N - 1` slots, by its gradient.
    fn step(self, state: [f32; N], gradient: f32) -> [f32; N];
}

/// Applies `rule` to each element of `state`, which is a variable and its slots: `gradient` has
/// their length.
pub(crate) fn apply<const N: usize>(
    rule: impl Rule<N>,
    mut state: [&mut [f32]; N],
    gradient: &[f32],
) {
    for values in &state {
        assert_eq!(
            values.len(),
            gradient.len(),
            "a slot and a gradient have the shape of their variable"
        );
    }
    if gradient.len() < PARALLEL_FROM {
        return vectorised(Sweep { rule, state, gradient });
    }
    let mut chunks = Vec::with_capacity(gradient.len().div_ceil(CHUNK));
    for gradient in gradient.chunks(CHUNK) {
        let state = state.each_mut().map(|values| split_off(values, gradient.len()));
        chunks.push(Sweep { rule, state, gradient });
    }
    chunks.into_par_iter().for_each(vectorised);
}

/// The first `len` values, which are no longer among `values`.
fn split_off<'a>(values: &mut &'a mut [f32], len: usize) -> &'a mut [f32] {
    values.split_off_mut(..len).expect("there are as many values as gradients")
}

/// The work of [`apply`] on one thread.
struct Sweep<'a, R, const N: usize> {
    rule: R,
    state: [&'a mut [f32]; N],
    gradient: &'a [f32],
}

impl<R: Rule<N>, const N: usize> NullaryFnOnce for Sweep<'_, R, N> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { rule, state, gradient } = self;
        let state = state.map(|values| &mut values[..gradient.len()]);
        for i in 0..gradient.len() {
            let new = rule.step(from_fn(|n| state[n][i]), gradient[i]);
            for n in 0..N {
                state[n][i] = new[n];
            }
        }
    }
}

impl Cost {
    /// One update of `elements` elements by `rule`: the gradient and all values of the shape of the
    /// variable are read, and these are written. A root counts as one operation, a power as
    /// [`EXP`](super::cost::EXP) twice.
    pub(crate) fn update(rule: UpdateRule, elements: usize) -> Self {
        let values = 1 + rule.slots_like_variable();
        Self::work(flops(rule) * elements, size_of::<f32>() * (2 * values + 1) * elements)
    }
}

/// The operations of `rule` on an element.
fn flops(rule: UpdateRule) -> usize {
    match rule {
        UpdateRule::GradientDescent => 2,
        UpdateRule::Momentum { use_nesterov: false, .. } => 4,
        UpdateRule::Momentum { use_nesterov: true, .. } => 7,
        UpdateRule::Adagrad { .. } => 6,
        UpdateRule::AdagradDa { .. } => 10,
        UpdateRule::Adadelta { .. } => 16,
        UpdateRule::RmsProp { centered: false, .. } => 11,
        UpdateRule::RmsProp { centered: true, .. } => 16,
        UpdateRule::Adam { .. } | UpdateRule::LazyAdam { .. } => 12,
        UpdateRule::AdamW { .. } => 14,
        UpdateRule::Lamb { .. } => 20, // four for the two norms, two for the last step
        UpdateRule::Ftrl { learning_rate_power: ftrl::ROOT, .. } => 19,
        UpdateRule::Ftrl { .. } => 17 + 4 * super::cost::EXP,
        UpdateRule::ProximalGradientDescent { .. } => 5,
        UpdateRule::ProximalAdagrad { .. } => 11,
    }
}
