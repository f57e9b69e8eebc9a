//! Gradients at a parameter server: applied one by one, or collected into rounds, as their mode
//! decides.

use smallvec::smallvec;

use crate::cluster::LocalDevice;
use crate::graph::Replica;
use crate::optimizer::{Compensation, Deltas};
use crate::planted::{self, Bug};
use crate::sync::{
    Accumulator, Arrived, Contributors, Correction, Epoch, Offer, RoundPosition, Treatment,
    Verdict, Version,
};

use super::ParameterServer;
use super::coordination::{check_round, taken_over, two_operations};
use super::views::taken_out;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::messages::Origin;
use crate::runtime::parameter_server::done::Done;
use crate::runtime::parameter_server::snapshots::Reader;
use crate::runtime::parameter_server::updating::Tickets;
use crate::runtime::parameter_server::variable_store::{Offered, Rounds, Stored};
use crate::runtime::state::{ApplyGradient, StateValues, Ticket, VariableId};

impl ParameterServer {
    /// Applies a gradient at once, or offers it to the round of its variable.
    pub(super) fn apply(&mut self, ticket: Ticket, apply: ApplyGradient) {
        let stored = self.store.get_mut(apply.variables[0]);
        if let Err(error) = stored.check_gradient(&apply.gradient) {
            return self.answer(ticket, Err(error));
        }
        if self.trainings.members.is_cut_off() && is_behind_a_barrier(&apply) {
            return self.leave_out(ticket);
        }
        match treatment(stored, &apply) {
            Treatment::Apply(correction) => {
                if self.is_applied(ticket, &apply) {
                    return self.answer(ticket, Ok(StateValues::new()));
                }
                self.apply_alone(ticket, &apply, correction);
            }
            Treatment::Collect { place, waits } => self.offer(ticket, apply, Some(place), waits),
            Treatment::Drop => self.offer(ticket, apply, None, false),
        }
    }

    /// Applies a gradient by itself, corrected for its staleness.
    fn apply_alone(&mut self, ticket: Ticket, apply: &ApplyGradient, correction: Correction) {
        let (gradients, tickets) = (smallvec![apply.gradient.clone()], smallvec![ticket]);
        let mut updating = match self.store.lock(ticket.device, apply, gradients, tickets) {
            Ok(updating) => updating,
            Err(error) => return self.answer(ticket, Err(error)),
        };
        updating.update.learning_rate /= correction.divisor as f32;
        if let Some((_, version)) = apply.of {
            let origin = apply.taken.map(|taken| taken.origin);
            let reader = Reader::new(ticket.step.master, origin);
            let read = self.snapshots.take(reader, apply.variables[0], version.updates);
            updating.update.compensation =
                correction.lambda.zip(read).map(|(lambda, read)| Compensation { read, lambda });
        }
        self.updates.0.push(updating);
    }

    /// Keeps the value that a step has read of the variable; the step's gradient may have to be
    /// corrected for changes from now on.
    pub(super) fn keep_snapshot(
        &mut self,
        ticket: Ticket,
        origin: Option<Origin>,
        variable: VariableId,
    ) {
        let stored = self.store.get(variable);
        if let Some(value) = stored.value() {
            let reader = Reader::new(ticket.step.master, origin);
            self.snapshots.keep(reader, variable, stored.version, value);
        }
    }

    /// Offers a gradient to the round of its variable; one without a place there still brings the
    /// contributors of the rounds that its verdict names.
    fn offer(
        &mut self,
        ticket: Ticket,
        apply: ApplyGradient,
        place: Option<RoundPosition>,
        waits: bool,
    ) {
        let variable = apply.variables[0];
        let (replica, version) = apply.of.expect("who trains in rounds says so");
        let past = self.enter_rounds(&apply);
        self.give_up(past);
        let mut updated = apply.variables.iter();
        let initialized = updated.try_for_each(|id| self.store.get(*id).check_initialized());
        let stored = self.store.get_mut(variable);
        if let Some(taken) = apply.taken {
            if stored.applied.has_other(ticket, taken) {
                return self.answer(ticket, Err(two_operations(replica)));
            }
            stored.applied.note(ticket, taken, ());
        }
        let has_place = place.is_some();
        let checked = check_training(stored, replica, version, apply.verdict.as_ref());
        let checked = checked.and(if has_place && !waits { initialized } else { Ok(()) });
        if let Err(error) = checked {
            return self.answer(ticket, Err(error));
        }
        let rounds = stored.rounds.as_mut().expect("they have been entered");
        if apply.taken.is_some_and(|taken| rounds.applied.done(ticket, taken).is_some()) {
            // An earlier attempt of the step has done this part of it.
            return self.answer(ticket, Ok(StateValues::new()));
        }
        if let Some(verdict) = &apply.verdict {
            if verdict.epoch < rounds.gradients.epoch() {
                return self.answer(ticket, Ok(StateValues::new()));
            }
            for (round, contributors) in &verdict.closed {
                if !rounds.gradients.can_close_on(*round, contributors) {
                    let error = no_such_round(&stored.spec.shared_name, *round, contributors);
                    return self.answer(ticket, Err(error));
                }
                rounds.gradients.close_on(*round, contributors);
            }
        }
        let goes_on = !waits;
        let offer = place.map(|place| {
            let offered = Offered { ticket, apply, goes_on };
            rounds.gradients.offer(&self.trainings.participation, replica.worker, place, offered)
        });
        self.answer_offer(ticket, replica, goes_on, offer);
        self.apply_rounds(variable);
    }

