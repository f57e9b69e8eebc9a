//! `InMemoryEvaluator`: measures a model on held-out samples while it trains.

use std::future::ready;

use crate::graph::{Graph, Output};
use crate::optimizer::LocalSgd;
use crate::runtime::{Code, Error, Result};

use super::super::monitored_session::Feeds;
use super::super::record::{Evaluation, Fact};
use super::super::task::Task;
use super::{Hook, HookContext, HookFuture, RunValues};
use crate::tensor::Tensor;

/// Measures the model every so many global steps or samples and at the end, on the chief
/// (TensorFlow: `InMemoryEvaluatorHook`). Each result is a row of the report and of
/// `evaluations.csv`.
///
/// It measures when the training has passed a multiple of its interval. So it skips no
/// measurement in asynchronous training, where the chief does not see every global step. One that
/// goes on from a checkpoint is measured at the next multiple after it.
///
/// Where workers train copies of their own, it measures the center, as checkpoints have it: under
/// elastic averaging it reads the center, and in other modes the chief's copy is there by then.
///
/// ```
/// # use trainyard::prelude::*;
/// # fn hook(task: &Task, x: &Output, y: &Output, loss: &Output, accuracy: &Output) -> Result<()> {
/// let test = task.dataset()?.test.whole();
/// let evaluator = InMemoryEvaluator::new(loss, accuracy)
///     .feed(x, test.features)
///     .feed(y, test.labels)
///     .every_steps(100)
///     .stop_at_accuracy(0.95);
/// # let _ = evaluator;
/// # Ok(())
/// # }
/// ```
pub struct InMemoryEvaluator {
    loss: Output,
    accuracy: Output,
    feeds: Feeds,
    /// The distance from one evaluation to the next. `None`: only one, at the end.
    every: Option<Interval>,
    target: Option<f64>,
    /// Whether a loss that is not finite ends the training.
    stops_if_not_finite: bool,
    step: Option<Output>,
    /// The number of the last evaluated round; none before the first session.
    rounds: Option<u64>,
    /// The global step that was measured last in this session.
    measured: Option<u64>,
    /// Whether an evaluation has ended the training.
    has_ended_it: bool,
}

shown!(InMemoryEvaluator, loss, accuracy, target);

/// So many units of progress.
#[derive(Clone, Copy)]
struct Interval {
    every: u64,
    /// The units of a global step.
    of_a_step: u64,
}

impl InMemoryEvaluator {
    /// Measures `loss` and `accuracy`, two scalars of f32, at the end.
    pub fn new(loss: &Output, accuracy: &Output) -> Self {
        Self {
            loss: loss.clone(),
            accuracy: accuracy.clone(),
            feeds: Feeds::new(),
            every: None,
            target: None,
            stops_if_not_finite: false,
            step: None,
            rounds: None,
            measured: None,
            has_ended_it: false,
        }
    }

    /// Feeds `value` to `place` in each evaluation.
    #[must_use]
    pub fn feed(mut self, place: &Output, value: impl Into<Tensor>) -> Self {
        self.feeds.push((place.clone(), value.into()));
        self
    }

    /// Measures also every `steps` global steps; opening a session refuses 0.
    #[must_use]
    pub fn every_steps(mut self, steps: u64) -> Self {
        self.every = Some(Interval { every: steps, of_a_step: 1 });
        self
    }

    /// Measures also every `samples` samples of applied gradients, of which a global step has
    /// `of_a_step`; opening a session refuses 0. So trainings of several modes, whose global steps
    /// are of one gradient or of many, are measured after as many samples.
    #[must_use]
    pub fn every_samples(mut self, samples: u64, of_a_step: u64) -> Self {
        self.every = Some(Interval { every: samples, of_a_step });
        self
    }

    /// Ends the training of all workers once the accuracy is `target` or more.
    #[must_use]
    pub fn stop_at_accuracy(mut self, target: f64) -> Self {
        self.target = Some(target);
        self
    }

    /// Ends the training of all workers once the loss is not finite: what follows would be computed
    /// in vain (TensorFlow: `NanTensorHook`, which looks at each step's).
    #[must_use]
    pub fn stop_if_not_finite(mut self) -> Self {
        self.stops_if_not_finite = true;
        self
    }

    /// The number of intervals that `global_step` has passed.
    fn round(&self, global_step: u64) -> u64 {
        let Some(Interval { every, of_a_step }) = self.every else { return 0 };
        global_step.saturating_mul(of_a_step).checked_div(every).unwrap_or(0)
    }

