//! The replay of tapes. Each task receives the messages of its tape, in the tape's order and never
//! before their recorded time. A message that is not on the tape is held.
//!
//! A pure machine, which stands where the network and the faults stand otherwise: messages arrive
//! at once and wait for their turn, and kernels take no time, so that whatever a task was sent is
//! there by the time that its tape has.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use smallvec::SmallVec;

use crate::runtime::{Code, Error, PeerMessage, ProgramMessage, WorkerMessage};
use crate::tape::{Entry, Event, Masters, Name, Tapes, joined, parts};
use crate::transport::{Loss, Messages};
use crate::units::Time;

use super::device::DeviceOf;

/// The time limit for a message of the tape, from its time and from the last delivery of another.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many of the messages that wait are named in an error.
const NAMED: usize = 5;

/// The tapes of a run, as far as they have been played.
pub(super) struct Replay {
    tapes: Tapes,
    players: Vec<Player>,
    /// Counts the envelopes that are sent.
    sent: u64,
    /// When anything was last delivered.
    moved: Time,
}

/// Something that happens to a task by its tape.
#[derive(Debug)]
pub(super) enum Played {
    /// It is delivered an envelope.
    Deliver { from: usize, messages: Messages<PeerMessage> },
    /// It loses a peer.
    Lose { peer: usize, loss: Loss },
    /// The oldest kernels end that run on a device.
    Finish { device: usize },
    /// It dies, and starts again later if it `restarts`.
    Die { restarts: bool },
    /// It starts again.
    Start,
}

/// One task: its present life, and the messages on their way to it.
#[derive(Default)]
struct Player {
    life: usize,
    /// Whether that life has ended, or has yet to begin if it is the first.
    is_dead: bool,
    has_lived: bool,
    /// The position of the next entry.
    next: usize,
    masters: Masters,
    waiting: Vec<Waiting>,
    /// By sender: the number of the last of its envelopes that was delivered.
    delivered: BTreeMap<usize, u64>,
    /// By device: the number of pieces of kernels that run.
    computing: BTreeMap<u32, usize>,
    /// By peer: the last of its lives that this one has met.
    met: BTreeMap<usize, usize>,
    /// When the next entry can be played; none while it waits for a message.
    due: Option<Time>,
}

/// A part of a message that has not been delivered.
struct Waiting {
    from: usize,
    /// The sender's life.
    life: usize,
    /// The number of its envelope.
    number: u64,
    message: PeerMessage,
}

impl Replay {
    /// The replay of `tapes` from their beginning.
    pub(super) fn new(tapes: &Tapes) -> Self {
        let unborn = |_| Player { is_dead: true, ..Player::default() };
        let players = tapes.tasks().iter().map(unborn).collect();
        let mut replay = Self { tapes: tapes.clone(), players, sent: 0, moved: Time::ZERO };
        (0..replay.players.len()).for_each(|task| replay.look(task));
        replay
    }

    /// A task sends an envelope.
    pub(super) fn send(&mut self, from: usize, to: usize, messages: Messages<PeerMessage>) {
        let (number, life) = (self.sent, self.players[from].life);
        self.sent += 1;
        let whole = messages.into_iter().flat_map(parts);
        let waiting = whole.map(|message| Waiting { from, life, number, message });
        self.players[to].waiting.extend(waiting);
        let now = self.players[to].life;
        self.players[from].met.insert(to, now);
        self.look(to);
    }

    /// A device of a task is given kernels that leave its message thread.
    pub(super) fn compute(&mut self, DeviceOf { task, device }: DeviceOf) {
        *self.players[task].computing.entry(device as u32).or_default() += 1;
        self.look(task);
    }

    /// The life of `peer` that `observer` has met last.
    pub(super) fn met(&self, observer: usize, peer: usize) -> Option<u64> {
        self.players[observer].met.get(&peer).map(|life| *life as u64)
    }

    /// When something happens next; not before `now`.
    pub(super) fn next_event(&self, now: Time) -> Option<Time> {
        self.players.iter().filter_map(|player| player.due).min().map(|due| due.max(now))
    }

    /// Lets the next of what is due at `now` happen; says to which task.
    pub(super) fn advance(&mut self, now: Time) -> Option<(usize, Played)> {
        let first = |(task, player): (usize, &Player)| Some((player.due?, task));
        let (due, task) = self.players.iter().enumerate().filter_map(first).min()?;
        if due > now {
            return None;
        }
        self.moved = now;
        let played = self.play(task);
        self.look(task);
        Some((task, played))
    }

