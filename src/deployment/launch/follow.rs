//! Follows a cluster's processes from their start to their end: their events, the first failure,
//! and how they stop.

mod cause;
mod deeds;
mod followee;
mod listener;
mod quiet;
mod restarts;
mod slowness;
mod task_record;
mod verdict;
mod waiting;

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::faults::Agenda;
use super::folder::Folder;
use super::members::{Cluster, Member, Starter};
use super::relay::Relay;
use super::{Ended, Launch, Launched};
use crate::clock::{Clock, WallClock};
use crate::deployment::control::{BEAT_EVERY, Event};
use crate::deployment::stop::StopRequest;
use crate::deployment::{DeploymentError, ExitCode};
use crate::faults::SkippedFault;
use crate::runtime::Traffic;
use crate::training::{Fact, Restore, Watch};
use crate::units::Time;

pub(crate) use cause::last_words;
use followee::Followee;
use listener::{Exit, News, NewsSender};

/// The time that the tasks have to stop once one has failed.
const STOP: Duration = Duration::from_secs(3);
/// A hello that seems to have arrived later than this counts as in time: the dates must differ.
const LATEST_HELLO: Duration = Duration::from_secs(60);

/// Follows `cluster` until all of its processes are gone.
///
/// # Errors
/// If a process fails; the error names the task and its last words.
pub(super) async fn follow(
    cluster: Cluster,
    order: &Launch,
    mut watch: Option<Box<dyn Watch>>,
    stop: &mut StopRequest,
) -> Result<Ended<Launched>, DeploymentError> {
    let mut followed = Followed::new(cluster, order);
    let stopped = followed.watch(&mut watch, stop).await?;
    if let Some(watch) = watch {
        watch.finish();
    }
    followed.conclude(stopped).await
}

/// The processes that are followed.
struct Followed<'a> {
    order: &'a Launch,
    news: mpsc::UnboundedReceiver<News>,
    /// For the news of processes that are started again, as long as there may be any.
    sender: Option<mpsc::UnboundedSender<News>>,
    /// The faults that are still to come.
    agenda: Agenda,
    /// The faults that did not happen.
    skipped: Vec<SkippedFault>,
    /// Carries what the tasks send each other, if a fault is to disturb that.
    relay: Option<Relay>,
    starter: Starter,
    /// The folder of a certificate for asking tasks for their status, if that is told of.
    asker: Option<Folder>,
    clock: WallClock,
    next_beat: Time,
    /// How often a task is still started again whose end a restart can mend.
    max_restarts: u32,
    beats: u32,
    /// The number of beats since the chief is gone.
    lingers: u32,
    /// The number of beats since only tasks are left that have nothing to do.
    idle: u32,
    /// The index of the task that leads the training and reports it.
    chief: usize,
    /// When the chief last went back to a checkpoint, or gave the variables first values, on the
    /// launcher's clock \[ns\].
    restored: i64,
    /// The global step at which the chief's session ends, if that is still to be shown.
    ends_at: Option<u64>,
    tasks: Vec<Followee>,
}

/// A change in what is known of the processes.
enum Noted {
    Progress {
        index: usize,
        global_step: u64,
        loss: Option<f32>,
        now: Time,
    },
    Failed,
    /// A beat has passed.
    Beat,
    /// It is time for a fault.
    Due,
    Other,
}

/// The time since the machine's date `date`, at which a task said hello \[ns\]: a launcher that has
/// stood still, or is busy, hears it late. None that is longer than a late hello: then the date was
/// set meanwhile.
fn since(clock: &WallClock, date: u64) -> i64 {
    let late = clock.date().saturating_sub(Duration::from_nanos(date));
    if late < LATEST_HELLO { late.as_nanos() as i64 } else { 0 }
}

