//! Gradients at a parameter server: applied one by one, or collected into rounds, then computed on
//! the device.

use std::collections::BTreeMap;
use std::rc::Rc;

use smallvec::smallvec;

use crate::graph::Replica;
use crate::kernels::Cost;
use crate::optimizer::{Compensation, Deltas, Update, apply};
use crate::sync::{Accumulator, Offer, Place};
use crate::tensor::Tensor;

use super::ParameterServer;
use super::departures::Departures;
use crate::runtime::compute::{Asker, Calculation, Work};
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{
    ApplyGradient, ParameterServerMessage, Served, Ticket, Values, VariableId,
};
use crate::runtime::parameter_server::variable_store::{
    Offered, Rounds, Stored, Tickets, Updating,
};

impl ParameterServer {
    /// Applies a gradient at once, or offers it to the round of its variable.
    pub(super) fn apply(&mut self, ticket: Ticket, apply: ApplyGradient) {
        let stored = self.store.get_mut(apply.variables[0]);
        if let Err(error) = stored.check_gradient(&apply.gradient) {
            return self.answer(ticket, Err(error));
        }
        match apply.of {
            _ if self.is_over => self.answer(ticket, Ok(Values::new())),
            Some((replica, version)) if apply.has_round() => {
                self.offer(ticket, apply, replica, version)
            }
            _ if self.is_applied(ticket, &apply) => self.answer(ticket, Ok(Values::new())),
            _ => self.apply_alone(ticket, &apply),
        }
    }

    /// Applies a gradient by itself.
    fn apply_alone(&mut self, ticket: Ticket, apply: &ApplyGradient) {
        match self.store.lock(
            ticket.device,
            apply,
            smallvec![apply.gradient.clone()],
            smallvec![ticket],
        ) {
            Ok(mut updating) => {
                self.make_up_for_staleness(ticket.step.master, apply, &mut updating.update);
                self.updates.0.push(updating);
            }
            Err(error) => self.answer(ticket, Err(error)),
        }
    }

    /// Makes `update` up for those that the variable has had since the worker read it, where its
    /// mode does so.
    fn make_up_for_staleness(&mut self, master: u64, apply: &ApplyGradient, update: &mut Update) {
        let Some((replica, version)) = apply.of else { return };
        let variable = apply.variables[0];
        let staleness = self.store.get(variable).version.saturating_sub(version);
        update.learning_rate = replica.mode.learning_rate(apply.learning_rate, staleness);
        let read = self.snapshots.take(master, variable, version).filter(|_| staleness > 0);
        update.compensation = replica
            .mode
            .compensation()
            .zip(read)
            .map(|(lambda, read)| Compensation { read, lambda });
    }

    /// A step has read the variable; its gradient may have to be made up for what changes from now
    /// on.
    pub(super) fn keep_snapshot(&mut self, ticket: Ticket, variable: VariableId) {
        let stored = self.store.get(variable);
        if let Some(value) = &stored.value {
            self.snapshots.keep(ticket.step.master, variable, stored.version, value);
        }
    }

