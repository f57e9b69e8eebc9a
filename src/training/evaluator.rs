//! `Evaluator`: measures the newest checkpoint of a training, again and again, while the training
//! goes on.

use std::time::Duration;

use crate::checkpoint::Restored;
use crate::cluster::{DeviceSpec, TaskName};
use crate::graph::{Graph, Output};
use crate::runtime::{Code, Error, NOTICE, Result, ServerTarget, SessionOptions, Watched};
use crate::sync::Leaving;
use crate::units::Time;

use super::checkpoints::Checkpoints;
use super::estimator::{EstimatorSpec, EvalSpec, Evaluated, checkpointing};
use super::record::Evaluation;
use super::restoring::restore;
use super::scaffold::Finalized;
use super::session::Session;
use super::summary::SummaryWriter;
use super::task::Task;

/// The least time between two looks at the store, where nobody tells of new checkpoints.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The device name of the task that measures in a session of `target`.
pub(super) fn place(target: &ServerTarget) -> String {
    DeviceSpec::of_task(target.task()).to_string()
}

/// Measures checkpoints (TensorFlow: `_TrainingExecutor.run_evaluator`).
///
/// TensorFlow's looks for a checkpoint every so often; here the chief tells it of each, and of the
/// end. An evaluator that the training's cluster does not list has to look.
pub(super) struct Evaluator {
    task: Task,
    session: Session,
    model: Finalized,
    ends: EstimatorSpec,
    spec: EvalSpec,
    checkpoints: Checkpoints,
    events: Option<SummaryWriter>,
    /// The step of the checkpoint that was measured last.
    last: Option<u64>,
    /// The time when that began.
    began: Option<Time>,
    /// The time when the newest checkpoint was there, or when the evaluator began.
    found: Time,
    /// The number of log lines since then that said that none has come.
    told: u64,
    is_target_reached: bool,
}