impl<'a> Followed<'a> {
    fn new(cluster: Cluster, order: &'a Launch) -> Self {
        let Cluster { members, asker, starter, relay } = cluster;
        let (clock, agenda) = (WallClock::new(), Agenda::new(&order.faults, &order.tasks));
        let (sender, news) = mpsc::unbounded_channel();
        let followee = |(index, member): (usize, Member)| {
            let (task, id) = (member.task.clone(), member.child.id());
            let to = NewsSender { index, sender: sender.clone() };
            let (way, kill) = listener::listen(to, member, &order.log(&task));
            Followee::new(task, way, kill, id)
        };
        let tasks: Vec<_> = members.into_iter().enumerate().map(followee).collect();
        let chief = tasks.iter().position(|followee| followee.task.is_of_workers()).unwrap_or(0);
        let is_kept = !agenda.is_empty() || order.max_restarts > 0;
        Self {
            order,
            news,
            sender: is_kept.then_some(sender),
            agenda,
            skipped: Vec::new(),
            relay,
            starter,
            asker,
            clock,
            next_beat: clock.now().after(BEAT_EVERY),
            max_restarts: order.max_restarts,
            beats: 0,
            lingers: 0,
            idle: 0,
            chief,
            restored: i64::MIN,
            ends_at: None,
            tasks,
        }
    }

    /// Follows the processes until all are gone, one has failed, or nothing more is to be waited
    /// for; `watch` is shown the chief's progress. Returns the exit code of the request to stop, if
    /// that came first.
    async fn watch(
        &mut self,
        watch: &mut Option<Box<dyn Watch>>,
        stop: &mut StopRequest,
    ) -> Result<Option<ExitCode>, DeploymentError> {
        loop {
            let noted = match select(&mut *stop, pin!(self.next_or_beat())).await {
                Either::Left((code, _)) => return Ok(Some(code)),
                Either::Right((noted, _)) => noted,
            };
            match noted {
                None | Some(Noted::Failed) => return Ok(None),
                Some(Noted::Beat) => {
                    for (task, silence) in self.count_quiet() {
                        if let Some(watch) = watch {
                            watch.silent(&task, silence);
                        }
                    }
                    self.tell_of_status();
                    if self.count_beat().await {
                        return Ok(None);
                    }
                }
                Some(Noted::Due) => self.do_what_is_due()?,
                Some(Noted::Progress { index, global_step, loss, now }) if index == self.chief => {
                    if let Some(watch) = watch {
                        if let Some(last) = self.ends_at.take() {
                            watch.ends_at(last);
                        }
                        watch.update(global_step, loss, now);
                    }
                }
                Some(Noted::Progress { .. } | Noted::Other) => {}
            }
        }
    }

    /// The next change. None when all processes are gone.
    async fn next(&mut self) -> Option<Noted> {
        let is_stop_over = self.tasks.iter().all(|followee| followee.stop.is_none());
        let is_over = self.max_restarts == 0 && self.agenda.is_empty() && is_stop_over;
        if is_over || self.have_all_ended() {
            self.spare_the_rest();
        }
        let news = self.news.recv().await?;
        let (index, event) = match self.judged(news) {
            News::Told(index, event) => (index, event),
            News::Exited(index, exit) => return Some(self.exited(index, exit)),
        };
        let followee = &mut self.tasks[index];
        followee.unheard = 0;
        match event {
            Event::Alive => {}
            Event::Hello { now, date } => {
                followee.has_begun = true;
                let said = self.clock.now().0 as i64 - since(&self.clock, date);
                followee.record.begin(said - now as i64);
                if index == self.chief {
                    self.agenda.begin(self.clock.now());
                }
            }
            Event::Shown(snapshot) => {
                if let Some(board) = &self.order.board {
                    let snapshot = snapshot.later(followee.record.since_first_life());
                    board.show(&followee.task, snapshot);
                }
            }
            Event::Recorded { facts, sent } => return Some(self.recorded(index, facts, sent)),
            Event::Ended { now, error } => followee.record.end(Time(now), error),
        }
        Some(Noted::Other)
    }

    /// The task `index` has told `facts`, and that it has `sent` so much since it started.
    fn recorded(&mut self, index: usize, facts: Vec<Fact>, sent: Traffic) -> Noted {
        let (mut last_step, mut last_restore) = (None, None);
        for fact in &facts {
            match fact {
                Fact::Step(step) => {
                    last_step = Some((step.global_step, step.loss, step.ended));
                }
                Fact::Restored(restore) => last_restore = Some(*restore),
                Fact::EndsAt(last) => self.ends_at = Some(*last),
                _ => {}
            }
        }
        if let Some(restore) = last_restore {
            self.restored(index, restore);
        }
        let origin = self.tasks[self.chief].record.origin();
        let followee = &mut self.tasks[index];
        if let Some(recorder) = &self.order.recorder {
            let ahead = followee.record.at(Time::ZERO) - origin;
            for fact in &facts {
                recorder(fact.clone().later(ahead));
            }
        }
        followee.record.add(facts, sent);
        let Some((global_step, loss, now)) = last_step else { return Noted::Other };
        if followee.quiet.steps(global_step) {
            self.tasks.iter_mut().for_each(|followee| followee.quiet.begin_again());
        }
        let loss = loss.filter(|loss| loss.is_finite());
        Noted::Progress { index, global_step, loss, now }
    }

