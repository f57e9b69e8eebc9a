//! The fault injector: decides each fault's effects and its end.
//!
//! A pure machine: it takes the time and a [`FaultEvent`], changes the state of the connections,
//! and returns [`FaultEffect`]s, which the world applies.

mod cuts;
mod effects;
mod in_force;
mod losses;
mod silence;
mod skipped;
mod stops;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cluster::TaskName;
use crate::transport::BEATS;
use crate::units::Time;

use super::connections::Connections;
use super::faults::{Damage, FaultKind, Faults, SkipReason, SkippedFault, Trigger};

use cuts::Cuts;
pub(super) use effects::{FaultEffect, FaultEvent};
use in_force::InForce;
use losses::Losses;
use silence::{Freeze, peer_restarted};
use skipped::Skipped;
pub(super) use stops::Leaver;
use stops::{Stops, peer_left};

/// The faults of a run: those to come and those in force.
pub(super) struct FaultInjector {
    tasks: Vec<TaskName>,
    are_expected: bool,
    silence: Duration,
    /// The faults to come by their triggers, as the events with which they begin.
    by_time: Vec<(Time, FaultEvent)>,
    by_delivery: Vec<(u64, FaultEvent)>,
    by_event: Vec<(u64, FaultEvent)>,
    /// The number of freezes so far.
    freezes: u64,
    /// By task: its last freeze.
    last_freeze: Vec<Freeze>,
    cuts: Cuts,
    in_force: InForce,
    losses: Losses,
    stops: Stops,
    skipped: Skipped,
    /// By task: whether its program has returned.
    has_returned: Vec<bool>,
}

impl FaultInjector {
    /// The faults of `tasks`.
    pub(super) fn new(tasks: &[TaskName], faults: &Faults, seed: u64) -> Self {
        let (mut by_time, mut by_delivery, mut by_event) = (Vec::new(), Vec::new(), Vec::new());
        for (number, fault) in faults.list.iter().enumerate() {
            let event = FaultEvent::Begin { number, kind: fault.kind.clone() };
            match fault.at {
                Trigger::Time(time) | Trigger::Drawn(time) => by_time.push((time, event)),
                Trigger::Delivery(count) => by_delivery.push((count, event)),
                Trigger::Event(count) => by_event.push((count, event)),
            }
        }
        Self {
            tasks: tasks.to_vec(),
            are_expected: !faults.list.is_empty(),
            silence: faults.silence,
            by_time,
            by_delivery,
            by_event,
            freezes: 0,
            last_freeze: vec![Freeze::default(); tasks.len()],
            cuts: Cuts::default(),
            in_force: InForce::default(),
            losses: Losses::new(seed),
            stops: Stops::new(tasks.len()),
            skipped: Skipped::new(&faults.list),
            has_returned: vec![false; tasks.len()],
        }
    }

    /// Whether the run has any faults.
    pub(super) fn are_expected(&self) -> bool {
        self.are_expected
    }

    /// The effects that the run begins with: the faults that begin at a given time.
    pub(super) fn schedule(&mut self) -> Vec<FaultEffect> {
        let timed = self.by_time.drain(..);
        timed.map(|(at, event)| FaultEffect::Schedule { at, event }).collect()
    }

    /// Takes the faults that begin with delivery `number`.
    #[inline]
    pub(super) fn due_at_delivery(&mut self, number: u64) -> Vec<FaultEvent> {
        if self.by_delivery.is_empty() {
            return Vec::new(); // asked at every delivery
        }
        let due = self.by_delivery.extract_if(.., |(at, _)| *at == number);
        due.map(|(_, event)| event).collect()
    }

    /// Takes the faults that begin after `events` events.
    #[inline]
    pub(super) fn due_after_events(&mut self, events: u64) -> Vec<FaultEvent> {
        if self.by_event.is_empty() {
            return Vec::new(); // asked at every event
        }
        let due = self.by_event.extract_if(.., |(at, _)| *at <= events);
        due.map(|(_, event)| event).collect()
    }

