//! What the processes of a task have told of a training, one life after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::TaskName;
use crate::deployment::control::RECORD_EVERY;
use crate::deployment::launch::Launched;
use crate::runtime::{Error, Traffic};
use crate::training::{Fact, FailedCheckpoint, Recording, StepLog, StepStats, Unheard};
use crate::units::Time;

/// What a task has told, life by life: it may have been killed and started again.
#[derive(Default)]
pub(super) struct TaskRecord(Vec<LifeRecord>);

/// What one process has told. Times are on its own clock.
struct LifeRecord {
    /// The launcher's time at which its clock showed 0 \[ns\].
    began: i64,
    recording: Recording,
    /// What the recording is made of, but for the steps.
    facts: Vec<Fact>,
    /// What it has sent.
    sent: Traffic,
    /// The time of its end; 0 if it did not get there.
    ended: Time,
    /// The error that its program ended with.
    error: Option<Error>,
    /// The launcher's time at which it was gone, without having told of its end \[ns\].
    killed: Option<i64>,
}

/// The most tellings that a process that takes steps can be late with one.
const UNHEARD: u32 = 3;

impl LifeRecord {
    /// The time in which the process of `task` may have taken steps that it never told of, on a
    /// clock that showed 0 at the launcher's time `origin`. One that has told nothing for longer
    /// than this did not take any: it stood still, or was cut off.
    fn unheard(&self, task: &TaskName, origin: i64) -> Option<Unheard> {
        let at = |time: i64| Time(u64::try_from(time - origin).unwrap_or(0));
        let until = at(self.killed?);
        let told = self.recording.log.iter().map(|step| step.ended.0).max().unwrap_or(0);
        let since = at(self.began + told as i64);
        let until = until.min(since.after(UNHEARD * RECORD_EVERY));
        Some(Unheard { worker: task.clone(), since, until })
    }
}

impl TaskRecord {
    /// A process has started, whose clock showed 0 at the launcher's time `began` \[ns\].
    pub(super) fn begin(&mut self, began: i64) {
        self.0.push(LifeRecord {
            began,
            recording: Recording::default(),
            facts: Vec::new(),
            sent: Traffic::default(),
            ended: Time::ZERO,
            error: None,
            killed: None,
        });
    }

    /// The running process has recorded `facts`, and has `sent` so much since it started.
    pub(super) fn add(&mut self, facts: Vec<Fact>, sent: Traffic) {
        if let Some(life) = self.0.last_mut() {
            for fact in facts {
                if !matches!(fact, Fact::Step(_)) {
                    life.facts.push(fact.clone());
                }
                life.recording.add(fact);
            }
            life.sent = sent;
        }
    }

    /// The process has ended its task at `now`, with `error` if its program failed.
    pub(super) fn end(&mut self, now: Time, error: Option<Error>) {
        if let Some(life) = self.0.last_mut() {
            (life.ended, life.error) = (now, error);
        }
    }

    /// The process is gone at the launcher's time `at` \[ns\].
    pub(super) fn is_gone(&mut self, at: i64) {
        if let Some(life) = self.0.last_mut().filter(|life| life.ended == Time::ZERO) {
            life.killed = Some(at);
        }
    }

    /// The time from the start of the task's first process to that of the running one \[s\].
    pub(super) fn since_first_life(&self) -> f64 {
        match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => (last.began - first.began) as f64 / 1e9,
            _ => 0.0,
        }
    }

    /// Whether a life of the task has begun a training, a later one has found it ended, and none
    /// has reported its end. Lives before the last that took steps have reported no more than that
    /// they were stopped.
    pub(super) fn has_lost_the_end(&self) -> bool {
        let is_known = |life: &LifeRecord| life.recording.ending.is_some();
        let has_begun = |life: &LifeRecord| life.recording.beginning.is_some();
        let has_trained = |life: &LifeRecord| !life.recording.log.is_empty();
        let last = self.0.iter().rposition(has_trained).unwrap_or(0);
        self.0.len() > 1 && self.0.iter().any(has_begun) && !self.0[last..].iter().any(is_known)
    }

    /// Whether a life of the task has told of a training, if only that it was over.
    pub(super) fn knows_a_training(&self) -> bool {
        let tells = |fact: &Fact| !matches!(fact, Fact::TapeCut(_));
        self.0.iter().any(|life| life.facts.iter().any(tells) || !life.recording.log.is_empty())
    }

    /// Why the training's last checkpoint is missing, if it has ended and could not be saved.
    pub(super) fn unsaved(&self) -> Option<String> {
        let recording = self.0.last().map(|life| &life.recording)?;
        let last = recording.failed_checkpoints.last().filter(|_| recording.is_unsaved())?;
        let FailedCheckpoint { global_step, why, .. } = last;
        Some(format!("its last checkpoint, of step {global_step}, can't be written: {why}"))
    }

    /// The launcher's time at which the clock of the first process showed 0 \[ns\]; 0 before that
    /// has started.
    pub(super) fn origin(&self) -> i64 {
        self.0.first().map_or(0, |life| life.began)
    }

    /// A time on the running process's clock, on the launcher's \[ns\].
    pub(super) fn at(&self, time: Time) -> i64 {
        time.0 as i64 + self.0.last().map_or(0, |life| life.began)
    }

    /// The greatest global step of the steps that its processes ended after `since` and not after
    /// `until`, times on the launcher's clock \[ns\].
    pub(super) fn global_step(&self, since: i64, until: i64) -> u64 {
        let taken = |life: &LifeRecord| {
            let ended = |step: &StepStats| step.ended.0 as i64 + life.began;
            let steps = life.recording.log.iter();
            let steps = steps.filter(|step| since < ended(step) && ended(step) <= until);
            steps.map(|step| step.global_step).max()
        };
        self.0.iter().filter_map(taken).max().unwrap_or(0)
    }

    /// The error that the program of the process has ended with.
    pub(super) fn error(&self) -> Option<&Error> {
        self.0.last()?.error.as_ref()
    }

    /// Whether the process has done its part, but for a tape that could not be written to its end.
    pub(super) fn lacks_its_tape_alone(&self) -> bool {
        let life = self.0.last().filter(|life| life.error.is_none());
        life.is_some_and(|life| !life.recording.cut_tapes.is_empty())
    }

    /// Whether the process has ended its training.
    pub(super) fn has_ended(&self) -> bool {
        self.0.last().is_some_and(|life| life.recording.ending.is_some())
    }
}

