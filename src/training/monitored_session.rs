//! A session that looks after a training: initialises or waits, runs hooks, stops in good order.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use tracing::trace_span;

use crate::graph::{Graph, Output, Target};
use crate::runtime::{Code, Error, Origin, Result, StepDone};
use crate::tensor::{DType, Tensor};

use super::first_values::initialize;
use super::hooks::{Flow, Hook};
use super::record::{Beginning, Ending, StepStats};
use super::recovery::{OPERATION_TIMEOUT, Patience, given_up, is_mendable, session_again};
use super::session::{Asked, Fetched, Session};
use super::task::Task;
use super::weights::weights_digest;

/// A session for training (TensorFlow: `MonitoredTrainingSession`).
///
/// The chief gives the variables their first values, where they have none; the other workers wait
/// until it has, and are told at once. A task that is lost and comes back is waited for, and the step taken again;
/// see `recovery` for when that is given up.
pub struct MonitoredSession {
    task: Task,
    graph: Graph,
    session: Session,
    hooks: Vec<Box<dyn Hook>>,
    /// The number of the training at its server, whatever session it is in by now.
    training: u64,
    /// How many training steps have begun, those that failed among them.
    begun: u64,
    local_step: u64,
    /// The last that was seen.
    global_step: u64,
    stop_requested: bool,
    patience: Patience,
}

/// A monitored session in the making.
#[must_use = "a session is opened by `open`"]
pub struct Builder {
    task: Task,
    graph: Graph,
    hooks: Vec<Box<dyn Hook>>,
}

impl Builder {
    /// Adds a hook; hooks run in the order in which they were added.
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Opens the session: when it returns, all variables have their values.
    ///
    /// # Errors
    /// If the graph has a mistake, or a task fails.
    pub async fn open(mut self) -> Result<MonitoredSession> {
        self.task.begin_training();
        if self.task.is_chief() {
            let sizes = self.graph.trainable_variables().into_iter().map(|variable| variable.spec().shape.elements());
            self.task.recorder().beginning(Beginning { parameters: sizes.map(|size| size as u64).sum() });
        }
        let (mut patience, mut root) = (Patience::default(), None);
        let (session, global_step) = loop {
            let error = match self.try_open().await {
                Ok(opened) => break opened,
                Err(error) => error,
            };
            let pause = patience.pause().filter(|_| is_mendable(&error));
            let root: &mut Error = root.get_or_insert(error.clone());
            let Some(pause) = pause else {
                return Err(if *root == error { error } else { given_up(root, &format!("then {error}")) });
            };
            tracing::warn!(%error, ?pause, "the session can't be opened; trying again");
            self.task.sleep(pause).await;
        };
        for hook in &mut self.hooks {
            hook.after_create_session(global_step);
        }
        let Self { task, graph, hooks } = self;
        let (training, begun, local_step, stop_requested) = (session.number(), 0, 0, false);
        Ok(MonitoredSession {
            task,
            graph,
            session,
            hooks,
            training,
            begun,
            local_step,
            global_step,
            stop_requested,
            patience,
        })
    }

    /// A session whose variables have their values, and the global step.
    async fn try_open(&self) -> Result<(Session, u64)> {
        let session = Session::new(&self.task.target(), &self.graph).await?;
        session.set_timeout(self.task.limit(OPERATION_TIMEOUT));
        let step = self.graph.global_step()?;
        if self.task.is_chief() {
            initialize(&session, &step).await?;
        } else {
            let waited = session.run().target(self.graph.await_initialization()).await;
            waited.map_err(|error| self.blame_the_chief(error))?;
        }
        let mut own = session.run();
        for (_, initializer) in self.graph.local_initializers() {
            own = own.target(initializer);
        }
        own.await?;
        let global_step = session.run().fetch(&step.read()).await?.scalar::<i64>(0)?;
        Ok((session, global_step.max(0) as u64))
    }

    /// Says whom a worker waits for that waits for first values in vain.
    fn blame_the_chief(&self, error: Error) -> Error {
        if error.code != Code::DeadlineExceeded {
            return error;
        }
        let chief = self.task.chief();
        given_up(&error, &format!("the chief, {chief}, has not given the variables their first values")).on(&chief)
    }
}

impl MonitoredSession {
    /// A session of `graph` for the training of `task`.
    pub fn builder(task: &Task, graph: Graph) -> Builder {
        Builder { task: task.clone(), graph, hooks: Vec::new() }
    }

    /// Whether the training is over for this worker: a hook stopped it, or the chief ended it for all.
    pub fn should_stop(&self) -> bool {
        self.stop_requested || self.task.is_training_over()
    }

    /// The global step, as it was last seen.
    pub fn global_step(&self) -> u64 {
        self.global_step
    }

    /// Stops the session after the step that is under way.
    pub fn request_stop(&mut self) {
        self.stop_requested = true;
    }

