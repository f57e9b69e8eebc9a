//! A master's reset: clears containers on the tasks of the cluster, and ends all its own sessions.
//!
//! Within a training it waits for the parameter servers, and for workers only until the transport
//! would have lost them: a dead worker must not keep the others from going on. One that only seemed
//! dead sees by the global step that the training has gone back, unless the others have come as far
//! again meanwhile.

use actix::{AsyncContext, Context, SpawnHandle};

use crate::cluster::{Role, TaskName};
use crate::sync::Departed;
use crate::transport::PeerId;

use super::{Master, answer};
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::{MasterMail, ResetContainers};
use crate::runtime::messages::{ParameterServerMessage, SessionId};
use crate::runtime::parameter_server::GRACE;
use crate::runtime::reply::Reply;

/// A reset that waits for the answers of parameter servers.
pub(super) struct Reset {
    /// The reset's number: late answers to an earlier reset are not taken for answers to this one.
    number: u64,
    outstanding: Vec<PeerId>,
    /// The number of variables in the containers.
    variables: u32,
    /// The departed workers of the training, if one goes on.
    departed: Departed,
    containers: Vec<String>,
    within_training: bool,
    /// The timer of its deadline, and that of the time for which workers are waited for.
    deadline: Option<SpawnHandle>,
    grace: Option<SpawnHandle>,
    /// The client that has asked for it, if it was one.
    client: Option<PeerId>,
    reply: Reply<Result<Departed>>,
}

impl Master {
    pub(super) fn reset(
        &mut self,
        asked: ResetContainers,
        client: Option<PeerId>,
        context: &mut Context<Self>,
    ) {
        let ResetContainers { containers, within_training, device_filters, deadline, reply } =
            asked;
        // One that its program has given up may wait for a task that never answers.
        if let Some(given_up) = self.reset.take_if(|reset| !reset.reply.is_awaited()) {
            end(given_up, Err(Error::new(Code::Cancelled, "its program has given it up")), context);
        }
        if self.reset.is_some() {
            let error = Error::new(Code::Aborted, "another reset is under way; try again");
            return answer(reply, Err(error));
        }
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        // Within a training, the others of a program that has several go on with new ones.
        let code = if within_training { Code::Aborted } else { Code::Cancelled };
        let reset = Error::new(code, "the session's server was reset");
        for session in sessions {
            self.close_session(session, &reset);
        }
        let devices = self.visible_devices(&device_filters);
        // Nothing is left of a worker that has stopped, and nobody there to answer.
        let mut outstanding: Vec<PeerId> = devices
            .iter()
            .filter_map(|device| self.outbox.resolve(device.task()))
            .filter(|peer| !self.has_stopped(*peer))
            // What an evaluator has is its own, and no training's.
            .filter(|peer| !within_training || self.outbox.name(*peer).role() != Role::Evaluator)
            .collect();
        outstanding.dedup();
        let number = self.next_reset;
        self.next_reset += 1;
        let met = |peer: &PeerId| Some((self.outbox.name(*peer), self.outbox.incarnation(*peer)?));
        let incarnations: Vec<(TaskName, u64)> = outstanding.iter().filter_map(met).collect();
        for peer in &outstanding {
            let (containers, incarnations) = (containers.clone(), incarnations.clone());
            self.outbox.send(
                *peer,
                ParameterServerMessage::Reset { number, containers, within_training, incarnations },
            );
        }
        let deadline = deadline.map(|deadline| {
            self.set_timer(deadline, MasterMail::ResetDeadlineReached { number }, context)
        });
        self.reset = Some(Reset {
            number,
            outstanding,
            variables: 0,
            departed: Departed::default(),
            containers,
            within_training,
            deadline,
            grace: None,
            client,
            reply,
        });
    }

    /// Whether `peer` is a worker that has stopped, and has not been met again.
    fn has_stopped(&self, peer: PeerId) -> bool {
        self.stopped.get(&peer).is_some_and(|life| self.outbox.incarnation(peer) == *life)
    }

    pub(super) fn reset_done(
        &mut self,
        from: PeerId,
        number: u64,
        variables: u32,
        departed: Departed,
        context: &mut Context<Self>,
    ) {
        let is_asked =
            |reset: &mut Reset| reset.number == number && reset.outstanding.contains(&from);
        let Some(mut reset) = self.reset.take_if(is_asked) else { return };
        reset.outstanding.retain(|peer| *peer != from);
        reset.variables = reset.variables.saturating_add(variables);
        reset.departed.extend(departed);
        let Reset { outstanding, departed, .. } = &mut reset;
        let worker = |peer: PeerId| self.outbox.actors.access.worker_at(&self.outbox.name(peer));
        outstanding.retain(|peer| {
            let has_departed = worker(*peer).is_some_and(|worker| departed.has(worker));
            !(self.is_dispensable(*peer) && has_departed)
        });
        self.go_on_with_reset(reset, context);
    }

