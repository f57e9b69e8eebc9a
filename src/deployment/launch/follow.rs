//! Follows a cluster's processes from their start to their end: their events, the first failure,
//! and how they stop.

mod listener;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::members::Cluster;
use super::{Ended, Launch, Launched};
use crate::clock::{Clock, WallClock};
use crate::cluster::TaskName;
use crate::deployment::control::{Event, Part};
use crate::deployment::stop::{Either, GRACE, StopRequest, either};
use crate::deployment::{DeploymentError, ExitCode};
use crate::training::{Recording, Watch};
use crate::units::Time;

use listener::{Exit, News, Origin};

/// The time after the first failure in which another failure may turn out to be its cause.
const CAUSE: Duration = Duration::from_millis(300);
/// The time between two messages about the tasks that still run after the chief is done.
const LINGER: Duration = Duration::from_secs(10);
/// The number of those messages before the tasks are stopped: long enough for a task that is cut
/// off to give up by itself.
const MOST_LINGERS: u32 = 9;
/// The most lines of a task's last error that are told.
const MOST_LINES: usize = 10;
/// The time that the tasks have to stop once one has failed.
const STOP: Duration = Duration::from_secs(3);

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
    let mut followed = Followed { news, clock, tasks: Vec::new() };
    let _asker = cluster.asker; // until the run is over
    for (index, member) in cluster.members.into_iter().enumerate() {
        let (task, log) = (member.task.clone(), order.log(&member.task));
        let (way, kill) = listener::listen(Origin { index, sender: sender.clone() }, member, &log);
        followed.tasks.push(Followee { task, way: Some(way), kill: Some(kill), ..Followee::new() });
    }
    drop(sender);
    let chief = followed.tasks.iter().position(|followee| followee.task.trains()).unwrap_or(0);
    let mut lingers = 0;
    let ended = loop {
        let first = either(stop, &mut Box::pin(followed.next_or_lingering(chief))).await;
        match first {
            Either::First(code) => break Ended::Stopped(code),
            Either::Second(None) => break Ended::Done(()),
            Either::Second(Some(Noted::Failed)) => break Ended::Done(()),
            Either::Second(Some(Noted::Progress { index, global_step, loss, now }))
                if index == chief =>
            {
                watch.update(global_step, loss, Time(now));
            }
            Either::Second(Some(Noted::Lingering)) if lingers == MOST_LINGERS => {
                followed.stop(STOP).await;
                break Ended::Done(());
            }
            Either::Second(Some(Noted::Lingering)) => {
                lingers += 1;
                followed.tell_who_lingers(lingers);
            }
            Either::Second(Some(_)) => {}
        }
    };
    watch.finish();
    if let Ended::Stopped(code) = ended {
        followed.stop(GRACE + STOP).await;
        return Ok(Ended::Stopped(code));
    }
    if followed.has_failed() {
        followed.wait(CAUSE).await;
        followed.stop(STOP).await;
        return Err(followed.root_cause(order));
    }
    Ok(Ended::Done(followed.told(chief)))
}

/// The processes that are followed.
struct Followed {
    news: mpsc::UnboundedReceiver<News>,
    clock: WallClock,
    tasks: Vec<Followee>,
}

/// One process, and what is known of it.
struct Followee {
    task: TaskName,
    way: Option<OwnedWriteHalf>,
    kill: Option<oneshot::Sender<()>>,
    /// The launcher's time at which the task's clock shows 0 \[ns\].
    began: Option<i64>,
    part: Option<Part>,
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
    /// The chief is done, and nothing has happened for a while.
    Lingering,
    Other,
}

impl Followee {
    fn new() -> Self {
        Self {
            task: TaskName::new("", 0),
            way: None,
            kill: None,
            began: None,
            part: None,
            failed: None,
            has_ended: false,
        }
    }
}

impl Followed {
    /// The next change. None when all processes are gone.
    async fn next(&mut self) -> Option<Noted> {
        let (index, event) = match self.news.recv().await? {
            News::Told(index, event) => (index, event),
            News::Exited(index, exit) if self.has_come_to_its_end(index, &exit) => {
                self.tasks[index].has_ended = true;
                return Some(Noted::Other);
            }
            News::Exited(index, exit) => {
                let failures =
                    self.tasks.iter().filter(|followee| followee.failed.is_some()).count();
                self.tasks[index].failed = Some((failures, exit));
                return Some(Noted::Failed);
            }
        };
        let followee = &mut self.tasks[index];
        match event {
            Event::Hello { now } => {
                followee.began = Some(self.clock.now().0 as i64 - now as i64);
            }
            Event::Progress { global_step, loss, now } => {
                return Some(Noted::Progress { index, global_step, loss, now });
            }
            Event::Part(part) => followee.part = Some(part),
        }
        Some(Noted::Other)
    }

