//! Tasks that fall silent, since they crash, freeze or are cut off; and when the others notice.

use std::time::Duration;

use super::effects::{FaultEffect, FaultEvent, SilenceCause};
use super::{FaultInjector, schedule};
use crate::simulation::links::Links;
use crate::transport::Loss;
use crate::units::Time;

impl FaultInjector {
    pub(super) fn crash(
        &mut self,
        now: Time,
        task: usize,
        restart_after: Option<Duration>,
        links: &mut Links,
    ) -> Vec<FaultEffect> {
        if self.has_returned[task] || !links.is_up(task) {
            tracing::info!(task = %self.tasks[task], "fault skipped: the task is not running");
            return Vec::new();
        }
        let observers = links.crash(task);
        let mut effects = Vec::new();
        for observer in observers {
            effects.push(self.at_silence_limit(now, observer, task, SilenceCause::Crash));
        }
        if let Some(after) = restart_after {
            effects.push(schedule(now, after, FaultEvent::Restart { task }));
        }
        effects.push(FaultEffect::Kill { task, restarts: restart_after.is_some() });
        effects
    }

    pub(super) fn freeze(
        &mut self,
        now: Time,
        task: usize,
        lasts: Duration,
        links: &mut Links,
    ) -> Vec<FaultEffect> {
        if !links.is_up(task) || links.is_frozen(task) {
            tracing::info!(task = %self.tasks[task], "fault skipped: the task is not running");
            return Vec::new();
        }
        links.freeze(task);
        self.freezes += 1;
        self.frozen_by[task] = self.freezes;
        let mut effects = vec![FaultEffect::Freeze { task }];
        if lasts > self.silence {
            let cause = SilenceCause::Freeze(self.freezes);
            for observer in links.watchers(task) {
                effects.push(self.at_silence_limit(now, observer, task, cause));
            }
        }
        let incarnation = links.incarnation(task);
        effects.push(schedule(now, lasts, FaultEvent::Thaw { task, incarnation }));
        effects
    }

    /// Cuts the ways of `pairs`, each of a sender and a receiver. The receiver notices at the limit
    /// of silence. A sender that still hears of the receiver notices when that has given up and
    /// been silent as long.
    pub(super) fn partition(
        &mut self,
        now: Time,
        pairs: Vec<(usize, usize)>,
        lasts: Duration,
        links: &mut Links,
    ) -> Vec<FaultEffect> {
        let mut effects = Vec::new();
        for (from, to) in &pairs {
            links.cut(*from, *to);
            if lasts > self.silence {
                effects.push(self.at_silence_limit(now, *to, *from, SilenceCause::Partition));
            }
            if lasts > self.silence && !pairs.contains(&(*to, *from)) {
                // Once packets get through again, they are answered with a reset.
                let noticed = lasts.min(2 * self.silence);
                let cause = SilenceCause::Partition;
                let event = FaultEvent::SilenceLimit { observer: *from, peer: *to, cause };
                effects.push(schedule(now, noticed, event));
            }
        }
        effects.push(schedule(now, lasts, FaultEvent::Heal { pairs }));
        effects
    }

    /// `observer` counts `peer` as lost if the peer is still silent for the same cause.
    pub(super) fn silence_limit(
        &self,
        observer: usize,
        peer: usize,
        cause: SilenceCause,
        links: &mut Links,
    ) -> Vec<FaultEffect> {
        if links.is_frozen(observer) {
            let event = FaultEvent::SilenceLimit { observer, peer, cause };
            return vec![FaultEffect::Postpone { task: observer, event }];
        }
        let is_silent = match cause {
            SilenceCause::Crash => links.can_notice_death(observer, peer),
            SilenceCause::Freeze(number) => {
                let is_it = links.is_frozen(peer) && self.frozen_by[peer] == number;
                is_it && links.has_one_to_lose(observer, peer)
            }
            SilenceCause::Partition => links.can_notice_cut(observer, peer),
            SilenceCause::Closed => links.can_notice_close(observer, peer),
        };
        if !is_silent {
            return Vec::new();
        }
        links.give_up(observer, peer);
        vec![FaultEffect::TellLost { observer, peer, loss: Loss::Silent }]
    }

    fn at_silence_limit(
        &self,
        now: Time,
        observer: usize,
        peer: usize,
        cause: SilenceCause,
    ) -> FaultEffect {
        schedule(now, self.silence, FaultEvent::SilenceLimit { observer, peer, cause })
    }
}

/// `observer` counts `peer`, which runs again, as lost unless it has done so before.
pub(super) fn peer_restarted(observer: usize, peer: usize, links: &mut Links) -> Vec<FaultEffect> {
    if links.is_frozen(observer) {
        let event = FaultEvent::PeerRestarted { observer, peer };
        return vec![FaultEffect::Postpone { task: observer, event }];
    }
    if !links.can_notice_death(observer, peer) {
        return Vec::new();
    }
    links.give_up(observer, peer);
    vec![FaultEffect::TellLost { observer, peer, loss: Loss::Restarted }]
}

/// Lets a frozen task run again. It learns which peers have given it up before it catches up on
/// missed events.
pub(super) fn thaw(task: usize, incarnation: u32, links: &mut Links) -> Vec<FaultEffect> {
    if !links.is_alive(task, incarnation) || !links.is_frozen(task) {
        return Vec::new();
    }
    let lost = |(peer, loss)| FaultEffect::TellLost { observer: task, peer, loss };
    let mut effects: Vec<FaultEffect> = links.thaw(task).into_iter().map(lost).collect();
    effects.extend([FaultEffect::Resume { task }, FaultEffect::ReleaseHeld]);
    effects
}
