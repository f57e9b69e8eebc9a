//! The clients of a master: their calls, each carried out once, and their sessions, which end some
//! time after the client has gone.
//!
//! A client whose connection is lost has as long as the server says to come back. Until then its
//! sessions stay and its steps go on; what they give is kept for it. A client that says goodbye, or
//! starts anew, has no sessions any more.

mod actions;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use actix::{AsyncContext, Context, SpawnHandle};

use crate::transport::{Loss, PeerId};

use super::Master;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::{MasterMail, WorkerMail};
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{
    ClientMessage, OperationTime, SessionAnswer, SessionCall, SessionId,
};

/// The most calls of one client that are under way.
const CALLS: usize = 1 << 12;
/// The most calls of one client that are under way or whose answers are kept.
const KNOWN_CALLS: usize = 1 << 14;
/// The most memory of values that are kept for one client until it says that they have arrived
/// \[bytes\].
const KEPT: u64 = 256 << 20;

/// A client with sessions here.
pub(super) struct Client {
    id: u64,
    sessions: BTreeSet<SessionId>,
    /// By number: a call that is under way, or its answer, which may be asked for again.
    calls: BTreeMap<u64, Option<Result<SessionAnswer>>>,
    settled: u64,
    /// The timer of its end, while its connection is lost.
    away: Option<SpawnHandle>,
}

/// A call, and who waits for its answer.
#[derive(Clone, Copy)]
struct Caller {
    peer: PeerId,
    client: u64,
    number: u64,
}

impl Client {
    fn new(id: u64) -> Self {
        let (sessions, calls) = (BTreeSet::new(), BTreeMap::new());
        Self { id, sessions, calls, settled: 0, away: None }
    }

    /// Whether its connection is lost.
    fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// The answers to all calls below `number` have arrived, and those to the `later` ones.
    fn settle(&mut self, number: u64, later: &[Range<u64>]) {
        self.settled = self.settled.max(number);
        self.calls = self.calls.split_off(&self.settled);
        for range in later.iter().filter(|range| !range.is_empty()) {
            let known: Vec<u64> = self.calls.range(range.clone()).map(|(of, _)| *of).collect();
            for number in known {
                self.calls.remove(&number);
            }
        }
    }

    /// Whether there is no room for another call.
    fn is_full(&self) -> bool {
        let under_way = || self.calls.values().filter(|answer| answer.is_none()).count();
        self.calls.len() >= KNOWN_CALLS || (self.calls.len() >= CALLS && under_way() >= CALLS)
    }

    /// Keeps the answer to a call, and drops the oldest values where these are too many.
    fn keep(&mut self, number: u64, outcome: Result<SessionAnswer>) {
        self.calls.insert(number, Some(outcome));
        let size = |outcome: &Option<Result<SessionAnswer>>| match outcome {
            Some(Ok(SessionAnswer::Fetched(values, times))) => {
                let values = values.iter().map(|value| value.byte_len() as u64);
                let times = times.iter().map(|time| {
                    (size_of::<OperationTime>() + time.operation.len() + time.device.len()) as u64
                });
                values.chain(times).sum::<u64>()
            }
            _ => 0,
        };
        let mut kept: u64 = self.calls.values().map(size).sum();
        for call in self.calls.values_mut() {
            if kept <= KEPT {
                break;
            }
            let length = size(call);
            if length > 0 {
                kept -= length;
                let message = "the step was carried out, but its values were lost on their way, \
                               and are too large to be kept; fetch them again";
                *call = Some(Err(Error::new(Code::DataLoss, message)));
            }
        }
    }
}

impl Master {
    /// Carries out a client's call, unless it has done so before.
    pub(super) fn called(&mut self, from: PeerId, call: SessionCall, context: &mut Context<Self>) {
        let SessionCall { client: id, number, settled, arrived, action } = call;
        if self.clients.get(&from).is_some_and(|client| client.id != id) {
            self.clear_client(from, context);
        }
        let is_new = !self.clients.contains_key(&from);
        let client = self.clients.entry(from).or_insert_with(|| Client::new(id));
        let away = client.away.take();
        if is_new || away.is_some() {
            let come = WorkerMail::ClientHasCome { client: from, master: self.id };
            tell(&self.outbox.actors.worker, come);
        }
        if let Some(timer) = away {
            context.cancel_future(timer);
        }
        client.settle(settled, &arrived);
        match client.calls.get(&number) {
            _ if number < client.settled => return,
            Some(None) => return,
            Some(Some(outcome)) => {
                let outcome = outcome.clone();
                return self.outbox.send(from, ClientMessage { number, outcome });
            }
            None => {}
        }
        let caller = Caller { peer: from, client: id, number };
        if client.is_full() {
            let message = format!("more than {CALLS} calls are under way; wait for some of them");
            let outcome = Err(self.refusal(Code::FailedPrecondition, message));
            return self.outbox.send(from, ClientMessage { number, outcome });
        }
        client.calls.insert(number, None);
        self.carry_out(caller, action, context);
    }

