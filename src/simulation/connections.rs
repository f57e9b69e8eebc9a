//! The connections between tasks under faults: which arriving envelopes are delivered, held or
//! dropped.
//!
//! Every two tasks have a connection. A task that has not heard of its peer for too long gives the
//! connection up, and with it all messages under way on it; later messages go over the next
//! connection. The peer learns of the loss before it receives anything over that one. The
//! connections of a pair are numbered, and each side keeps the number of its present one; an
//! envelope is delivered if its number is not older. A pure machine: it moves no clock and calls
//! nobody.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::transport::Loss;

/// The connections of all pairs, and the state of each task.
pub(super) struct Connections {
    tasks: Vec<TaskLife>,
    /// By observer and peer: the number of the observer's present connection; 0 without an entry.
    at: BTreeMap<(usize, usize), u32>,
    /// By observer and peer: the incarnation of the peer that has died without the observer having
    /// noticed.
    unaware: BTreeMap<(usize, usize), u32>,
    /// By pair, the smaller index first: who dialed their present connection, and its number.
    dialers: BTreeMap<(usize, usize), (u32, usize)>,
    /// By pair, the smaller index first: the number of the last connection that has carried an
    /// envelope, and so is established; the first ones, of number 0, count as established.
    established: BTreeMap<(usize, usize), u32>,
    /// By sender and receiver: the number of partitions that keep messages from getting through.
    cuts: BTreeMap<(usize, usize), u32>,
}

/// The present life of a task, or the last one of a task that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TaskLife {
    /// Counts its starts, from 0.
    incarnation: u32,
    is_up: bool,
    is_frozen: bool,
}

/// The sender's incarnation and connection, which an envelope carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    incarnation: u32,
    connection: u32,
}

/// The treatment of an envelope that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is delivered.
    Deliver,
    /// It is delivered after the receiver has learnt that it has lost the sender.
    DeliverAfterLoss(Loss),
    /// It waits until the receiver is up, not frozen, and not cut off.
    Hold,
    /// Its connection or its sender's incarnation has ended.
    Drop,
    /// The receiver has restarted. It knows nothing of the connection, which the sender had dialed,
    /// and so can tell the sender (a stateless reset: RFC 9000, 10.3).
    Reset,
    /// The receiver has given the connection up, and tells the sender so.
    Closed,
}

impl Connections {
    pub(super) fn new(tasks: usize) -> Self {
        let well = TaskLife { incarnation: 0, is_up: true, is_frozen: false };
        Self {
            tasks: vec![well; tasks],
            at: BTreeMap::new(),
            unaware: BTreeMap::new(),
            dialers: BTreeMap::new(),
            established: BTreeMap::new(),
            cuts: BTreeMap::new(),
        }
    }

    fn at(&self, observer: usize, peer: usize) -> u32 {
        if self.at.is_empty() { 0 } else { self.at.get(&(observer, peer)).copied().unwrap_or(0) }
    }

    /// The stamp of an envelope that `from` sends now.
    pub(super) fn stamp(&self, from: usize, to: usize) -> Stamp {
        Stamp { incarnation: self.tasks[from].incarnation, connection: self.at(from, to) }
    }

    /// Whether `incarnation` of `task` is up.
    pub(super) fn is_alive(&self, task: usize, incarnation: u32) -> bool {
        self.tasks[task].incarnation == incarnation && self.tasks[task].is_up
    }

    pub(super) fn incarnation(&self, task: usize) -> u32 {
        self.tasks[task].incarnation
    }

    pub(super) fn is_up(&self, task: usize) -> bool {
        self.tasks[task].is_up
    }

    pub(super) fn is_frozen(&self, task: usize) -> bool {
        self.tasks[task].is_frozen
    }

    /// Whether a task runs, so that it can notice losses.
    fn can_notice(&self, task: usize) -> bool {
        self.is_up(task) && !self.is_frozen(task)
    }

    /// `from` sends to `to`: over a connection that it dials, unless there is one.
    pub(super) fn note_dialer(&mut self, from: usize, to: usize) {
        let connection = self.at(from, to);
        let dialed = self.dialers.entry((from.min(to), from.max(to))).or_insert((connection, from));
        if dialed.0 < connection {
            *dialed = (connection, from);
        }
    }

