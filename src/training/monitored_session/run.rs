//! A run of a monitored session: collects the requests of the program and the hooks, takes the run,
//! and shows it to the hooks.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::data::ByteLen;
use crate::graph::{Graph, OpId, Output, Target};
use crate::runtime::{Code, Error, Result, StepDone};
use crate::tensor::{DType, Tensor};
use crate::units::Time;

use super::super::fetched::Fetched;
use super::super::hooks::{RunArgs, RunValues};
use super::super::input::{Input, Position};
use super::super::record::StepStats;
use super::super::recovery::is_mendable;
use super::super::run_metadata::RunMetadata;
use super::super::run_options::RunOptions;
use super::super::session::RequestedStep;
use super::MonitoredSession;

/// The feeds of a run by its program.
pub type Feeds = Vec<(Output, Tensor)>;

/// A step of a monitored session in the making.
#[must_use = "a step runs when it is awaited"]
pub struct MonitoredRun<'a> {
    monitored: &'a mut MonitoredSession,
    fixed: Feeds,
    feeder: Option<Feeder<'a>>,
    /// The input that the feeder takes an element of, if it is not the task's data.
    input: Option<Rc<dyn Position>>,
    fetches: Vec<Output>,
    targets: Vec<Target>,
    options: RunOptions,
}