    fn play(&mut self, task: usize) -> Played {
        let lives = self.tapes.lives(task).len();
        let player = &mut self.players[task];
        if player.is_dead {
            let (waiting, life) = (std::mem::take(&mut player.waiting), player.next_life());
            *player = Player { life, has_lived: true, waiting, ..Player::default() };
            return Played::Start;
        }
        let Some(entry) = self.tapes.lives(task)[player.life].entries.get(player.next) else {
            player.is_dead = true;
            let restarts = player.life + 1 < lives;
            self.lose_what_waits_of(task);
            return Played::Die { restarts };
        };
        player.next += 1;
        match &entry.event {
            Event::Received { from, messages } => {
                let from = *from as usize;
                Played::Deliver { from, messages: player.take(from, messages) }
            }
            Event::Lost { peer, loss } => {
                let (peer, loss) = (*peer as usize, *loss);
                let Player { life, is_dead, .. } = self.players[peer];
                let is_of_dead = |one: &Waiting| one.life < life || one.life == life && is_dead;
                let is_lost = |one: &Waiting| one.from == peer && is_of_dead(one);
                self.players[task].waiting.retain(|one| !is_lost(one));
                Played::Lose { peer, loss }
            }
            Event::Computed { device } => {
                *player.computing.entry(*device).or_default() -= 1;
                Played::Finish { device: *device as usize }
            }
            Event::Ended { .. } => unreachable!("it is the last entry, and nothing is due with it"),
        }
    }

    /// `task` has died: what it has sent to those who have never met this life is lost with it. The
    /// tapes of the others say what they still received, and then that it was lost.
    fn lose_what_waits_of(&mut self, task: usize) {
        let life = self.players[task].life;
        for other in 0..self.players.len() {
            if self.players[other].met.get(&task) != Some(&life) {
                self.players[other].waiting.retain(|one| one.from != task);
                self.look(other);
            }
        }
    }

    /// Finds when the next entry of a task can be played.
    fn look(&mut self, task: usize) {
        let lives = self.tapes.lives(task);
        let player = &mut self.players[task];
        if player.is_dead {
            player.due = lives.get(player.next_life()).map(|next| next.began);
            return;
        }
        let life = &lives[player.life];
        player.due = match life.entries.get(player.next) {
            None => life.died,
            Some(Entry { event: Event::Ended { .. }, .. }) => None,
            Some(Entry { at, event: Event::Lost { .. } }) => Some(*at),
            Some(Entry { at, event: Event::Computed { device } }) => {
                Some(*at).filter(|_| player.computing.get(device).is_some_and(|count| *count > 0))
            }
            Some(Entry { at, event: Event::Received { from, messages } }) => {
                Some(*at).filter(|_| player.has(*from as usize, messages))
            }
        };
    }

    /// The error of a run in which the next event would happen at `next`, or no other at all: a
    /// tape has a message that does not come.
    pub(super) fn departure(&self, next: Option<Time>) -> Option<Error> {
        let stuck = (0..self.players.len()).filter_map(|task| Some((self.missing(task)?, task)));
        let (at, task) = stuck.min()?;
        let limit = at.max(self.moved).after(PATIENCE);
        next.is_none_or(|next| next > limit).then(|| self.never_came(task))
    }

    /// The error of a run that has ended in another way than its tapes, if it has.
    pub(super) fn departure_at_end(&mut self) -> Option<Error> {
        for task in 0..self.players.len() {
            while self.players[task].due.is_some() && !self.players[task].is_dead {
                self.play(task);
                self.look(task);
            }
            if self.missing(task).is_some() {
                return Some(self.never_came(task));
            }
        }
        (0..self.players.len()).find_map(|task| self.not_on_tape(task))
    }

    /// The error of a task whose program failed with `error`, if its tape does not end so.
    pub(super) fn departure_of(&self, task: usize, error: &Error) -> Option<Error> {
        let entries = &self.tapes.lives(task).get(self.players[task].life)?.entries;
        let Event::Ended { error: None, .. } = &entries.last()?.event else { return None };
        let found = format!("its program failed: {error}");
        Some(self.departed(task, "the task ends well", &found))
    }

    /// If the next entry of a task's tape is a message that has not come yet: the entry's time.
    fn missing(&self, task: usize) -> Option<Time> {
        let player = &self.players[task];
        if player.is_dead || player.due.is_some() {
            return None;
        }
        let entry = self.tapes.lives(task).get(player.life)?.entries.get(player.next)?;
        (!matches!(entry.event, Event::Ended { .. })).then_some(entry.at)
    }