/// What all tasks have told in a run that `took` so long, on the clock of the chief's first life.
pub(super) fn merged(
    tasks: Vec<(TaskName, TaskRecord)>,
    chief: &TaskName,
    took: Duration,
) -> Launched {
    let of_chief = tasks.iter().find(|(task, _)| task == chief);
    let origin = of_chief.map_or(0, |(_, record)| record.origin());
    let lives = tasks.iter().flat_map(|(_, record)| &record.0);
    let steps = lives.map(|life| {
        let ahead = life.began - origin;
        life.recording.log.iter().map(move |step| step.later(ahead))
    });
    let mut recording = Recording::default();
    recording.log = StepLog::merged(steps);
    let (mut sent, mut ended) = (BTreeMap::<_, Traffic>::new(), Time::ZERO);
    for (task, record) in tasks {
        let of_task = sent.entry(task.clone()).or_default();
        let last = record.0.len().saturating_sub(1);
        for (number, life) in record.0.into_iter().enumerate() {
            let ahead = life.began - origin;
            recording.unheard.extend(life.unheard(&task, origin));
            of_task.total += life.sent.total;
            of_task.steps += life.sent.steps;
            if task == *chief {
                ended = Time(life.ended.0.saturating_add_signed(ahead));
            }
            for fact in life.facts {
                let fact = if number < last { of_a_stop(fact) } else { fact };
                recording.add(fact.later(ahead));
            }
        }
    }
    recording.leave_out_beginnings();
    Launched { recording, sent, ended, took, skipped_faults: Vec::new() }
}