shown!(MonitoredRun<'_>, fetches, targets);

type Feeder<'a> = Box<dyn FnMut() -> Result<Feeds> + 'a>;

/// What a run asks for.
struct Asked {
    step: RequestedStep,
    options: RunOptions,
    /// The end of the training step that it takes, if it takes one.
    end: Option<Target>,
}

impl<'a> MonitoredRun<'a> {
    pub(super) fn new(monitored: &'a mut MonitoredSession) -> Self {
        let (fixed, fetches, targets) = (Vec::new(), Vec::new(), Vec::new());
        let (feeder, input, options) = (None, None, RunOptions::default());
        Self { monitored, fixed, feeder, input, fetches, targets, options }
    }

    /// Feeds `value` wherever `output` is needed.
    pub fn feed(mut self, output: &Output, value: impl Into<Tensor>) -> Self {
        self.fixed.push((output.clone(), value.into()));
        self
    }

    /// Feeds what `feeds` returns. `feeds` is called again if the training goes back to a
    /// checkpoint while the run is under way: its next batch is then that of the checkpoint's step.
    pub fn feed_with(mut self, feeds: impl FnMut() -> Result<Feeds> + 'a) -> Self {
        self.feeder = Some(Box::new(feeds));
        self
    }

    /// Feeds what `feeds` makes of the next element of `input`. If the training goes back to a
    /// checkpoint while the run is under way, that is the element of the checkpoint's step.
    pub fn feed_from<T: ByteLen>(
        mut self,
        input: &'a Input<T>,
        mut feeds: impl FnMut(T) -> Feeds + 'a,
    ) -> Self {
        self.input = Some(input.position());
        self.feed_with(move || input.take().map(&mut feeds))
    }

    /// Fetches the value of `output`. The results are in the order of these calls.
    ///
    /// In the row of a training step (`StepStats::loss`) the loss is the first f32 scalar that is
    /// fetched of those that an optimizer minimizes; else of those that
    /// [`variable_gradients`](crate::graph::variable_gradients) has differentiated; else of all.
    pub fn fetch(mut self, output: &Output) -> Self {
        self.fetches.push(output.clone());
        self
    }

    /// Runs `target`.
    pub fn target(mut self, target: impl AsRef<Target>) -> Self {
        self.targets.push(target.as_ref().clone());
        self
    }

    /// Takes the run with `options`, merged with those of the hooks.
    pub fn options(mut self, options: RunOptions) -> Self {
        self.options = self.options.merged(options);
        self
    }

    async fn run(mut self) -> Result<Fetched> {
        if self.monitored.should_stop() {
            return Err(self.monitored.begun_too_late());
        }
        let mut fed = None;
        loop {
            self.monitored.task.require_saved()?;
            if fed.is_none() && self.feeder.is_some() {
                self.wait_for_input().await?;
            }
            let started = self.monitored.task.now();
            let is_rolled_back = match self.ask(&mut fed) {
                Ok(asked) => {
                    let Asked { step, options, end } = asked;
                    let taken = self.monitored.take(step, options, started).await;
                    if let Ok(Some((done, began))) = taken {
                        return self.finish(done, options, end, began).await;
                    }
                    self.monitored.report_given_up();
                    taken?;
                    true
                }
                Err(error) if is_mendable(&error) => self.monitored.recover(error).await?,
                Err(error) => return Err(error),
            };
            if is_rolled_back {
                fed = None;
            }
            if self.monitored.should_stop() {
                let step = self.monitored.global_step;
                let message = format!(
                    "the training has come to its end, at step {step}, while this run was lost"
                );
                return Err(Error::new(Code::OutOfRange, message));
            }
        }
    }

    /// Waits until what the program's function takes is read.
    async fn wait_for_input(&self) -> Result<()> {
        match &self.input {
            Some(input) => input.ready().await,
            None => self.monitored.task.batch_is_read().await,
        }
    }

    /// The run's whole request: the program's part, then the train op's, then the hooks'. The feeds
    /// of the program's function are kept in `fed`.
    fn ask(&mut self, fed: &mut Option<Feeds>) -> Result<Asked> {
        if let (None, Some(feeder)) = (&fed, &mut self.feeder) {
            *fed = Some(feeder()?);
        }
        let mut step = self.monitored.session.empty_step();
        self.fixed
            .iter()
            .chain(fed.iter().flatten())
            .for_each(|(output, value)| step.feed(output, value.clone()));
        self.fetches.iter().for_each(|output| step.fetch(output));
        self.targets.iter().for_each(|target| step.target(target));
        step.check_graph()?;
        let end = self.monitored.end_of_step(&mut step);
        if let Some(end) = &end {
            end.told_of_step().iter().for_each(|told| step.fetch(told));
            step.origin = Some(self.monitored.next_origin());
            self.monitored.positions.feed(&mut step);
            if let Some(own) = &self.monitored.own_variables
                && !end.is_local_step()
            {
                own.feed(&mut step);
            }
            // What reads the worker's own values after the step has the number of the next one.
            step.reads_ahead =
                self.monitored.own_variables.is_none() && self.monitored.task.reads_ahead();
        }
        let mut options = self.options;
        let (context, hooks) = self.monitored.context_and_hooks();
        let is_training_step = end.is_some();
        hooks.before_run(
            &context,
            RunArgs { step: &mut step, options: &mut options, is_training_step },
        )?;
        Ok(Asked { step, options, end })
    }

    /// Shows the finished run to the hooks and the recorder; `end` is that of its training step.
    async fn finish(
        self,
        done: StepDone,
        options: RunOptions,
        end: Option<Target>,
        started: Time,
    ) -> Result<Fetched> {
        let Self { monitored, fetches, .. } = self;
        let span = (started, monitored.task.now());
        let (own, told) = done.fetches.split_at(fetches.len());
        let mut stats = match &end {
            Some(_) => {
                let loss = loss_of(monitored.session.graph(), &fetches, own);
                Some(step_stats(monitored, loss, told, span, done.computed)?)
            }
            None => None,
        };
        let is_of_earlier = stats.is_some() && is_of_earlier_attempt(told)?;
        let is_local = end.is_some_and(|end| end.is_local_step());
        if let Some(stats) = stats.as_mut().filter(|_| is_local) {
            (stats.global_step, stats.is_local) = (monitored.global_step, true);
        }
        if let Some(own) = &monitored.own_variables
            && stats.is_some()
            && !is_local
        {
            own.keep(&monitored.task, &monitored.session).await;
        }
        if let Some(stats) = &mut stats {
            monitored.count_training_step(stats);
            monitored.report(stats.clone(), is_of_earlier);
        } else {
            monitored.count_other_run();
        }
        let metadata = RunMetadata { operations: done.times };
        let run = RunValues {
            results: &[],
            step: stats.as_ref(),
            options,
            span,
            computed: done.computed,
            metadata: &metadata,
        };
        monitored.after_run(&done.fetches, run).await?;
        let mut own = done.fetches;
        own.truncate(fetches.len());
        let edges = fetches.iter().map(Output::edge).collect();
        let graph = monitored.session.graph().clone();
        Ok(Fetched { graph, values: own, edges, metadata })
    }
}

impl MonitoredSession {
    /// The error of a run that is begun when the session is to stop. It is a mistake where the
    /// session itself has stopped. Another task can end the training, or be asked to stop, while
    /// the program waits for something between `should_stop` and the run.
    pub(super) fn begun_too_late(&self) -> Error {
        if self.stop_requested.get() {
            let message = "run called even after should_stop requested a stop";
            return Error::new(Code::FailedPrecondition, message);
        }
        self.ended_meanwhile()
    }

    /// The error of a run that can't be taken, or taken again, since the training has come to its
    /// end.
    pub(super) fn ended_meanwhile(&self) -> Error {
        let (worker, step) = (self.task.name(), self.global_step);
        let what = match self.task.is_asked_to_stop() {
            true => "a task was asked to stop",
            false => "the end of the training was announced",
        };
        let message = format!(
            "{worker} has begun a run at step {step}, but {what} since the program last asked; ask \
             `should_stop` after each wait, and end by `session.close_after(…)`"
        );
        Error::new(Code::OutOfRange, message)
    }

    /// The end of the training step that `step` takes, as far as the program has asked for it. If
    /// the worker trains a copy of its own and is to exchange it in this step, it is asked for that
    /// as well.
    fn end_of_step(&self, step: &mut RequestedStep) -> Option<Target> {
        let request = &step.request;
        let fetched = request.fetches.iter().filter(|edge| !request.feeds.contains(edge));
        let mut ops: SmallVec<[OpId; 8]> = request.targets.iter().copied().collect();
        ops.extend(fetched.map(|edge| edge.op));
        let graph = self.session.graph();
        if let Some(exchange) = graph.exchange_in_step(&ops, self.steps_in_session) {
            step.target(&exchange);
            ops.push(exchange.op_id());
        }
        graph.end_of_step(&ops)
    }
}

/// The loss among the values that the program has fetched: what an optimizer minimizes, else what
/// was differentiated by variables, else the first f32 scalar.
fn loss_of(graph: &Graph, fetches: &[Output], values: &[Tensor]) -> Option<f32> {
    let is_scalar = |value: &Tensor| value.dtype() == DType::F32 && value.shape().rank() == 0;
    let scalars = || fetches.iter().zip(values).filter(|(_, value)| is_scalar(value));
    let minimized = scalars().find(|(output, _)| graph.is_minimized(output));
    let differentiated = || scalars().find(|(output, _)| graph.is_differentiated(output));
    let (_, loss) = minimized.or_else(differentiated).or_else(|| scalars().next())?;
    loss.item().ok()
}

/// The row of a training step; `told` is the train op's part of it.
fn step_stats(
    monitored: &MonitoredSession,
    loss: Option<f32>,
    told: &[Tensor],
    (started, ended): (Time, Time),
    computed: Option<(Time, Time)>,
) -> Result<StepStats> {
    let staleness: i64 = told[1].item()?;
    Ok(StepStats {
        worker: monitored.task.taker().clone(),
        local_step: 0,
        global_step: told[0].item::<i64>()?.max(0) as u64,
        started,
        ended,
        computed,
        loss,
        staleness: staleness.max(!staleness) as u64,
        applied: told[2].item()?,
        is_stopped: false,
        is_local: false,
    })
}

/// Whether the train op's part of a row is of an earlier attempt at the step: its staleness is then
/// -1 instead of 0, -2 instead of 1.
fn is_of_earlier_attempt(told: &[Tensor]) -> Result<bool> {
    Ok(told[1].item::<i64>()? < 0)
}

impl<'a> IntoFuture for MonitoredRun<'a> {
    type Output = Result<Fetched>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F>(_: impl FnOnce(MonitoredRun<'static>) -> F) -> usize {
        size_of::<F>()
    }

    /// Each step allocates one: with 1,000 simulated workers, in memory that no cache holds.
    #[test]
    fn the_future_of_a_step_is_small() {
        let size = size_of_future(MonitoredRun::run);
        assert!(size <= 4 << 10, "{size} bytes");
    }
}
