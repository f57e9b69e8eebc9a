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
use crate::runtime::state::{ApplyGradient, StateName, StateRequest, Ticket, VariableId, is_among};

use stored::{AfterUpdate, Declaration};
pub(super) use stored::{Offered, Rounds, Stored};

/// The most variables that a task has, with and without values: some 500 MB of tables.
const MAX_VARIABLES: usize = 1 << 20;

/// The variables of a task.
#[derive(Default)]
pub(super) struct VariableStore {
    variables: Vec<Stored>,
    /// The places of variables of closed sessions, to be used again.
    free: Vec<VariableId>,
    by_name: BTreeMap<StateName, VariableId>,
    /// Those that others have replaced, until they are asked for.
    replaced: Vec<VariableId>,
}

/// Variables that have lost their values.
pub(super) struct Cleared {
    pub(super) variables: Vec<VariableId>,
    /// The operations that waited for a round of one of them.
    pub(super) waiting: Vec<Ticket>,
}

impl VariableStore {
    /// The variables that `specs` name; missing ones are made, uninitialised. A shared one that was
    /// reset, and that nobody has declared or used since, gives its name to one of another element
    /// type or shape.
    ///
    /// # Errors
    /// If another one exists with another element type or shape, or there are too many.
    pub(super) fn bind(
        &mut self,
        scope: Option<Scope>,
        specs: Vec<VariableSpec>,
    ) -> Result<Vec<VariableId>> {
        specs.into_iter().map(|spec| self.bind_one(scope, spec)).collect()
    }

    fn bind_one(&mut self, scope: Option<Scope>, spec: VariableSpec) -> Result<VariableId> {
        let name: StateName = (scope, Arc::clone(&spec.container), Arc::clone(&spec.shared_name));
        if let Some(found) = self.by_name.get(&name) {
            let there = &mut self.variables[found.0 as usize];
            if there.spec.tensor_type() == spec.tensor_type() {
                there.declaration = Declaration::Current;
                return Ok(*found);
            }
            // Why not a session's own, too: its end frees only the places that still have a name.
            if scope.is_some() || !there.can_be_replaced() {
                return Err(declared_otherwise(&there.spec, &spec));
            }
        }
        let id = self.store(Stored::new(spec))?;
        if let Some(before) = self.by_name.insert(name, id) {
            // Partitions of other sessions know its id: the place is never used again.
            self.get_mut(before).declaration = Declaration::Replaced;
            self.replaced.push(before);
        }
        Ok(id)
    }

    /// The variables that others have replaced since the last call: they never have a value again.
    pub(super) fn take_replaced(&mut self) -> Vec<VariableId> {
        std::mem::take(&mut self.replaced)
    }

    /// Finds a place for `new`.
    ///
    /// # Errors
    /// If there are too many variables, including those that others have replaced.
    fn store(&mut self, new: Stored) -> Result<VariableId> {
        if let Some(id) = self.free.pop() {
            *self.get_mut(id) = new;
            return Ok(id);
        }
        if self.variables.len() >= MAX_VARIABLES {
            let message = format!("the task has {MAX_VARIABLES} variables, and takes no more");
            return Err(Error::new(Code::FailedPrecondition, message));
        }
        self.variables.push(new);
        Ok(VariableId(self.variables.len() as u32 - 1))
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
        let is_meant = |stored: &Stored| {
            stored.declaration != Declaration::Replaced
                && is_among(&stored.spec.container, containers)
        };
        let meant = self.ids().filter(|id| is_meant(self.get(*id))).collect();
        self.clear(meant)
    }