    /// How long a connected peer may be silent before it is lost.
    pub(super) fn silence(&self) -> Duration {
        self.silence
    }

    /// The time between two packets of a task that has nothing to send.
    pub(super) fn keep_alive(&self) -> Duration {
        self.silence / BEATS
    }

    /// The factor on the latency between two tasks.
    pub(super) fn link_slowness(&self, from: usize, to: usize) -> f64 {
        self.in_force.link_slowness(from, to)
    }

    /// The delay of an envelope by the loss of its packets, over a link of `latency`; `None` if
    /// nothing gets through for so long that its connection breaks.
    pub(super) fn retransmission(
        &mut self,
        from: usize,
        to: usize,
        latency: Duration,
    ) -> Option<Duration> {
        let gets_through = self.in_force.getting_through(from, to);
        self.losses.delay(gets_through, latency, self.silence)
    }

    /// Whether nothing can be written to the disk.
    pub(super) fn is_disk_full(&self) -> bool {
        self.in_force.fill_disk()
    }

    /// Takes the damage that has been done to checkpoints since the last call. It is skipped unless
    /// there `is_checkpoint` to damage.
    pub(super) fn take_damage(&mut self, is_checkpoint: bool) -> Vec<Damage> {
        self.skipped.take_damage(is_checkpoint)
    }

    /// The faults that did not happen in a run that has ended.
    pub(super) fn skipped(&self) -> Vec<SkippedFault> {
        self.skipped.at_the_end()
    }

    /// Whether a fault of this `kind` has nothing to happen to.
    fn is_in_vain(&self, kind: &FaultKind, connections: &Connections) -> bool {
        let (FaultKind::Crash { task, .. }
        | FaultKind::Stop { task, .. }
        | FaultKind::Freeze { task, .. }) = kind
        else {
            return false;
        };
        let task = self.index(task);
        self.has_returned[task] || !connections.is_up(task)
    }

    /// The senders and receivers whose links become slow in the run.
    pub(super) fn slow_pairs(&self) -> BTreeSet<(usize, usize)> {
        let timed = self.by_time.iter().map(|(_, event)| event);
        let counted = self.by_delivery.iter().chain(&self.by_event).map(|(_, event)| event);
        let slow = timed.chain(counted).filter_map(|event| match event {
            FaultEvent::Begin { kind: kind @ FaultKind::SlowLink { .. }, .. } => Some(kind),
            _ => None,
        });
        slow.flat_map(|kind| self.ways(kind)).collect()
    }

