//! Carries out the faults of a launch on the processes that are followed.

use std::time::Duration;

use super::Followed;
use super::followee::{Followee, Stop};
use super::listener::{self, Exit, NewsSender};
use crate::clock::Clock;
use crate::cluster::TaskName;
use crate::deployment::DeploymentError;
use crate::deployment::launch::damage::inflict;
use crate::deployment::launch::faults::{Deed, PERIOD, signal};
use crate::deployment::launch::relay::Disturbance;
use crate::faults::{Damage, FaultKind, SkipReason, SkippedFault};
use crate::runtime::STOP_GRACE;

/// The time after which a process that is still to go is looked at again.
const SOON: Duration = Duration::from_millis(10);
/// The time in which a parameter server that is asked to stop has ended the others: it waits for
/// them for the time of grace, and says goodbye.
const ENDING: Duration = STOP_GRACE.saturating_mul(2);

impl Followed<'_> {
    /// Does what is due.
    ///
    /// # Errors
    /// If the system refuses to start a process again, or to send a signal.
    pub(super) fn do_what_is_due(&mut self) -> Result<(), DeploymentError> {
        while let Some(deed) = self.agenda.take(self.clock.now()) {
            self.carry_out(deed)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, deed: Deed) -> Result<(), DeploymentError> {
        match deed {
            Deed::Begin(fault) => {
                let skipped = self.begin(&fault.kind)?;
                self.skipped.extend(skipped.map(|why| SkippedFault { fault, why }));
            }
            Deed::Start { index } if self.must_wait_for_an_end(index) => {
                self.agenda.add(self.clock.now().after(SOON), deed);
            }
            Deed::Start { index } => self.start_again(index)?,
            Deed::ForgetStops if self.may_end_others() => {
                self.agenda.add(self.clock.now().after(ENDING), deed);
            }
            Deed::ForgetStops => {
                for followee in &mut self.tasks {
                    followee.stop.take_if(|stop| !stop.is_own);
                }
            }
            Deed::Continue { index, id } => self.go_on(index, id)?,
            Deed::SlowOn { index } => self.slow(index)?,
            Deed::Settle { number } => {
                if let Some(relay) = &self.relay {
                    relay.settle(number);
                }
            }
        }
        Ok(())
    }

    /// Begins a fault, or returns why it is skipped.
    fn begin(&mut self, fault: &FaultKind) -> Result<Option<SkipReason>, DeploymentError> {
        match fault {
            FaultKind::Crash { task, restart_after } => {
                return Ok(self.kill(self.index(task), *restart_after));
            }
            FaultKind::Stop { task, restart_after } => {
                return self.ask_to_stop(self.index(task), *restart_after);
            }
            FaultKind::Freeze { task, lasts } => {
                return self.stand_still(self.index(task), *lasts);
            }
            FaultKind::SlowTask { task, factor, lasts } => {
                (self.order.tell)(&format!("fault: {task} is slower by {factor} for {lasts:?}"));
                let index = self.index(task);
                if self.tasks[index].slowness.add(*factor, *lasts) {
                    self.slow(index)?;
                }
            }
            FaultKind::Partition { lasts, .. } | FaultKind::OneWay { lasts, .. } => {
                self.disturb(fault, Disturbance::Cut, *lasts);
            }
            FaultKind::Loss { rate, lasts, .. } => {
                self.disturb(fault, Disturbance::Loses(*rate), *lasts);
            }
            FaultKind::SlowLink { factor, lasts, .. } => {
                let (latency, rate) = (self.order.latency, self.order.bandwidth.0);
                let how = Disturbance::Slow { latency, rate, factor: *factor };
                self.disturb(fault, how, *lasts);
            }
            FaultKind::TornCheckpoint { damage } => return Ok(self.damage(*damage)),
            FaultKind::FullDisk { .. } => return Ok(Some(SkipReason::OnlySimulated)),
        }
        Ok(None)
    }

    fn index(&self, task: &TaskName) -> usize {
        let position = self.order.tasks.iter().position(|own| own == task);
        position.expect("the agenda has faults of these tasks alone")
    }

    /// The number of the process of the task `index`, if it runs.
    fn running(&self, index: usize) -> Option<u32> {
        let followee = &self.tasks[index];
        let id = followee.id.filter(|_| followee.runs());
        if id.is_none() {
            (self.order.tell)(&format!("fault skipped: {} does not run", followee.task));
        }
        id
    }

    fn kill(&mut self, index: usize, restart_after: Option<Duration>) -> Option<SkipReason> {
        if self.running(index).is_none() {
            return Some(SkipReason::NotRunning);
        }
        let Followee { task, kill, has_ended, is_down, stop, .. } = &mut self.tasks[index];
        (self.order.tell)(&format!("fault: {task} is killed"));
        // One that was asked to stop starts again as its `stop` says.
        let asked = stop.filter(|stop| stop.is_own);
        let restart_after = asked.map_or(restart_after, |stop| stop.restart_after);
        (*kill, *is_down, *stop) = (None, true, None);
        match restart_after {
            Some(pause) => self.agenda.add(self.clock.now().after(pause), Deed::Start { index }),
            None => *has_ended = true,
        }
        None
    }

    /// Asks the process of the task `index` to stop. A parameter server has the others end, too;
    /// those that it ends are started again with it.
    fn ask_to_stop(
        &mut self,
        index: usize,
        restart_after: Option<Duration>,
    ) -> Result<Option<SkipReason>, DeploymentError> {
        let Some(id) = self.running(index) else { return Ok(Some(SkipReason::NotRunning)) };
        let ends_others = self.tasks[index].task.is_parameter_server() && restart_after.is_some();
        if ends_others {
            for followee in self.tasks.iter_mut().filter(|other| other.runs()) {
                let own = followee.stop.filter(|stop| stop.is_own);
                followee.stop = own.or(Some(Stop { is_own: false, restart_after }));
            }
            self.agenda.add(self.clock.now().after(ENDING), Deed::ForgetStops);
        }
        let followee = &mut self.tasks[index];
        (self.order.tell)(&format!("fault: {} is asked to stop", followee.task));
        followee.stop = Some(Stop { is_own: true, restart_after });
        signal("TERM", id).map(|()| None)
    }

    /// The process of the task `index` has ended by the fault `stop`.
    pub(super) fn ended_by_a_stop(&mut self, index: usize, stop: Stop, exit: Exit) {
        let followee = &mut self.tasks[index];
        followee.is_down = true;
        (self.order.tell)(&format!("{}: {exit}, by the fault", followee.task));
        match stop.restart_after {
            Some(pause) => self.agenda.add(self.clock.now().after(pause), Deed::Start { index }),
            None => (followee.has_ended, followee.stopped) = (true, Some(exit)),
        }
    }

    /// Whether a start of the task `index` has to wait: its last process, or a parameter server
    /// that was asked to stop, still runs.
    fn must_wait_for_an_end(&self, index: usize) -> bool {
        self.tasks[index].id.is_some() || self.tasks.iter().any(Followee::is_ending_others)
    }

    /// Whether a parameter server that was asked to stop may still end others: it runs, or one of
    /// them stands still.
    fn may_end_others(&self) -> bool {
        let is_late = |followee: &Followee| followee.stop.is_some() && followee.stops > 0;
        let may_end = |followee| Followee::is_ending_others(followee) || is_late(followee);
        self.tasks.iter().any(may_end)
    }

    fn stand_still(
        &mut self,
        index: usize,
        lasts: Duration,
    ) -> Result<Option<SkipReason>, DeploymentError> {
        let Some(id) = self.running(index) else { return Ok(Some(SkipReason::NotRunning)) };
        (self.order.tell)(&format!("fault: {} stands still for {lasts:?}", self.tasks[index].task));
        self.stop_process(index, id, lasts).map(|()| None)
    }

    /// Stops the process `id` for so long. It goes on once no fault stops it any more.
    fn stop_process(
        &mut self,
        index: usize,
        id: u32,
        lasts: Duration,
    ) -> Result<(), DeploymentError> {
        self.tasks[index].stops += 1;
        self.agenda.add(self.clock.now().after(lasts), Deed::Continue { index, id });
        signal("STOP", id)
    }

    fn go_on(&mut self, index: usize, id: u32) -> Result<(), DeploymentError> {
        let followee = &mut self.tasks[index];
        if followee.id != Some(id) {
            return Ok(()); // it was started again meanwhile
        }
        followee.stops -= 1;
        if followee.stops > 0 { Ok(()) } else { signal("CONT", id) }
    }

    /// Begins a period of a process that faults make slower, unless none does any more.
    fn slow(&mut self, index: usize) -> Result<(), DeploymentError> {
        let Followee { slowness, id, is_down, .. } = &mut self.tasks[index];
        let Some(still) = slowness.begin_period() else { return Ok(()) };
        let running = id.filter(|_| !*is_down);
        self.agenda.add(self.clock.now().after(PERIOD), Deed::SlowOn { index });
        running.map_or(Ok(()), |id| self.stop_process(index, id, still))
    }

    /// Disturbs the links that `fault` is of.
    fn disturb(&mut self, fault: &FaultKind, how: Disturbance, lasts: Duration) {
        let index = |(from, to): &(TaskName, TaskName)| (self.index(from), self.index(to));
        let mut ways: Vec<(usize, usize)> = fault.ways().iter().map(index).collect();
        ways.sort_unstable(); // they are told in the order of the tasks
        let Some(relay) = &mut self.relay else { return };
        let number = relay.disturb(&ways, how);
        self.agenda.add(self.clock.now().after(lasts), Deed::Settle { number });
        let tasks = &self.order.tasks;
        let named = |(from, to): &(usize, usize)| format!("{} to {}", tasks[*from], tasks[*to]);
        let ways: Vec<String> = ways.iter().map(named).collect();
        (self.order.tell)(&format!("fault: {how} from {} for {lasts:?}", ways.join(", from ")));
    }

    fn damage(&self, damage: Damage) -> Option<SkipReason> {
        let Some(folder) = &self.order.checkpoints else {
            (self.order.tell)("fault skipped: the checkpoints are in no folder");
            return Some(SkipReason::NoFolder);
        };
        match inflict(damage, folder) {
            Ok(Some(path)) => {
                (self.order.tell)(&format!("fault: {} is damaged", path.display()));
                None
            }
            Ok(None) => {
                (self.order.tell)("fault skipped: there is no checkpoint yet");
                Some(SkipReason::NoCheckpoint)
            }
            Err(error) => {
                (self.order.tell)(&format!("fault skipped: no checkpoint is damaged: {error}"));
                Some(SkipReason::DamageFailed)
            }
        }
    }

    fn start_again(&mut self, index: usize) -> Result<(), DeploymentError> {
        let Some(sender) = self.sender.clone() else { return Ok(()) };
        let member = self.starter.start_again(self.order, index)?;
        let task = member.task.clone();
        (self.order.tell)(&format!("{task} is started again"));
        let id = member.child.id();
        let (way, kill) =
            listener::listen(NewsSender { index, sender }, member, &self.order.log(&task));
        let before = &mut self.tasks[index];
        let (restarts, record) = (before.restarts, std::mem::take(&mut before.record));
        let slowness = std::mem::take(&mut before.slowness);
        let again = Followee::new(task, way, kill, id);
        *before = Followee { restarts, is_again: true, record, slowness, ..again };
        Ok(())
    }

    /// Has those go on at once that faults have stand still.
    pub(super) fn wake_all(&mut self) {
        let is_still = |followee: &&mut Followee| followee.stops > 0 && followee.failed.is_none();
        for followee in self.tasks.iter_mut().filter(is_still) {
            followee.stops = 0;
            if let Some(Err(error)) = followee.id.map(|id| signal("CONT", id)) {
                tracing::warn!(task = %followee.task, %error, "it can't be told to stop");
            }
        }
    }

    /// Whether all processes have ended, so that no fault is left for any.
    pub(super) fn have_all_ended(&self) -> bool {
        self.tasks.iter().all(|followee| followee.has_ended || followee.failed.is_some())
    }

    /// Forgets the faults that are still to come.
    pub(super) fn spare_the_rest(&mut self) {
        let (missed, why) = (self.agenda.clear().into_iter(), SkipReason::RunEnded);
        self.skipped.extend(missed.map(|fault| SkippedFault { fault, why }));
        self.sender = None;
    }
}
