//! The built-in trainer: what a scenario's `[program]` describes, written as any user's trainer is.

use std::time::Duration;

use crate::graph::{
    Graph, GraphDef, GraphError, Output, Target, Variable, accuracy, sparse_softmax_cross_entropy,
};
use crate::partition::Request;
use crate::placement::{GreedyByBytes, ReplicaDeviceSetter};
use crate::runtime::{Code, Error, Result};
use crate::tensor::{DType, Tensor};
use crate::units::Time;

use super::hooks::StopAtStep;
use super::method::{Method, TrainOps};
use super::monitored_session::MonitoredSession;
use super::record::Evaluation;
use super::recovery::{RECOVERY_TIMEOUT, is_mendable};
use super::task::Task;
use crate::data::Batch;
use crate::models::Model;
use crate::models::{self, Network};

/// Trains what the task's settings say, until they say that it is over.
///
/// # Errors
/// Whatever a step can fail with.
pub async fn train(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let (g, model) = build_graph(&task)?;
    let mut builder = MonitoredSession::builder(&task, g);
    if let Some(steps) = task.settings().stop.steps {
        builder = builder.hook(StopAtStep::last_step(steps));
    }
    if let Some(checkpointing) = task.checkpointing() {
        builder = builder.checkpointing(checkpointing.clone());
    }
    let mut session = builder.open().await?;
    let mut watch = Watch::default();
    let trained = train_until_the_end(&task, &mut session, &model, &mut watch).await;
    if trained.is_ok() && !watch.has_seen_target {
        watch.look(&task, &mut session, &model).await?;
    }
    session.close_after(trained).await
}

async fn train_until_the_end(
    task: &Task,
    session: &mut MonitoredSession,
    model: &Built,
    watch: &mut Watch,
) -> Result<()> {
    let mut number = 0;
    while !session.should_stop() {
        let global_step = model.step(number, task, session).await?;
        number += 1;
        watch.check_chief(task)?;
        if watch.is_time_up(task)
            || watch.is_target_reached(task, session, model, global_step).await?
        {
            task.finish_training();
            session.request_stop();
        }
    }
    if task.is_chief() {
        model.settle(session).await?;
    }
    Ok(())
}

/// The graph of the built-in trainer, and what one of its training steps feeds, fetches and runs.
///
/// # Errors
/// If the model can't be built.
pub(crate) fn step_graph(task: &Task) -> Result<(GraphDef, Request)> {
    let (g, model) = build_graph(task)?;
    let mut request =
        Request { targets: vec![model.train_ops.shared().target().op_id()], ..Request::default() };
    request.fetches.push(model.train_ops.shared().global_step().edge());
    if let Some(data) = &model.data {
        request.feeds = vec![data.features.edge(), data.labels.edge()];
        request.fetches.push(data.loss.edge());
    }
    Ok((g.snapshot()?, request))
}

fn build_graph(task: &Task) -> Result<(Graph, Built)> {
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let setter = ReplicaDeviceSetter::new(task.cluster())
        .worker_device(task.device())
        .strategy(GreedyByBytes::default());
    let model = g.with_device_fn(setter, |g| build(g, task))?;
    Ok((g, model))
}

/// A model in a graph, and how it is trained and measured.
struct Built {
    train_ops: TrainOps,
    global_step: Variable,
    /// What else is run with each training step.
    updates: Vec<Target>,
    data: Option<Fed>,
}

/// What a model with data is fed and gives.
struct Fed {
    features: Output,
    /// Of sparse data.
    ids: Option<Output>,
    labels: Output,
    loss: Output,
    accuracy: Output,
}

fn build(g: &Graph, task: &Task) -> Result<Built, GraphError> {
    let settings = task.settings();
    let method = Method::of(task)?;
    let global_step = g.global_step()?;
    if let Model::Null { variables } = settings.model {
        return null(g, variables, &method, global_step);
    }
    let split = &task.dataset()?.train;
    let features = g.placeholder("features", DType::F32, [None, Some(split.width())])?;
    let labels = g.placeholder("labels", DType::I32, [None])?;
    let network =
        method.with_variables(g, |_| Ok(models::build(&settings.model, &features, split)?))?;
    let Network { logits, ids, updates } = network;
    let loss = sparse_softmax_cross_entropy(&logits, &labels)?.mean();
    let accuracy = accuracy(&logits, &labels)?;
    let train_ops = method.minimize(&loss, &global_step)?;
    Ok(Built {
        train_ops,
        global_step,
        updates,
        data: Some(Fed { features, ids, labels, loss, accuracy }),
    })
}