    fn never_came(&self, task: usize) -> Error {
        let player = &self.players[task];
        let entry = &self.tapes.lives(task)[player.life].entries[player.next];
        let expected = entry.event.in_words(self.tapes.tasks());
        let there: Vec<String> =
            player.waiting.iter().take(NAMED).map(|one| self.words(task, one)).collect();
        let found = match there.len() {
            0 => "it was sent nothing more".to_owned(),
            _ => format!("not all of it was sent; there waits {}", there.join(", ")),
        };
        self.departed(task, &expected, &found)
    }

    /// The error of a task to which a message was sent that its tape does not have, though a later
    /// one of the same sender. What was lost with a connection is on no tape either.
    fn not_on_tape(&self, task: usize) -> Option<Error> {
        if self.tapes.has_losses() {
            return None;
        }
        let player = &self.players[task];
        let is_overtaken = |one: &&Waiting| {
            player.delivered.get(&one.from).is_some_and(|delivered| one.number < *delivered)
        };
        let is_missed = |one: &&Waiting| is_overtaken(one) && !is_asked_by_time(&one.message);
        let found = player.waiting.iter().find(is_missed)?;
        Some(self.departed(task, "the end", &format!("{} was sent, too", self.words(task, found))))
    }

    fn words(&self, task: usize, waiting: &Waiting) -> String {
        let Waiting { from, message, .. } = waiting;
        let name = self.players[task].masters.name(*from as u32, message);
        let tasks = self.tapes.tasks();
        format!("{} from {}", name.in_words(tasks), tasks[*from])
    }

    fn departed(&self, task: usize, expected: &str, found: &str) -> Error {
        let (name, position) = (&self.tapes.tasks()[task], self.players[task].next);
        let life = match self.players[task].life {
            0 => String::new(),
            life => format!(" of its life {life}"),
        };
        let message = format!(
            "{name} departs from its tape at position {position}{life}: the tape has: {expected}; \
             but {found}"
        );
        Error::new(Code::Departed, message).on(name)
    }
}

impl Player {
    /// The number of the life that begins next.
    fn next_life(&self) -> usize {
        self.life + usize::from(self.has_lived)
    }

    /// Whether all of `messages` wait, of the same sender.
    fn has(&self, from: usize, messages: &[Name]) -> bool {
        let mut used: SmallVec<[usize; 8]> = SmallVec::new();
        messages.iter().flat_map(parts_of).all(|part| {
            let found = self.find(from, &part, &used);
            used.extend(found);
            found.is_some()
        })
    }

    /// The position of the first part that waits and has this name, but for those `used`.
    fn find(&self, from: usize, part: &Name, used: &[usize]) -> Option<usize> {
        let is_it = |(at, one): (usize, &Waiting)| {
            let is_named = || self.masters.name(from as u32, &one.message) == *part;
            (one.from == from && !used.contains(&at) && is_named()).then_some(at)
        };
        self.waiting.iter().enumerate().find_map(is_it)
    }

    /// Takes the messages of these names, which all wait.
    fn take(&mut self, from: usize, names: &[Name]) -> Messages<PeerMessage> {
        let mut messages = Messages::new();
        for name in names {
            let mut taken = Vec::new();
            for part in parts_of(name) {
                let at = self.find(from, &part, &[]).expect("they were there a moment ago");
                let Waiting { life, number, message, .. } = self.waiting.remove(at);
                let last = self.delivered.entry(from).or_default();
                *last = number.max(*last);
                self.met.insert(from, life);
                taken.push(message);
            }
            if let Some(message) = joined(taken) {
                self.masters.meet(from as u32, &message);
                messages.push(message);
            }
        }
        messages
    }
}

/// Whether it is a question that a task asks only after a long wait. A replayed task may ask it
/// where the recorded one did not: building a graph takes no virtual time, so its wait begins
/// earlier. The question alone changes nothing; an answer would be on the tape.
fn is_asked_by_time(message: &PeerMessage) -> bool {
    matches!(
        message,
        PeerMessage::Program(ProgramMessage::AskForPlaces)
            | PeerMessage::Worker(WorkerMessage::AskForWays { .. })
    )
}

/// The names of the parts of a message that may travel by themselves.
fn parts_of(name: &Name) -> impl Iterator<Item = Name> {
    let count = if name.is_of_values() { name.items.len() } else { 1 };
    (0..count).map(|part| match name.is_of_values() {
        true => Name { items: SmallVec::from_slice(&name.items[part..=part]), ..name.clone() },
        false => name.clone(),
    })
}