    /// Answers a call, unless its client has gone.
    fn answer_call(&mut self, caller: Caller, outcome: Result<SessionAnswer>) {
        let Caller { peer, client: id, number } = caller;
        let Some(client) = self.clients.get_mut(&peer).filter(|client| client.id == id) else {
            return;
        };
        client.keep(number, outcome.clone());
        if !client.is_away() {
            self.outbox.send(peer, ClientMessage { number, outcome });
        }
    }

    /// The way to `peer` has broken: its sessions end now or, if it may come back, later.
    pub(super) fn client_lost(&mut self, peer: PeerId, loss: Loss, context: &mut Context<Self>) {
        let Some(client) = self.clients.get(&peer) else { return };
        // One that seems to have restarted may only have given the connection up. If it has started
        // anew, its first call says so.
        if loss == Loss::Stopped {
            return self.clear_client(peer, context);
        }
        let (id, limit) = (client.id, self.outbox.actors.access.client_limit());
        if let Some(losses) = self.losses.count(peer, 1, self.clock.now()) {
            tracing::warn!(client = %self.outbox.name(peer), losses, ?limit, "a client is away");
        }
        let gone = MasterMail::ClientIsGone { peer, client: id };
        let timer = self.set_timer(self.clock.now().after(limit), gone, context);
        let client = self.clients.get_mut(&peer).expect("it was just there");
        if let Some(earlier) = client.away.replace(timer) {
            context.cancel_future(earlier);
        }
    }

    /// The time is over in which `peer` might have come back as the client `id`.
    pub(super) fn client_is_gone(&mut self, peer: PeerId, id: u64, context: &mut Context<Self>) {
        if self.clients.get(&peer).is_some_and(|client| client.id == id && client.is_away()) {
            tracing::warn!(client = %self.outbox.name(peer), "a client is gone; its sessions end");
            self.clear_client(peer, context);
        }
    }

    /// Whether the connection to the client `peer` is lost.
    pub(super) fn is_away(&self, peer: PeerId) -> bool {
        self.clients.get(&peer).is_some_and(Client::is_away)
    }

    /// A session of the client `peer` is closed.
    pub(super) fn forget_session(&mut self, peer: PeerId, session: SessionId) {
        if let Some(client) = self.clients.get_mut(&peer) {
            client.sessions.remove(&session);
        }
    }

    /// Ends the sessions of a client, and a reset that it has asked for, and forgets it.
    fn clear_client(&mut self, peer: PeerId, context: &mut Context<Self>) {
        let Some(client) = self.clients.remove(&peer) else { return };
        self.give_up_reset_of(peer, context);
        let gone = Error::new(Code::Cancelled, "the client of the session has gone");
        for session in client.sessions {
            self.close_session(session, &gone);
        }
    }

    /// Ends all calls with `error`: the server stops.
    pub(super) fn answer_all_clients(&mut self, error: &Error) {
        for (peer, client) in std::mem::take(&mut self.clients) {
            let open = client.calls.iter().filter(|(_, answer)| answer.is_none());
            for (number, _) in open {
                let (number, outcome) = (*number, Err(error.clone()));
                self.outbox.send(peer, ClientMessage { number, outcome });
            }
        }
    }

    fn refusal(&self, code: Code, message: String) -> Error {
        Error::new(code, message).on(&self.outbox.name(self.outbox.local()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_beside_a_long_one_are_forgotten_once_their_answers_have_arrived() {
        let mut client = Client::new(1);
        client.calls.insert(0, None);
        for number in 1..KNOWN_CALLS as u64 {
            client.keep(number, Ok(SessionAnswer::Done));
        }
        assert!(client.is_full());
        client.settle(0, &[1..100, 101..KNOWN_CALLS as u64, Range { start: 9, end: 3 }, 7..7]);
        assert!(client.calls.keys().eq(&[0, 100]) && !client.is_full());
        (200..).take(CALLS).for_each(|number| drop(client.calls.insert(number, None)));
        assert!(client.is_full(), "so many are under way");
    }
}