    fn offer(&mut self, ticket: Ticket, apply: ApplyGradient, replica: Replica, version: u64) {
        let variable = apply.variables[0];
        let stored = self.store.get_mut(variable);
        if stored.rounds.is_none() {
            stored.rounds = Some(new_rounds(replica, stored.version, &self.departures));
        }
        if let Err(error) = check_training(stored, replica, version) {
            return self.answer(ticket, Err(error));
        }
        let goes_on = replica.mode.goes_on();
        if goes_on && let Err(error) = stored.check_initialized() {
            return self.answer(ticket, Err(error));
        }
        let gradients = &mut stored.rounds.as_mut().expect("it was just made").gradients;
        let place = match &apply.verdict {
            Some(verdict) => {
                for (round, contributors) in &verdict.closed {
                    if !gradients.can_close_on(*round, contributors) {
                        let error = no_such_round(&stored.spec.shared_name, *round, contributors);
                        return self.answer(ticket, Err(error));
                    }
                    gradients.close_on(*round, contributors);
                }
                verdict.place
            }
            None => Some(Place { round: version, index: replica.worker }),
        };
        let offer = place.map(|place| {
            gradients.offer(replica.worker, place, Offered { ticket, apply, goes_on })
        });
        match offer {
            Some(Offer::Held) if !goes_on => {}
            // It does not count, or its round is over without it: the worker was lost here for a
            // while.
            None | Some(Offer::Held | Offer::Stale) => self.answer(ticket, Ok(Values::new())),
            Some(Offer::Departed) => {
                let worker = replica.worker;
                let message = format!(
                    "worker {worker} has left this training; reset its container to begin another"
                );
                self.answer(ticket, Err(Error::new(Code::FailedPrecondition, message)));
            }
            Some(Offer::Replaced(_)) if goes_on => self.answer(ticket, Ok(Values::new())),
            Some(Offer::Replaced(older)) => {
                let message = format!(
                    "worker {} has begun another step, which takes its place",
                    replica.worker
                );
                self.answer(older.ticket, Err(Error::new(Code::Aborted, message)));
            }
        }
        self.apply_rounds(variable);
    }

    /// Applies the mean of a round's gradients, in the order of their places, once it is complete
    /// and the variable has had the update before.
    pub(super) fn apply_rounds(&mut self, variable: VariableId) {
        loop {
            let stored = self.store.get_mut(variable);
            if stored.is_updating {
                return;
            }
            let Some(round) =
                stored.rounds.as_mut().and_then(|rounds| rounds.gradients.take_ready())
            else {
                return;
            };
            let offered: Vec<Offered> =
                round.gradients.into_iter().map(|(_, offered)| offered).collect();
            let Some(first) = offered.first() else {
                stored.version += 1;
                continue;
            };
            let gradients = offered.iter().map(|offered| offered.apply.gradient.clone()).collect();
            let tickets = offered
                .iter()
                .filter(|offered| !offered.goes_on)
                .map(|offered| offered.ticket)
                .collect();
            return self.update(first.ticket.device, &first.apply, gradients, tickets);
        }
    }

    /// Whether the gradient of a step that is taken again has been applied; else it is from now on.
    ///
    /// That is for gradients which are applied one by one. In a round there is one of each worker
    /// anyway, and a synchronous step that is taken again is the worker's part in the round that is
    /// under way by then.
    fn is_applied(&mut self, ticket: Ticket, apply: &ApplyGradient) -> bool {
        let Some(origin) = apply.origin else { return false };
        let stored = self.store.get_mut(apply.variables[0]);
        let is_applied = stored.applied.done(ticket.step.master, origin).is_some();
        if !is_applied && stored.is_initialized() {
            stored.applied.note(ticket.step.master, origin, ());
        }
        is_applied
    }

    fn update(&mut self, device: u32, apply: &ApplyGradient, gradients: Deltas, tickets: Tickets) {
        match self.store.lock(device, apply, gradients, tickets.clone()) {
            Ok(updating) => self.updates.0.push(updating),
            Err(error) => {
                tickets.into_iter().for_each(|ticket| self.answer(ticket, Err(error.clone())))
            }
        }
    }

    /// Copies rows of a variable, at once, so that nobody holds the variable while the device takes
    /// its time.
    pub(super) fn gather(&mut self, ticket: Ticket, variable: VariableId, ids: &Tensor) {
        let outcome = self.store.get(variable).gather(ids);
        self.keep_snapshot(ticket, variable);
        self.gathered.push(Served { ticket, outcome });
    }

    /// The answers with copied rows come once the devices have had the time that copying takes.
    pub(super) fn launch_gathers(&mut self) {
        let mut by_device: BTreeMap<u32, Vec<Served>> = BTreeMap::new();
        for served in std::mem::take(&mut self.gathered) {
            by_device.entry(served.ticket.device).or_default().push(served);
        }
        for (device, gathered) in by_device {
            let copied = gathered
                .iter()
                .flat_map(|served| served.outcome.iter().map(|outputs| outputs[0].byte_len()));
            let cost = Cost::moved(2 * copied.sum::<usize>());
            self.launch_on(device, cost, Box::new(Gathered(gathered)));
        }
    }