    /// Measures and reports. If only shapes are computed, the time alone is reported; and nothing,
    /// if the step is the one that was measured before.
    async fn evaluate(&mut self, context: &HookContext<'_>) -> Result<()> {
        let step = self.step.as_ref().expect("a hook begins before it evaluates");
        let mut run = context.session.run();
        for (place, value) in &self.feeds {
            run = run.feed(place, value.clone());
        }
        let measured = run.fetch(&self.loss).fetch(&self.accuracy).fetch(step).await?;
        let global_step = measured.scalar::<i64>(step)?.max(0) as u64;
        // Only now is it known whether others have changed the model since the look before.
        let is_known = self.measured.replace(global_step) == Some(global_step);
        if measured[&self.loss].is_hollow() {
            if !is_known {
                context.task.record(Fact::Looked(context.now()));
            }
            return Ok(());
        }
        let evaluation = Evaluation {
            loss: measured.scalar(&self.loss)?,
            accuracy: f64::from(measured.scalar::<f32>(&self.accuracy)?),
            global_step,
            at: context.now(),
        };
        if evaluation.accuracy.is_nan() {
            let message = "the accuracy of the evaluation is not a number; are there no samples to \
                           evaluate on?";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if is_known {
            return Ok(());
        }
        context.task.report_evaluation(evaluation);
        let has_diverged = self.stops_if_not_finite && !evaluation.loss.is_finite();
        let is_met = self.target.is_some_and(|target| evaluation.accuracy >= target);
        // A task that was asked to stop tells the others so, and not that the training is over.
        if (has_diverged || is_met) && !context.task.is_asked_to_stop() {
            self.has_ended_it = true;
            context.task.finish_training();
            context.request_stop();
        }
        Ok(())
    }
}

impl Hook for InMemoryEvaluator {
    fn begin(&mut self, _: &Task, graph: &Graph) -> Result<()> {
        if self.every.is_some_and(|interval| interval.every == 0) {
            let message = "an `InMemoryEvaluator` can't measure every 0 steps or samples; give it \
                           1 or more, or leave `every_steps` and `every_samples` out to measure at \
                           the end alone";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.step = Some(graph.global_step()?.read_again());
        [self.loss, self.accuracy] = LocalSgd::at_centers(graph, [&self.loss, &self.accuracy])?;
        Ok(())
    }

    fn after_create_session<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        // A training that goes on from a checkpoint has been measured up to there; what its return
        // has undone is measured again.
        let round = self.round(context.global_step);
        self.rounds = Some(self.rounds.map_or(round, |measured| measured.min(round)));
        self.measured = None;
        Box::pin(ready(Ok(())))
    }

    fn after_run<'a>(
        &'a mut self,
        context: &'a HookContext<'_>,
        run: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        Box::pin(async move {
            let round = self.round(context.global_step);
            if run.step.is_some() && context.task.is_chief() && Some(round) != self.rounds {
                self.evaluate(context).await?;
                self.rounds = Some(round);
            }
            Ok(())
        })
    }

    fn end<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(async move {
            if context.task.is_chief() && !self.has_ended_it {
                self.evaluate(context).await?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_begins_where_a_multiple_was_passed_and_not_only_where_it_was_hit() {
        let g = Graph::new();
        let scalar = g.constant(0f32);
        let hook = InMemoryEvaluator::new(&scalar, &scalar).every_steps(50);
        assert_eq!(
            [1, 49, 51, 99, 103, 260, 299].map(|step| hook.round(step)),
            [0, 0, 1, 1, 2, 5, 5]
        );
        assert_eq!(InMemoryEvaluator::new(&scalar, &scalar).round(50), 0, "at the end alone");
    }

    #[test]
    fn rounds_in_samples_begin_after_as_many_gradients_whatever_a_global_step_is_of() {
        let g = Graph::new();
        let scalar = g.constant(0f32);
        // Of 3,200 samples: 100 asynchronous steps of a batch of 32, or 12.5 rounds of eight.
        let begins = |of_a_step| {
            let hook = InMemoryEvaluator::new(&scalar, &scalar).every_samples(3200, of_a_step);
            (1..).filter(|step| hook.round(*step) != hook.round(step - 1)).take(3).collect()
        };
        let [one, eight]: [Vec<u64>; 2] = [32, 256].map(begins);
        assert_eq!((one, eight), (vec![100, 200, 300], vec![13, 25, 38]));
    }
}
