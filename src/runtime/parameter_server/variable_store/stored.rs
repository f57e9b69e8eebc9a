//! One variable of a task: its value, read as a snapshot, and what waits for it.

use std::collections::VecDeque;

use smallvec::smallvec;

use crate::graph::{Replica, VariableSpec};
use crate::kernels::indexed::{IndexOutOfRange, positions};
use crate::kernels::{NoSuchRow, gather_rows};
use crate::optimizer::Delta;
use crate::sync::{Accumulator, Epoch, Participation, Progress, Version};
use crate::tensor::Tensor;

use crate::runtime::codec::version_to_tensor;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::parameter_server::done::Done;
use crate::runtime::state::{Action, ApplyGradient, StateRequest, StateValues, Ticket};

/// A variable and the operations that wait for it.
pub(in crate::runtime::parameter_server) struct Stored {
    pub(in crate::runtime::parameter_server) spec: VariableSpec,
    pub(super) declaration: Declaration,
    content: Content,
    /// The number of updates it has had.
    pub(in crate::runtime::parameter_server) version: u64,
    /// Requests that came during the update, in order; before there is a value, those that wait for
    /// it.
    pub(in crate::runtime::parameter_server) waiting: VecDeque<StateRequest>,
    /// The variable's rounds, if its gradients make rounds.
    pub(in crate::runtime::parameter_server) rounds: Option<Rounds>,
    /// The last steps whose gradients have been applied.
    pub(in crate::runtime::parameter_server) applied: Done<()>,
}

/// A variable's value, as far as it is here.
#[derive(Debug)]
enum Content {
    /// It has none yet, or none any longer.
    Uninitialized,
    Held(Tensor),
    /// An update computes, and holds the value.
    Updating(AfterUpdate),
}

/// What becomes of an update that computes once it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterUpdate {
    /// The variable keeps the result.
    Count,
    /// The same, but updates are counted from 0 since it began, without it.
    Keep,
    /// The variable was cleared: the result is dropped.
    Clear,
    /// The variable's session is closed, too: its place is free.
    Remove,
}

/// Whether a variable is still what graphs declare under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declaration {
    /// A graph has declared it since it was last reset, if ever.
    Current,
    /// No graph has declared it since it was reset: the next one may declare another type.
    Reset,
    /// A graph has declared another variable under its name, after a reset.
    Replaced,
}

/// A variable's part in a training whose gradients make rounds.
pub(in crate::runtime::parameter_server) struct Rounds {
    /// One of the replicas that train the variable.
    pub(in crate::runtime::parameter_server) training: Replica,
    /// Whether the task is in a later training by now.
    pub(in crate::runtime::parameter_server) is_past: bool,
    /// The gradients of the round under way, and of later ones.
    pub(in crate::runtime::parameter_server) gradients: Accumulator<Offered>,
    /// The last steps whose gradients have been in a round; kept where workers wait for rounds.
    pub(in crate::runtime::parameter_server) applied: Done<()>,
}

/// A gradient that waits for others of its round.
#[derive(Debug)]
pub(in crate::runtime::parameter_server) struct Offered {
    pub(in crate::runtime::parameter_server) ticket: Ticket,
    pub(in crate::runtime::parameter_server) apply: ApplyGradient,
    /// Whether the ticket is answered already, so that its step has gone on.
    pub(in crate::runtime::parameter_server) goes_on: bool,
}

impl Stored {
    pub(super) fn new(spec: VariableSpec) -> Self {
        Self {
            spec,
            declaration: Declaration::Current,
            content: Content::Uninitialized,
            version: 0,
            waiting: VecDeque::new(),
            rounds: None,
            applied: Done::default(),
        }
    }

