//! Follows a cluster's processes from their start to their end: their events, the first failure,
//! and how they stop.

mod cause;
mod deeds;
mod listener;
mod quiet;
mod restarts;
mod slowness;
mod told;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::faults::Agenda;
use super::members::{Cluster, Starter};
use super::relay::Relay;
use super::{Ended, Launch, Launched};
use crate::clock::{Clock, WallClock};
use crate::cluster::TaskName;
use crate::deployment::control::{BEAT_EVERY, Event};
use crate::deployment::stop::{Either, GRACE, StopRequest, either};
use crate::deployment::{DeploymentError, ExitCode};
use crate::faults::SkipReason;
use crate::live::Board;
use crate::training::Watch;
use crate::units::Time;

pub(crate) use cause::last_words;
use listener::{Exit, News, Origin};
use quiet::Quiet;
use slowness::Slowness;
use told::Told;

/// The time after the first failure in which another failure may turn out to be its cause.
const CAUSE: Duration = Duration::from_millis(300);
/// The time that the tasks have to stop once one has failed.
const STOP: Duration = Duration::from_secs(3);
/// How late a task's hello is believed to be heard.
const LATEST_HELLO: Duration = Duration::from_secs(60);

/// Follows `cluster` until all of its processes are gone.
///
/// # Errors
/// If a process fails; the error names the task and its last words.
pub(super) async fn follow(
    cluster: Cluster,
    order: &Launch,
    mut watch: Box<dyn Watch>,
    stop: &mut StopRequest,
) -> Result<Ended<Launched>, DeploymentError> {
    let clock = WallClock::new();
    let (sender, news) = mpsc::unbounded_channel();
    let next_beat = clock.now().after(BEAT_EVERY);
    let agenda = Agenda::new(&order.faults, &order.tasks);
    let (relay, asker, starter) = (cluster.relay, cluster.asker, cluster.starter);
    let kept = (!agenda.is_empty() || order.max_restarts > 0).then(|| sender.clone());
    let mut followed = Followed {
        news,
        sender: kept,
        agenda,
        skipped: Vec::new(),
        board: order.board.clone(),
        relay,
        tell: order.tell,
        starter,
        clock,
        next_beat,
        max_restarts: order.max_restarts,
        beats: 0,
        lingers: 0,
        idle: 0,
        chief: 0,
        tasks: Vec::new(),
    };
    for (index, member) in cluster.members.into_iter().enumerate() {
        let (task, log) = (member.task.clone(), order.log(&member.task));
        let id = member.child.id();
        let (way, kill) = listener::listen(Origin { index, sender: sender.clone() }, member, &log);
        followed.tasks.push(Followee::new(task, way, kill, id));
    }
    drop(sender);
    let chief =
        followed.tasks.iter().position(|followee| followee.task.is_of_workers()).unwrap_or(0);
    followed.chief = chief;
    let ended = loop {
        let first = either(stop, &mut Box::pin(followed.next_or_beat())).await;
        match first {
            Either::First(code) => break Ended::Stopped(code),
            Either::Second(None | Some(Noted::Failed)) => break Ended::Done(()),
            Either::Second(Some(Noted::Beat)) => {
                for (task, silence) in followed.count_quiet(order) {
                    watch.silent(&task, silence);
                }
                followed.tell_of_status(order, asker.as_ref());
                if followed.count_beat(order.patience).await {
                    break Ended::Done(());
                }
            }
            Either::Second(Some(Noted::Due)) => followed.do_what_is_due(order)?,
            Either::Second(Some(Noted::Progress { index, global_step, loss, now }))
                if index == chief =>
            {
                watch.update(global_step, loss, Time(now));
            }
            Either::Second(Some(_)) => {}
        }
    };
    watch.finish();
    if let Ended::Stopped(code) = ended {
        followed.stop(GRACE + STOP).await;
        return Ok(Ended::Stopped(code));
    }
    followed.miss_a_chief_that_was_killed();
    if followed.has_failed() {
        followed.wait(CAUSE).await;
        followed.stop(STOP).await;
        return Err(followed.root_cause(order));
    }
    Ok(Ended::Done(followed.told()))
}