    /// A task is lost: a reset that waits for it goes on without it, or fails with `error`.
    pub(super) fn reset_lost(&mut self, peer: PeerId, error: Error, context: &mut Context<Self>) {
        let Some(mut reset) = self.reset.take_if(|reset| reset.outstanding.contains(&peer)) else {
            return;
        };
        if !reset.within_training || !self.is_dispensable(peer) {
            return end(reset, Err(error), context);
        }
        self.give_up_on(&mut reset, peer);
        self.go_on_with_reset(reset, context);
    }

    /// The client `peer` has gone: a reset that it has asked for, and that perhaps waits without a
    /// deadline for a task that never answers, keeps no other from the next.
    pub(super) fn give_up_reset_of(&mut self, peer: PeerId, context: &mut Context<Self>) {
        if let Some(reset) = self.reset.take_if(|reset| reset.client == Some(peer)) {
            end(reset, Err(Error::new(Code::Cancelled, "its client has gone")), context);
        }
    }

    /// The reset of that number has waited for workers long enough.
    pub(super) fn reset_grace_is_over(&mut self, number: u64, context: &mut Context<Self>) {
        if let Some(reset) = self.reset.take_if(|reset| reset.number == number) {
            self.give_up_on_all(reset, context);
        }
    }

    pub(super) fn reset_deadline_reached(&mut self, number: u64, context: &mut Context<Self>) {
        let Some(reset) = self.reset.take_if(|reset| reset.number == number) else { return };
        if self.waits_for_dispensable(&reset) {
            return self.give_up_on_all(reset, context);
        }
        let error = self.too_slow("the reset", None, &reset.outstanding);
        end(reset, Err(error), context);
    }

    fn give_up_on_all(&mut self, mut reset: Reset, context: &mut Context<Self>) {
        for peer in reset.outstanding.clone() {
            self.give_up_on(&mut reset, peer);
        }
        self.go_on_with_reset(reset, context);
    }

    /// Waits for `peer` no longer. A worker that this task has heard of is lost; any other one may
    /// be yet to come.
    fn give_up_on(&self, reset: &mut Reset, peer: PeerId) {
        reset.outstanding.retain(|other| *other != peer);
        let access = &self.outbox.actors.access;
        if access.has_heard(peer) {
            reset.departed.lost.extend(access.worker_at(&self.outbox.name(peer)));
        }
    }

    /// Whether a training can go on without `peer`: where there are parameter servers, they have
    /// its variables.
    fn is_dispensable(&self, peer: PeerId) -> bool {
        self.outbox.actors.training.has_servers() && self.outbox.name(peer).is_of_workers()
    }

    /// Whether `reset` can go on without all that have not answered.
    fn waits_for_dispensable(&self, reset: &Reset) -> bool {
        reset.within_training && reset.outstanding.iter().all(|peer| self.is_dispensable(*peer))
    }

    /// Answers `reset`, unless it still waits for tasks.
    fn go_on_with_reset(&mut self, mut reset: Reset, context: &mut Context<Self>) {
        if reset.outstanding.is_empty() {
            let found = reset.variables > 0 || reset.containers.is_empty();
            let none =
                || Error::new(Code::NotFound, format!("no variable is in {:?}", reset.containers));
            let outcome = if found { Ok(std::mem::take(&mut reset.departed)) } else { Err(none()) };
            return end(reset, outcome, context);
        }
        if self.waits_for_dispensable(&reset) && reset.grace.is_none() {
            let mail = MasterMail::ResetGraceIsOver { number: reset.number };
            // A connected one is lost after a silence; another one has to be connected first.
            let over = self.clock.now().after(self.outbox.silence()).after(GRACE);
            reset.grace = Some(self.set_timer(over, mail, context));
        }
        self.reset = Some(reset);
    }

    /// The tasks that have not answered the reset, if one is under way.
    pub(super) fn reset_waits_for(&self) -> Option<String> {
        self.reset.as_ref().map(|reset| self.names(&reset.outstanding))
    }
}

/// Answers `reset`, and stops its timers.
fn end(reset: Reset, outcome: Result<Departed>, context: &mut Context<Master>) {
    for timer in [reset.deadline, reset.grace].into_iter().flatten() {
        context.cancel_future(timer);
    }
    answer(reset.reply, outcome);
}