    /// The updates of this turn go to the devices, to each as one piece of work.
    pub(super) fn launch(&mut self) {
        if self.updates.0.is_empty() {
            return;
        }
        let mut waiting = std::mem::replace(&mut self.updates, self.idle.pop().unwrap_or_default());
        for device in 0..self.devices.len() as u32 {
            let mut own = self.idle.pop().unwrap_or_default();
            own.0.extend(waiting.0.extract_if(.., |updating| updating.device == device));
            if own.0.is_empty() {
                self.idle.push(own);
                continue;
            }
            let cost = own.0.iter().map(|updating| updating.update.cost()).sum();
            self.launch_on(device, cost, own);
        }
        self.idle.push(waiting);
    }

    fn launch_on(&self, device: u32, cost: Cost, calculation: Box<dyn Calculation>) {
        let asker = Asker(Rc::clone(&self.link.actors));
        self.devices[device as usize].launch(Work { step: None, cost, calculation, asker });
    }

    pub(super) fn updated(&mut self, mut updates: Box<Updates>) {
        for Updating { variables, update, tickets, .. } in updates.0.drain(..) {
            let waited = self.store.put_back(&variables, update.values);
            tickets.into_iter().for_each(|ticket| self.answer(ticket, Ok(Values::new())));
            waited.into_iter().for_each(|request| self.serve(request));
            self.apply_rounds(variables[0]);
        }
        self.idle.push(updates);
    }
}

/// Updates for the device.
#[derive(Debug, Default)]
pub(crate) struct Updates(Vec<Updating>);

impl Calculation for Updates {
    fn run(&mut self) {
        self.0.iter_mut().for_each(|updating| apply(&mut updating.update));
    }

    fn done(self: Box<Self>, asker: &Asker) {
        tell(&asker.0.parameter_server, ParameterServerMessage::Updated(self));
    }
}

/// Answers with rows that have been copied: the device has but the time of it.
struct Gathered(Vec<Served>);

impl Calculation for Gathered {
    fn run(&mut self) {}

    fn done(self: Box<Self>, asker: &Asker) {
        tell(&asker.0.parameter_server, ParameterServerMessage::Gathered(self.0));
    }
}

/// The rounds of a variable that has had `version` updates, without the workers that have left
/// before.
fn new_rounds(training: Replica, version: u64, departures: &Departures) -> Rounds {
    let mut gradients = match training.mode.votes() {
        // The coordinator counts these rounds, from 0.
        true => Accumulator::of_voters(training.workers),
        false => Accumulator::new(training.workers).from_round(version),
    };
    departures.of(training.workers).for_each(|worker| gradients.leave(worker));
    Rounds { training, gradients }
}

/// A verdict that can't be the coordinator's: the worker that has passed it on speaks of another
/// training.
fn no_such_round(name: &str, round: u64, contributors: &[u32]) -> Error {
    let message =
        format!("round {round} of `{name}` can't be closed on the workers {contributors:?}");
    Error::new(Code::InvalidArgument, message)
}

/// Whether a gradient of `version` by `replica` is of the training that the variable is in.
fn check_training(stored: &Stored, replica: Replica, version: u64) -> Result<()> {
    let rounds = stored.rounds.as_ref().expect("a gradient is offered to rounds that have begun");
    replica
        .check_trains_with(&rounds.training)
        .map_err(|problem| Error::new(Code::InvalidArgument, problem))?;
    if version <= rounds.gradients.round() {
        return Ok(());
    }
    let message = format!(
        "the gradient is of update {version} of `{}`, but the synchronous training here is at {}: \
         the variable was reset or updated from outside of the training; reset its container and \
         initialize it",
        stored.spec.shared_name,
        rounds.gradients.round()
    );
    Err(Error::new(Code::FailedPrecondition, message))
}
