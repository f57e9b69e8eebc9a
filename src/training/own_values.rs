//! A worker's own variables in checkpoints: what `top_k` has not sent yet, and the copies that
//! workers train themselves.
//!
//! They change on the worker's task, and no message tells of it. So a worker keeps their values
//! after each step that the global step counts, and sets a variable beside the global step to the
//! number of these steps. A checkpoint is read behind a fence; its saver reads the numbers with all
//! other variables, and asks each worker for its values after just that step. They are saved as
//! `<variable>/worker_<index>`. When a checkpoint is restored, the chief's task has the values of
//! all, and each worker asks it for its own.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::checkpoint::{
    POSITIONS, Restored, SavedVariable, Shard, Slice, Snapshot, counter, own_name,
};
use crate::cluster::TaskName;
use crate::graph::{Graph, GraphError, Output, Target, Variable};
use crate::optimizer::LocalSgd;
use crate::runtime::{OwnValues, Result};
use crate::sync::Leaving;
use crate::tensor::Tensor;

use super::checkpointing::Consistency;
use super::checkpoints::part_as_slice;
use super::record::{BegunAnew, Fact};
use super::restoring::saved_value;
use super::session::{RequestedStep, Session};
use super::task::Task;

/// How long a task that is alive may take to answer.
const LIMIT: Duration = Duration::from_secs(2);

impl Task {
    /// Has the training steps that are built in `graph` from now on count those of this worker, for
    /// it has variables of its own. The chief's graph has the counts of all workers, to initialise
    /// and to save them.
    #[track_caller]
    pub(super) fn count_own_values(&self, graph: &Graph) -> Result<(), GraphError> {
        let Some(replica) = self.replica() else { return Ok(()) };
        let is_counted = graph.operation(&counter(replica.worker)).is_some();
        for worker in (0..replica.workers).filter(|_| !is_counted) {
            let is_own = worker == replica.worker;
            if is_own || self.is_chief() {
                graph.input_position(&counter(worker), is_own)?;
            }
        }
        Ok(())
    }

    /// The worker `worker`'s task.
    fn worker(&self, worker: u32) -> Option<TaskName> {
        self.cluster().workers().nth(worker as usize)
    }
}

/// The variables that this worker alone has, in the graph of a session.
pub(super) struct OwnVariables {
    list: Vec<Own>,
    /// The number of the worker's counted steps, and the value that a step sets it to.
    counted: Output,
    next: Output,
    count: Cell<u64>,
    is_found: Cell<bool>,
    /// Whether the training has gone back to a checkpoint since.
    went_back: Cell<bool>,
}

struct Own {
    name: String,
    read: Output,
    place: Output,
    assign: Target,
}

impl OwnVariables {
    /// Adds what reads and sets them to `graph`. None if its steps don't count them.
    pub(super) fn new(task: &Task, graph: &Graph) -> Result<Option<Self>> {
        let Some(replica) = task.replica() else { return Ok(None) };
        let name = counter(replica.worker);
        let mut counted = graph.counted_with().into_iter();
        let Some((counter, next)) = counted.find(|(variable, _)| variable.name() == name) else {
            return Ok(None);
        };
        let own = |variable: Variable| -> Result<Own> {
            let (place, assign) = graph.restore_op(&variable)?;
            Ok(Own { name: variable.name(), read: variable.read_again(), place, assign })
        };
        let list: Vec<Own> = saved(graph).map(own).collect::<Result<_>>()?;
        Ok(Some(Self {
            list,
            counted: counter.read_again(),
            next,
            count: Cell::new(0),
            is_found: Cell::new(false),
            went_back: Cell::new(false),
        }))
    }

    /// Whether [`Self::find`] has succeeded since the training last went back.
    pub(super) fn are_found(&self) -> bool {
        self.is_found.get()
    }

    /// The training has gone back to a checkpoint.
    pub(super) fn go_back(&self) {
        self.is_found.set(false);
        self.went_back.set(true);
    }

    /// Feeds a counted step its number.
    pub(super) fn feed(&self, step: &mut RequestedStep) {
        step.feed(&self.next, Tensor::from(self.count.get() as i64 + 1));
    }

    /// Keeps the values after a counted step that has just ended.
    pub(super) async fn keep(&self, task: &Task, session: &Session) {
        self.count.set(self.count.get() + 1);
        self.read(task, session).await;
    }