/// `fact`, of a life after which the task went on: the checkpoint that it lacked at its end is not
/// the training's last.
fn of_a_stop(fact: Fact) -> Fact {
    match fact {
        Fact::NotSaved(failed) => Fact::NotSaved(FailedCheckpoint { is_last: false, ..failed }),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::{Beginning, Ending, Restore};

    #[test]
    fn an_end_is_lost_that_no_life_has_reported_of_a_training_that_one_has_begun() {
        let beginning = Beginning { parameters: 1, graph: Vec::new() };
        let mut record = TaskRecord::default();
        record.begin(0);
        record.add(vec![Fact::Began(beginning)], Traffic::default());
        assert!(!record.has_lost_the_end(), "it may go on");
        record.begin(7);
        assert!(record.has_lost_the_end());
        record.add(vec![Fact::Ended(Ending { weights_digest: None })], Traffic::default());
        assert!(!record.has_lost_the_end());
    }

    #[test]
    fn a_task_knows_a_training_once_it_has_told_of_it_if_only_that_it_is_over() {
        let tells = |facts: Vec<Fact>| {
            let mut record = TaskRecord::default();
            record.begin(0);
            record.add(facts, Traffic::default());
            record.knows_a_training()
        };
        let step = StepStats::applied(0, (0, 1), (Time(1), Time(9)));
        assert!(tells(vec![Fact::NothingToDo]) && tells(vec![Fact::Step(step)]));
        assert!(!tells(Vec::new()) && !tells(vec![Fact::TapeCut("its own".to_owned())]));
    }

    #[test]
    fn an_end_is_lost_that_only_a_life_has_reported_which_was_stopped() {
        let began = || Fact::Began(Beginning { parameters: 1, graph: Vec::new() });
        let step = || Fact::Step(StepStats::applied(0, (0, 1), (Time(1), Time(9))));
        let ended = || Fact::Ended(Ending { weights_digest: None });
        for (goes_on, is_lost) in [(true, true), (false, false)] {
            let mut record = TaskRecord::default();
            record.begin(0);
            record.add(vec![began(), step(), ended()], Traffic::default());
            record.begin(20);
            record.add(vec![began()], Traffic::default());
            if goes_on {
                record.add(vec![step()], Traffic::default());
                record.begin(40);
            }
            assert_eq!(record.has_lost_the_end(), is_lost);
        }
    }

    #[test]
    fn a_training_that_went_on_after_a_stop_that_could_not_save_is_saved() {
        let why = "a task had not answered".to_owned();
        let failed = FailedCheckpoint { global_step: 7, why, is_last: true };
        let ended = || Fact::Ended(Ending { weights_digest: None });
        let mut record = TaskRecord::default();
        record.begin(0);
        record.add(vec![Fact::NotSaved(failed.clone())], Traffic::default());
        record.begin(9);
        record.add(vec![ended()], Traffic::default());
        let chief = TaskName::new("worker", 0);
        let told = merged(vec![(chief.clone(), record)], &chief, Duration::ZERO).recording;
        assert_eq!(told.failed_checkpoints, [FailedCheckpoint { is_last: false, ..failed }]);
        assert!(!told.is_unsaved());
    }

    #[test]
    fn a_training_is_unsaved_that_ended_without_its_last_checkpoint() {
        let mut record = TaskRecord::default();
        record.begin(0);
        let why = "the disk is full".to_owned();
        let failed = FailedCheckpoint { global_step: 7, why, is_last: true };
        record.add(vec![Fact::NotSaved(failed)], Traffic::default());
        assert_eq!(record.unsaved(), None, "it may go on");
        record.add(vec![Fact::Ended(Ending { weights_digest: None })], Traffic::default());
        let said = record.unsaved().unwrap();
        assert!(said.contains("of step 7, can't be written: the disk is full"), "{said}");
    }

    #[test]
    fn first_values_undo_what_was_told_of_steps_before_them_and_nothing_after() {
        let step = |global_step, ended| {
            Fact::Step(StepStats::applied(1, (0, global_step), (Time::ZERO, Time(ended))))
        };
        let mut record = TaskRecord::default();
        record.begin(1_000);
        record.add(vec![step(3, 10), step(7, 30)], Traffic::default());
        let first_values = 1_005;
        assert_eq!(record.global_step(i64::MIN, first_values), 0, "they came late");
        let again = 1_020;
        assert_eq!(record.global_step(first_values, again), 3);
        assert_eq!(record.global_step(again, 2_000), 7);
    }

    #[test]
    fn the_lives_of_a_task_are_merged_on_the_clock_of_its_first() {
        let restored = |at| Restore { global_step: 2, at: Time(at) };
        let step = StepStats::applied(0, (0, 3), (Time(1), Time(9)));
        let mut record = TaskRecord::default();
        record.begin(100);
        record.add(vec![Fact::Step(step.clone())], Traffic::default());
        record.begin(150);
        record.add(vec![Fact::Restored(restored(5)), Fact::Step(step)], Traffic::default());
        let chief = TaskName::new("worker", 0);
        let told = merged(vec![(chief.clone(), record)], &chief, Duration::ZERO).recording;
        assert_eq!(told.restored, [restored(55)]);
        let ended: Vec<Time> = told.steps().map(|step| step.ended).collect();
        assert_eq!(ended, [Time(9), Time(59)]);
    }

    #[test]
    fn a_process_that_was_killed_may_have_taken_steps_until_then_that_it_had_not_told_of() {
        let step = |ended| Fact::Step(StepStats::applied(1, (0, 1), (Time::ZERO, Time(ended))));
        let (chief, worker) = (TaskName::new("worker", 0), TaskName::new("worker", 1));
        let mut record = TaskRecord::default();
        record.begin(100);
        record.add(vec![step(30)], Traffic::default());
        record.is_gone(150);
        record.begin(200);
        record.add(vec![step(20)], Traffic::default());
        record.end(Time(40), None);
        record.is_gone(260);
        let mut of_chief = TaskRecord::default();
        of_chief.begin(90);
        let tasks = vec![(chief.clone(), of_chief), (worker.clone(), record)];
        let told = merged(tasks, &chief, Duration::ZERO).recording.unheard;
        assert_eq!(told, [Unheard { worker, since: Time(40), until: Time(60) }]);
    }

    #[test]
    fn what_a_killed_process_had_sent_counts_and_its_last_word_alone() {
        let sent = |total, steps| Traffic { total, steps };
        let task = TaskName::new("ps", 1);
        let mut record = TaskRecord::default();
        record.begin(0);
        record.add(Vec::new(), sent(100, 60));
        record.add(Vec::new(), sent(150, 90));
        record.begin(7);
        record.add(Vec::new(), sent(30, 20));
        record.end(Time(5), None);
        let launched = merged(vec![(task.clone(), record)], &task, Duration::ZERO);
        assert_eq!(launched.sent, [(task, sent(180, 110))].into());
        assert_eq!(launched.ended, Time(12));
    }
}
