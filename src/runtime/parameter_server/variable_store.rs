//! A task's variables: found by name, locked while an update computes.

mod stored;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::cluster::LocalDevice;
use crate::graph::VariableSpec;
use crate::optimizer::{Deltas, Update};
use crate::tensor::Tensor;

use crate::runtime::error::{Code, Error, Result};
use crate::runtime::messages::{Scope, StepId};
use crate::runtime::parameter_server::updating::{Tickets, Updating};
use crate::runtime::state::{ApplyGradient, StateRequest, Ticket, VariableId};

pub(super) use stored::{Offered, Rounds, Stored};

/// The most variables that a task has, with and without values: some 500 MB of tables.
const MAX_VARIABLES: usize = 1 << 20;

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
    /// If one exists with another element type or shape, or there are too many.
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
            if self.by_name.len() >= MAX_VARIABLES {
                let message = format!("the task has {MAX_VARIABLES} variables, and takes no more");
                return Err(Error::new(Code::FailedPrecondition, message));
            }
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
        device: LocalDevice,
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
