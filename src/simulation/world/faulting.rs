//! What faults do to the world, and what tasks learn of each other's starts and ends.

use std::time::Duration;

use crate::simulation::audit::EventKind;
use crate::simulation::events::Event;
use crate::simulation::fault_injector::{FaultEffect, FaultEvent, Leaver};
use crate::simulation::network::Delivery;
use crate::transport::Obstacle;

use super::processing::message_cost;
use super::{Action, RunCommand, World};

impl World {
    /// Whether the run has any faults.
    pub(in crate::simulation) fn expects_faults(&self) -> bool {
        self.faults.are_expected() || self.replay.is_some()
    }

    pub(super) fn apply_fault(&mut self, event: FaultEvent, actions: &mut Vec<Action>) {
        let task = self.faults.blamed_task(&event);
        self.history.interfere(self.now, task);
        for effect in self.faults.apply(self.now, event, &mut self.connections) {
            self.apply(effect, actions);
        }
    }

    /// The program of a task has ended, and its process is to. In a replay, what the others hear of
    /// that is on their tapes.
    pub(in crate::simulation) fn leave(&mut self, leaver: Leaver) {
        if self.replay.is_none() {
            let effect = self.faults.leave(self.now, leaver, &self.connections);
            self.apply(effect, &mut Vec::new());
        }
    }

    /// Ends the process of a task that leaves, if its last messages have arrived. Those for a task
    /// that is down keep it from nothing.
    pub(super) fn end_a_leaver(&mut self, actions: &mut Vec<Action>) -> bool {
        let have_arrived = |task: usize| {
            let is_in_vain =
                |held: &&Delivery<_>| held.from == task && !self.connections.is_up(held.to);
            let in_vain = self.held.iter().filter(is_in_vain).map(|held| held.size.0);
            self.books.of(task) + in_vain.sum::<u64>() == self.traffic[task].total
        };
        let Some(task) = self.faults.next_to_end(have_arrived) else { return false };
        self.audit.record(self.now, EventKind::Fault, [task as u64, u64::MAX]);
        self.history.interfere(self.now, task);
        for effect in self.faults.end_in_good_order(self.now, task, &mut self.connections) {
            self.apply(effect, actions);
        }
        true
    }

    pub(super) fn apply(&mut self, effect: FaultEffect, actions: &mut Vec<Action>) {
        match effect {
            FaultEffect::Kill { task, restarts } => {
                let missed = std::mem::take(&mut self.missed[task]);
                let undone = self.processors.clear(self.now, task);
                self.books.leave_undone(task, &undone);
                for unsent in self.network.crash(self.now, task) {
                    self.books.drop(&unsent);
                }
                self.unpaid[task] = 0;
                self.history.retire(task);
                actions.push(Action::Kill { task, restarts, missed, undone });
            }
            FaultEffect::Start { task } => {
                actions.push(Action::Command(RunCommand::Start { task }));
            }
            FaultEffect::AskToStop { task } => {
                actions.push(Action::Command(RunCommand::AskToStop { task }));
            }
            FaultEffect::Tell { observer, peer, event } => {
                self.schedule_fault(self.network.latency(peer, observer), event);
            }
            FaultEffect::TellLost { observer, peer, loss } => {
                self.tell_lost(observer, peer, loss, actions);
            }
            FaultEffect::Schedule { at, event } => self.events.push(at, Event::Fault(event)),
            FaultEffect::Watch { observer, at, event } => {
                let frozen = self.frozen_for(observer);
                self.events.push(at, Event::Silence { observer, frozen, event });
            }
            FaultEffect::Postpone { task, event } => self.postpone(task, Event::Fault(event)),
            FaultEffect::Freeze { task } => self.freeze(task),
            FaultEffect::Resume { task } => self.resume(task),
            FaultEffect::SetSlowdown { task, factor } => {
                self.processors.set_slowdown(self.now, task, factor);
                let cost = message_cost(&self.cluster).mul_f64(factor);
                self.network.set_message_cost(task, cost);
            }
            FaultEffect::SetLinkSpeed { from, to, speed } => {
                self.network.set_link_speed(self.now, (from, to), speed);
            }
            FaultEffect::ReleaseHeld => self.release_held(actions),
        }
    }

    pub(super) fn schedule_fault(&mut self, after: Duration, event: FaultEvent) {
        self.events.push(self.now.after(after), Event::Fault(event));
    }

    /// A task listens. If it was down, the envelopes that were held for it are delivered.
    pub(in crate::simulation) fn listens(&mut self, task: usize) {
        if self.connections.is_up(task) {
            return;
        }
        self.connections.listen(task);
        self.schedule_fault(Duration::ZERO, FaultEvent::ReleaseHeld);
        for observer in self.connections.unaware_dialers(task) {
            let event = FaultEvent::PeerRestarted { observer, peer: task };
            self.schedule_fault(self.faults.keep_alive(), event);
        }
    }

    /// `observer` hears of `incarnation` of `peer`: it loses an earlier one.
    pub(in crate::simulation) fn outlive(
        &mut self,
        observer: usize,
        peer: usize,
        incarnation: u64,
    ) {
        let is_replayed = self.replay.is_some(); // its losses are on the tape
        let is_its = u64::from(self.connections.incarnation(peer)) == incarnation;
        if !is_replayed && self.connections.is_up(peer) && is_its {
            let event = FaultEvent::PeerRestarted { observer, peer };
            self.schedule_fault(Duration::ZERO, event);
        }
    }

    /// Why messages of `from` to `to` wait, if they do: the two have no connection, and nothing
    /// gets through, or nobody is there.
    pub(in crate::simulation) fn obstacle(&self, from: usize, to: usize) -> Option<Obstacle> {
        let stamp = self.connections.stamp(from, to);
        let has_none = !self.connections.is_up(to) || !self.connections.has_one_to_lose(from, to);
        let waits = has_none && self.connections.must_wait(from, to, stamp);
        let why = || "it has not answered yet".to_owned();
        (waits && self.replay.is_none()).then(|| Obstacle { why: why(), refused: None })
    }
}
