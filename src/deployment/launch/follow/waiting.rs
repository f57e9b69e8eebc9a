//! The limits of the launcher's waits: for a task that gives no sign of life, for one that logs
//! nothing, and for the others once the chief is gone.
//!
//! Time is counted in beats and not read from a clock: after the launcher itself has stood still,
//! the tasks have a beat to be heard.

use std::fs;
use std::time::Duration;

use super::followee::Followee;
use super::listener::Exit;
use super::quiet::{LONGEST, TELL_EVERY};
use super::{Followed, STOP};
use crate::cluster::TaskName;
use crate::deployment::control::BEAT_EVERY;

/// After the chief's end, the others have this much longer than a lost task has to come back: a
/// task that is cut off gives up by itself by then.
const LINGER: Duration = Duration::from_secs(40);
/// The beats in which a task that is left alone may still end by itself.
const IDLE: u32 = 3;

impl Followed<'_> {
    /// Counts a beat. Returns whether nothing more is to be waited for.
    pub(super) async fn count_beat(&mut self) -> bool {
        for index in 0..self.tasks.len() {
            self.count_silence(index);
        }
        if self.has_failed() {
            return true;
        }
        if !self.tasks[self.chief].has_ended {
            return false;
        }
        self.idle = if self.are_all_latecomers() { self.idle + 1 } else { 0 };
        if self.idle == IDLE {
            let names = self.who_lingers();
            let chief_is_gone = self.chief_is_gone();
            (self.order.tell)(&format!("{chief_is_gone}; nothing is left to do for {names}"));
            self.stop(STOP).await;
            return true;
        }
        self.lingers += 1;
        let left =
            (self.order.patience.recovery + LINGER).saturating_sub(BEAT_EVERY * self.lingers);
        if left.is_zero() {
            if self.has_idle_chief() {
                self.blame_the_idle_chief();
            }
            self.stop(STOP).await;
        } else if self.lingers.is_multiple_of(TELL_EVERY) {
            self.tell_who_lingers(left);
        }
        left.is_zero()
    }

    /// Whether all that are still there were killed by a fault, and are started again or will be:
    /// once the others are gone, nobody tells them that the training is over.
    fn are_all_latecomers(&self) -> bool {
        let mut left = self.tasks.iter().filter(|followee| !followee.has_ended);
        left.all(|followee| followee.is_again || followee.is_down)
    }

    /// Whether the chief has come to the end of the training.
    pub(super) fn is_chief_done(&self) -> bool {
        self.tasks[self.chief].has_ended && !self.is_chief_dead()
    }

    /// Whether the chief is done, and has told of no training that the others could take part in.
    pub(super) fn has_idle_chief(&self) -> bool {
        self.is_chief_done() && !self.tasks[self.chief].record.knows_a_training()
    }

    /// Has the chief, which is done, be the cause of what others miss.
    pub(super) fn blame_the_idle_chief(&mut self) {
        let failures = self.failures();
        self.tasks[self.chief].failed.get_or_insert((failures, Exit::Idle));
    }

    /// Whether a fault has ended the chief for good.
    pub(super) fn is_chief_dead(&self) -> bool {
        let chief = &self.tasks[self.chief];
        chief.has_ended && chief.is_down
    }

    /// Why the others have nothing to wait for.
    fn chief_is_gone(&self) -> &'static str {
        match &self.tasks[self.chief].stopped {
            _ if !self.is_chief_dead() => "the chief is done",
            Some(_) => "the chief was stopped",
            None => "the chief was killed",
        }
    }

    /// Counts the silence of a task, and kills it when that is too long.
    fn count_silence(&mut self, index: usize) {
        let patience = self.order.patience;
        let (failures, is_chief_done) = (self.failures(), self.is_chief_done());
        let may_restart = self.may_restart(index, &Exit::Silent(Duration::ZERO));
        let Followee { task, kill, has_begun, unheard, failed, has_ended, is_down, stops, .. } =
            &mut self.tasks[index];
        if *has_ended || *is_down || failed.is_some() {
            return;
        }
        if *stops > 0 {
            *unheard = 0; // a fault has it stand still
            return;
        }
        *unheard += 1;
        let silence = BEAT_EVERY * *unheard;
        let limit = if *has_begun { patience.recovery } else { patience.first };
        if silence >= limit {
            *kill = None;
            *has_ended = is_chief_done; // the result is there without it
            if !is_chief_done && may_restart {
                self.restart(index, &Exit::Silent(silence).to_string());
            } else if !is_chief_done {
                *failed = Some((failures, Exit::Silent(silence)));
            }
        } else if unheard.is_multiple_of(TELL_EVERY) {
            (self.order.tell)(&format!(
                "{task} has given no sign of life for {silence:.0?}; it is killed after {limit:.0?}"
            ));
        }
    }

    /// Counts a beat, and tells of processes that have logged nothing for too long while no step
    /// was taken. A parameter server serves, and waits only when no worker is there.
    pub(super) fn count_quiet(&mut self) -> Vec<(TaskName, Duration)> {
        let has_workers =
            self.tasks.iter().any(|followee| followee.task.is_of_workers() && followee.waits());
        let mut silent = Vec::new();
        for followee in &mut self.tasks {
            let serves = has_workers && !followee.task.is_of_workers();
            if serves || followee.stops > 0 || !followee.waits() {
                followee.quiet.begin_again();
                continue;
            }
            let logged = fs::metadata(self.order.log(&followee.task)).map_or(0, |log| log.len());
            if followee.quiet.beat(logged) {
                silent.push((followee.task.clone(), BEAT_EVERY * LONGEST));
            }
        }
        for (task, silence) in &silent {
            (self.order.tell)(&format!(
                "{task} has logged nothing for {silence:.0?}, and no step was taken"
            ));
        }
        silent
    }

    /// The names of the tasks that have not ended.
    fn who_lingers(&self) -> String {
        let lingers = self.tasks.iter().filter(|followee| !followee.has_ended);
        let names: Vec<String> = lingers.map(|followee| followee.task.to_string()).collect();
        names.join(", ")
    }

    fn tell_who_lingers(&self, left: Duration) {
        let (names, chief_is_gone) = (self.who_lingers(), self.chief_is_gone());
        let dead = self.whom_servers_miss().map_or_else(String::new, |dead| {
            format!(": parameter servers wait for {dead}, gone for good, to come back")
        });
        (self.order.tell)(&format!(
            "{chief_is_gone}; still there: {names}, for {left:.0?} at most{dead}"
        ));
    }

    /// The names of the workers that faults have ended for good, if parameter servers, which can't
    /// know that, still wait for them.
    fn whom_servers_miss(&self) -> Option<String> {
        let is_left = |followee: &Followee| !followee.has_ended;
        let serves = |followee: &Followee| followee.task.is_parameter_server();
        if !self.tasks.iter().any(|followee| serves(followee) && is_left(followee)) {
            return None;
        }
        let is_dead = |followee: &&Followee| {
            followee.is_down && followee.has_ended && followee.task.is_of_workers()
        };
        let dead = self.tasks.iter().filter(is_dead).map(|followee| followee.task.to_string());
        let dead: Vec<String> = dead.collect();
        (!dead.is_empty()).then(|| dead.join(", "))
    }
}