    /// A step, to be told what to feed, fetch and run, and then awaited. One that runs a train op
    /// counts as a training step: it is reported, and hooks run after it.
    pub fn run(&mut self) -> MonitoredRun<'_> {
        MonitoredRun { asked: self.session.asked(), train_op: None, monitored: self }
    }

    /// The session itself, for steps that are no training: evaluation, say.
    pub fn raw(&self) -> &Session {
        &self.session
    }

    /// Ends this worker's training in good order; the chief reports the weights.
    ///
    /// # Errors
    /// If the weights can't be read.
    pub async fn close(mut self) -> Result<()> {
        let reported = self.report_weights().await;
        self.task.leave();
        reported
    }

    async fn report_weights(&mut self) -> Result<()> {
        while self.task.is_chief() {
            match weights_digest(&self.session).await {
                Err(error) if is_mendable(&error) => self.recover(error).await?,
                digest => return digest.map(|weights_digest| self.task.recorder().ending(Ending { weights_digest })),
            }
        }
        Ok(())
    }

    /// Puts a new session in the place of one that has lost a task.
    ///
    /// # Errors
    /// `root`, if that task does not come back as it was.
    pub(super) async fn recover(&mut self, root: Error) -> Result<()> {
        loop {
            let Some(pause) = self.patience.pause() else {
                return Err(given_up(&root, "it has been tried again, in vain"));
            };
            tracing::warn!(%root, ?pause, "going on with a new session");
            self.task.sleep(pause).await;
            match session_again(&self.task, &self.graph, self.global_step, &root).await {
                Ok(session) => {
                    self.session = session;
                    return Ok(());
                }
                Err(error) if is_mendable(&error) => tracing::warn!(%error, "the new session is lost too"),
                Err(error) if error.code == Code::FailedPrecondition => {
                    return Err(Error { code: root.code, ..error });
                }
                Err(error) => return Err(given_up(&root, &format!("it is not back in time: {error}"))),
            }
        }
    }

    /// Takes a step, again with a new session where a task was lost.
    async fn take(&mut self, mut asked: Asked) -> Result<StepDone> {
        let repeat = asked.repeat(&self.session);
        loop {
            match self.session.run_step(asked).await {
                Err(error) if is_mendable(&error) => self.recover(error).await?,
                done => {
                    self.patience.renew();
                    return done;
                }
            }
            asked = Asked::again(&self.session, &repeat);
        }
    }

    /// Hop 10 of a step: numbers it, shows it to the hooks, and reports it.
    fn after_training_step(&mut self, mut stats: StepStats) {
        let _span = trace_span!("hooks", local_step = self.local_step, global_step = stats.global_step).entered();
        stats.local_step = self.local_step;
        self.global_step = stats.global_step;
        self.local_step += 1;
        for hook in &mut self.hooks {
            if hook.after_run(&stats) == Flow::Stop {
                self.stop_requested = true;
            }
        }
        self.task.recorder().step(stats);
    }
}

/// A step of a monitored session in the making.
#[must_use = "a step runs when it is awaited"]
pub struct MonitoredRun<'a> {
    monitored: &'a mut MonitoredSession,
    asked: Asked,
    /// The end of the training step, where it is one.
    train_op: Option<Target>,
}

impl MonitoredRun<'_> {
    /// Feeds `value` wherever `output` is needed.
    pub fn feed(mut self, output: &Output, value: impl Into<Tensor>) -> Self {
        self.asked.feed(output, value.into());
        self
    }

    /// Fetches the value of `output`. What is fetched first is first in the result.
    pub fn fetch(mut self, output: &Output) -> Self {
        self.asked.fetch(output);
        self
    }

    /// Runs `target`.
    pub fn target(mut self, target: impl AsRef<Target>) -> Self {
        let target = target.as_ref();
        if let Some(end) = target.end_of_step() {
            self.train_op = Some(end);
        }
        self.asked.target(target);
        self
    }

    async fn run(self) -> Result<Fetched> {
        let Self { monitored, mut asked, train_op } = self;
        if monitored.should_stop() {
            return Err(Error::new(Code::FailedPrecondition, "run called even after should_stop requested a stop"));
        }
        let own = asked.request.fetches.len();
        let Some(train_op) = train_op else {
            return Ok(Fetched(monitored.take(asked).await?.fetches));
        };
        (0..).map_while(|told| train_op.output(told)).for_each(|told| asked.fetch(&told));
        asked.origin = Some(Origin { training: monitored.training, number: monitored.begun });
        monitored.begun += 1;
        let started = monitored.task.now();
        let done = monitored.take(asked).await?;
        let mut fetches = done.fetches;
        let told: Vec<Tensor> = fetches.drain(own..).collect();
        let is_scalar = |value: &&Tensor| value.dtype() == DType::F32 && value.shape().rank() == 0;
        let global_step = match train_op.is_local_step() {
            true => monitored.global_step,
            false => told[0].item::<i64>()?.max(0) as u64,
        };
        let stats = StepStats {
            worker: monitored.task.name().clone(),
            local_step: 0,
            global_step,
            started,
            ended: monitored.task.now(),
            computed: done.computed,
            loss: fetches.iter().find(is_scalar).and_then(|loss| loss.item().ok()),
            staleness: told[1].item::<i64>()?.max(0) as u64,
            applied: told[2].item()?,
        };
        monitored.after_training_step(stats);
        Ok(Fetched(fetches))
    }
}

impl<'a> IntoFuture for MonitoredRun<'a> {
    type Output = Result<Fetched>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