    /// Sets the variables to what the checkpoint has of them that the training has been restored
    /// from, if its counted step is the last one. If it is not, they begin anew in a training that
    /// is at `global_step`.
    pub(super) async fn find(
        &self,
        task: &Task,
        session: &Session,
        global_step: u64,
    ) -> Result<()> {
        let counted = session.run().fetch(&self.counted).await?.scalar::<i64>(0)?;
        self.count.set(u64::try_from(counted).unwrap_or(0));
        task.server().forget_own_values();
        if self.count.get() > 0 {
            let restored = self.restored(task).await;
            let own = restored.unwrap_or_else(|| self.begin_anew(task, global_step));
            self.assign(session, &own).await?;
            self.read(task, session).await;
        }
        self.is_found.set(true);
        self.went_back.set(false);
        Ok(())
    }

    /// The values with which they begin anew. It is told of, unless the chief is done: then nobody
    /// saves or measures any more what follows from them.
    fn begin_anew(&self, task: &Task, global_step: u64) -> OwnValues {
        let (count, went_back) = (self.count.get(), self.went_back.get());
        if task.server().training().chief_left() != Some(Leaving::Done) {
            let worker = task.name().clone();
            tracing::warn!(
                %worker,
                "what the worker alone had learnt is in no checkpoint of this step, and begins anew"
            );
            task.record(Fact::BegunAnew(BegunAnew { worker, count, went_back }));
        }
        let steps = Tensor::from(task.steps_of_this_worker(global_step) as i64);
        // The schedule of the learning rate does not begin anew.
        OwnValues { count, values: vec![(LocalSgd::LOCAL_STEP.to_owned(), steps)] }
    }

    async fn restored(&self, task: &Task) -> Option<OwnValues> {
        let chief = task.chief();
        task.server().ask_for_restored_values(&chief);
        let told = task.within(Some(LIMIT), task.server().own_values_of(&chief)).await.flatten();
        told.filter(|own| own.count == self.count.get())
    }

    async fn assign(&self, session: &Session, own: &OwnValues) -> Result<()> {
        let mut run = session.run();
        for (name, value) in &own.values {
            if let Some(variable) = self.list.iter().find(|variable| variable.name == *name) {
                run = run.feed(&variable.place, value.clone()).target(&variable.assign);
            }
        }
        run.await.map(drop)
    }

    async fn read(&self, task: &Task, session: &Session) {
        let run = self.list.iter().fold(session.run(), |run, variable| run.fetch(&variable.read));
        let read = match run.await {
            Ok(read) => read,
            Err(error) => {
                return tracing::debug!(%error, "own values can't be read; the next step tells why");
            }
        };
        let named = self.list.iter().enumerate();
        let values: Vec<(String, Tensor)> =
            named.map(|(index, variable)| (variable.name.clone(), read[index].clone())).collect();
        if values.iter().all(|(_, value)| !value.is_hollow()) {
            task.server().keep_own_values(OwnValues { count: self.count.get(), values });
        }
    }
}

/// The worker's own variables in `graph` that checkpoints have.
fn saved(graph: &Graph) -> impl Iterator<Item = Variable> {
    let own = graph.local_initializers().into_iter().map(|(variable, _)| variable);
    own.filter(|variable| !LocalSgd::notes_a_read(&variable.name()))
}

/// Tells the workers that ask for it what `checkpoint`, which the chief restores, has of their own
/// variables, those of `graph`.
pub(super) fn publish(task: &Task, graph: &Graph, checkpoint: &Restored) {
    let own: Vec<Variable> = saved(graph).collect();
    let workers = task.replica().map_or(0, |replica| replica.workers);
    let of = |worker| Some((task.worker(worker)?, of_worker(&own, worker, checkpoint)?));
    task.server().publish_own_values((0..workers).filter_map(of).collect::<BTreeMap<_, _>>());
    let is_counted = |worker: &u32| checkpoint.variables.contains_key(&counter(*worker));
    let gone: Vec<u32> = (workers..).take_while(is_counted).collect();
    if !gone.is_empty() && !own.is_empty() {
        let now = format!("there are {workers} workers now");
        tracing::warn!(?gone, "what these workers alone had learnt is dropped: {now}");
    }
}

