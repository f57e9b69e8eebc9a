//! A training of one worker in simulation, for the tests of the monitored session and of hooks.

use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trainyard::checkpoint::Memory;
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::training::{
    Builder, Checkpointing, Hook, HookContext, HookFuture, RunArgs, RunValues, SecondOrStepTimer,
};

use crate::support::simulated::Simulated;

/// Runs `program` as the only task of a cluster, which is its chief.
pub(crate) fn alone<F>(program: impl Fn(Rc<Server>, Task) -> F + Sync)
where
    F: Future<Output = Result<()>> + 'static,
{
    workers(1, program);
}

/// Runs `program` as each of the tasks of a cluster that has no parameter server. The first, which
/// holds the variables, stays for the others.
pub(crate) fn workers<F>(workers: u32, program: impl Fn(Rc<Server>, Task) -> F + Sync)
where
    F: Future<Output = Result<()>> + 'static,
{
    let trained = Simulated::new(0, workers, Mode::Async).run_on_servers(|server, task| {
        let (clock, stays) = (Rc::clone(server.clock()), task.index() == 0 && workers > 1);
        let running = program(server, task);
        async move {
            running.await?;
            if stays {
                clock.sleep_until(clock.now().after(Duration::from_secs(3600))).await;
            }
            Ok(())
        }
    });
    trained.outcome.result.unwrap();
}

/// A graph whose train op adds 1 to `v` and to the global step, which are on the chief.
pub(crate) struct Counting {
    pub(crate) graph: Graph,
    pub(crate) v: Variable,
    pub(crate) global_step: Variable,
    pub(crate) train_op: TrainOp,
}

impl Counting {
    pub(crate) fn new(task: &Task) -> Result<Self> {
        let graph = Graph::new();
        let (v, global_step) = graph.with_device("/job:worker/task:0", |g| {
            Ok((g.variable("v", &g.constant(0f32))?, g.global_step()?))
        })?;
        let pairs = [(v.clone(), graph.constant(-1f32))];
        let train_op = task.apply_gradients(GradientDescent::new(1.0), &pairs)?;
        Ok(Self { graph, v, global_step, train_op })
    }

    /// A scalar to be fed.
    pub(crate) fn scalar(&self, name: &str) -> Result<Output> {
        Ok(self.graph.placeholder(name, DType::F32, [0usize; 0])?)
    }

    pub(crate) fn builder(&self, task: &Task) -> Builder {
        MonitoredSession::builder(task, self.graph.clone())
    }

    /// Takes a training step; gives the global step after it.
    pub(crate) async fn step(&self, session: &mut MonitoredSession) -> Result<u64> {
        session.run().target(&self.train_op).await?;
        Ok(session.global_step())
    }

    /// Takes `steps` of them.
    pub(crate) async fn steps(&self, session: &mut MonitoredSession, steps: u64) -> Result<()> {
        for _ in 0..steps {
            self.step(session).await?;
        }
        Ok(())
    }

    /// Takes steps until the session is to stop; gives the global step then.
    pub(crate) async fn to_the_end(&self, session: &mut MonitoredSession) -> Result<u64> {
        while !session.should_stop() {
            self.step(session).await?;
        }
        Ok(session.global_step())
    }
}

/// Checkpoints in memory every `steps` steps.
pub(crate) fn every_steps(store: &Memory, steps: u64) -> Checkpointing {
    let every = SecondOrStepTimer::every_steps(steps);
    Checkpointing { every, ..Checkpointing::new(Arc::new(store.clone())) }
}

/// How many seconds have passed since the beginning.
pub(crate) fn seconds(task: &Task) -> f64 {
    task.now().as_secs_f64()
}

/// Waits until `seconds` after the beginning.
pub(crate) async fn at(server: &Server, seconds: f64) {
    let time = trainyard::units::Time::ZERO.after(Duration::from_secs_f64(seconds));
    server.clock().sleep_until(time).await;
}

/// What several parts of a test have seen, in its order. Clones share it.
#[derive(Clone)]
pub(crate) struct Seen<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Seen<T> {
    pub(crate) fn add(&self, what: T) {
        self.0.lock().unwrap().push(what);
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

/// A hook that notes when it is called, and does in each place what a test wants.
#[derive(Clone, Default)]
pub(crate) struct Noting {
    pub(crate) name: &'static str,
    pub(crate) calls: Seen<String>,
    /// Fails these of its calls, counted from 1, with an error of a class.
    pub(crate) fails: Vec<(&'static str, u32, Code)>,
}

impl Noting {
    pub(crate) fn new(name: &'static str, calls: &Seen<String>) -> Self {
        Self { name, calls: calls.clone(), fails: Vec::new() }
    }

    /// Fails its `time`-th call of `method` with an error of `code`.
    pub(crate) fn failing(mut self, method: &'static str, time: u32, code: Code) -> Self {
        self.fails.push((method, time, code));
        self
    }

    fn note(&self, method: &'static str) -> Result<()> {
        let call = format!("{}.{method}", self.name);
        self.calls.add(call.clone());
        let time = self.calls.all().iter().filter(|known| **known == call).count() as u32;
        let fails = self.fails.iter().find(|(of, at, _)| *of == method && *at == time);
        fails.map_or(Ok(()), |(_, _, code)| {
            Err(Error::new(*code, format!("{method} fails, time {time}")))
        })
    }
}

impl Hook for Noting {
    fn begin(&mut self, _: &Task, _: &Graph) -> Result<()> {
        self.note("begin")
    }

    fn after_create_session<'a>(&'a mut self, _: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(std::future::ready(self.note("after_create_session")))
    }

    fn before_run(&mut self, _: &HookContext<'_>, _: &mut RunArgs<'_>) -> Result<()> {
        self.note("before_run")
    }

    fn after_run<'a>(&'a mut self, _: &'a HookContext<'_>, _: &'a RunValues<'_>) -> HookFuture<'a> {
        Box::pin(std::future::ready(self.note("after_run")))
    }

    fn end<'a>(&'a mut self, _: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(std::future::ready(self.note("end")))
    }
}
