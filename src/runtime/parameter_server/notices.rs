//! What the steps on a parameter server wait for, and its log lines when it has answered none for
//! long: who asked it can only tell that it does not answer.

use std::collections::BTreeSet;
use std::time::Duration;

use actix::Context;

use super::ParameterServer;
use crate::cluster::TaskName;
use crate::runtime::patience::NOTICE;
use crate::runtime::waiting::Waiting;
use crate::units::Time;

/// The most waits that a line names.
const NAMED: usize = 4;

/// What the looks have found.
#[derive(Default)]
pub(super) struct Notices {
    /// The number of turns with answers so far.
    answered: u64,
    silence: Option<Silence>,
}

/// A time in which nothing is answered.
struct Silence {
    /// The turns with answers before it.
    answered: u64,
    since: Time,
}

impl Notices {
    /// Some step has been answered.
    pub(super) fn has_answered(&mut self) {
        self.answered += 1;
    }

    /// The length of the present silence, if a line about it is due: at each look at which it has
    /// lasted for [`NOTICE`].
    pub(super) fn due(&mut self, now: Time) -> Option<Duration> {
        let answered = self.answered;
        let before = self.silence.take().filter(|silence| silence.answered == answered);
        let silence = before.unwrap_or(Silence { answered, since: now });
        let length = now.since(self.silence.insert(silence).since);
        (length >= NOTICE).then_some(length)
    }
}

impl ParameterServer {
    /// Says whom the steps wait for, if none has been answered for long.
    pub(super) fn check_steps(&mut self, context: &mut Context<Self>) {
        if let Some(silent) = self.trainings.silence()
            && let Some(what) = self.held_up()
        {
            let here = self.outbox.name(self.outbox.local());
            let absent = self.trainings.absent().join(", ");
            // Who has come may just take its time.
            if absent.is_empty() {
                tracing::info!("{here} has answered no step for {silent:.0?}: it waits for {what}");
            } else {
                tracing::warn!(
                    "{here} has answered no step for {silent:.0?}: it waits for {what}; not there: \
                     {absent}"
                );
            }
        }
        self.trainings.check_steps_later(context);
    }

    /// The tasks of the workers that have yet to come and that operations of steps wait for here:
    /// for the end of their step, their gradient, or the chief's first values.
    pub(super) fn awaited(&self) -> Vec<TaskName> {
        let mut workers = BTreeSet::new();
        for coordination in self.trainings.coordinations.values() {
            workers.extend(coordination.awaited(&self.trainings.members));
        }
        for id in self.store.ids() {
            let stored = self.store.get(id);
            workers.extend(stored.waiting_for(&self.trainings.participation));
            let is_awaited = !stored.is_initialized() && !stored.waiting.is_empty();
            if is_awaited && !stored.spec.is_local {
                workers.insert(0);
            }
        }
        self.trainings.yet_to_come(&workers)
    }

    /// What the operations of steps wait for.
    pub(super) fn steps_wait_for(&self) -> Vec<Waiting> {
        let (mut list, who) = (Vec::new(), self.trainings.title());
        for coordination in self.trainings.coordinations.values() {
            list.extend(
                coordination
                    .waiting_for(&self.trainings.members)
                    .into_iter()
                    .map(|what| Waiting { who: who.clone(), what }),
            );
        }
        for id in self.store.ids() {
            let stored = self.store.get(id);
            for worker in stored.waiting_for(&self.trainings.participation) {
                let what = format!("worker {worker}'s gradient of `{}`", stored.spec.shared_name);
                list.push(Waiting { who: who.clone(), what });
            }
            for request in stored.waiting.iter().filter(|_| !stored.is_initialized()) {
                let who = format!("{who}, step {}", request.ticket.step.number);
                list.push(Waiting {
                    who,
                    what: format!("the initialization of `{}`", stored.spec.shared_name),
                });
            }
        }
        for (ticket, what) in self.resources.waiting() {
            list.push(Waiting { who: format!("{who}, step {}", ticket.step.number), what });
        }
        for binding in &self.trainings.held_off {
            let who_comes = self.outbox.name(binding.from);
            let what = format!("a view, a fence or the end of a training, to let {who_comes} in");
            list.push(Waiting { who: who.clone(), what });
        }
        for peer in self.trainings.view_waits_for() {
            let what =
                format!("{} to answer that a worker is lost or back", self.outbox.name(peer));
            list.push(Waiting { who: who.clone(), what });
        }
        list
    }

    /// What steps here wait for; none if no step waits.
    fn held_up(&self) -> Option<String> {
        let waits: Vec<String> =
            self.steps_wait_for().into_iter().map(|waiting| waiting.what).collect();
        if waits.is_empty() {
            return None;
        }
        let more = waits.len().saturating_sub(NAMED);
        let mut what = waits[..waits.len() - more].join(", ");
        if more > 0 {
            append!(what, " and {more} more");
        }
        Some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_told_every_ten_seconds_and_an_answer_ends_it() {
        let mut notices = Notices::default();
        let mut told = |answers: u64, seconds: &[u64]| -> Vec<u64> {
            let mut told = Vec::new();
            for second in seconds {
                (0..answers).for_each(|_| notices.has_answered());
                let now = Time::ZERO.after(Duration::from_secs(*second));
                told.extend(notices.due(now).map(|length| length.as_secs()));
            }
            told
        };
        assert_eq!(told(1, &[10, 20, 30]), [0; 0]);
        assert_eq!(told(0, &[40, 50, 60, 70, 80, 90, 100, 110]), [10, 20, 30, 40, 50, 60, 70, 80]);
        assert_eq!(told(1, &[120]), [0; 0]);
        assert_eq!(told(0, &[130]), [10]);
    }
}
