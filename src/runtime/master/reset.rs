//! A master's reset: clears containers on the tasks of the cluster, and ends all its own sessions.

use actix::{AsyncContext, Context, SpawnHandle};

use crate::cluster::TaskName;
use crate::sync::Departed;
use crate::transport::PeerId;

use super::{Master, answer};
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::{MasterMail, ResetContainers};
use crate::runtime::messages::{ParameterServerMessage, SessionId};
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
    timer: Option<SpawnHandle>,
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
        let timer = deadline
            .map(|deadline| self.set_timer(deadline, MasterMail::ResetDeadlineReached, context));
        let departed = Departed::default();
        self.reset =
            Some(Reset { number, outstanding, variables: 0, departed, containers, timer, reply });
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
        if !reset.outstanding.is_empty() {
            self.reset = Some(reset);
            return;
        }
        if let Some(timer) = reset.timer {
            context.cancel_future(timer);
        }
        let found = reset.variables > 0 || reset.containers.is_empty();
        let none =
            || Error::new(Code::NotFound, format!("no variable is in {:?}", reset.containers));
        answer(reset.reply, if found { Ok(reset.departed) } else { Err(none()) });
    }

    pub(super) fn reset_deadline_reached(&mut self) {
        if let Some(reset) = self.reset.take() {
            let error = self.too_slow("the reset", &reset.outstanding);
            answer(reset.reply, Err(error));
        }
    }

    /// A task is lost: a reset that waits for it fails with `error`.
    pub(super) fn reset_lost(&mut self, peer: PeerId, error: Error, context: &mut Context<Self>) {
        let Some(reset) = self.reset.take_if(|reset| reset.outstanding.contains(&peer)) else {
            return;
        };
        if let Some(timer) = reset.timer {
            context.cancel_future(timer);
        }
        answer(reset.reply, Err(error));
    }

    /// The tasks that have not answered the reset, if one is under way.
    pub(super) fn reset_waits_for(&self) -> Option<String> {
        self.reset.as_ref().map(|reset| self.names(&reset.outstanding))
    }
}