    /// The speeds of what a fault of this `kind` slows down, by all faults that slow it.
    fn speeds(&self, kind: &FaultKind) -> Vec<FaultEffect> {
        match kind {
            FaultKind::SlowTask { task, .. } => {
                let task = self.index(task);
                vec![FaultEffect::SetSlowdown { task, factor: self.in_force.slowdown(task) }]
            }
            FaultKind::SlowLink { .. } => {
                let speed = |(from, to)| {
                    let speed = 1.0 / self.in_force.link_slowness(from, to);
                    FaultEffect::SetLinkSpeed { from, to, speed }
                };
                self.ways(kind).into_iter().map(speed).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The program of `task` has returned: no crash, stop or freeze concerns it any more.
    pub(super) fn program_returned(&mut self, task: usize) {
        self.has_returned[task] = true;
    }

    /// Another life of `task` begins.
    pub(super) fn program_begins(&mut self, task: usize) {
        self.has_returned[task] = false;
    }

    /// The task that critical paths blame for delays that follow from `event`; 0 where it delays
    /// nobody.
    pub(super) fn blamed_task(&self, event: &FaultEvent) -> usize {
        match event {
            FaultEvent::Begin { kind, .. } | FaultEvent::End { kind } => {
                kind.tasks().first().map_or(0, |task| self.index(task))
            }
            FaultEvent::Restart { task }
            | FaultEvent::AskToStop { task, .. }
            | FaultEvent::EndOfGrace { task, .. }
            | FaultEvent::Thaw { task, .. } => *task,
            FaultEvent::SilenceLimit { peer, .. }
            | FaultEvent::PeerRestarted { peer, .. }
            | FaultEvent::PeerLeft { peer, .. } => *peer,
            FaultEvent::Heal { pairs } => pairs.first().map_or(0, |(_, to)| *to),
            FaultEvent::ReleaseHeld => 0,
        }
    }

    /// Applies `event`, which happens at `now`.
    pub(super) fn apply(
        &mut self,
        now: Time,
        event: FaultEvent,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        match event {
            FaultEvent::Begin { number, kind } => self.begin(now, number, kind, connections),
            FaultEvent::Restart { task } => vec![FaultEffect::Start { task }],
            FaultEvent::AskToStop { task, incarnation, restart_after } => {
                self.ask_to_stop(now, (task, incarnation), restart_after, connections)
            }
            FaultEvent::EndOfGrace { task, incarnation } => {
                self.end_grace(now, task, incarnation, connections)
            }
            FaultEvent::Thaw { task, incarnation } => {
                self.thaw(now, task, incarnation, connections)
            }
            FaultEvent::Heal { pairs } => self.heal(&pairs, connections),
            FaultEvent::End { kind } => {
                self.in_force.end(&kind);
                self.speeds(&kind)
            }
            FaultEvent::SilenceLimit { observer, peer, cause } => {
                self.silence_limit(now, observer, peer, cause, connections)
            }
            FaultEvent::PeerRestarted { observer, peer } => {
                peer_restarted(observer, peer, connections)
            }
            FaultEvent::PeerLeft { observer, peer } => peer_left(observer, peer, connections),
            FaultEvent::ReleaseHeld => vec![FaultEffect::ReleaseHeld],
        }
    }

    fn begin(
        &mut self,
        now: Time,
        number: usize,
        kind: FaultKind,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        let fault = self.skipped.begin(number);
        if self.is_in_vain(&kind, connections) {
            tracing::info!(at = %now, ?kind, "fault skipped: the task is not running");
            self.skipped.skip(fault, SkipReason::NotRunning);
            return Vec::new();
        }
        tracing::info!(at = %now, ?kind, "a fault begins");
        match kind {
            FaultKind::Crash { task, restart_after } => {
                let task = self.index(&task);
                let restart_after = self.stops.restart_of_crashed(task, restart_after);
                self.crash(now, task, restart_after, connections)
            }
            FaultKind::Stop { task, restart_after } => {
                let task = self.index(&task);
                self.ask_to_stop(
                    now,
                    (task, connections.incarnation(task)),
                    restart_after,
                    connections,
                )
            }
            FaultKind::Freeze { task, lasts } => {
                self.freeze(now, self.index(&task), lasts, connections)
            }
            FaultKind::Partition { lasts, .. } | FaultKind::OneWay { lasts, .. } => {
                self.partition(now, self.ways(&kind), lasts, connections)
            }
            FaultKind::Loss { lasts, .. }
            | FaultKind::SlowLink { lasts, .. }
            | FaultKind::SlowTask { lasts, .. }
            | FaultKind::FullDisk { lasts } => {
                let tasks = kind.tasks().iter().map(|task| self.index(task)).collect();
                self.in_force.begin(tasks, kind.clone());
                let mut effects = self.speeds(&kind);
                effects.push(schedule(now, lasts, FaultEvent::End { kind }));
                effects
            }
            FaultKind::TornCheckpoint { damage } => {
                self.skipped.damage(damage, fault);
                Vec::new()
            }
        }
    }

    fn index(&self, task: &TaskName) -> usize {
        let position = self.tasks.iter().position(|own| own == task);
        position.expect("the tasks of faults were checked against the cluster")
    }

    fn ways(&self, kind: &FaultKind) -> Vec<(usize, usize)> {
        kind.ways().iter().map(|(from, to)| (self.index(from), self.index(to))).collect()
    }
}

fn schedule(now: Time, after: Duration, event: FaultEvent) -> FaultEffect {
    FaultEffect::Schedule { at: now.after(after), event }
}
