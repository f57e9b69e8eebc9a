//! The calls of a client that are not answered yet, and who waits for each.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use actix::Context;

use crate::sync::Departed;
use crate::units::Time;

use super::{RemoteMaster, answer};
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::StepDone;
use crate::runtime::messages::{
    ClientMessage, MOST_RANGES, MasterMessage, SessionAction, SessionAnswer, SessionCall, SessionId,
};
use crate::runtime::reply::Reply;

/// How often in a row the connection may be lost before a call is given up.
pub(super) const MOST_LOSSES: u32 = 8;
/// A connection that has lasted this long is no part of such a row: a call that ends the connection
/// does so sooner, and a long one goes on over any number of losses.
const LASTED: Duration = Duration::from_secs(300);

/// The calls that are not answered, by number.
#[derive(Default)]
pub(super) struct Calls {
    open: BTreeMap<u64, Call>,
    next: u64,
}

/// A call, kept to be sent again.
struct Call {
    action: SessionAction,
    waiter: Waiter,
    deadline: Option<Time>,
    /// How often the connection was lost, since it last lasted.
    losses: u32,
    /// When it was lost last.
    lost_at: Option<Time>,
}

/// Who waits for an answer.
pub(super) enum Waiter {
    /// A program, for a new session.
    Session(Reply<Result<SessionId>>),
    /// The steps that are held until this session's graph is there.
    Extension(SessionId),
    /// A program, for a step of a session.
    Step(SessionId, Reply<Result<StepDone>>),
    /// A program, for a reset.
    Reset(Reply<Result<Departed>>),
    /// No program, or none any more, for what the other master is to do.
    Nobody(&'static str),
}

impl Waiter {
    /// What the other master is to do.
    fn wish(&self) -> &'static str {
        match self {
            Self::Session(_) => "begin a session",
            Self::Extension(_) => "take a graph",
            Self::Step(..) => "run a step",
            Self::Reset(_) => "clear containers",
            Self::Nobody(wish) => wish,
        }
    }

    /// The session that a step is of.
    fn session(&self) -> Option<SessionId> {
        match self {
            Self::Step(session, _) => Some(*session),
            Self::Session(_) | Self::Extension(_) | Self::Reset(_) | Self::Nobody(_) => None,
        }
    }

    /// Tells the program that waits of `error`; nobody waits from now on.
    fn withdraw(&mut self, error: Error) {
        let nobody = Self::Nobody(self.wish());
        std::mem::replace(self, nobody).fail(error);
    }

    /// Passes `error` on to the program that waits, if one does.
    fn fail(self, error: Error) {
        match self {
            Self::Session(reply) => answer(reply, Err(error)),
            Self::Step(_, reply) => answer(reply, Err(error)),
            Self::Reset(reply) => answer(reply, Err(error)),
            Self::Nobody(_) | Self::Extension(_) => {}
        }
    }
}

impl Call {
    /// `error`, with what is known of the call's effects.
    fn explained(&self, error: &Error, may_have_run: bool) -> Error {
        let mut error = error.clone();
        if may_have_run && matches!(self.waiter, Waiter::Step(..) | Waiter::Reset(_)) {
            error.message.push_str(
                "; it was under way then, and it is not known whether it was carried out",
            );
        }
        error
    }
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn add(&mut self, call: Call) -> u64 {
        let number = self.next;
        self.next += 1;
        self.open.insert(number, call);
        number
    }

    fn message(&self, client: u64, number: u64, action: SessionAction) -> MasterMessage {
        let settled = self.open.keys().next().copied().unwrap_or(self.next);
        let arrived = self.arrived().take(MOST_RANGES).collect();
        MasterMessage::Called(Box::new(SessionCall { client, number, settled, arrived, action }))
    }

    /// The ranges of numbers between those of the open calls.
    fn arrived(&self) -> impl Iterator<Item = Range<u64>> {
        let nexts = self.open.keys().skip(1).copied().chain([self.next]);
        let between = self.open.keys().zip(nexts).map(|(open, next)| open + 1..next);
        between.filter(|range| !range.is_empty())
    }

    /// Notes that the connection is lost, and ends the calls that have been lost too often: one of
    /// them may be what ends the connection, such as a value that is too large to be sent. Returns
    /// the sessions whose graphs are among them.
    pub(super) fn note_loss(&mut self, now: Time, error: &Error) -> Vec<SessionId> {
        for call in self.open.values_mut() {
            let before = call.lost_at.replace(now);
            let is_in_a_row = before.is_some_and(|before| now.since(before) < LASTED);
            call.losses = if is_in_a_row { call.losses + 1 } else { 1 };
        }
        let lost = self.open.iter().filter(|(_, call)| call.losses >= MOST_LOSSES);
        let lost: Vec<u64> = lost.map(|(number, _)| *number).collect();
        let calls = lost.iter().filter_map(|number| self.open.remove(number));
        let mut extensions = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            let error = call.explained(error, true);
            match call.waiter {
                Waiter::Extension(session) => extensions.push(session),
                waiter => waiter.fail(error),
            }
        }
        extensions
    }

    /// The messages of all open calls, to be sent again as those of `client`.
    pub(super) fn again(&self, client: u64) -> Vec<MasterMessage> {
        let message =
            |(number, call): (&u64, &Call)| self.message(client, *number, call.action.clone());
        self.open.iter().map(message).collect()
    }

    /// Ends the steps of a closed session with `error`.
    pub(super) fn withdraw(&mut self, session: SessionId, error: &Error) {
        for call in self.open.values_mut() {
            if call.waiter.session() == Some(session) {
                call.waiter.withdraw(error.clone());
            }
        }
    }

    /// Ends all calls with `error`.
    pub(super) fn give_up(&mut self, error: &Error) {
        for (_, call) in std::mem::take(&mut self.open) {
            let error = call.explained(error, true);
            call.waiter.fail(error);
        }
    }

    /// Ends the calls whose deadline `is_late` with `error`.
    pub(super) fn time_out(&mut self, is_late: impl Fn(Time) -> bool, error: &Error) {
        for call in self.open.values_mut() {
            if call.deadline.is_some_and(&is_late) {
                let error = call.explained(error, true);
                call.waiter.withdraw(error);
                call.deadline = None;
            }
        }
    }

    /// What the other master is to do, for each call.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &'static str> {
        self.open.values().map(|call| call.waiter.wish())
    }
}

