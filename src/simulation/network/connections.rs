//! Connections: all that one task sends another goes through one flow, in turns.
//!
//! A small message is sent before large ones, and after all small ones before it; large ones follow
//! in their order, as those of the QUIC transport do. A *turn* lasts until a message is through, or
//! until a small one interrupts a large one.

use std::collections::VecDeque;
use std::time::Duration;

use super::MessageId;
use super::route::{Route, Wiring};

/// A connection, by its number among all.
pub(super) type ConnectionId = u32;

/// Stands for a connection that has carried no message.
const NONE: ConnectionId = ConnectionId::MAX;

/// All connections that ever carried a message.
#[derive(Default)]
pub(super) struct Connections {
    all: Vec<Connection>,
    /// By sender and then receiver, as far as any that it ever sent to; [`NONE`] without one.
    of_sender: Vec<Vec<ConnectionId>>,
}

/// One direction of the connection between two tasks.
///
/// As large as a line of a processor's cache: there can be a million, and most messages look at one
/// that was not looked at for long.
pub(super) struct Connection {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) route: Route,
    pub(super) latency: Duration,
    /// None before a message has met another on its links.
    flow: Option<Box<Flow>>,
}

/// The messages of a connection whose links others use, too.
#[derive(Default)]
struct Flow {
    /// Whose first message leaves now.
    turn: Option<Kind>,
    small: VecDeque<Queued>,
    large: VecDeque<Queued>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Small,
    Large,
}

/// A message with the bytes that have not left.
struct Queued {
    id: MessageId,
    left: f64,
}

impl Connections {
    /// No connections of `tasks` tasks.
    pub(super) fn new(tasks: usize) -> Self {
        Self { all: Vec::new(), of_sender: vec![Vec::new(); tasks] }
    }

    /// The connection from one task to another.
    pub(super) fn between(&mut self, from: usize, to: usize, wiring: &Wiring) -> ConnectionId {
        match self.of_sender[from].get(to) {
            Some(id) if *id != NONE => *id,
            _ => self.open(from, to, wiring),
        }
    }

    fn open(&mut self, from: usize, to: usize, wiring: &Wiring) -> ConnectionId {
        let id = self.all.len() as ConnectionId;
        let (route, latency) = (wiring.route(from, to), wiring.latency(from, to));
        self.all.push(Connection::new((from, to), route, latency));
        let known = &mut self.of_sender[from];
        known.resize(known.len().max(to + 1), NONE);
        known[to] = id;
        id
    }

    pub(super) fn get(&self, id: ConnectionId) -> &Connection {
        &self.all[id as usize]
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> &mut Connection {
        &mut self.all[id as usize]
    }

    /// The connections from `task`.
    pub(super) fn of_sender(&self, task: usize) -> Vec<ConnectionId> {
        self.of_sender[task].iter().copied().filter(|id| *id != NONE).collect()
    }

    /// The connections to and from `task`.
    pub(super) fn of_task(&self, task: usize) -> Vec<ConnectionId> {
        let ids = 0..self.all.len() as ConnectionId;
        ids.filter(|id| self.get(*id).is_of(task)).collect()
    }
}

impl Connection {
    fn new((from, to): (usize, usize), route: Route, latency: Duration) -> Self {
        Self { from, to, route, latency, flow: None }
    }

    /// Whether it is to or from `task`.
    pub(super) fn is_of(&self, task: usize) -> bool {
        self.from == task || self.to == task
    }

    fn turn(&self) -> Option<Kind> {
        self.flow.as_ref()?.turn
    }

    fn flow(&mut self) -> &mut Flow {
        self.flow.get_or_insert_default()
    }

    /// Whether a turn is under way.
    pub(super) fn is_flowing(&self) -> bool {
        self.turn().is_some()
    }

    /// Whether a message that joins ends the turn under way.
    pub(super) fn is_interrupted_by(&self, is_large: bool) -> bool {
        !is_large && self.turn() == Some(Kind::Large)
    }

    /// Adds a message of which `left` bytes have not left.
    pub(super) fn push(&mut self, id: MessageId, left: f64, is_large: bool) {
        let kind = if is_large { Kind::Large } else { Kind::Small };
        self.flow().queue(kind).push_back(Queued { id, left });
    }

    /// Begins the next turn, if there is a message. Returns the bytes of the turn.
    pub(super) fn begin_turn(&mut self) -> Option<f64> {
        let flow = self.flow.as_mut()?;
        assert!(flow.turn.is_none(), "a turn begins after the last one");
        let kind = if flow.small.is_empty() { Kind::Large } else { Kind::Small };
        let bytes = flow.queue(kind).front()?.left;
        flow.turn = Some(kind);
        Some(bytes)
    }

    /// Interrupts the turn under way, of which `left` bytes have not left.
    pub(super) fn interrupt(&mut self, left: f64) {
        let flow = self.flow();
        let kind = flow.turn.take().expect("a turn is under way");
        flow.queue(kind).front_mut().expect("a turn has a message").left = left;
    }

    /// Ends the turn under way. Returns the message that is through.
    pub(super) fn end_turn(&mut self) -> MessageId {
        let flow = self.flow();
        let kind = flow.turn.take().expect("a turn is under way");
        flow.queue(kind).pop_front().expect("a turn has a message").id
    }

    /// Removes all messages. Returns them with the bytes of each that have not left. No turn is
    /// under way.
    pub(super) fn clear(&mut self) -> Vec<(MessageId, f64)> {
        let Some(flow) = &mut self.flow else { return Vec::new() };
        assert!(flow.turn.is_none(), "messages are removed between two turns");
        let queued = flow.small.drain(..).chain(flow.large.drain(..));
        queued.map(|Queued { id, left }| (id, left)).collect()
    }
}

impl Flow {
    fn queue(&mut self, kind: Kind) -> &mut VecDeque<Queued> {
        match kind {
            Kind::Small => &mut self.small,
            Kind::Large => &mut self.large,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection::new((0, 1), Route::default(), Duration::ZERO)
    }

    /// Runs all turns; the messages in the order in which they are through, each with the bytes
    /// that have left by then.
    fn run(connection: &mut Connection) -> Vec<(MessageId, f64)> {
        let (mut through, mut bytes) = (Vec::new(), 0.0);
        while let Some(of_turn) = connection.begin_turn() {
            bytes += of_turn;
            through.push((connection.end_turn(), bytes));
        }
        through
    }

    #[test]
    fn it_fits_into_a_line_of_a_processors_cache() {
        assert_eq!(size_of::<Connection>(), 64);
    }

    #[test]
    fn small_messages_keep_their_order_and_large_ones_follow_in_theirs() {
        let mut connection = connection();
        for (id, size, is_large) in
            [(0, 300.0, true), (1, 10.0, false), (2, 100.0, true), (3, 5.0, false), (4, 50.0, true)]
        {
            connection.push(id, size, is_large);
        }
        let expected = [(1, 10.0), (3, 15.0), (0, 315.0), (2, 415.0), (4, 465.0)];
        assert_eq!(run(&mut connection), expected);
    }

    #[test]
    fn a_small_message_interrupts_a_large_one_which_loses_nothing() {
        let mut connection = connection();
        connection.push(0, 100.0, true);
        connection.push(1, 100.0, true);
        assert_eq!(connection.begin_turn(), Some(100.0));
        assert!(connection.is_interrupted_by(false));
        assert!(!connection.is_interrupted_by(true), "another large one waits");
        connection.interrupt(70.0);
        connection.push(2, 1.0, false);
        assert_eq!(run(&mut connection), [(2, 1.0), (0, 71.0), (1, 171.0)]);
    }
}