    /// Whether a task that ended with `exit` came to the end of its training, even if it could not
    /// write the last checkpoint.
    fn has_come_to_its_end(&self, index: usize, exit: &Exit) -> bool {
        let has_ended = || self.tasks[index].part.as_ref().is_some_and(Part::has_ended);
        match exit {
            Exit::Code(0) => true,
            Exit::Code(code) => *code == ExitCode::Unwritable as i32 && has_ended(),
            Exit::Signal(_) | Exit::Unknown(_) => false,
        }
    }

    /// As [`Self::next`]; once the chief is done, waits at most `LINGER`.
    async fn next_or_lingering(&mut self, chief: usize) -> Option<Noted> {
        if !self.tasks[chief].has_ended {
            return self.next().await;
        }
        timeout(LINGER, self.next()).await.unwrap_or(Some(Noted::Lingering))
    }

    fn tell_who_lingers(&self, times: u32) {
        let lingers = self.tasks.iter().filter(|followee| !followee.has_ended);
        let names: Vec<String> = lingers.map(|followee| followee.task.to_string()).collect();
        let left = LINGER * (MOST_LINGERS + 1 - times);
        eprintln!(
            "the chief is done; still there: {}, for {} s at most",
            names.join(", "),
            left.as_secs()
        );
    }

    fn has_failed(&self) -> bool {
        self.tasks.iter().any(|followee| followee.failed.is_some())
    }

    /// Handles changes until `time` has passed or all processes are gone. Returns whether they are.
    async fn wait(&mut self, time: Duration) -> bool {
        timeout(time, async { while self.next().await.is_some() {} }).await.is_ok()
    }

    /// Stops all processes: asks them, and kills those that still run after `time`.
    async fn stop(&mut self, time: Duration) {
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

    /// The first failure, or the first that is not merely the loss of another task.
    fn root_cause(&self, order: &Launch) -> DeploymentError {
        let mut failed: Vec<_> = self
            .tasks
            .iter()
            .filter_map(|followee| Some((followee.failed.as_ref()?, &followee.task)))
            .collect();
        failed.sort_by_key(|((rank, exit), _)| (exit.is_loss_of_another(), *rank));
        let ((_, exit), task) = failed[0];
        let log = order.log(task);
        let why = match exit {
            Exit::Signal(signal) => format!("it was killed by signal {signal}"),
            Exit::Unknown(error) => format!("it can't be waited for: {error}"),
            Exit::Code(code) => {
                last_words(&log).unwrap_or_else(|| format!("it ended with exit code {code}"))
            }
        };
        DeploymentError::Task {
            run: order.run.clone(),
            task: task.clone(),
            why,
            log: log.display().to_string(),
            code: exit.meaning(),
        }
    }

    /// The records of all tasks, on the chief's clock.
    fn told(self, chief: usize) -> Launched {
        let origin = self.tasks[chief].began.unwrap_or(0);
        let mut told = Launched {
            recording: Recording::default(),
            sent: BTreeMap::new(),
            ended: Time::ZERO,
            took: self.clock.now().since(Time::ZERO),
        };
        for (index, Followee { task, began, part, .. }) in self.tasks.into_iter().enumerate() {
            let part = part.unwrap_or_default();
            part.add_to(&mut told.recording, &task, began.unwrap_or(origin) - origin);
            if index == chief {
                told.ended = Time(part.now);
            }
            told.sent.insert(task, part.sent);
        }
        told.recording
            .steps
            .sort_by(|a, b| a.ended.cmp(&b.ended).then_with(|| a.worker.cmp(&b.worker)));
        told
    }
}

/// The last error in a log, with the lines of it that follow, or else the log's last line.
fn last_words(log: &Path) -> Option<String> {
    let text =
        fs::read(log).inspect_err(|error| tracing::warn!(%error, "a log can't be read")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let Some(at) = lines.iter().rposition(|line| line.starts_with("error: ")) else {
        return lines.last().map(|line| (*line).to_owned());
    };
    let error = lines[at..].iter().take(MOST_LINES).copied().collect::<Vec<_>>().join("\n");
    error.strip_prefix("error: ").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_task_are_all_lines_of_its_last_error() {
        let folder =
            crate::deployment::launch::folder::Folder::private("trainyard-last-words").unwrap();
        let log = folder.path().join("worker-0.log");
        let words = |text: &str| {
            fs::write(&log, text).unwrap();
            last_words(&log)
        };
        let mistakes = "error: early\nstep 3\nerror: task.toml:3: stop.steps: 0 must be at \
                        least 1\ntask.toml:9: program.batch: 0 must be at least 1\n\n";
        let said = words(mistakes).unwrap();
        assert!(said.starts_with("task.toml:3: stop.steps") && said.contains("task.toml:9:"));
        assert_eq!(words("step 3\nstep 4\n").as_deref(), Some("step 4"));
        assert_eq!(words(""), None);
    }
}