/// Reads scalar variables and updates each by itself. The negation is the least arithmetic there
/// is: a scenario's drawn step time falls on it.
fn null(g: &Graph, variables: usize, method: &Method, step: Variable) -> Result<Built, GraphError> {
    let mut pairs = Vec::with_capacity(variables);
    for i in 0..variables {
        let variable =
            method.with_variables(g, |g| g.variable(&format!("v{i}"), &g.constant(0f32)))?;
        let gradient = variable.read().negate();
        pairs.push((variable, gradient));
    }
    let train_ops = method.apply_gradients(&pairs, &step)?;
    Ok(Built { train_ops, global_step: step, updates: Vec::new(), data: None })
}

impl Built {
    /// Takes training step `number`, counted from 0; gives the global step after it.
    async fn step(&self, number: u64, task: &Task, session: &mut MonitoredSession) -> Result<u64> {
        let train_op = self.train_ops.at(number);
        let mut run = session.run().target(train_op).fetch(&train_op.global_step());
        if let Some(data) = &self.data {
            run = run.feed_with(|| Ok(data.feeds(task.next_batch()?).collect())).fetch(&data.loss);
        }
        for update in &self.updates {
            run = run.target(update);
        }
        run.await?;
        Ok(session.global_step())
    }

    /// Has a worker that trains variables of its own give up what no average has of it.
    async fn settle(&self, session: &mut MonitoredSession) -> Result<()> {
        let Some(begin_again) = self.train_ops.begin_again() else { return Ok(()) };
        loop {
            match session.raw().run().target(begin_again).await {
                Err(error) if is_mendable(&error) => session.recover(error).await.map(drop)?,
                done => return done.map(drop),
            }
        }
    }
}

impl Fed {
    /// Where the parts of a batch go.
    fn feeds(&self, batch: Batch) -> impl Iterator<Item = (Output, Tensor)> {
        let always = [(self.features.clone(), batch.features), (self.labels.clone(), batch.labels)];
        always.into_iter().chain(self.ids.clone().zip(batch.ids))
    }
}

/// The chief's eye on the clock and the test split.
#[derive(Default)]
struct Watch {
    /// How many times it was time to look at the test split.
    rounds: u64,
    has_seen_target: bool,
}

impl Watch {
    fn is_time_up(&self, task: &Task) -> bool {
        let limit = task.settings().stop.time;
        task.is_chief() && limit.is_some_and(|limit| task.now().since(Time::ZERO) >= limit)
    }

    /// Ends a worker whose chief should have ended the training long ago: it is gone, and nobody
    /// else will.
    fn check_chief(&self, task: &Task) -> Result<()> {
        let elapsed = task.now().since(Time::ZERO);
        let is_overdue = |limit: Duration| elapsed >= limit + RECOVERY_TIMEOUT;
        if task.is_chief() || !task.settings().stop.time.is_some_and(is_overdue) {
            return Ok(());
        }
        let chief = task.chief();
        let message = format!(
            "the training should have ended {RECOVERY_TIMEOUT:?} ago, but its chief, {chief}, is \
             gone"
        );
        Err(Error::new(Code::Unavailable, message).on(&chief))
    }

    /// Looks at the test split when it is time to; says whether the accuracy is what was asked for.
    async fn is_target_reached(
        &mut self,
        task: &Task,
        session: &mut MonitoredSession,
        model: &Built,
        global_step: u64,
    ) -> Result<bool> {
        let stop = &task.settings().stop;
        let round = global_step / stop.evaluate_every;
        let Some(target) = stop.accuracy else { return Ok(false) };
        if !task.is_chief() || round == self.rounds {
            return Ok(false);
        }
        self.rounds = round;
        self.has_seen_target =
            self.look(task, session, model).await?.is_some_and(|accuracy| accuracy >= target);
        Ok(self.has_seen_target)
    }

    /// Measures the model on the test split, where there is one, and reports it; the chief alone
    /// does. Where only shapes are computed there is nothing to report, but the time it takes is
    /// the same.
    async fn look(
        &self,
        task: &Task,
        session: &mut MonitoredSession,
        model: &Built,
    ) -> Result<Option<f64>> {
        let Some(data) = model.data.as_ref().filter(|_| task.is_chief()) else { return Ok(None) };
        let step = model.global_step.read();
        let measured = loop {
            let mut run = session.raw().run();
            for (place, value) in data.feeds(task.dataset()?.test.whole()) {
                run = run.feed(&place, value);
            }
            match run.fetch(&data.loss).fetch(&data.accuracy).fetch(&step).await {
                Err(error) if is_mendable(&error) => session.recover(error).await.map(drop)?,
                measured => break measured?,
            }
        };
        if measured[0].is_hollow() {
            return Ok(None);
        }
        let evaluation = Evaluation {
            loss: measured.scalar(0)?,
            accuracy: f64::from(measured.scalar::<f32>(1)?),
            global_step: measured.scalar::<i64>(2)? as u64,
            at: task.now(),
        };
        task.report_evaluation(evaluation);
        Ok(Some(evaluation.accuracy))
    }
}