    /// Forgets all but the specification and the requests that wait for a value; returns the
    /// operations that waited in a round.
    pub(super) fn clear(&mut self) -> Vec<Ticket> {
        match &mut self.content {
            Content::Updating(AfterUpdate::Remove) => {}
            Content::Updating(after) => *after = AfterUpdate::Clear,
            content => *content = Content::Uninitialized,
        }
        self.version = 0;
        self.declaration = Declaration::Reset;
        self.applied = Done::default();
        let held =
            self.rounds.take().map(|mut rounds| rounds.gradients.finish()).unwrap_or_default();
        held.into_iter().filter(|offered| !offered.goes_on).map(|offered| offered.ticket).collect()
    }

    /// Whether a graph may declare a variable of another type under its name. An update under way
    /// does not matter if its result is dropped.
    pub(super) fn can_be_replaced(&self) -> bool {
        let awaits = |request: &StateRequest| matches!(request.action, Action::Await(_));
        self.declaration == Declaration::Reset
            && !self.is_initialized()
            && self.rounds.is_none()
            && !self.waiting.iter().any(awaits)
    }

    /// Checks that no other variable has its name by now: a value for it would be seen only by
    /// sessions of before the reset.
    ///
    /// # Errors
    /// If another has.
    fn check_not_replaced(&self) -> Result<()> {
        if self.declaration != Declaration::Replaced {
            return Ok(());
        }
        let message = format!(
            "the variable `{}`, which was {}, was reset and declared with another type or shape \
             after the session was made; make a new session",
            self.spec.shared_name,
            self.spec.tensor_type()
        );
        Err(Error::new(Code::FailedPrecondition, message))
    }

    /// The number of updates it has had, with the epoch of its rounds.
    pub(in crate::runtime::parameter_server) fn version(&self) -> Version {
        let epoch = self.rounds.as_ref().map_or(Epoch(0), |rounds| rounds.gradients.epoch());
        Version { epoch, updates: self.version }
    }