/// The processes that are followed.
struct Followed {
    news: mpsc::UnboundedReceiver<News>,
    /// For the news of processes that are started again, as long as there may be any.
    sender: Option<mpsc::UnboundedSender<News>>,
    /// The faults that are still to come.
    agenda: Agenda,
    /// The numbers of the faults that did not happen, and why.
    skipped: Vec<(usize, SkipReason)>,
    /// Shows the tasks' numbers, if somebody is to see them.
    board: Option<Arc<Board>>,
    /// Carries what the tasks send each other, if a fault is to disturb that.
    relay: Option<Relay>,
    /// Tells what is done and waited for.
    tell: fn(&str),
    starter: Starter,
    clock: WallClock,
    next_beat: Time,
    /// How often a task is still started again whose end a restart can mend.
    max_restarts: u32,
    beats: u32,
    /// The number of beats since the chief is done.
    lingers: u32,
    /// The number of beats since only tasks are left that have nothing to do.
    idle: u32,
    /// The index of the task that leads the training and reports it.
    chief: usize,
    tasks: Vec<Followee>,
}

/// One process, and what is known of it.
struct Followee {
    task: TaskName,
    way: Option<OwnedWriteHalf>,
    kill: Option<oneshot::Sender<()>>,
    /// The process's number, until it is gone.
    id: Option<u32>,
    /// How many faults have it stand still.
    stops: u32,
    /// How much slower faults make it.
    slowness: Slowness,
    /// Whether it was killed by a fault, or has ended, and is not started again yet.
    is_down: bool,
    /// How often it was started again after an end of its own.
    restarts: u32,
    /// Whether it was started again, after a fault or an end of its own.
    is_again: bool,
    /// Whether the process has said that it runs.
    has_begun: bool,
    told: Told,
    /// The number of beats since it was last heard of.
    unheard: u32,
    quiet: Quiet,
    /// How it failed, with the number of failures before it.
    failed: Option<(usize, Exit)>,
    /// Whether it is gone and did not fail.
    has_ended: bool,
}

/// A change in what is known of the processes.
enum Noted {
    Progress {
        index: usize,
        global_step: u64,
        loss: Option<f32>,
        now: u64,
    },
    Failed,
    /// A beat has passed.
    Beat,
    /// It is time for a fault.
    Due,
    Other,
}

impl Followee {
    /// The process `id` of `task`, which was started just now: `way` leads to it, and without
    /// `kill` it is killed.
    fn new(
        task: TaskName,
        way: OwnedWriteHalf,
        kill: oneshot::Sender<()>,
        id: Option<u32>,
    ) -> Self {
        Self {
            task,
            way: Some(way),
            kill: Some(kill),
            id,
            stops: 0,
            slowness: Slowness::default(),
            is_down: false,
            restarts: 0,
            is_again: false,
            has_begun: false,
            told: Told::default(),
            unheard: 0,
            quiet: Quiet::default(),
            failed: None,
            has_ended: false,
        }
    }
}

/// The time since the machine's date `date`, at which a task said hello \[ns\]: a launcher that has
/// stood still, or is busy, hears it late. None that is longer than a late hello: then the date was
/// set meanwhile.
fn since(clock: &WallClock, date: u64) -> i64 {
    let late = clock.date().saturating_sub(Duration::from_nanos(date));
    if late < LATEST_HELLO { late.as_nanos() as i64 } else { 0 }
}