/// What `checkpoint` has of the variables `own` of `worker`, if it has all of them.
fn of_worker(own: &[Variable], worker: u32, checkpoint: &Restored) -> Option<OwnValues> {
    let count = checkpoint.variables.get(&counter(worker))?.item::<i64>().ok()?;
    let value = |variable: &Variable| {
        let (name, spec, part) = (variable.name(), variable.spec(), variable.part());
        let (named, wanted) = ((name.as_str(), part.as_ref()), (spec.dtype, spec.shape));
        let value = saved_value(checkpoint, named, wanted, |name| own_name(name, worker)).ok()?;
        Some((name, value))
    };
    let values = own.iter().map(value).collect::<Option<Vec<_>>>()?;
    Some(OwnValues { count: u64::try_from(count).ok()?, values })
}

/// Whether a checkpoint with `variables`, in which the worker `worker` has taken `count` counted
/// steps, has what it alone had learnt then. None if it is of another count.
pub(crate) fn has_own_values(
    variables: &BTreeMap<String, Tensor>,
    worker: u32,
    count: u64,
) -> Option<bool> {
    let (counter, own) = (counter(worker), own_name("", worker));
    let counted = variables.get(&counter)?.item::<i64>().ok()?;
    let is_own = |name: &str| name.ends_with(&own) && !name.starts_with(POSITIONS);
    let has_any = || variables.keys().any(|name| *name != counter && is_own(name));
    (u64::try_from(counted) == Ok(count)).then(has_any)
}

/// The workers that are asked for their own values, each with its number of counted steps.
pub(super) struct Gathering {
    asked: Vec<(u32, TaskName, u64)>,
}

impl Gathering {
    /// Asks each worker that has a count of steps in `snapshot` for its values after that step.
    /// While a fence is up, each answers at once, or says that its values come later.
    pub(super) async fn begin(task: &Task, snapshot: &Snapshot) -> Self {
        let all = || snapshot.shards.iter().flat_map(|shard| &shard.variables);
        let counted = |worker: u32| {
            let name = counter(worker);
            let count = all().find(|variable| variable.name == name)?.value.item::<i64>().ok()?;
            Some((worker, task.worker(worker)?, u64::try_from(count).ok()?))
        };
        let workers = task.replica().map_or(0, |replica| replica.workers);
        let learnt = (0..workers).filter_map(counted).filter(|(_, _, count)| *count > 0);
        let server = task.server();
        let (asked, silent): (Vec<_>, Vec<_>) =
            learnt.partition(|(_, name, count)| server.ask_for_own_values(name, *count));
        silent.iter().for_each(|(worker, ..)| left_out(*worker));
        let answered = async {
            for (_, name, _) in &asked {
                server.has_answered(name).await;
            }
        };
        task.within(Some(LIMIT), answered).await;
        Self { asked }
    }

    /// The variables of the workers, a shard each; `graph` says which of them are parts of wholes.
    /// A worker that does not answer in time, or does so for another step where the checkpoint has
    /// to be consistent, is left out.
    pub(super) async fn end(
        self,
        task: &Task,
        graph: &Graph,
        consistency: Consistency,
    ) -> Vec<Shard> {
        let slice = |variable: Variable| {
            Some((variable.name(), variable.part().as_ref().and_then(part_as_slice)?))
        };
        let slices: BTreeMap<String, Slice> = saved(graph).filter_map(slice).collect();
        let mut shards = Vec::with_capacity(self.asked.len());
        let deadline = task.now().after(LIMIT);
        for (worker, name, count) in self.asked {
            let left = deadline.since(task.now());
            let told = task.within(Some(left), task.server().own_values_of(&name)).await.flatten();
            let any = consistency == Consistency::Fuzzy;
            let Some(own) = told.filter(|own| any || own.count == count) else {
                left_out(worker);
                continue;
            };
            let saved = |(own, value): (String, _)| {
                let slice = slices.get(&own).map(|slice| Slice {
                    full_name: own_name(&slice.full_name, worker),
                    ..slice.clone()
                });
                SavedVariable { slice, ..SavedVariable::new(own_name(&own, worker), value) }
            };
            let variables = own.values.into_iter().map(saved).collect();
            shards.push(Shard { task: name.to_string(), variables });
        }
        shards
    }
}

fn left_out(worker: u32) {
    tracing::warn!(worker, "the checkpoint is without what the worker alone has learnt: no answer");
}
