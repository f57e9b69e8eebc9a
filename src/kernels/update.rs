//! The loops of the update rules, in place: over a whole variable, or over one row after the other.
//!
//! A rule defines the update of one element ([`ElementUpdate`]), and [`update_elements`] applies it
//! to all: an element's update depends on that element alone, so chunks can't change a bit.

mod delay;

use std::array::from_fn;

use pulp::NullaryFnOnce;
use rayon::prelude::*;

use super::cost::Cost;
use super::parallel::{CHUNK, PARALLEL_FROM, vectorised};
use crate::graph::{RuleState, UpdateRule};
use crate::tensor::{Element, Shape, Tensor};

pub(crate) use delay::compensate;

/// The update of one element of a variable and of its slots, with the constants of one step.
///
/// A closure is one. A type is one too; mark its `update` `#[inline(always)]`, so that the loop is
/// compiled for vectors.
pub trait ElementUpdate<const N: usize>: Copy + Send + Sync {
    /// The element of the variable and those of its first `N - 1` slots after a gradient.
    fn update(self, state: [f32; N], gradient: f32) -> [f32; N];
}

impl<const N: usize, F> ElementUpdate<N> for F
where
    F: Fn([f32; N], f32) -> [f32; N] + Copy + Send + Sync,
{
    #[inline(always)]
    fn update(self, state: [f32; N], gradient: f32) -> [f32; N] {
        self(state, gradient)
    }
}

impl<'a> RuleState<'a> {
    /// What [`Rule::apply`](crate::graph::Rule::apply) gets, to test a rule with: a variable (f32)
    /// and then its slots, in the order of [`Rule::slots`](crate::graph::Rule::slots), and the
    /// gradient of each of the variable's elements.
    ///
    /// # Panics
    /// If there is no variable, or it has another number of elements than the gradient.
    pub fn new(values: &'a mut [Tensor], gradient: &'a [f32]) -> Self {
        let variable = values.first().expect("the first value is the variable's");
        let (elements, given) = (variable.shape().elements(), gradient.len());
        assert_eq!(elements, given, "a gradient has a number for each element of its variable");
        Self { values, gradient, rows: None }
    }

    /// Updates each element that has a gradient, and that of the first `N - 1` slots at its place:
    /// in parallel where they are many.
    ///
    /// # Panics
    /// If the rule has fewer slots of the variable's shape.
    pub fn each_element<const N: usize>(&mut self, rule: impl ElementUpdate<N>) {
        self.each_slice(|state, gradient| update_elements(rule, state, gradient));
    }

    /// Calls `update` with the variable, its first `N - 1` slots and the gradient: whole, or for
    /// each row that has a gradient.
    ///
    /// # Panics
    /// If the rule has fewer slots of the variable's shape.
    pub fn each_slice<const N: usize>(&mut self, mut update: impl FnMut([&mut [f32]; N], &[f32])) {
        let values = self.values.first_chunk_mut::<N>();
        let values = values.expect("a rule updates no more slots than it has");
        let mut state = values.each_mut().map(Tensor::make_mut::<f32>);
        let Some(rows) = self.rows else { return update(state, self.gradient) };
        for (position, row) in rows.positions.iter().zip(self.gradient.chunks_exact(rows.width)) {
            let at = position * rows.width..(position + 1) * rows.width;
            update(state.each_mut().map(|values| &mut values[at.clone()]), row);
        }
    }

    /// The number in `slot`, by its place in [`Rule::slots`](crate::graph::Rule::slots), which is
    /// one for the whole variable.
    ///
    /// # Panics
    /// If the rule has no such slot, or it is no [`Slot::scalar`](crate::graph::Slot::scalar).
    pub fn scalar(&mut self, slot: usize) -> &mut f32 {
        self.single(slot)
    }

    /// The count in `slot`, by its place in [`Rule::slots`](crate::graph::Rule::slots).
    ///
    /// # Panics
    /// If the rule has no such slot, or it is no [`Slot::count`](crate::graph::Slot::count).
    pub fn count(&mut self, slot: usize) -> &mut i64 {
        self.single(slot)
    }

    /// The only value in `slot`.
    fn single<T: Element>(&mut self, slot: usize) -> &mut T {
        let slots = self.values.len() - 1;
        assert!(slot < slots, "the rule has {slots} slots, none is {slot}");
        let value = &mut self.values[1 + slot];
        let (dtype, shape) = (value.dtype(), value.shape());
        let fits = dtype == T::DTYPE && shape == Shape::SCALAR;
        assert!(fits, "slot {slot} is {dtype}{shape}, no single {}", T::DTYPE);
        &mut value.make_mut()[0]
    }
}

/// Applies `rule` to each element of `state`, which is a variable and its slots: `gradient` has
/// their length.
pub(crate) fn update_elements<const N: usize>(
    rule: impl ElementUpdate<N>,
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

/// The work of [`update_elements`] on one thread.
struct Sweep<'a, R, const N: usize> {
    rule: R,
    state: [&'a mut [f32]; N],
    gradient: &'a [f32],
}

impl<R: ElementUpdate<N>, const N: usize> NullaryFnOnce for Sweep<'_, R, N> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { rule, state, gradient } = self;
        let state = state.map(|values| &mut values[..gradient.len()]);
        for i in 0..gradient.len() {
            let new = rule.update(from_fn(|n| state[n][i]), gradient[i]);
            for n in 0..N {
                state[n][i] = new[n];
            }
        }
    }
}

impl Cost {
    /// One update of `elements` elements by `rule`: the gradient and all values of the shape of the
    /// variable are read, and these are written.
    pub(crate) fn update(rule: &UpdateRule, elements: usize) -> Self {
        let values = 1 + rule.slots_like_variable();
        Self::work(rule.flops() * elements, size_of::<f32>() * (2 * values + 1) * elements)
    }
}