    /// Forgets the variables that were a session's own.
    pub(super) fn close_scope(&mut self, scope: Scope) -> Cleared {
        let is_own = |(owner, ..): &StateName| *owner == Some(scope);
        let own: Vec<VariableId> =
            self.by_name.iter().filter(|(name, _)| is_own(name)).map(|(_, id)| *id).collect();
        self.by_name.retain(|name, _| !is_own(name));
        let cleared = self.clear(own);
        for id in &cleared.variables {
            if self.get_mut(*id).remove() {
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

    /// Checks that all `variables` have their values here.
    ///
    /// # Errors
    /// If one is not initialised.
    pub(super) fn check_values(&self, variables: &[VariableId]) -> Result<()> {
        variables.iter().try_for_each(|id| self.get(*id).initialized().map(drop))
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
        self.check_values(&apply.variables)?;
        let mut values = SmallVec::new();
        for id in &apply.variables {
            values.push(self.get_mut(*id).begin_update().expect("it was just seen"));
        }
        let (rule, learning_rate) = (apply.rule.clone(), apply.learning_rate);
        let update = Update { rule, learning_rate, values, gradients, compensation: None };
        let variables = apply.variables.clone();
        Ok(Updating { variables, update, tickets, device, refused: None })
    }

    /// Ends an update; returns the requests that waited for it.
    pub(super) fn put_back(
        &mut self,
        variables: &[VariableId],
        values: impl IntoIterator<Item = Tensor>,
    ) -> VecDeque<StateRequest> {
        let mut waited = VecDeque::new();
        for (index, (id, value)) in variables.iter().zip(values).enumerate() {
            let stored = self.get_mut(*id);
            let after = stored.end_update(value);
            waited.append(&mut stored.waiting);
            // The others are the variable's slots, whose updates nobody counts.
            stored.version += u64::from(index == 0 && after == AfterUpdate::Count);
            if after == AfterUpdate::Remove {
                self.free.push(*id);
            }
        }
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

/// The error of a graph that declares a variable as `wanted`, where it is `there`.
fn declared_otherwise(there: &VariableSpec, wanted: &VariableSpec) -> Error {
    let message = format!(
        "the variable `{}` is {} here, but the graph declares it as {}; rename one, or reset its \
         container while no other session uses it",
        wanted.shared_name,
        there.tensor_type(),
        wanted.tensor_type()
    );
    Error::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::Delta;
    use crate::runtime::messages::SessionId;
    use crate::runtime::state::Action;
    use crate::sync::Epoch;
    use crate::tensor::{DType, Shape};

    fn spec(shape: Shape) -> VariableSpec {
        VariableSpec {
            shared_name: "v".into(),
            container: "".into(),
            dtype: DType::F32,
            shape,
            trainable: true,
            is_local: false,
        }
    }

    /// A scalar `v`, and a list of two numbers.
    fn scalar_and_list() -> (VariableSpec, VariableSpec) {
        (spec(Shape::SCALAR), spec(Shape::new(&[2])))
    }

    fn list() -> Tensor {
        Tensor::new([2], &[3f32, 4.0]).unwrap()
    }

    fn bind(store: &mut VariableStore, spec: &VariableSpec) -> Result<VariableId> {
        store.bind(None, vec![spec.clone()]).map(|ids| ids[0])
    }

    /// An operation that waits for the first value of `variable`.
    fn awaits(variable: VariableId) -> StateRequest {
        let step = StepId { master: 7, number: 0, trains: false };
        let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
        StateRequest { ticket, epoch: Epoch(1), action: Action::Await(variable) }
    }

    #[test]
    fn a_variable_that_was_reset_can_be_declared_with_another_shape() {
        let (mut store, (scalar, list_of_2)) = (VariableStore::default(), scalar_and_list());
        let before = bind(&mut store, &scalar).unwrap();
        store.get_mut(before).assign(Tensor::scalar(1f32)).unwrap();
        assert!(bind(&mut store, &list_of_2).is_err(), "it has a value");
        store.reset(&[]);
        let after = bind(&mut store, &list_of_2).unwrap();
        assert_ne!(after, before, "other sessions still know the earlier one");
        assert_eq!(bind(&mut store, &list_of_2).unwrap(), after);
        store.get_mut(after).assign(list()).unwrap();
        assert!(bind(&mut store, &scalar).is_err(), "it is declared anew");
        assert_eq!(store.reset(&[]).variables, [after], "nobody can use the earlier one");
    }

    #[test]
    fn a_variable_that_was_replaced_takes_no_values_and_no_gradients_and_is_not_waited_for() {
        let (mut store, (scalar, list_of_2)) = (VariableStore::default(), scalar_and_list());
        let before = bind(&mut store, &scalar).unwrap();
        store.reset(&[]);
        bind(&mut store, &list_of_2).unwrap();
        assert_eq!((store.take_replaced(), store.take_replaced()), (vec![before], vec![]));
        let replaced = store.get_mut(before);
        assert!(replaced.initialized().is_err());
        assert!(replaced.check_gradient(&Delta::Dense(Tensor::scalar(1f32))).is_err());
        assert!(replaced.assign(Tensor::scalar(1f32)).is_err());
        assert!(replaced.has_come().is_err(), "who waited for a value would wait for ever");
    }

    #[test]
    fn a_variable_keeps_its_shape_unless_nobody_has_declared_or_used_it_since_its_reset() {
        let (mut store, (scalar, list_of_2)) = (VariableStore::default(), scalar_and_list());
        let id = bind(&mut store, &scalar).unwrap();
        assert!(bind(&mut store, &list_of_2).is_err(), "nobody has reset it");
        store.reset(&[]);
        bind(&mut store, &scalar).unwrap();
        assert!(bind(&mut store, &list_of_2).is_err(), "it is declared again");
        store.reset(&["other".to_owned()]);
        assert!(bind(&mut store, &list_of_2).is_err(), "another container was reset");
        store.reset(&[]);
        store.get_mut(id).assign(Tensor::scalar(1f32)).unwrap();
        assert!(bind(&mut store, &list_of_2).is_err(), "an earlier session has initialized it");
    }

    #[test]
    fn an_update_that_outlasts_a_reset_does_not_reach_the_variable_that_is_declared_anew() {
        let (mut store, (scalar, list_of_2)) = (VariableStore::default(), scalar_and_list());
        let before = bind(&mut store, &scalar).unwrap();
        store.get_mut(before).assign(Tensor::scalar(0f32)).unwrap();
        store.get_mut(before).begin_update().unwrap();
        store.reset(&[]);
        let after = bind(&mut store, &list_of_2).unwrap();
        store.put_back(&[before], [Tensor::scalar(1f32)]);
        assert!(!store.get(before).is_initialized() && !store.get(after).is_initialized());
    }

    #[test]
    fn a_variable_that_a_session_waits_for_keeps_its_shape_after_a_reset() {
        let (mut store, (scalar, list_of_2)) = (VariableStore::default(), scalar_and_list());
        let id = bind(&mut store, &scalar).unwrap();
        let request = awaits(id);
        let step = request.ticket.step;
        store.get_mut(id).waiting.push_back(request);
        store.reset(&[]);
        assert!(bind(&mut store, &list_of_2).is_err());
        store.forget(step);
        assert!(bind(&mut store, &list_of_2).is_ok());
    }

    #[test]
    fn a_variable_of_a_closed_session_leaves_its_place_to_the_next() {
        let mut store = VariableStore::default();
        let spec = spec(Shape::SCALAR);
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
