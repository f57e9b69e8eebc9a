//! Starts tasks again whose end a restart can mend, and tells how a task is asked for its status.

use std::time::Duration;

use super::Followed;
use super::listener::Exit;
use crate::clock::Clock;
use crate::deployment::ExitCode;
use crate::deployment::launch::faults::Deed;

/// The time before a task is started again.
const PAUSE: Duration = Duration::from_secs(1);
/// The beat at which a run has lasted so long that somebody may wonder.
const LASTING: u32 = 5;

impl Followed<'_> {
    /// Whether the task `index` is started again after `exit`. The exit codes decide, as a
    /// scheduler would by them.
    pub(super) fn may_restart(&self, index: usize, exit: &Exit) -> bool {
        let is_left = self.tasks[index].restarts < self.max_restarts
            && !self.has_failed()
            && !self.is_chief_dead(); // there will be no result
        let is_mended = match exit {
            Exit::Code(code) => ExitCode::asks_for_restart(*code),
            Exit::Unreported => false, // by itself it finds nobody
            other => other.meaning() == ExitCode::PeersLost,
        };
        is_left && is_mended
    }

    /// Starts the task `index` again after a pause.
    pub(super) fn restart(&mut self, index: usize, why: &str) {
        let followee = &mut self.tasks[index];
        followee.restarts += 1;
        followee.is_down = true;
        let (task, restarts, most) = (&followee.task, followee.restarts, self.max_restarts);
        (self.order.tell)(&format!("{task}: {why}; restart {restarts} of at most {most}"));
        self.agenda.add(self.clock.now().after(PAUSE), Deed::Start { index });
    }

    /// Counts a beat, and tells once how a task is asked for its status.
    pub(super) fn tell_of_status(&mut self) {
        self.beats += 1;
        let (Some(training), Some(asker)) = (&self.order.status_of, &self.asker) else { return };
        if self.beats != LASTING {
            return;
        }
        let address = |(index, task)| Some((task, self.starter.address(index, task)?));
        let mut known = self.order.tasks.iter().enumerate().filter_map(address);
        let Some((task, at)) = known.next() else { return };
        let others: Vec<String> = known.map(|(task, at)| format!("{task} at {at}")).collect();
        (self.order.tell)(&format!(
            "ask a task how it is: trainyard status {at} --task {task} --run-name {training:?} \
             --certs {}; also {}",
            asker.path().display(),
            others.join(", ")
        ));
    }
}
