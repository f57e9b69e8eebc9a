//! A task's variables: found by name, read as snapshots, locked while an update computes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::graph::{Replica, VariableSpec};
use crate::kernels::gather_rows;
use crate::kernels::indexed::{IndexOutOfRange, positions};
use crate::optimizer::{Delta, Deltas, Update};
use crate::sync::{Accumulator, Epoch, Membership, Version};
use crate::tensor::Tensor;

use crate::runtime::codec::version_to_tensor;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::messages::{Scope, StepId, Values};
use crate::runtime::parameter_server::done::Done;
use crate::runtime::parameter_server::updating::{Tickets, Updating};
use crate::runtime::state::{ApplyGradient, StateRequest, Ticket, VariableId};

/// The variables of a task.
#[derive(Default)]
pub(super) struct VariableStore {
    variables: Vec<Stored>,
    /// The places of variables of closed sessions, to be used again.
    free: Vec<VariableId>,
    by_name: BTreeMap<Name, VariableId>,
}

/// A variable's name: the session, if the variable is its own; container; shared name.
type Name = (Option<Scope>, Arc<str>, Arc<str>);

/// A variable and the operations that wait for it.
pub(super) struct Stored {
    pub(super) spec: VariableSpec,
    /// `None` until it is initialised, and while an update computes.
    pub(super) value: Option<Tensor>,
    /// The number of updates it has had.
    pub(super) version: u64,
    /// Whether an update computes; it then holds the value.
    pub(super) is_updating: bool,
    /// Whether the count of updates was set to 0 during an update, which then does not count.
    is_renumbered: bool,
    /// Whether the variable was cleared during the update, whose result is then dropped.
    is_cleared: bool,
    /// Whether the variable's session is closed.
    is_dropped: bool,
    /// Requests that came during the update, in order; before there is a value, those that wait for
    /// it.
    pub(super) waiting: VecDeque<StateRequest>,
    /// The variable's rounds, if its gradients make rounds.
    pub(super) rounds: Option<Rounds>,
    /// The last steps whose gradients have been applied.
    pub(super) applied: Done<()>,
}

/// A variable's part in a training whose gradients make rounds.
pub(super) struct Rounds {
    /// One of the replicas that train the variable.
    pub(super) training: Replica,
    /// The coordinator's epoch, if workers vote.
    pub(super) epoch: Epoch,
    /// Whether the task is in a later training by now.
    pub(super) is_past: bool,
    /// The gradients of the round under way, and of later ones.
    pub(super) gradients: Accumulator<Offered>,
    /// The last steps whose gradients have been in a round, if workers wait for theirs.
    pub(super) applied: Done<()>,
}

/// A gradient that waits for others of its round.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) ticket: Ticket,
    pub(super) apply: ApplyGradient,
    /// Whether the ticket is answered already, so that its step has gone on.
    pub(super) goes_on: bool,
}

/// Variables that have lost their values.
pub(super) struct Cleared {
    pub(super) variables: Vec<VariableId>,
    /// The operations that waited for a round of one of them.
    pub(super) waiting: Vec<Ticket>,
}

impl VariableStore {
    /// The variables that `specs` name; missing ones are made, uninitialised.
    ///
    /// # Errors
    /// If one exists with another element type or shape.
    pub(super) fn bind(
        &mut self,
        scope: Option<Scope>,
        specs: Vec<VariableSpec>,
    ) -> Result<Vec<VariableId>> {
        specs.into_iter().map(|spec| self.bind_one(scope, spec)).collect()
    }