    /// The chief, of this `index`, has gone back to a checkpoint, or given the variables first
    /// values. Other tasks may have told steps that they took since.
    fn restored(&mut self, index: usize, restore: Restore) {
        let at = self.tasks[index].record.at(restore.at);
        let since = std::mem::replace(&mut self.restored, at);
        let steps = self.tasks.iter().map(|followee| followee.record.global_step(since, at));
        let last = steps.max().unwrap_or(0);
        if last <= restore.global_step {
            return;
        }
        if let Some(board) = &self.order.board {
            board.restore(restore.global_step, None);
        }
        if restore.global_step == 0 {
            (self.order.tell)(&format!(
                "the training begins anew: its steps up to {last} are undone, and no checkpoint \
                 has them"
            ));
        }
    }

    /// The process of the task `index` is gone, with `exit`.
    fn exited(&mut self, index: usize, exit: Exit) -> Noted {
        let now = self.clock.now();
        let Followee { id, is_down, has_ended, stop, record, .. } = &mut self.tasks[index];
        *id = None;
        record.is_gone(now.0 as i64);
        let stop = stop.take().filter(|_| exit.ends_by_a_request());
        if *is_down || *has_ended {
            return Noted::Other;
        }
        if let Some(stop) = stop {
            self.ended_by_a_stop(index, stop, exit);
        } else if self.has_come_to_its_end(index, &exit) {
            self.tasks[index].has_ended = true;
        } else if self.may_restart(index, &exit) {
            self.restart(index, &exit.to_string());
        } else {
            if exit.has_missed_the_end() && self.has_idle_chief() {
                self.blame_the_idle_chief();
            }
            let failures = self.failures();
            self.tasks[index].failed.get_or_insert((failures, exit));
            return Noted::Failed;
        }
        Noted::Other
    }

    /// `news`; an exit of the chief with 0 is none, if no life of it has reported the training.
    fn judged(&self, news: News) -> News {
        match news {
            News::Exited(index, Exit::Code(0))
                if index == self.chief && self.tasks[index].record.has_lost_the_end() =>
            {
                News::Exited(index, Exit::Unreported)
            }
            other => other,
        }
    }

    /// Whether a task that ended with `exit` came to the end of its training, even if it could not
    /// write the last checkpoint, or its tape.
    fn has_come_to_its_end(&self, index: usize, exit: &Exit) -> bool {
        let told = &self.tasks[index].record;
        let has_ended = || told.has_ended() || told.lacks_its_tape_alone();
        match exit {
            Exit::Code(0) => true,
            Exit::Unreported | Exit::Idle => false,
            // It has missed the end, as one that stood still: the result is there all the same.
            exit if exit.has_missed_the_end() && self.is_chief_done() && !self.has_idle_chief() => {
                let task = &self.tasks[index].task;
                (self.order.tell)(&format!("the chief is done; {task} has missed the end"));
                true
            }
            Exit::Code(code) => *code == ExitCode::Unwritable as i32 && has_ended(),
            Exit::Signal(_) | Exit::Silent(_) | Exit::Overdue(_) | Exit::Unknown(_) => false,
        }
    }

    /// The next change, or the next beat.
    async fn next_or_beat(&mut self) -> Option<Noted> {
        let due = self.agenda.next().filter(|due| *due < self.next_beat);
        let left = due.unwrap_or(self.next_beat).since(self.clock.now());
        if let Ok(noted) = timeout(left, self.next()).await {
            return noted;
        }
        if due.is_some() {
            return Some(Noted::Due);
        }
        self.next_beat = self.clock.now().after(BEAT_EVERY);
        Some(Noted::Beat)
    }

    fn failures(&self) -> usize {
        self.tasks.iter().filter(|followee| followee.failed.is_some()).count()
    }

    fn has_failed(&self) -> bool {
        self.failures() > 0
    }
}
