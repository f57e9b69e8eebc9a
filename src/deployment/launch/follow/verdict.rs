//! What came of a run: how its processes are stopped, and its result.

use std::time::Duration;

use tokio::time::timeout;

use super::cause::why;
use super::followee::Followee;
use super::listener::Exit;
use super::{Followed, STOP, task_record};
use crate::clock::Clock;
use crate::deployment::launch::{Ended, FailedStop, Launched, Stopped};
use crate::deployment::{DeploymentError, ExitCode};
use crate::runtime::STOP_GRACE;
use crate::units::Time;

/// The time after the first failure in which another failure may turn out to be its cause.
const CAUSE: Duration = Duration::from_millis(300);

impl Followed<'_> {
    /// What came of the run, once its processes are stopped.
    pub(super) async fn conclude(
        mut self,
        stopped: Option<ExitCode>,
    ) -> Result<Ended<Launched>, DeploymentError> {
        if let Some(code) = stopped {
            let exits = self.stop(STOP_GRACE + STOP).await;
            let failed = self.failed_stops(exits);
            return Ok(Ended::Stopped(Stopped { code, failed, so_far: self.launched() }));
        }
        self.miss_a_chief_that_was_killed();
        if self.has_failed() {
            self.wait(CAUSE).await;
            self.wait_for_the_cause().await;
            self.stop(STOP).await;
            return Err(self.root_cause());
        }
        Ok(Ended::Done(self.launched()))
    }

    /// Handles changes until `time` has passed or all processes are gone. Returns whether they are.
    async fn wait(&mut self, time: Duration) -> bool {
        timeout(time, async { while self.next().await.is_some() {} }).await.is_ok()
    }

    /// Handles changes for as long as the chief, whose error others have passed on, has yet to end
    /// with it.
    async fn wait_for_the_cause(&mut self) {
        let ended = async { while self.awaits_the_cause() && self.next().await.is_some() {} };
        if timeout(STOP, ended).await.is_err() {
            tracing::debug!("the chief has not ended with the error that others have of it");
        }
    }

    /// Stops all processes: asks them, and kills those that still run after `time`. Returns the
    /// exits that this does not explain, by task.
    pub(super) async fn stop(&mut self, time: Duration) -> Vec<Option<Exit>> {
        self.max_restarts = 0;
        self.spare_the_rest();
        self.wake_all(); // nothing else does, once the rest is spared
        let known: Vec<bool> =
            self.tasks.iter().map(|followee| followee.failed.is_some()).collect();
        for followee in &mut self.tasks {
            (followee.way, followee.stop) = (None, None);
        }
        if !self.wait(time).await {
            for followee in &mut self.tasks {
                followee.kill = None;
                if followee.runs() {
                    followee.failed = Some((usize::MAX, Exit::Overdue(time)));
                }
            }
            while self.next().await.is_some() {}
        }
        // The exit of a process that was asked to stop is no failure of the run.
        let new = |(followee, was_known): (&mut Followee, bool)| {
            let (_, exit) = followee.failed.take_if(|_| !was_known)?;
            Some(exit).filter(|exit| !exit.is_of_a_stop())
        };
        self.tasks.iter_mut().zip(known).map(new).collect()
    }

    /// The tasks that did not stop in good order, of which some ended with `exits`.
    fn failed_stops(&self, exits: Vec<Option<Exit>>) -> Vec<FailedStop> {
        let failed = |(followee, exit): (&Followee, Option<Exit>)| {
            let (task, log) = (followee.task.clone(), self.order.log(&followee.task));
            let why = followee.record.unsaved().or_else(|| Some(why(&exit?, &log)))?;
            Some(FailedStop { task, why, log })
        };
        self.tasks.iter().zip(exits).filter_map(failed).collect()
    }

    /// Notes that the run has no result if a fault has ended the chief. If that was for good,
    /// whatever else has failed came later: the first failure ends the run.
    fn miss_a_chief_that_was_killed(&mut self) {
        let (failures, is_dead) = (self.failures(), self.is_chief_dead());
        if is_dead {
            let failed = self.tasks.iter_mut().filter_map(|followee| followee.failed.as_mut());
            failed.for_each(|(rank, _)| *rank += 1);
        }
        let chief = &mut self.tasks[self.chief];
        if chief.is_down {
            let rank = if is_dead { 0 } else { failures };
            let exit = chief.stopped.take().unwrap_or(Exit::Signal(9));
            chief.failed.get_or_insert((rank, exit));
        }
    }

    /// The records of all tasks.
    fn launched(mut self) -> Launched {
        self.spare_the_rest();
        let took = self.clock.now().since(Time::ZERO);
        let chief = self.tasks[self.chief].task.clone();
        let records = self.tasks.into_iter().map(|followee| (followee.task, followee.record));
        let launched = task_record::merged(records.collect(), &chief, took);
        Launched { skipped_faults: self.skipped, ..launched }
    }
}