    /// Whether `observer` has a connection to `peer`, as far as it knows.
    pub(super) fn is_connected(&self, observer: usize, peer: usize) -> bool {
        let dialed = self.dialers.get(&(observer.min(peer), observer.max(peer)));
        dialed.is_some_and(|(connection, _)| *connection >= self.at(observer, peer))
    }

    /// The number of the last connection of two tasks that was established.
    fn established(&self, one: usize, other: usize) -> u32 {
        let established = || self.established.get(&(one.min(other), one.max(other))).copied();
        if self.established.is_empty() { 0 } else { established().unwrap_or(0) }
    }

    /// Whether `observer` is up, has talked with `peer`, and has not given up their last
    /// connection: until the next one is established, it has none to lose.
    pub(super) fn has_one_to_lose(&self, observer: usize, peer: usize) -> bool {
        self.is_up(observer)
            && self.is_connected(observer, peer)
            && self.at(observer, peer) <= self.established(observer, peer)
    }

    /// Whether `observer` has dialed its present connection to `peer`.
    fn has_dialed(&self, observer: usize, peer: usize) -> bool {
        let dialed = self.dialers.get(&(observer.min(peer), observer.max(peer)));
        dialed == Some(&(self.at(observer, peer), observer))
    }

    /// The tasks that had dialed an earlier incarnation of `peer` and have not noticed its death:
    /// the next packet of each is answered with a reset.
    pub(super) fn unaware_dialers(&self, peer: usize) -> Vec<usize> {
        let unaware = self.unaware.keys().filter(|(_, dead)| *dead == peer);
        let observers = unaware.map(|(observer, _)| *observer);
        observers.filter(|observer| self.has_dialed(*observer, peer)).collect()
    }

    /// The incarnation of `peer` that `observer` is connected to, or was last. A peer that is up
    /// counts as met.
    pub(super) fn met(&self, observer: usize, peer: usize) -> Option<u64> {
        let has_talked = || self.dialers.contains_key(&(observer.min(peer), observer.max(peer)));
        let known = self.unaware.get(&(observer, peer)).copied();
        let last = || (self.is_up(peer) || has_talked()).then(|| self.incarnation(peer));
        known.or_else(last).map(u64::from)
    }

    /// Whether an envelope can't get through to its receiver yet, or the receiver can't take it.
    pub(super) fn must_wait(&self, from: usize, to: usize, stamp: Stamp) -> bool {
        if !self.is_alive(from, stamp.incarnation) {
            return false;
        }
        if !self.is_up(to) {
            return !self.unaware.contains_key(&(from, to));
        }
        // A new connection, and word of the end of an old one, need messages both ways.
        let is_answered =
            stamp.connection > self.established(from, to) || stamp.connection < self.at(to, from);
        self.is_frozen(to) || self.is_cut(from, to) || is_answered && self.is_cut(to, from)
    }

    /// Decides on an envelope that has reached its receiver's host.
    pub(super) fn arrive(&mut self, from: usize, to: usize, stamp: Stamp) -> Arrival {
        if self.must_wait(from, to, stamp) {
            return Arrival::Hold;
        }
        if !self.is_alive(from, stamp.incarnation) || !self.is_up(to) {
            return Arrival::Drop;
        }
        let at = self.at(to, from);
        if stamp.connection < at {
            let is_unaware = self.unaware.contains_key(&(from, to));
            return match self.at(from, to) > stamp.connection {
                true => Arrival::Drop,
                false if !is_unaware => Arrival::Closed,
                false if self.has_dialed(from, to) => Arrival::Reset,
                false => Arrival::Drop,
            };
        }
        if stamp.connection > self.established(from, to) {
            self.established.insert((from.min(to), from.max(to)), stamp.connection);
        }
        if stamp.connection == at {
            return Arrival::Deliver;
        }
        self.at.insert((to, from), stamp.connection);
        let has_died = self.unaware.remove(&(to, from)).is_some();
        Arrival::DeliverAfterLoss(if has_died { Loss::Restarted } else { Loss::Silent })
    }