impl Followed {
    /// The next change. None when all processes are gone.
    async fn next(&mut self) -> Option<Noted> {
        let is_over = self.max_restarts == 0 && self.agenda.is_empty();
        if is_over || self.have_all_ended() {
            self.spare_the_rest();
        }
        let news = self.news.recv().await?;
        let (index, event) = match self.judged(news) {
            News::Told(index, event) => (index, event),
            News::Exited(index, _) if self.tasks[index].is_down => {
                self.tasks[index].id = None;
                return Some(Noted::Other);
            }
            News::Exited(index, _) if self.tasks[index].has_ended => return Some(Noted::Other),
            News::Exited(index, exit) if self.has_come_to_its_end(index, &exit) => {
                (self.tasks[index].has_ended, self.tasks[index].id) = (true, None);
                return Some(Noted::Other);
            }
            News::Exited(index, exit) if self.may_restart(index, &exit) => {
                self.restart(index, &exit.to_string());
                self.tasks[index].id = None;
                return Some(Noted::Other);
            }
            News::Exited(index, exit) => {
                let failures = self.failures();
                self.tasks[index].failed.get_or_insert((failures, exit));
                return Some(Noted::Failed);
            }
        };
        let followee = &mut self.tasks[index];
        followee.unheard = 0;
        match event {
            Event::Alive => {}
            Event::Hello { now, date } => {
                followee.has_begun = true;
                let said = self.clock.now().0 as i64 - since(&self.clock, date);
                followee.told.begin(said - now as i64);
                if index == self.chief {
                    self.agenda.begin(self.clock.now());
                }
            }
            Event::Shown(snapshot) => {
                if let Some(board) = &self.board {
                    let snapshot = snapshot.later(followee.told.since_first_life());
                    board.show(&followee.task, snapshot);
                }
            }
            Event::Recorded { part, sent } => {
                let progress = part.progress();
                if let (Some(board), Some(global_step)) = (&self.board, part.restored()) {
                    board.restore(global_step);
                }
                followee.told.record(&followee.task, part, sent);
                if let Some((global_step, loss, now)) = progress {
                    if followee.quiet.steps(global_step) {
                        self.tasks.iter_mut().for_each(|followee| followee.quiet.begin_again());
                    }
                    let loss = loss.filter(|loss| loss.is_finite());
                    return Some(Noted::Progress { index, global_step, loss, now });
                }
            }
            Event::Ended { now } => followee.told.end(Time(now)),
        }
        Some(Noted::Other)
    }

    /// `news`; an exit of the chief with 0 is none, if no life of it has reported the training.
    fn judged(&self, news: News) -> News {
        match news {
            News::Exited(index, Exit::Code(0))
                if index == self.chief && self.tasks[index].told.has_lost_the_end() =>
            {
                News::Exited(index, Exit::Unreported)
            }
            other => other,
        }
    }

    /// Whether a task that ended with `exit` came to the end of its training, even if it could not
    /// write the last checkpoint.
    fn has_come_to_its_end(&self, index: usize, exit: &Exit) -> bool {
        let has_ended = || self.tasks[index].told.has_ended();
        match exit {
            Exit::Code(0) => true,
            Exit::Unreported => false,
            // It has missed the end, as one that stood still: the result is there all the same.
            exit if exit.has_missed_the_end() && self.tasks[self.chief].has_ended => {
                let task = &self.tasks[index].task;
                (self.tell)(&format!("the chief is done; {task} has missed the end"));
                true
            }
            Exit::Code(code) => *code == ExitCode::Unwritable as i32 && has_ended(),
            Exit::Signal(_) | Exit::Silent(_) | Exit::Unknown(_) => false,
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

    /// Handles changes until `time` has passed or all processes are gone. Returns whether they are.
    async fn wait(&mut self, time: Duration) -> bool {
        timeout(time, async { while self.next().await.is_some() {} }).await.is_ok()
    }

    /// Stops all processes: asks them, and kills those that still run after `time`.
    async fn stop(&mut self, time: Duration) {
        self.max_restarts = 0;
        self.spare_the_rest();
        self.wake_all(); // nothing else does, once the rest is spared
        let known: Vec<bool> =
            self.tasks.iter().map(|followee| followee.failed.is_some()).collect();
        self.tasks.iter_mut().for_each(|followee| followee.way = None);
        if !self.wait(time).await {
            self.tasks.iter_mut().for_each(|followee| followee.kill = None);
            while self.next().await.is_some() {}
        }
        // The exit of a process that was asked to stop is no failure of its own.
        for (followee, _) in self.tasks.iter_mut().zip(known).filter(|(_, was_known)| !was_known) {
            followee.failed = None;
        }
    }

    /// Notes that the run has no result if a fault has killed the chief for good.
    fn miss_a_chief_that_was_killed(&mut self) {
        let failures = self.failures();
        let chief = &mut self.tasks[self.chief];
        if chief.is_down {
            chief.failed.get_or_insert((failures, Exit::Signal(9)));
        }
    }

    /// The records of all tasks.
    fn told(mut self) -> Launched {
        self.spare_the_rest();
        let took = self.clock.now().since(Time::ZERO);
        let chief = self.tasks[self.chief].task.clone();
        let told = self.tasks.into_iter().map(|followee| (followee.task, followee.told));
        let launched = told::merged(told.collect(), &chief, took);
        Launched { skipped_faults: self.skipped, ..launched }
    }
}
