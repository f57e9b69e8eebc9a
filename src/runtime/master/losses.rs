//! A master's loss of a task: everything that waits for the task fails at once, and says why.
//!
//! As in TensorFlow, a session survives the loss of one of its tasks, but takes no more steps
//! there: its registered partitions are gone, and nobody knows what the variables are there now. A
//! new session finds out. Steps of the old one that need nothing of that task go on.

use std::sync::Arc;

use actix::Context;

use crate::cluster::TaskName;
use crate::partition::Request;
use crate::transport::{Loss, PeerId};

use super::steps::RunningStep;
use super::{Master, refuse};
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::master::step_plan::StepPlan;
use crate::runtime::messages::{SessionId, StepId, WorkerMessage};

impl Master {
    /// The way to `peer` has broken.
    pub(super) fn lost(&mut self, peer: PeerId, loss: Loss, context: &mut Context<Self>) {
        self.expected = None;
        if loss == Loss::Stopped && self.outbox.name(peer).is_of_workers() {
            self.stopped.insert(peer, self.outbox.incarnation(peer));
        }
        let mut is_needed = false;
        for session in self.sessions.values_mut() {
            if session.plans.values().any(|plan| plan.has_part_at(peer)) {
                session.lost.insert(peer, loss);
                is_needed = true;
            }
        }
        if is_needed {
            tracing::warn!(
                "{} lost {}: {loss}",
                self.outbox.name(self.outbox.local()),
                self.outbox.name(peer)
            );
        }
        self.fail_steps_at(peer, loss);
        self.ask_whether_known(peer, loss);
        self.fail_registrations_at(peer, loss);
        let error = self.lost_error(peer, loss, "a reset waited for it to clear its containers");
        self.reset_lost(peer, error, context);
        self.client_lost(peer, loss, context);
        if loss != Loss::Stopped && !self.outbox.actors.access.is_client(peer) {
            self.outbox.send_parting(peer);
        }
    }

    /// Fails the steps that wait for `peer`, and tells the other tasks of each. A training step
    /// that has a part there fails even if that is done, once the peer has restarted: what it has
    /// done is lost, and others may wait for it. Any step fails that may still wait for values of a
    /// peer which has not stopped in good order: what it had sent to others may be lost, too.
    fn fail_steps_at(&mut self, peer: PeerId, loss: Loss) {
        let is_hit = |_: &Self, id: StepId, step: &RunningStep| {
            let is_undone = loss == Loss::Restarted && id.trains && step.has_part_at(peer);
            let is_cut_off = loss != Loss::Stopped && step.may_miss_values_of(peer);
            is_undone || is_cut_off || step.unanswered().contains(&peer)
        };
        self.fail_steps(is_hit, |master, step| {
            let what = format!("step {} waited for it to run its part", step.number);
            master.lost_error(peer, loss, &what)
        });
    }

    /// Asks a `peer` that can't be reached, once it answers again, whether it has restarted, if
    /// training steps go on that have ended their part there. Nothing else would tell: they wait
    /// elsewhere, perhaps for a worker that waits until the chief gives the variables of `peer` new
    /// values, and the chief's step may be one of them.
    fn ask_whether_known(&mut self, peer: PeerId, loss: Loss) {
        let has_done = |(id, step): (&StepId, &RunningStep)| id.trains && step.has_part_at(peer);
        if matches!(loss, Loss::Silent | Loss::Broken | Loss::Unheard)
            && self.steps.iter().any(has_done)
        {
            self.outbox.send(peer, WorkerMessage::AskForMaster { master: self.id });
        }
    }

    /// `peer` knows this master, or has restarted since it was lost: what training steps had done
    /// there is lost, too.
    pub(super) fn answered_whether_known(&mut self, peer: PeerId, is_known: bool) {
        if is_known {
            return;
        }
        let is_hit = |master: &Self, id: StepId, step: &RunningStep| {
            let session = master.sessions.get(&step.session);
            let has_lost = session.is_some_and(|session| session.lost.contains_key(&peer));
            id.trains && step.has_part_at(peer) && has_lost
        };
        self.fail_steps(is_hit, |master, step| {
            let what = format!("step {} waited for others", step.number);
            master.lost_error(peer, Loss::Restarted, &what)
        });
    }

    /// The way from `from` to `to` has broken: fails the steps whose part at `to` may wait for
    /// values that were lost on it, though `from` has ended its own.
    pub(super) fn way_lost(&mut self, from: PeerId, to: &TaskName) {
        self.expected = None;
        let Some(peer) = self.outbox.resolve(to) else { return };
        let is_hit = |_: &Self, _: StepId, step: &RunningStep| {
            step.has_part_at(from) && step.unanswered().contains(&peer)
        };
        self.fail_steps(is_hit, |master, step| {
            let (from, number) = (master.outbox.name(from), step.number);
            let message =
                format!("{from} has lost {to}, and perhaps what it sent there for step {number}");
            Error::new(Code::Unavailable, message).on(to)
        });
    }

    /// Gives up plans that `peer` has not made ready, and fails the steps that wait for them.
    fn fail_registrations_at(&mut self, peer: PeerId, loss: Loss) {
        let is_hit = |plan: &StepPlan| {
            matches!(plan, StepPlan::Registering { .. }) && plan.has_part_at(peer)
        };
        let hit = |id: &SessionId| -> Vec<(SessionId, Arc<Request>)> {
            let plans = self.sessions[id].plans.iter().filter(|(_, plan)| is_hit(plan));
            plans.map(|(request, _)| (*id, Arc::clone(request))).collect()
        };
        let given_up: Vec<(SessionId, Arc<Request>)> = self.sessions.keys().flat_map(hit).collect();
        for (id, request) in given_up {
            let plan =
                self.sessions.get_mut(&id).and_then(|session| session.plans.get_mut(&request));
            for accepted in plan.map(StepPlan::withdraw_all).unwrap_or_default() {
                let what =
                    format!("step {} waited for it to make its part ready", accepted.step.number);
                let error = self.lost_error(peer, loss, &what);
                refuse(accepted, error);
            }
            self.forget_plan(id, &request);
        }
    }

    /// Whether a session may take a step at `peers`.
    ///
    /// # Errors
    /// If it has lost one of them since it began.
    pub(super) fn check_reachable(
        &self,
        session: SessionId,
        peers: impl IntoIterator<Item = PeerId>,
    ) -> Result<()> {
        let lost = &self.sessions[&session].lost;
        if lost.is_empty() {
            return Ok(());
        }
        match peers.into_iter().find_map(|peer| Some((peer, *lost.get(&peer)?))) {
            Some((peer, loss)) => {
                Err(self.lost_error(peer, loss, "this session was open; make a new one"))
            }
            None => Ok(()),
        }
    }

    fn lost_error(&self, peer: PeerId, loss: Loss, during: &str) -> Error {
        let name = self.outbox.name(peer);
        let mut message = format!("{name} was lost, {loss}, while {during}");
        if loss == Loss::Stopped && name.is_parameter_server() && !self.is_to_end() {
            append!(
                message,
                "; its program has ended before those of the workers: have it wait for them by \
                 `task.join()`, unless its log says that it has failed"
            );
        }
        Error::new(loss.into(), message).on(&name)
    }

    /// Whether the tasks of the training end as they should: it is over, or one was asked to stop.
    fn is_to_end(&self) -> bool {
        let training = &self.outbox.actors.training;
        training.is_done() || training.is_stop_requested() || training.stopping().is_some()
    }
}