    /// Begins another training. Returns the gradients that the one before still held.
    pub(in crate::runtime::parameter_server) fn begin_anew(&mut self) -> Vec<Offered> {
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
    pub(in crate::runtime::parameter_server) fn renumber(&mut self) {
        self.version = 0;
        if let Content::Updating(after @ AfterUpdate::Count) = &mut self.content {
            *after = AfterUpdate::Keep;
        }
    }

    /// The workers whose gradients the round under way lacks.
    pub(in crate::runtime::parameter_server) fn waiting_for(
        &self,
        part: &Participation,
    ) -> Vec<u32> {
        match &self.rounds {
            Some(rounds) if !rounds.is_past => rounds.gradients.waiting_for(part),
            _ => Vec::new(),
        }
    }

    /// Behind a barrier: how many rounds it has had, and how many of these and of the next have a
    /// gradient of `worker`.
    pub(in crate::runtime::parameter_server) fn progress(&self, worker: u32) -> Option<Progress> {
        self.rounds.as_ref().filter(|rounds| !rounds.is_past)?.gradients.progress(worker)
    }

    /// Checks that `gradient` can update the variable.
    ///
    /// # Errors
    /// If the gradient has another type, or a row that the variable does not have; if the variable
    /// was replaced.
    pub(in crate::runtime::parameter_server) fn check_gradient(
        &self,
        gradient: &Delta,
    ) -> Result<()> {
        self.check_not_replaced()?;
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

    pub(in crate::runtime::parameter_server) fn is_initialized(&self) -> bool {
        use AfterUpdate::{Count, Keep};
        matches!(self.content, Content::Held(_) | Content::Updating(Count | Keep))
    }

    /// Whether an update computes, and holds the value.
    pub(in crate::runtime::parameter_server) fn is_updating(&self) -> bool {
        matches!(self.content, Content::Updating(_))
    }

    /// The value, unless there is none or an update holds it.
    pub(in crate::runtime::parameter_server) fn value(&self) -> Option<&Tensor> {
        match &self.content {
            Content::Held(value) => Some(value),
            Content::Uninitialized | Content::Updating(_) => None,
        }
    }

    /// As [`Stored::value`], to be changed in its place.
    pub(in crate::runtime::parameter_server) fn value_mut(&mut self) -> Option<&mut Tensor> {
        match &mut self.content {
            Content::Held(value) => Some(value),
            Content::Uninitialized | Content::Updating(_) => None,
        }
    }

    /// Takes the value for an update; none if it is not here.
    pub(super) fn begin_update(&mut self) -> Option<Tensor> {
        match std::mem::replace(&mut self.content, Content::Updating(AfterUpdate::Count)) {
            Content::Held(value) => Some(value),
            content => {
                self.content = content;
                None
            }
        }
    }

    /// Ends the update, with `value` as its result.
    pub(super) fn end_update(&mut self, value: Tensor) -> AfterUpdate {
        let Content::Updating(after) = self.content else {
            panic!("only an update that has begun can end")
        };
        self.content = match after {
            AfterUpdate::Count | AfterUpdate::Keep => Content::Held(value),
            AfterUpdate::Clear | AfterUpdate::Remove => Content::Uninitialized,
        };
        after
    }

    /// Removes the variable of a closed session, with the requests that wait for it. Returns
    /// whether its place is free at once, not only once an update has ended.
    pub(super) fn remove(&mut self) -> bool {
        self.waiting.clear();
        match &mut self.content {
            Content::Updating(after) => {
                *after = AfterUpdate::Remove;
                false
            }
            Content::Uninitialized | Content::Held(_) => true,
        }
    }

    /// Whether the first value is there, for an operation that else waits for it.
    ///
    /// # Errors
    /// If it never comes, since the variable was replaced.
    pub(in crate::runtime::parameter_server) fn has_come(&self) -> Result<bool> {
        self.check_not_replaced().map(|()| self.is_initialized())
    }

    /// Checks that the variable has a value.
    ///
    /// # Errors
    /// If it has no value yet.
    pub(in crate::runtime::parameter_server) fn check_initialized(&self) -> Result<()> {
        if self.is_initialized() { Ok(()) } else { self.initialized().map(drop) }
    }

    /// The rows at `ids`, and the number of updates the variable has had.
    ///
    /// # Errors
    /// If it has no value yet, or no row with such an id.
    pub(in crate::runtime::parameter_server) fn gather(&self, ids: &Tensor) -> Result<StateValues> {
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
        let (id, rows, table) = (outside.index, outside.size, self.spec.shared_name.to_string());
        Error::new(Code::InvalidArgument, NoSuchRow { table, id, rows }.to_string())
    }

    /// The value.
    ///
    /// # Errors
    /// If there is none yet.
    pub(in crate::runtime::parameter_server) fn initialized(&self) -> Result<&Tensor> {
        self.value().ok_or_else(|| {
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
    /// If the value has another type, or the variable was replaced.
    pub(in crate::runtime::parameter_server) fn assign(&mut self, value: Tensor) -> Result<()> {
        self.check_not_replaced()?;
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
        self.content = Content::Held(value);
        Ok(())
    }

    /// Replaces the value by another of its type. Without one, as after a reset, it stays so.
    pub(in crate::runtime::parameter_server) fn replace(&mut self, value: Tensor) {
        let fits = value.dtype() == self.spec.dtype && value.shape() == self.spec.shape;
        if let Some(held) = self.value_mut().filter(|_| fits) {
            *held = value;
        }
    }

    /// Adds `delta` to the value.
    ///
    /// # Errors
    /// If there is none yet, or the delta has another type.
    pub(in crate::runtime::parameter_server) fn assign_add(
        &mut self,
        delta: &Tensor,
    ) -> Result<()> {
        let sum = crate::kernels::add_values(self.initialized()?, delta);
        let sum = sum.map_err(|error| Error::new(Code::InvalidArgument, error.to_string()))?;
        self.assign(sum)
    }
}
