//! Collects gradients until there are as many as a taker wants: TensorFlow's way, by count.

use std::collections::VecDeque;

/// TensorFlow's `ConditionalAccumulator` of gradients `G`, with takers `W` that wait for them.
///
/// It counts gradients, whoever sent them, and drops those of earlier steps silently. Methods
/// return the taker that now has as many gradients as it requires, with all the gradients there
/// were. An optimizer's synchronous mode uses [`Accumulator`](super::Accumulator) instead.
#[derive(Debug)]
pub(crate) struct AccumulatorState<W, G> {
    step: i64,
    gradients: Vec<G>,
    takers: VecDeque<(W, usize)>,
}

impl<W, G> Default for AccumulatorState<W, G> {
    fn default() -> Self {
        Self { step: 0, gradients: Vec::new(), takers: VecDeque::new() }
    }
}

impl<W, G> AccumulatorState<W, G> {
    /// The number of gradients held.
    pub(crate) fn count(&self) -> usize {
        self.gradients.len()
    }

    /// The number of steps that the accumulator is past `local_step`; at 0 a gradient of that step
    /// counts.
    pub(crate) fn staleness(&self, local_step: i64) -> i64 {
        self.step.saturating_sub(local_step).max(0)
    }

    /// The gradients held, in the order of their arrival.
    pub(crate) fn gradients(&self) -> &[G] {
        &self.gradients
    }

    /// Adds a gradient of the worker's step `local_step`, or drops it if that step is before the
    /// accumulator's.
    pub(crate) fn apply(&mut self, local_step: i64, gradient: G) -> Option<(W, Vec<G>)> {
        if local_step >= self.step {
            self.gradients.push(gradient);
        }
        self.settle()
    }

    /// Takes all gradients as soon as there are `required` of them, and ends the step.
    pub(crate) fn take(&mut self, who: W, required: usize) -> Option<(W, Vec<G>)> {
        self.takers.push_back((who, required));
        self.settle()
    }

    /// Sets the accumulator's step: from now on gradients of earlier steps are dropped.
    pub(crate) fn set_global_step(&mut self, step: i64) {
        self.step = step;
    }

    /// Removes the takers that `is_gone` marks.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&W) -> bool) -> Option<(W, Vec<G>)> {
        self.takers.retain(|(who, _)| !is_gone(who));
        self.settle()
    }

    /// The waiting takers, each with the number of gradients that it requires.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &(W, usize)> {
        self.takers.iter()
    }

    /// Removes and returns all takers, and drops all gradients.
    pub(crate) fn clear(&mut self) -> Vec<W> {
        (self.step, self.gradients) = (0, Vec::new());
        self.takers.drain(..).map(|(who, _)| who).collect()
    }

    /// Gives the first taker all gradients if there are enough. At most one taker is served, since
    /// none are left after it.
    fn settle(&mut self) -> Option<(W, Vec<G>)> {
        let (_, required) = self.takers.front()?;
        if *required > self.gradients.len() {
            return None;
        }
        let (who, _) = self.takers.pop_front()?;
        self.step += 1;
        Some((who, std::mem::take(&mut self.gradients)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_taker_gets_all_there_is_once_its_number_is_complete() {
        let mut accumulator = AccumulatorState::default();
        assert_eq!(accumulator.take("a", 2), None);
        assert_eq!(accumulator.take("b", 1), None);
        assert_eq!(accumulator.apply(0, 10), None, "b waits behind a");
        assert_eq!(accumulator.apply(0, 20), Some(("a", vec![10, 20])));
        assert_eq!(accumulator.apply(1, 30), Some(("b", vec![30])));
        assert_eq!(accumulator.count(), 0);
    }

    #[test]
    fn a_gradient_of_an_earlier_step_is_dropped_and_one_of_a_later_counts() {
        let mut accumulator = AccumulatorState::default();
        accumulator.apply(0, 1);
        assert_eq!(accumulator.take("a", 1), Some(("a", vec![1])));
        assert_eq!([0, 1, 7].map(|step| accumulator.staleness(step)), [1, 0, 0]);
        accumulator.apply(0, 2);
        assert_eq!(accumulator.count(), 0);
        accumulator.apply(7, 3);
        assert_eq!(accumulator.count(), 1);
        accumulator.set_global_step(9);
        accumulator.apply(8, 4);
        assert_eq!(accumulator.take("b", 1), Some(("b", vec![3])));
    }

    #[test]
    fn who_is_forgotten_lets_the_next_go_on() {
        let mut accumulator = AccumulatorState::default();
        accumulator.take("gone", 5);
        accumulator.take("next", 1);
        accumulator.apply(0, 1);
        assert_eq!(accumulator.forget(|who| *who == "gone"), Some(("next", vec![1])));
        accumulator.take("last", 1);
        assert_eq!(accumulator.clear(), ["last"]);
    }
}
