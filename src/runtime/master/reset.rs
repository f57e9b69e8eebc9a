//! A master's reset: clears containers on the tasks of the cluster, and ends all its own sessions.
//!
//! Within a training it waits for the parameter servers, and for workers no longer than
//! [`WORKER_GRACE`]: a dead worker must not keep the others from going on. One that only seemed
//! dead sees by the global step that the training has gone back.

use std::time::Duration;

use actix::{AsyncContext, Context, SpawnHandle};

use crate::cluster::TaskName;
use crate::sync::Departed;
use crate::transport::PeerId;

use super::{Master, answer};
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::{MasterMail, ResetContainers};
use crate::runtime::messages::{ParameterServerMessage, SessionId};
use crate::runtime::reply::Reply;

/// How long a reset within a training waits for workers once all others have answered: longer than
/// it takes to connect.
const WORKER_GRACE: Duration = Duration::from_secs(3);

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
    /// The timers of its deadline and of the workers' grace.
    timers: [Option<SpawnHandle>; 2],
    reply: Reply<Result<Departed>>,
}

impl Master {
    pub(super) fn reset(&mut self, asked: ResetContainers, context: &mut Context<Self>) {
        let ResetContainers { containers, within_training, device_filters, deadline, reply } =
            asked;
        if self.reset.is_some() {
            let error = Error::new(Code::Aborted, "another reset is under way; try again");
            return answer(reply, Err(error));
        }
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        let reset = Error::new(Code::Cancelled, "the session's server was reset");
        for session in sessions {
            self.close_session(session, &reset);
        }
        let devices = self.visible_devices(&device_filters);
        // Nothing is left of a worker that has stopped, and nobody there to answer.
        let mut outstanding: Vec<PeerId> = devices
            .iter()
            .filter_map(|device| self.link.resolve(device.task()))
            .filter(|peer| !self.has_stopped(*peer))
            .collect();
        outstanding.dedup();
        let number = self.next_reset;
        self.next_reset += 1;
        let met = |peer: &PeerId| Some((self.link.name(*peer), self.link.incarnation(*peer)?));
        let incarnations: Vec<(TaskName, u64)> = outstanding.iter().filter_map(met).collect();
        for peer in &outstanding {
            let (containers, incarnations) = (containers.clone(), incarnations.clone());
            self.link.send(
                *peer,
                ParameterServerMessage::Reset { number, containers, within_training, incarnations },
            );
        }
        let deadline = deadline
            .map(|deadline| self.set_timer(deadline, MasterMail::ResetDeadlineReached, context));
        self.reset = Some(Reset {
            number,
            outstanding,
            variables: 0,
            departed: Departed::default(),
            containers,
            within_training,
            timers: [deadline, None],
            reply,
        });
    }

    /// Whether `peer` is a worker that has stopped, and has not been met again.
    fn has_stopped(&self, peer: PeerId) -> bool {
        self.stopped.get(&peer).is_some_and(|life| self.link.incarnation(peer) == *life)
    }

    pub(super) fn reset_done(
        &mut self,
        from: PeerId,
        number: u64,
        (variables, departed): (u32, Departed),
        context: &mut Context<Self>,
    ) {
        let is_asked =
            |reset: &mut Reset| reset.number == number && reset.outstanding.contains(&from);
        let Some(mut reset) = self.reset.take_if(is_asked) else { return };
        reset.outstanding.retain(|peer| *peer != from);
        reset.variables = reset.variables.saturating_add(variables);
        reset.departed.extend(departed);
        let Reset { outstanding, departed, .. } = &mut reset;
        outstanding.retain(|peer| self.dispensable(*peer).is_none_or(|one| !departed.has(one)));
        self.go_on_with_reset(reset, context);
    }

    /// A task is lost: a reset that waits for it goes on without it, or fails with `error`.
    pub(super) fn reset_lost(&mut self, peer: PeerId, error: Error, context: &mut Context<Self>) {
        let Some(mut reset) = self.reset.take_if(|reset| reset.outstanding.contains(&peer)) else {
            return;
        };
        match self.dispensable(peer).filter(|_| reset.within_training) {
            None => end(reset, Err(error), context),
            Some(worker) => {
                reset.departed.lost.insert(worker);
                reset.outstanding.retain(|other| *other != peer);
                self.go_on_with_reset(reset, context);
            }
        }
    }

    /// The reset of that number has waited for workers long enough.
    pub(super) fn reset_grace_is_over(&mut self, number: u64, context: &mut Context<Self>) {
        let Some(mut reset) = self.reset.take_if(|reset| reset.number == number) else { return };
        let silent = std::mem::take(&mut reset.outstanding).into_iter();
        reset.departed.lost.extend(silent.filter_map(|peer| self.dispensable(peer)));
        self.go_on_with_reset(reset, context);
    }

    /// The worker at `peer`, if a training can go on without it: it holds none of its variables.
    fn dispensable(&self, peer: PeerId) -> Option<u32> {
        let actors = &self.link.actors;
        let worker = actors.access.worker_at(&self.link.name(peer));
        worker.filter(|_| actors.has_servers.get())
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
        let mut outstanding = reset.outstanding.iter();
        let needs_none = outstanding.all(|peer| self.dispensable(*peer).is_some());
        if reset.within_training && needs_none && reset.timers[1].is_none() {
            let mail = MasterMail::ResetGraceIsOver { number: reset.number };
            let over = self.clock.now().after(WORKER_GRACE);
            reset.timers[1] = Some(self.set_timer(over, mail, context));
        }
        self.reset = Some(reset);
    }

    pub(super) fn reset_deadline_reached(&mut self, context: &mut Context<Self>) {
        if let Some(reset) = self.reset.take() {
            let error = self.too_slow("the reset", &reset.outstanding);
            end(reset, Err(error), context);
        }
    }

    /// The tasks that have not answered the reset, if one is under way.
    pub(super) fn reset_waits_for(&self) -> Option<String> {
        self.reset.as_ref().map(|reset| self.names(&reset.outstanding))
    }
}

/// Answers `reset`, and stops its timers.
fn end(reset: Reset, outcome: Result<Departed>, context: &mut Context<Master>) {
    for timer in reset.timers.into_iter().flatten() {
        context.cancel_future(timer);
    }
    answer(reset.reply, outcome);
}
