//! Operations on the values of variables: to read one, to give it one, to wait for the first.

use std::collections::VecDeque;

use smallvec::smallvec;

use super::ParameterServer;
use crate::runtime::codec::version_to_tensor;
use crate::runtime::error::Result;
use crate::runtime::state::{Action, StateRequest, StateValues, Ticket, VariableId};
use crate::tensor::Tensor;

impl ParameterServer {
    /// The locked variable that an action has to wait for.
    pub(super) fn locked(&self, action: &Action) -> Option<VariableId> {
        let is_locked = |id: &VariableId| self.store.get(*id).is_updating();
        match action {
            Action::Read { variable, .. }
            | Action::Gather { variable, .. }
            | Action::IsInitialized(variable)
            | Action::Assign(variable, _)
            | Action::AssignAdd(variable, _) => Some(*variable).filter(is_locked),
            Action::Apply(apply) if !apply.has_round() => {
                apply.variables.iter().copied().find(is_locked)
            }
            Action::Await(_)
            | Action::Apply(_)
            | Action::Begin(_)
            | Action::Commit(_)
            | Action::PutUpFence { .. }
            | Action::LiftFence { .. }
            | Action::AwaitDepartures { .. }
            | Action::OnResource(_) => None,
        }
    }

    pub(super) fn await_value(&mut self, request: StateRequest, variable: VariableId) {
        let stored = self.store.get_mut(variable);
        match stored.has_come() {
            Ok(true) => self.answer(request.ticket, Ok(StateValues::new())),
            Ok(false) => stored.waiting.push_back(request),
            Err(error) => self.answer(request.ticket, Err(error)),
        }
    }

    /// Gives a variable a value, and answers the operations that waited for the first one.
    pub(super) fn assign(&mut self, variable: VariableId, ticket: Ticket, value: Tensor) {
        let value = self.devices.numerics().kept(value);
        let stored = self.store.get_mut(variable);
        let outcome = stored.assign(value.clone());
        let waited =
            if outcome.is_ok() { std::mem::take(&mut stored.waiting) } else { VecDeque::new() };
        self.answer(ticket, outcome.map(|()| smallvec![value]));
        waited.into_iter().for_each(|request| self.serve(request));
    }

    pub(super) fn read(&self, variable: VariableId, with_version: bool) -> Result<StateValues> {
        let stored = self.store.get(variable);
        let mut outputs: StateValues = smallvec![stored.initialized()?.clone()];
        if with_version {
            outputs.push(version_to_tensor(stored.version()));
        }
        Ok(outputs)
    }
}
