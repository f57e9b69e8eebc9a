//! `Graph`: a graph under construction. `operations`, `variables` and the methods of
//! [`Output`](super::Output) add operations to it.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::GraphError;
use super::op::Op;
use super::state::{Name, NewOperation, State};
use super::{Edge, GraphDef, OpId, Operation, TensorType};

/// A graph under construction. Cloning it gives another handle to the same graph.
#[derive(Clone, Default)]
pub struct Graph {
    state: Arc<Mutex<State>>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether both handles refer to the same graph.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Seeds the random operations that are added from now on, and those of the branches and
    /// bodies that are built from now on: each of them draws values of its own.
    ///
    /// The seed is 0 until then, whatever that of the run: without
    /// `g.set_random_seed(task.seed())`, runs with different seeds begin with the same weights.
    pub fn set_random_seed(&self, seed: u64) {
        self.state().random_seed = seed;
    }

    pub(crate) fn random_seed(&self) -> u64 {
        self.state().random_seed
    }

    /// The seeds of the functions that an operation of `kind` is to run, each by the function's
    /// name: what is drawn in one differs from what is drawn in another, and here.
    pub(crate) fn seeds_within(&self, kind: &str) -> impl Fn(&str) -> u64 + use<> {
        self.state().seeds_within(kind)
    }

    /// Returns the first mistake made by a method that returns no `Result`, if there was one.
    pub(crate) fn check(&self) -> Result<(), GraphError> {
        self.state().deferred.clone().map_or(Ok(()), Err)
    }

    /// The graph as a value, which is copied only if the graph changes while somebody holds it.
    ///
    /// # Errors
    /// The first mistake made by a method that returns no `Result`.
    pub fn snapshot(&self) -> Result<Arc<GraphDef>, GraphError> {
        let state = self.state();
        state.deferred.clone().map_or_else(|| Ok(Arc::clone(&state.def)), Err)
    }

    /// The number of operations so far.
    pub(crate) fn len(&self) -> usize {
        self.state().def.operations.len()
    }

    /// Adds an operation.
    pub(crate) fn add(&self, new: NewOperation<'_>) -> Result<OpId, GraphError> {
        self.state().add(new)
    }

    /// Keeps the first mistake until a session takes the graph.
    pub(crate) fn defer(&self, error: GraphError) {
        self.state().deferred.get_or_insert(error);
    }

    /// Runs `build`; the operations that it adds run on the device of `op`, and count as built at
    /// the line `built_at`.
    pub(super) fn beside<T>(
        &self,
        op: OpId,
        built_at: &'static Location<'static>,
        build: impl FnOnce() -> T,
    ) -> T {
        let before = self.state().beside.replace((op, built_at));
        let built = build();
        self.state().beside = before;
        built
    }

    /// The read of `variable` that all its readers share.
    pub(super) fn read_of(&self, variable: OpId) -> OpId {
        let mut state = self.state();
        if let Some(read) = state.reads.get(&variable) {
            return *read;
        }
        let Operation { name, built_at, .. } = state.def.operation(variable);
        let (name, built_at) = (format!("{name}/read"), *built_at);
        let new = NewOperation {
            name: Name::Numbered(&name),
            variables: &[variable],
            colocated_with: Some(variable),
            is_detached: true,
            built_at,
            ..NewOperation::of(Op::ReadVariable)
        };
        let read = state.add(new).expect("a variable can be read");
        state.reads.insert(variable, read);
        read
    }

    /// Makes `read` the read of `variable` that all its readers share, if it waits for nothing and
    /// there is none yet.
    pub(crate) fn share_read(&self, variable: OpId, read: OpId) {
        let mut state = self.state();
        if state.def.operation(read).control_inputs.is_empty() {
            state.reads.entry(variable).or_insert(read);
        }
    }

    /// The read of `variable` that all its readers share, if there is one yet.
    pub(crate) fn shared_read(&self, variable: OpId) -> Option<OpId> {
        self.state().reads.get(&variable).copied()
    }

    pub(super) fn tensor_type(&self, edge: Edge) -> TensorType {
        self.state().def.edge_type(edge)
    }

    pub(crate) fn with_operation<T>(&self, id: OpId, look: impl FnOnce(&Operation) -> T) -> T {
        look(self.state().def.operation(id))
    }

    /// Locks the state. Poison is ignored: a user's device function may panic while the graph is
    /// locked, but nothing has changed by then.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("operations", &self.len()).finish_non_exhaustive()
    }
}
