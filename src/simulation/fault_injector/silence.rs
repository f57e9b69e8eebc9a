//! Tasks that fall silent, since they crash, freeze or are cut off; and when the others notice.

use std::time::Duration;

use super::cuts::{Cut, CutDirection};
use super::effects::{FaultEffect, FaultEvent, SilenceCause};
use super::{FaultInjector, schedule};
use crate::simulation::connections::Connections;
use crate::transport::Loss;
use crate::units::Time;

/// A freeze of a task, or several that overlap.
#[derive(Clone, Copy, Default)]
pub(super) struct Freeze {
    /// Counts the freezes of all tasks, from 1.
    number: u64,
    until: Time,
}

impl FaultInjector {
    /// Ends `task`, which starts again after a while or never. The others notice at the limit of
    /// silence.
    pub(super) fn crash(
        &mut self,
        now: Time,
        task: usize,
        restart_after: Option<Duration>,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        let mut effects = self.fall_silent(now, task, connections);
        if let Some(after) = restart_after {
            effects.push(schedule(now, after, FaultEvent::Restart { task }));
        }
        effects.push(FaultEffect::Kill { task, restarts: restart_after.is_some() });
        effects
    }

    /// Takes `task` down. Those that are connected to it notice at the limit of silence; those that
    /// start again with it are to start.
    pub(super) fn fall_silent(
        &mut self,
        now: Time,
        task: usize,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        let limit = |observer| self.at_silence_limit(now, observer, task, SilenceCause::Crash);
        let mut effects: Vec<FaultEffect> =
            connections.crash(task).into_iter().map(limit).collect();
        effects.extend(self.stops.end(now, task));
        effects
    }

    /// Freezes `task`, or extends its freeze if it is frozen already. The others notice at the
    /// limit of silence, counted from the beginning of the first freeze.
    pub(super) fn freeze(
        &mut self,
        now: Time,
        task: usize,
        lasts: Duration,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        let until = now.after(lasts);
        if connections.is_frozen(task) {
            let freeze = &mut self.last_freeze[task];
            if until <= freeze.until {
                return Vec::new();
            }
            freeze.until = until;
            return vec![thaw(until, task, connections)];
        }
        connections.freeze(task);
        self.freezes += 1;
        self.last_freeze[task] = Freeze { number: self.freezes, until };
        let mut effects = vec![FaultEffect::Freeze { task }];
        for observer in connections.watchers(task) {
            let cause = SilenceCause::Freeze(self.freezes);
            effects.push(self.at_silence_limit(now, observer, task, cause));
        }
        effects.push(thaw(until, task, connections));
        effects
    }

    /// Lets a frozen task run again, unless another freeze lasts longer. It learns which peers have
    /// given it up before it catches up on missed events.
    pub(super) fn thaw(
        &self,
        now: Time,
        task: usize,
        incarnation: u32,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        let is_extended = now < self.last_freeze[task].until;
        if is_extended || !connections.is_alive(task, incarnation) || !connections.is_frozen(task) {
            return Vec::new();
        }
        let lost = |(peer, loss)| FaultEffect::TellLost { observer: task, peer, loss };
        let mut effects: Vec<FaultEffect> = connections.thaw(task).into_iter().map(lost).collect();
        effects.extend([FaultEffect::Resume { task }, FaultEffect::ReleaseHeld]);
        effects
    }

    /// Cuts the ways of `pairs`, each of a sender and a receiver. Both notice by the whole time for
    /// which the way is cut, by this partition and by others that overlap with it.
    pub(super) fn partition(
        &mut self,
        now: Time,
        pairs: Vec<CutDirection>,
        lasts: Duration,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        let before: Vec<Option<Cut>> =
            pairs.iter().map(|direction| self.cuts.get(*direction)).collect();
        for (from, to) in &pairs {
            connections.cut(*from, *to);
            self.cuts.extend((*from, *to), now, now.after(lasts));
        }
        let mut effects = Vec::new();
        for (direction, before) in pairs.iter().zip(before) {
            effects.extend(self.cut_limits(*direction, before, &pairs, connections));
        }
        effects.push(schedule(now, lasts, FaultEvent::Heal { pairs }));
        effects
    }

    /// Nothing gets through between `one` and `other` until both have noticed.
    pub(in crate::simulation) fn break_connection(
        &mut self,
        now: Time,
        (one, other): (usize, usize),
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        let lasts = self.silence + self.keep_alive();
        self.partition(now, vec![(one, other), (other, one)], lasts, connections)
    }