    fn bind_one(&mut self, scope: Option<Scope>, spec: VariableSpec) -> Result<VariableId> {
        let name: Name = (scope, Arc::clone(&spec.container), Arc::clone(&spec.shared_name));
        let Some(found) = self.by_name.get(&name) else {
            let id = self.store(Stored::new(spec));
            self.by_name.insert(name, id);
            return Ok(id);
        };
        let there = &self.get(*found).spec;
        if there.tensor_type() == spec.tensor_type() {
            return Ok(*found);
        }
        let message = format!(
            "the variable `{}` is {} here, but the graph declares it as {}; rename one, or reset \
             its container",
            spec.shared_name,
            there.tensor_type(),
            spec.tensor_type()
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    fn store(&mut self, new: Stored) -> VariableId {
        if let Some(id) = self.free.pop() {
            *self.get_mut(id) = new;
            return id;
        }
        self.variables.push(new);
        VariableId(self.variables.len() as u32 - 1)
    }

    pub(super) fn get(&self, id: VariableId) -> &Stored {
        &self.variables[id.0 as usize]
    }

    pub(super) fn get_mut(&mut self, id: VariableId) -> &mut Stored {
        &mut self.variables[id.0 as usize]
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = VariableId> + use<> {
        (0..self.variables.len() as u32).map(VariableId)
    }

    /// Forgets the values in `containers`, or in the default one if none is named.
    pub(super) fn reset(&mut self, containers: &[String]) -> Cleared {
        let is_meant = |container: &str| match containers {
            [] => container.is_empty(),
            named => named.iter().any(|name| name == container),
        };
        let meant = self.ids().filter(|id| is_meant(&self.get(*id).spec.container)).collect();
        self.clear(meant)
    }

    /// Forgets the variables that were a session's own.
    pub(super) fn close_scope(&mut self, scope: Scope) -> Cleared {
        let is_own = |(owner, ..): &Name| *owner == Some(scope);
        let own: Vec<VariableId> =
            self.by_name.iter().filter(|(name, _)| is_own(name)).map(|(_, id)| *id).collect();
        self.by_name.retain(|name, _| !is_own(name));
        let cleared = self.clear(own);
        for id in &cleared.variables {
            let stored = self.get_mut(*id);
            stored.waiting.clear();
            stored.is_dropped = true;
            if !stored.is_updating {
                self.free.push(*id);
            }
        }
        cleared
    }

    fn clear(&mut self, variables: Vec<VariableId>) -> Cleared {
        let waiting =
            variables.iter().flat_map(|id| self.variables[id.0 as usize].clear()).collect();
        Cleared { variables, waiting }
    }

    /// Takes the values that an update by `gradients` needs; they are locked until
    /// [`VariableStore::put_back`].
    ///
    /// # Errors
    /// If one is not initialised.
    pub(super) fn lock(
        &mut self,
        device: u32,
        apply: &ApplyGradient,
        gradients: Deltas,
        tickets: Tickets,
    ) -> Result<Updating> {
        for id in &apply.variables {
            self.get(*id).initialized()?;
        }
        let mut values = SmallVec::new();
        for id in &apply.variables {
            let stored = self.get_mut(*id);
            stored.is_updating = true;
            values.push(stored.value.take().expect("it was just seen"));
        }
        let (rule, learning_rate) = (apply.rule.clone(), apply.learning_rate);
        let update = Update { rule, learning_rate, values, gradients, compensation: None };
        Ok(Updating { variables: apply.variables.clone(), update, tickets, device })
    }

    /// Ends an update; returns the requests that waited for it.
    pub(super) fn put_back(
        &mut self,
        variables: &[VariableId],
        values: impl IntoIterator<Item = Tensor>,
    ) -> VecDeque<StateRequest> {
        let mut waited = VecDeque::new();
        for (id, value) in variables.iter().zip(values) {
            let stored = self.get_mut(*id);
            stored.value = Some(value).filter(|_| !stored.is_cleared);
            (stored.is_updating, stored.is_cleared) = (false, false);
            waited.append(&mut stored.waiting);
            if stored.is_dropped {
                self.free.push(*id);
            }
        }
        let variable = self.get_mut(variables[0]);
        let was_renumbered = std::mem::take(&mut variable.is_renumbered);
        variable.version += u64::from(variable.value.is_some() && !was_renumbered);
        waited
    }

    /// Drops the requests of `step` that wait, and its gradients in unfinished rounds, except those
    /// whose step has gone on without waiting.
    pub(super) fn forget(&mut self, step: StepId) {
        for stored in &mut self.variables {
            stored.waiting.retain(|request| request.ticket.step != step);
            if let Some(rounds) = &mut stored.rounds {
                rounds
                    .gradients
                    .withdraw(|offered| !offered.goes_on && offered.ticket.step == step);
            }
        }
    }
}

impl Rounds {
    /// Whether every worker has a part in each round, so that nobody votes.
    pub(super) fn is_barrier(&self) -> bool {
        !self.training.mode.needs().vote
    }
}

impl Stored {
    fn new(spec: VariableSpec) -> Self {
        Self {
            spec,
            value: None,
            version: 0,
            is_updating: false,
            is_renumbered: false,
            is_cleared: false,
            is_dropped: false,
            waiting: VecDeque::new(),
            rounds: None,
            applied: Done::default(),
        }
    }

    /// Forgets all but the specification and the requests that wait for a value; returns the
    /// operations that waited in a round.
    fn clear(&mut self) -> Vec<Ticket> {
        (self.value, self.version, self.is_cleared) = (None, 0, self.is_updating);
        self.applied = Done::default();
        let held =
            self.rounds.take().map(|mut rounds| rounds.gradients.finish()).unwrap_or_default();
        held.into_iter().filter(|offered| !offered.goes_on).map(|offered| offered.ticket).collect()
    }

    /// The number of updates it has had, with the epoch of its rounds.
    pub(super) fn version(&self) -> Version {
        let epoch = self.rounds.as_ref().map_or(Epoch(0), |rounds| rounds.epoch);
        Version { epoch, updates: self.version }
    }

    /// Begins another training. Returns the gradients that the one before still held.
    pub(super) fn begin_anew(&mut self) -> Vec<Offered> {
        self.applied = Done::default();
        match &mut self.rounds {
            Some(rounds) => {
                rounds.is_past = true;
                rounds.gradients.finish()
            }
            None => {
                self.renumber();
                Vec::new()
            }
        }
    }

    /// Counts updates from 0 again.
    pub(super) fn renumber(&mut self) {
        (self.version, self.is_renumbered) = (0, self.is_updating);
    }

    /// The workers whose gradients the round under way lacks.
    pub(super) fn waiting_for(&self, members: &Membership) -> Vec<u32> {
        match &self.rounds {
            Some(rounds) if !rounds.is_past => rounds.gradients.waiting_for(members),
            _ => Vec::new(),
        }
    }

    /// Checks that `gradient` can update the variable.
    ///
    /// # Errors
    /// If the gradient has another type, or a row that the variable does not have.
    pub(super) fn check_gradient(&self, gradient: &Delta) -> Result<()> {
        let gradient = match gradient {
            Delta::Dense(gradient) if gradient.shape() == self.spec.shape => return Ok(()),
            Delta::Slices { ids, .. } => return self.positions(ids).map(drop),
            Delta::Dense(gradient) => gradient,
        };
        let message = format!(
            "a gradient {}{} does not fit the variable `{}`, which is {}",
            gradient.dtype(),
            gradient.shape(),
            self.spec.shared_name,
            self.spec.tensor_type()
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    pub(super) fn is_initialized(&self) -> bool {
        self.value.is_some() || (self.is_updating && !self.is_cleared)
    }

    /// Checks that the variable has a value.
    ///
    /// # Errors
    /// If it has no value yet.
    pub(super) fn check_initialized(&self) -> Result<()> {
        if self.is_initialized() { Ok(()) } else { self.initialized().map(drop) }
    }

    /// The rows at `ids`, and the number of updates the variable has had.
    ///
    /// # Errors
    /// If it has no value yet, or no row with such an id.
    pub(super) fn gather(&self, ids: &Tensor) -> Result<Values> {
        let rows =
            gather_rows(self.initialized()?, ids).map_err(|error| self.no_such_row(&error))?;
        Ok(smallvec![rows, version_to_tensor(self.version())])
    }

    /// The positions of the rows at `ids`.
    ///
    /// # Errors
    /// If it has no row with such an id.
    fn positions(&self, ids: &Tensor) -> Result<Vec<usize>> {
        positions(ids, self.spec.shape.dims()[0]).map_err(|error| self.no_such_row(&error))
    }

    fn no_such_row(&self, outside: &IndexOutOfRange) -> Error {
        let (id, rows, name) = (outside.index, outside.size, &self.spec.shared_name);
        Error::new(
            Code::InvalidArgument,
            format!("the id {id} is no row of `{name}`, which has {rows} rows from 0 on"),
        )
    }

    /// The value.
    ///
    /// # Errors
    /// If there is none yet.
    pub(super) fn initialized(&self) -> Result<&Tensor> {
        self.value.as_ref().ok_or_else(|| {
            let message = format!(
                "attempting to use uninitialized value `{}`; run the graph's initializer, or wait \
                 until the chief has",
                self.spec.shared_name
            );
            Error::new(Code::FailedPrecondition, message)
        })
    }

    /// Sets the value.
    ///
    /// # Errors
    /// If the value has another type.
    pub(super) fn assign(&mut self, value: Tensor) -> Result<()> {
        if value.dtype() != self.spec.dtype || value.shape() != self.spec.shape {
            let message = format!(
                "cannot assign {}{} to the variable `{}`, which is {}",
                value.dtype(),
                value.shape(),
                self.spec.shared_name,
                self.spec.tensor_type()
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.value = Some(value);
        Ok(())
    }

    /// Adds `delta` to the value.
    ///
    /// # Errors
    /// If there is none yet, or the delta has another type.
    pub(super) fn assign_add(&mut self, delta: &Tensor) -> Result<()> {
        let sum = crate::kernels::add_values(self.initialized()?, delta);
        let sum = sum.map_err(|error| Error::new(Code::InvalidArgument, error.to_string()))?;
        self.assign(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::messages::SessionId;
    use crate::tensor::{DType, Shape};

    #[test]
    fn a_variable_of_a_closed_session_leaves_its_place_to_the_next() {
        let mut store = VariableStore::default();
        let spec = VariableSpec {
            shared_name: "v".into(),
            container: "".into(),
            dtype: DType::F32,
            shape: Shape::SCALAR,
            trainable: true,
            is_local: false,
        };
        for session in 0..1000 {
            let scope = (7, SessionId(session));
            let id = store.bind(Some(scope), vec![spec.clone()]).unwrap()[0];
            assert!(!store.get(id).is_initialized(), "it is another variable");
            store.get_mut(id).assign(Tensor::scalar(1f32)).unwrap();
            store.close_scope(scope);
        }
        assert_eq!((store.variables.len(), store.by_name.len()), (1, 0));
    }
}