impl Evaluator {
    /// An evaluator of the model in a graph, whose variables are this task's own.
    ///
    /// # Errors
    /// If the training keeps no checkpoints, or the graph has a mistake; if the model does not
    /// measure the accuracy that is to end the training.
    pub(super) async fn open(
        task: &Task,
        (graph, ends): (Graph, EstimatorSpec),
        mut spec: EvalSpec,
    ) -> Result<Self> {
        if spec.target.is_some() && !ends.metrics.iter().any(|(name, _)| name == "accuracy") {
            let message = "`stop_at_accuracy` ends a training by the metric `accuracy`, which the \
                           model lacks; stop the workers that still train, and add \
                           `.metric(\"accuracy\", &value)` to its `EstimatorSpec`, or end it by \
                           `TrainSpec::max_steps`";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let checkpoints = Checkpoints::new(&checkpointing(task)?);
        let target = task.run_settings().evaluation_master.clone();
        let target = target.unwrap_or_else(|| task.target());
        let scaffold = ends.scaffold.clone();
        let model =
            graph.with_device(&place(&target), |graph| Ok(scaffold.finalize(graph, true)?))?;
        let options = SessionOptions { isolate_session_state: true, ..SessionOptions::default() };
        let session = Session::with_options(&target, &graph, options).await?;
        model.initialize_own(&session).await?;
        model.initialize_unsaved(&session, &model.shared.iter().collect::<Vec<_>>()).await?;
        let events = spec
            .summary_dir
            .as_ref()
            .map(|folder| SummaryWriter::create(task, folder))
            .transpose()?;
        for exporter in &mut spec.exporters {
            exporter.begin(task);
        }
        Ok(Self {
            task: task.clone(),
            session,
            model,
            ends,
            spec,
            checkpoints,
            events,
            last: None,
            began: None,
            found: task.now(),
            told: 0,
            is_target_reached: false,
        })
    }

    /// Measures until the training has ended and its last checkpoint is measured, or until this
    /// task is to stop.
    ///
    /// # Errors
    /// If the chief is gone, or no checkpoint comes, for longer than tasks wait for one another; if
    /// there was no whole checkpoint at the end; any error of a step.
    pub(super) async fn run(mut self) -> Result<()> {
        let chief = self.task.cluster().chief();
        if let Some(chief) = &chief {
            self.task.server().watch_checkpoints(chief);
        }
        self.pause_until(self.task.now().after(self.spec.start_delay)).await;
        self.found = self.task.now();
        loop {
            let (seen, is_over) = (self.task.server().training().news.count(), self.is_over());
            if let Some(error) = self.task.server().training().chief_failed() {
                return Err(error);
            }
            if !self.is_stopped() {
                self.look().await?;
            }
            if is_over || chief.is_none() && self.has_measured_the_last().await {
                break;
            }
            self.pause_until(self.next_look()).await;
            match &chief {
                Some(chief) if !self.is_over() => {
                    if let Err(error) = self.wait_for_news(seen, chief).await {
                        if self.has_measured_the_last().await {
                            break;
                        }
                        return Err(self.unless_damaged(error).await);
                    }
                }
                Some(_) => {}
                None => self.pause_until_next_look().await?,
            }
        }
        let training = self.task.server().training();
        if training.chief_left() != Some(Leaving::Stopped) {
            training.forget_stop(); // the next lives of all have come to the end since
        }
        training.begin(); // what ended is not the end of another training
        match self.last {
            None if !self.is_stopped() => {
                let message = "the training has ended, and there is no whole checkpoint of it that \
                               could be measured; do all tasks see `checkpoint.directory`?";
                Err(Error::new(Code::NotFound, message).on(self.task.name()))
            }
            _ => Ok(()),
        }
    }

    /// Whether no further checkpoint will come. A chief that was asked to stop may come back,
    /// unless it ended the training because a parameter server was asked to.
    fn is_over(&self) -> bool {
        let is_stopping = || self.task.server().stopping().is_some();
        let has_chief_ended_it = match self.task.server().training().chief_left() {
            Some(Leaving::Done) => true,
            Some(Leaving::Stopped) => is_stopping(),
            None => false,
        };
        has_chief_ended_it || self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.task.server().training().is_stop_requested()
    }

    /// Whether an evaluator that nobody tells of the end is done: the step, the target or the
    /// chief's note beside the checkpoints says so.
    async fn has_measured_the_last(&self) -> bool {
        let Some(last) = self.last else { return false };
        if self.is_target_reached || self.spec.last_step.is_some_and(|step| last >= step) {
            return true;
        }
        let noted = self.checkpoints.last_of_all(&self.task).await;
        let noted = noted.inspect_err(
            |error| tracing::warn!(%error, "it is not known whether the training is over"),
        );
        noted.is_ok_and(|step| step == Some(last))
    }

    /// The `error` of an evaluator that waits in vain; if the training has ended, the reason is
    /// that its last checkpoint can't be measured.
    async fn unless_damaged(&self, error: Error) -> Error {
        let Ok(Some(step)) = self.checkpoints.last_of_all(&self.task).await else { return error };
        let message = format!(
            "the training has ended, and its last checkpoint, of step {step} in {}, can't be \
             measured, since it is not whole; mend it, and start this task again",
            self.checkpoints.place()
        );
        Error::new(Code::DataLoss, message).on(self.task.name())
    }

    /// Pauses until it is time to look for a checkpoint again; says every now and then that none
    /// has come.
    ///
    /// # Errors
    /// If none has come for as long as a task that has yet to come is waited for.
    async fn pause_until_next_look(&mut self) -> Result<()> {
        let waited = self.task.now().since(self.found.max(self.next_look()));
        let (place, name) = (self.checkpoints.place(), self.task.name());
        let since = match self.last {
            Some(step) => format!("the checkpoint of step {step} is the newest"),
            None => "there is no whole checkpoint".to_owned(),
        };
        let limit = self.task.limit(self.task.patience().first);
        if limit.is_some_and(|limit| waited >= limit) {
            let message = format!(
                "{since} in {place} for {waited:.0?}: the chief does not run, saves elsewhere, or \
                 more seldom than that; raise `network.recovery`, of which it may be five times, \
                 or start {name} again together with the chief"
            );
            let error = Error::new(Code::Unavailable, message).on(name);
            return Err(self.unless_damaged(error).await);
        }
        let looks = waited.as_secs() / NOTICE.as_secs();
        if looks > self.told {
            let left = limit.map(|limit| limit.saturating_sub(waited));
            let left = left.map(|left| format!(", for {left:.0?} more")).unwrap_or_default();
            tracing::warn!("{name} waits for a checkpoint{left}: {since} in {place}");
        }
        self.told = looks;
        self.pause_until(self.task.now().after(LOOK_AGAIN)).await;
        Ok(())
    }

    /// Waits until `time`, or until the training is over.
    async fn pause_until(&self, time: Time) {
        loop {
            let (left, seen) =
                (time.since(self.task.now()), self.task.server().training().news.count());
            if left.is_zero() || self.is_over() {
                return;
            }
            self.task.within(Some(left), self.task.server().training().news.after(seen)).await;
        }
    }

    /// Waits until there is more news than `seen`. A chief that is lost is asked again.
    async fn wait_for_news(&self, seen: u64, chief: &TaskName) -> Result<()> {
        let (server, patience) = (self.task.server(), self.task.patience());
        let limit = match server.watched() {
            Watched::Answered => None,
            Watched::Asked => self.task.limit(patience.first),
            Watched::Lost => {
                server.watch_checkpoints(chief);
                Some(patience.recovery)
            }
        };
        let Some(()) = self.task.within(limit, server.training().news.after(seen)).await else {
            let message = format!(
                "{chief}, the chief, whose checkpoints are measured, is gone for {:.0?}; start \
                 both again",
                limit.unwrap_or_default()
            );
            return Err(Error::new(Code::Unavailable, message).on(chief));
        };
        Ok(())
    }

    /// Whether it is time for another measurement.
    pub(super) fn is_due(&self) -> bool {
        self.began.is_none() || self.task.now() >= self.next_look()
    }

    /// The earliest time of the next look for a checkpoint.
    fn next_look(&self) -> Time {
        self.began.unwrap_or(Time::ZERO).after(self.spec.throttle)
    }

    /// Measures the newest checkpoint, unless that is done.
    ///
    /// # Errors
    /// If it does not fit the model, or can't be measured.
    pub(super) async fn look(&mut self) -> Result<()> {
        let began = self.task.now();
        let Some(checkpoint) = self.checkpoints.newer(&self.task, self.last).await? else {
            return Ok(());
        };
        self.began = Some(began);
        restore(&self.session, &self.model.shared, &checkpoint).await?;
        let evaluated = self.measure(checkpoint.global_step).await?;
        self.last = Some(evaluated.global_step);
        self.found = self.task.now();
        self.report(&evaluated)?;
        self.export(checkpoint, evaluated).await
    }

    /// The means over the input's batches, each counted by its samples.
    async fn measure(&self, global_step: u64) -> Result<Evaluated> {
        let outputs: Vec<&Output> = std::iter::once(&self.ends.loss)
            .chain(self.ends.metrics.iter().map(|(_, value)| value))
            .collect();
        let (mut sums, mut samples) = (vec![0.0; outputs.len()], 0.0);
        let steps = self.spec.steps.map_or(usize::MAX, |steps| steps as usize);
        for batch in (self.spec.input)(&self.task)?.take(steps) {
            let batch = batch?;
            let weight = batch.samples() as f64;
            let mut run = self.session.run();
            for (place, value) in self.ends.feeds(batch) {
                run = run.feed(&place, value);
            }
            let fetched = outputs.iter().fold(run, |run, output| run.fetch(output)).await?;
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum += weight * f64::from(fetched.scalar::<f32>(index)?);
            }
            samples += weight;
        }
        if samples == 0.0 {
            let message = "the input of the evaluation has no samples";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let mut means = sums.into_iter().map(|sum| sum / samples);
        let loss = means.next().expect("the loss is the first");
        let names = self.ends.metrics.iter().map(|(name, _)| name.clone());
        Ok(Evaluated { global_step, loss, metrics: names.zip(means).collect() })
    }

    /// Reports the measurement, and ends the training if it reaches the target.
    fn report(&mut self, evaluated: &Evaluated) -> Result<()> {
        let Evaluated { global_step, loss, metrics } = evaluated;
        tracing::info!(global_step, loss, ?metrics, "measured a checkpoint");
        if let Some(events) = &self.events {
            let metrics = metrics.iter().map(|(name, value)| (name.as_str(), *value as f32));
            let values: Vec<(&str, f32)> =
                std::iter::once(("loss", *loss as f32)).chain(metrics).collect();
            events.scalars(&values, *global_step)?;
        }
        let Some(accuracy) = evaluated.metric("accuracy") else { return Ok(()) };
        self.task.report_evaluation(Evaluation {
            global_step: *global_step,
            at: self.task.now(),
            loss: *loss as f32,
            accuracy,
        });
        let reaches = self.spec.target.is_some_and(|target| accuracy >= target);
        let is_first = reaches && !self.is_target_reached;
        self.is_target_reached |= reaches;
        // A chief that was started again since it was asked may not know it.
        if is_first || self.is_target_reached && !self.is_over() {
            self.task.finish_training();
        }
        Ok(())
    }

    /// Hands the checkpoint to the exporters, beside the actors.
    async fn export(&mut self, checkpoint: Restored, evaluated: Evaluated) -> Result<()> {
        let mut exporters = std::mem::take(&mut self.spec.exporters);
        if exporters.is_empty() {
            return Ok(());
        }
        let exporting = move || {
            let mut all = exporters.iter_mut();
            let exported = all.try_for_each(|exporter| exporter.export(&checkpoint, &evaluated));
            (exporters, exported)
        };
        let (exporters, exported) = self.task.blocking(exporting).await?;
        self.spec.exporters = exporters;
        exported
    }
}