    /// The limits of silence of the receiver and the sender of `direction`, if they are
    /// connected and a partition of `pairs` has changed them; `before` is the cut without it.
    fn cut_limits(
        &self,
        direction: CutDirection,
        before: Option<Cut>,
        pairs: &[CutDirection],
        connections: &Connections,
    ) -> Vec<FaultEffect> {
        let (from, to) = direction;
        let limit = |observer, peer, notices: fn(Cut, Duration) -> Option<Time>| {
            if !connections.is_connected(observer, peer) {
                return None;
            }
            let time = |cut: Option<Cut>| notices(cut?, self.silence);
            let at = time(self.cuts.get(direction)).filter(|at| time(before) != Some(*at))?;
            let event = FaultEvent::SilenceLimit { observer, peer, cause: SilenceCause::Partition };
            Some(FaultEffect::Watch { observer, at, event })
        };
        let mut effects = Vec::from_iter(limit(to, from, Cut::receiver_notices));
        let back = (to, from);
        let is_as_receiver =
            pairs.contains(&back) && self.cuts.get(back) == self.cuts.get(direction);
        if !is_as_receiver {
            effects.extend(limit(from, to, Cut::sender_notices));
        }
        effects
    }

    /// Ends a partition of `pairs`. A way stays cut as long as another partition cuts it.
    pub(super) fn heal(
        &mut self,
        pairs: &[CutDirection],
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        for (from, to) in pairs {
            connections.heal(*from, *to);
            if !connections.is_cut(*from, *to) {
                self.cuts.end((*from, *to));
            }
        }
        vec![FaultEffect::ReleaseHeld]
    }

    /// `observer` counts `peer` as lost if the peer is still silent for the same cause.
    pub(super) fn silence_limit(
        &self,
        now: Time,
        observer: usize,
        peer: usize,
        cause: SilenceCause,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        if connections.is_frozen(observer) {
            let event = FaultEvent::SilenceLimit { observer, peer, cause };
            return vec![FaultEffect::Postpone { task: observer, event }];
        }
        let silent = |is_so: bool| is_so.then_some(Loss::Silent);
        let loss = match cause {
            SilenceCause::Crash => silent(connections.can_notice_death(observer, peer)),
            SilenceCause::Freeze(number) => {
                let last = self.last_freeze[peer];
                let goes_on =
                    connections.is_frozen(peer) && last.number == number && last.until > now;
                silent(goes_on && connections.has_one_to_lose(observer, peer))
            }
            SilenceCause::Partition => self.notices_cut(now, observer, peer, connections),
            SilenceCause::Closed => {
                connections.can_notice_close(observer, peer).then_some(Loss::Unheard)
            }
        };
        let Some(loss) = loss else { return Vec::new() };
        connections.give_up(observer, peer);
        let mut effects = vec![FaultEffect::TellLost { observer, peer, loss }];
        let is_cut_off = cause == SilenceCause::Partition && loss == Loss::Silent;
        if is_cut_off && !connections.is_cut(observer, peer) {
            let event = FaultEvent::closed(peer, observer);
            effects.push(FaultEffect::Tell { observer: peer, peer: observer, event });
        }
        effects
    }

    /// How `observer` has lost `peer`, if it has been cut off from it for long enough. A limit that
    /// was scheduled before another partition extended the cut may come too early.
    fn notices_cut(
        &self,
        now: Time,
        observer: usize,
        peer: usize,
        connections: &Connections,
    ) -> Option<Loss> {
        if !connections.can_notice_cut(observer, peer) {
            return None;
        }
        let is_over = |direction, notices: fn(Cut, Duration) -> Option<Time>| {
            let at = self.cuts.get(direction).and_then(|cut| notices(cut, self.silence));
            at.is_some_and(|at| at <= now)
        };
        let is_silent = is_over((peer, observer), Cut::receiver_notices);
        let is_given_up = || {
            let has_ended = connections.can_notice_close(observer, peer);
            has_ended && is_over((observer, peer), Cut::sender_notices)
        };
        match is_silent {
            true => Some(Loss::Silent),
            false => is_given_up().then_some(Loss::Unheard),
        }
    }

    fn at_silence_limit(
        &self,
        now: Time,
        observer: usize,
        peer: usize,
        cause: SilenceCause,
    ) -> FaultEffect {
        let event = FaultEvent::SilenceLimit { observer, peer, cause };
        FaultEffect::Watch { observer, at: now.after(self.silence), event }
    }
}

/// The end of the freeze of `task`, if nothing extends it.
fn thaw(until: Time, task: usize, connections: &Connections) -> FaultEffect {
    let event = FaultEvent::Thaw { task, incarnation: connections.incarnation(task) };
    FaultEffect::Schedule { at: until, event }
}

/// `observer` counts `peer`, which runs again, as lost unless it has done so before.
pub(super) fn peer_restarted(
    observer: usize,
    peer: usize,
    connections: &mut Connections,
) -> Vec<FaultEffect> {
    if connections.is_frozen(observer) {
        let event = FaultEvent::PeerRestarted { observer, peer };
        return vec![FaultEffect::Postpone { task: observer, event }];
    }
    if !connections.can_notice_death(observer, peer) {
        return Vec::new();
    }
    connections.give_up(observer, peer);
    vec![FaultEffect::TellLost { observer, peer, loss: Loss::Restarted }]
}