    /// Takes a task down. Returns the tasks that can notice its silence: those connected to it.
    pub(super) fn crash(&mut self, task: usize) -> Vec<usize> {
        self.tasks[task] = TaskLife { is_up: false, is_frozen: false, ..self.tasks[task] };
        let own = self.unaware.range((task, 0)..=(task, usize::MAX));
        let own: Vec<(usize, usize)> = own.map(|(pair, _)| *pair).collect();
        for pair in own {
            self.unaware.remove(&pair);
        }
        let is_hit =
            |other: &usize| *other != task && self.is_up(*other) && self.is_connected(*other, task);
        let others: Vec<usize> = (0..self.tasks.len()).filter(is_hit).collect();
        let incarnation = self.incarnation(task);
        for other in &others {
            self.unaware.entry((*other, task)).or_insert(incarnation);
        }
        others
    }

    /// Begins a new incarnation of a task, which is up once it listens ([`Connections::listen`]).
    /// For peers that have not noticed its death, its connections are new ones. Returns the
    /// incarnation.
    pub(super) fn begin_incarnation(&mut self, task: usize) -> u32 {
        for other in (0..self.tasks.len()).filter(|other| *other != task) {
            let next = self.at(other, task) + u32::from(self.unaware.contains_key(&(other, task)));
            self.at.insert((task, other), next);
        }
        self.tasks[task].incarnation += 1;
        self.tasks[task].incarnation
    }

    pub(super) fn listen(&mut self, task: usize) {
        self.tasks[task].is_up = true;
    }

    /// Whether `observer` runs and has not yet noticed that `peer` has died.
    pub(super) fn can_notice_death(&self, observer: usize, peer: usize) -> bool {
        self.can_notice(observer) && self.unaware.contains_key(&(observer, peer))
    }

    /// Whether `observer` runs and has not yet noticed that `peer` has given their connection up.
    pub(super) fn can_notice_close(&self, observer: usize, peer: usize) -> bool {
        self.can_notice(observer) && self.at(peer, observer) > self.at(observer, peer)
    }

    /// `observer` gives up its connection to `peer`.
    pub(super) fn give_up(&mut self, observer: usize, peer: usize) {
        let (own, other) = (self.at(observer, peer), self.at(peer, observer));
        self.at.insert((observer, peer), if other > own { other } else { own + 1 });
        self.unaware.remove(&(observer, peer));
    }

    pub(super) fn freeze(&mut self, task: usize) {
        self.tasks[task].is_frozen = true;
    }

    /// The tasks that can notice that `task` is silent: those connected to it, once they run.
    pub(super) fn watchers(&self, task: usize) -> Vec<usize> {
        let watches =
            |other: &usize| *other != task && self.is_up(*other) && self.is_connected(*other, task);
        (0..self.tasks.len()).filter(watches).collect()
    }

    /// Lets a frozen task run again. Returns the peers whose connections ended meanwhile: they gave
    /// it up, or have restarted.
    pub(super) fn thaw(&mut self, task: usize) -> Vec<(usize, Loss)> {
        self.tasks[task].is_frozen = false;
        let has_left =
            |other: &usize| *other != task && self.at(*other, task) > self.at(task, *other);
        let gone: Vec<usize> = (0..self.tasks.len()).filter(has_left).collect();
        let lose = |other| {
            self.at.insert((task, other), self.at(other, task));
            let has_restarted = self.unaware.remove(&(task, other)).is_some() && self.is_up(other);
            (other, if has_restarted { Loss::Restarted } else { Loss::Unheard })
        };
        gone.into_iter().map(lose).collect()
    }

    /// Keeps messages of `from` from getting through to `to`.
    pub(super) fn cut(&mut self, from: usize, to: usize) {
        *self.cuts.entry((from, to)).or_default() += 1;
    }

    /// Ends one such cut.
    pub(super) fn heal(&mut self, from: usize, to: usize) {
        if let Some(cuts) = self.cuts.get_mut(&(from, to)) {
            *cuts -= 1;
            if *cuts == 0 {
                self.cuts.remove(&(from, to));
            }
        }
    }

    /// Whether a partition keeps messages of `from` from getting through to `to`.
    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        !self.cuts.is_empty() && self.cuts.contains_key(&(from, to))
    }

    /// Whether `observer` runs, is connected to `peer` and hears nothing of it: nothing gets
    /// through, or the peer has given the connection up and can't say so.
    pub(super) fn can_notice_cut(&self, observer: usize, peer: usize) -> bool {
        let is_given_up = || self.is_cut(observer, peer) && self.can_notice_close(observer, peer);
        self.can_notice(observer)
            && self.has_one_to_lose(observer, peer)
            && (self.is_cut(peer, observer) || is_given_up())
    }
}
