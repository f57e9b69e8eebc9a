//! The builder of a monitored session.

use std::cell::Cell;
use std::time::Duration;

use crate::graph::Graph;
use crate::runtime::{Error, Result};

use super::super::checkpointing::Checkpointing;
use super::super::checkpoints::Checkpoints;
use super::super::hooks::{CheckpointSaver, Hook, Hooks};
use super::super::record::Beginning;
use super::super::recovery::{Tries, given_up, is_mendable};
use super::super::scaffold::Scaffold;
use super::super::session_creator::{Created, SessionCreator};
use super::super::task::Task;
use super::MonitoredSession;

/// Builds a monitored session.
#[must_use = "a session is opened by `open`"]
pub struct Builder {
    task: Task,
    graph: Graph,
    scaffold: Scaffold,
    hooks: Vec<Box<dyn Hook>>,
    chief_only: Vec<Box<dyn Hook>>,
    checkpointing: Option<Checkpointing>,
    max_wait: Duration,
}

impl Builder {
    pub(super) fn new(task: &Task, graph: Graph) -> Self {
        Self {
            task: task.clone(),
            graph,
            scaffold: Scaffold::default(),
            hooks: Vec::new(),
            chief_only: Vec::new(),
            checkpointing: None,
            max_wait: task.patience().first,
        }
    }

    /// Adds a hook; hooks run in the order in which they were added.
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Adds hooks, in their order.
    pub fn hooks(mut self, hooks: impl IntoIterator<Item = Box<dyn Hook>>) -> Self {
        self.hooks.extend(hooks);
        self
    }

    /// Adds a hook that runs only on the chief, before the others.
    pub fn chief_only_hook(mut self, hook: impl Hook + 'static) -> Self {
        self.chief_only.push(Box::new(hook));
        self
    }

    /// Makes the model ready with `scaffold`.
    pub fn scaffold(mut self, scaffold: Scaffold) -> Self {
        self.scaffold = scaffold;
        self
    }

    /// Keeps checkpoints in a folder, or at a URL such as `s3://bucket/run-7`. The chief begins at
    /// the newest complete one, and writes one every 600 seconds, at the beginning and at the end.
    ///
    /// # Errors
    /// If `location` can't be opened as a store.
    pub fn checkpoint_dir(self, location: &str) -> Result<Self> {
        let store = self.task.stores().open(location)?;
        Ok(self.checkpointing(Checkpointing::new(store)))
    }

    /// Keeps checkpoints with the settings of `checkpointing`.
    pub fn checkpointing(mut self, checkpointing: Checkpointing) -> Self {
        self.checkpointing = Some(checkpointing);
        self
    }

    /// Sets how long a worker waits for the chief to make the model ready.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// Opens the session: when it returns, all variables have their values. Variables that are
    /// added to the graph later are not initialised, saved or restored (TensorFlow refuses any
    /// addition to the graph then).
    ///
    /// # Errors
    /// If the graph has a mistake, a training step of it was built for another coordination than
    /// the run's, a hook fails, the checkpoint does not fit the graph, or a task fails.
    pub async fn open(mut self) -> Result<MonitoredSession> {
        if let Some(replica) = self.task.replica() {
            self.graph.join_training(replica)?;
        }
        self.task.begin_training();
        if self.task.is_chief() {
            let sizes = self
                .graph
                .trainable_variables()
                .into_iter()
                .map(|variable| variable.spec().shape.elements());
            self.task
                .recorder()
                .beginning(Beginning { parameters: sizes.map(|size| size as u64).sum() });
        }
        let checkpoints = self.checkpointing.as_ref().map(Checkpoints::new);
        let mut hooks = self.assemble_hooks(checkpoints.as_ref());
        hooks.begin(&self.task, &self.graph)?;
        let (task, graph) = (self.task, self.graph);
        let scaffold = self.scaffold.finalize(&graph, self.checkpointing.is_some())?;
        let (max_wait, resets) = (self.max_wait, Cell::new(task.resets()));
        let creator =
            SessionCreator { task: task.clone(), graph, scaffold, checkpoints, max_wait, resets };
        let mut tries = Tries::default();
        let Created { session, global_step, restored } =
            create(&task, &creator, &mut tries).await?;
        task.seek_batches(global_step);
        let mut opened = MonitoredSession {
            training: session.number(),
            task,
            creator,
            session,
            hooks,
            begun: 0,
            local_step: 0,
            global_step,
            restored,
            stop_requested: Cell::new(false),
            tries,
        };
        match opened.tell_of_the_session().await {
            Err(error) if is_mendable(&error) => opened.recover(error).await.map(drop)?,
            told => told?,
        }
        Ok(opened)
    }

    /// The hooks in their order (TensorFlow: those of the chief alone, the saver, the program's).
    fn assemble_hooks(&mut self, checkpoints: Option<&Checkpoints>) -> Hooks {
        let mut list = Vec::new();
        if self.task.is_chief() {
            list.append(&mut self.chief_only);
            if let (Some(checkpointing), Some(checkpoints)) = (&self.checkpointing, checkpoints) {
                list.push(Box::new(CheckpointSaver::of(checkpoints.clone(), checkpointing)));
            }
        }
        list.append(&mut self.hooks);
        Hooks::new(list)
    }
}

/// Creates the first session, trying again as long as that can help.
async fn create(task: &Task, creator: &SessionCreator, tries: &mut Tries) -> Result<Created> {
    let mut root = None;
    loop {
        let error = match creator.create().await {
            Ok(created) => return Ok(created),
            Err(error) => error,
        };
        let pause = tries.pause().filter(|_| is_mendable(&error));
        let root: &mut Error = root.get_or_insert(error.clone());
        let Some(pause) = pause else {
            return Err(if *root == error {
                error
            } else {
                given_up(root, &format!("then {error}"))
            });
        };
        tracing::warn!(%error, ?pause, "the session can't be opened; trying again");
        task.sleep(pause).await;
    }
}