    /// Begins the rounds of a variable, or begins them anew if they are of an earlier training or
    /// epoch. Returns the gradients that the old rounds still held.
    fn enter_rounds(&mut self, apply: &ApplyGradient) -> Vec<Offered> {
        let (replica, _) = apply.of.expect("who trains in rounds says so");
        let stored = self.store.get_mut(apply.variables[0]);
        let epoch = apply.verdict.as_ref().map_or(Epoch(0), |verdict| verdict.epoch);
        let mut past = Vec::new();
        if let Some(before) = &mut stored.rounds {
            let is_other = before.is_past && replica.check_trains_with(&before.training).is_err();
            if before.gradients.epoch() < epoch || is_other {
                past = before.gradients.finish();
                stored.rounds = None;
                if epoch > Epoch(0) {
                    stored.renumber();
                }
            } else {
                before.is_past = false;
            }
        }
        if stored.rounds.is_none() {
            let gradients = match replica.mode.needs().is_barrier() {
                true => Accumulator::of_all(replica.workers, stored.version),
                // The coordinator counts these rounds, from 0.
                false => Accumulator::of_voters(replica.workers, epoch),
            };
            let applied = Done::default();
            stored.rounds = Some(Rounds { training: replica, is_past: false, gradients, applied });
        }
        past
    }

    /// Answers the worker about its gradient, if its step does not wait for the outcome.
    fn answer_offer(
        &mut self,
        ticket: Ticket,
        replica: Replica,
        goes_on: bool,
        offer: Option<Offer<Offered>>,
    ) {
        let worker = replica.worker;
        match offer {
            Some(Offer::Held) if !goes_on => {}
            // The gradient does not count, or its round ended without it: this task had lost the
            // worker for a while.
            None | Some(Offer::Held | Offer::Stale) => self.answer(ticket, Ok(StateValues::new())),
            Some(Offer::Departed) if !self.trainings.members.is_done(worker) => {
                self.answer(ticket, Err(taken_out(worker)));
            }
            Some(Offer::Departed) => {
                let message = format!(
                    "worker {worker} has left this training; reset its container to begin another"
                );
                self.answer(ticket, Err(Error::new(Code::FailedPrecondition, message)));
            }
            Some(Offer::Replaced(_)) if goes_on => self.answer(ticket, Ok(StateValues::new())),
            Some(Offer::Replaced(older)) => {
                let error = taken_over(replica, ticket, older.ticket);
                self.answer(older.ticket, Err(error));
            }
        }
    }

    /// Drops gradients offered to rounds of an earlier epoch.
    pub(super) fn give_up(&mut self, offered: Vec<Offered>) {
        for offered in offered.into_iter().filter(|offered| !offered.goes_on) {
            let message = "the training that the gradient is of has ended; make a new session";
            self.answer(offered.ticket, Err(Error::new(Code::Aborted, message)));
        }
    }

    /// Applies all rounds that are complete.
    pub(super) fn apply_all_rounds(&mut self) {
        for id in self.store.ids() {
            self.apply_rounds(id);
        }
    }