impl RemoteMaster {
    /// Has the other master do something.
    pub(super) fn call(
        &mut self,
        action: SessionAction,
        waiter: Waiter,
        deadline: Option<Time>,
        context: &mut Context<Self>,
    ) {
        let call = Call { action: action.clone(), waiter, deadline, losses: 0, lost_at: None };
        let number = self.calls.add(call);
        let message = self.calls.message(self.id, number, action);
        self.send(message);
        self.watch(context);
    }

    pub(super) fn send(&self, message: MasterMessage) {
        self.transport.send(self.peer, vec![message.into()]);
    }

    /// The other master has answered.
    pub(super) fn answered(&mut self, message: ClientMessage, context: &mut Context<Self>) {
        let ClientMessage { number, outcome } = message;
        (self.has_answered, self.cut_off) = (true, None);
        let Some(call) = self.calls.open.remove(&number) else {
            return self.answered_too_late(number, outcome, context);
        };
        let lost = call.losses > 0;
        let outcome = outcome.map_err(|error| {
            let is_unknown = lost && error.code == Code::Aborted;
            call.explained(&error, is_unknown)
        });
        self.pass_on(call.waiter, outcome, context);
    }

    /// The other master has answered a call that was given up. A session that it has begun is ended
    /// again, unless that is one which the program has: the answer may have come twice.
    fn answered_too_late(
        &mut self,
        number: u64,
        outcome: Result<SessionAnswer>,
        context: &mut Context<Self>,
    ) {
        tracing::debug!(number, "an answer that nobody waits for; dropped");
        if let Ok(SessionAnswer::Created(scope)) = outcome
            && !self.sessions.values().any(|session| session.scope == scope)
        {
            self.close(scope, context);
        }
    }

    fn pass_on(
        &mut self,
        waiter: Waiter,
        outcome: Result<SessionAnswer>,
        context: &mut Context<Self>,
    ) {
        use SessionAnswer::{Created, Done, Fetched, Reset};
        match (waiter, outcome) {
            (Waiter::Session(reply), Ok(Created(scope))) => self.created(scope, reply, context),
            (Waiter::Step(_, reply), Ok(Fetched(fetches, times))) => {
                answer(reply, Ok(StepDone { fetches, computed: None, times }));
            }
            (Waiter::Reset(reply), Ok(Reset(departed))) => answer(reply, Ok(departed)),
            (Waiter::Extension(session), Ok(Done)) => self.extended(session, Ok(()), context),
            (Waiter::Extension(session), Err(error)) => {
                self.extended(session, Err(error), context);
            }
            (waiter, Err(error)) => waiter.fail(error),
            (Waiter::Nobody(_), Ok(Created(scope))) => self.close(scope, context),
            (Waiter::Nobody(_), Ok(_)) => {}
            (waiter, Ok(other)) => {
                let message = format!("the master answers {other:?} to {}", waiter.wish());
                let error = Error::new(Code::Internal, message);
                match waiter {
                    Waiter::Extension(session) => self.extended(session, Err(error), context),
                    waiter => waiter.fail(error),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Call {
        let (action, waiter) = (SessionAction::Return, Waiter::Nobody("wait"));
        Call { action, waiter, deadline: None, losses: 0, lost_at: None }
    }

    #[test]
    fn what_has_arrived_is_all_between_the_open_calls() {
        let mut calls = Calls::default();
        for _ in 0..10 {
            calls.add(call());
        }
        for answered in [0, 1, 3, 4, 7, 9] {
            calls.open.remove(&answered);
        }
        let MasterMessage::Called(call) = calls.message(1, 8, SessionAction::Return) else {
            panic!("it is a call")
        };
        assert_eq!((call.settled, call.arrived), (2, vec![3..5, 7..8, 9..10]));
        calls.open.clear();
        let MasterMessage::Called(call) = calls.message(1, 8, SessionAction::Return) else {
            panic!("it is a call")
        };
        assert_eq!((call.settled, call.arrived), (10, vec![]));
    }

    #[test]
    fn a_call_is_given_up_after_losses_in_a_row_and_not_after_as_many_far_apart() {
        let error = Error::new(Code::Unavailable, "lost");
        let lost = |apart: Duration| {
            let (mut calls, mut now) = (Calls::default(), Time(0));
            calls.add(call());
            for _ in 0..MOST_LOSSES {
                now = now.after(apart);
                calls.note_loss(now, &error);
            }
            calls.is_empty()
        };
        assert!(lost(Duration::from_secs(60)) && !lost(LASTED));
    }
}