    /// Applies the mean of a round's gradients, in the order of their places, once the round is
    /// complete and the variable has had the update before. The learning rate is that of the newest
    /// one: in a schedule, those of older versions are those of earlier steps.
    pub(super) fn apply_rounds(&mut self, variable: VariableId) {
        loop {
            let stored = self.store.get_mut(variable);
            if stored.is_updating() {
                return;
            }
            let Some(rounds) = &mut stored.rounds else { return };
            let participation = &self.trainings.participation;
            if let Some(first) = rounds.gradients.first_of_ready(participation) {
                let needed = first.apply.variables.clone();
                if let Err(error) = self.store.check_values(&needed) {
                    return self.refuse_round(variable, &error);
                }
            }
            let stored = self.store.get_mut(variable);
            let Some(rounds) = &mut stored.rounds else { return };
            let Some(round) = rounds.gradients.take_ready(participation) else { return };
            let offered: Vec<Offered> =
                round.gradients.into_iter().map(|(_, offered)| offered).collect();
            if rounds.gradients.is_barrier() {
                for Offered { ticket, apply, .. } in &offered {
                    apply.taken.iter().for_each(|taken| rounds.applied.note(*ticket, *taken, ()));
                }
            }
            let version = |offered: &&Offered| offered.apply.of.map(|(_, version)| version);
            // The first one of several.
            let Some(newest) = offered.iter().rev().max_by_key(version) else {
                stored.version += 1;
                continue;
            };
            let gradients = offered.iter().map(|offered| offered.apply.gradient.clone()).collect();
            let tickets = offered
                .iter()
                .filter(|offered| !offered.goes_on)
                .map(|offered| offered.ticket)
                .collect();
            return self.update(newest.ticket.device, &newest.apply, gradients, tickets);
        }
    }

    /// Answers `error` to all whose gradients wait for the round of `variable` that can't be
    /// applied. The round stays open: their steps can be taken again.
    fn refuse_round(&mut self, variable: VariableId, error: &Error) {
        let Some(rounds) = &mut self.store.get_mut(variable).rounds else { return };
        let mut refused = Tickets::new();
        rounds.gradients.withdraw(|offered| {
            refused.extend((!offered.goes_on).then_some(offered.ticket));
            !offered.goes_on
        });
        refused.into_iter().for_each(|ticket| self.answer(ticket, Err(error.clone())));
    }

    /// Whether the gradient of a step that is taken again has been applied; otherwise notes it as
    /// applied.
    ///
    /// This is for gradients that are applied one by one. A round has one gradient of each worker
    /// anyway, and a synchronous step that is taken again is the worker's part in the round under
    /// way by then.
    fn is_applied(&mut self, ticket: Ticket, apply: &ApplyGradient) -> bool {
        let Some(taken) = apply.taken else { return false };
        let stored = self.store.get_mut(apply.variables[0]);
        let is_applied =
            stored.applied.done(ticket, taken).is_some() && !planted::is_in(Bug::AppliesTwice);
        if !is_applied && stored.is_initialized() {
            stored.applied.note(ticket, taken, ());
        }
        is_applied
    }

    fn update(
        &mut self,
        device: LocalDevice,
        apply: &ApplyGradient,
        gradients: Deltas,
        tickets: Tickets,
    ) {
        match self.store.lock(device, apply, gradients, tickets.clone()) {
            Ok(updating) => self.updates.0.push(updating),
            Err(error) => {
                tickets.into_iter().for_each(|ticket| self.answer(ticket, Err(error.clone())))
            }
        }
    }
}

/// Whether the round of a gradient is of all workers.
fn is_behind_a_barrier(apply: &ApplyGradient) -> bool {
    apply.of.is_some_and(|(replica, _)| replica.mode.needs().is_barrier())
}

/// The treatment of a gradient, as its mode decides.
fn treatment(stored: &Stored, apply: &ApplyGradient) -> Treatment {
    let Some((replica, version)) = apply.of else {
        return Treatment::Apply(Correction::default());
    };
    let (worker, version, now) = (replica.worker, version.updates, stored.version);
    replica.mode.on_gradient(&Arrived { worker, version, now, verdict: apply.verdict.as_ref() })
}

/// The error of a verdict that can't be the coordinator's: its worker is in another training.
fn no_such_round(name: &str, round: u64, contributors: &Contributors) -> Error {
    let message =
        format!("round {round} of `{name}` can't be closed on the workers {contributors:?}");
    Error::new(Code::InvalidArgument, message)
}

/// Checks that a gradient of `version` by `replica` belongs to the variable's current training.
fn check_training(
    stored: &Stored,
    replica: Replica,
    version: Version,
    verdict: Option<&Verdict>,
) -> Result<()> {
    let rounds = stored.rounds.as_ref().expect("a gradient is offered to rounds that have begun");
    let is_earlier = verdict.is_some() && version.epoch < rounds.gradients.epoch();
    let round = (!is_earlier).then(|| rounds.gradients.round());
    let name = &stored.spec.shared_name;
    check_round(replica, &rounds.training, version.updates, round, format_args!("`{name}`"))
}
