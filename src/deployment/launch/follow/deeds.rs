//! Carries out the faults of a launch on the processes that are followed.

use std::time::Duration;

use super::listener::{self, Origin};
use super::{Followed, Followee};
use crate::clock::Clock;
use crate::deployment::DeploymentError;
use crate::deployment::launch::Launch;
use crate::deployment::launch::faults::{Deed, signal};

/// The time after which a process that is still to go is looked at again.
const SOON: Duration = Duration::from_millis(10);

impl Followed {
    /// Does what is due.
    ///
    /// # Errors
    /// If the system refuses to start a process again, or to send a signal.
    pub(super) fn do_what_is_due(&mut self, order: &Launch) -> Result<(), DeploymentError> {
        while let Some((index, deed)) = self.agenda.take(self.clock.now()) {
            self.carry_out(order, index, deed)?;
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        order: &Launch,
        index: usize,
        deed: Deed,
    ) -> Result<(), DeploymentError> {
        let now = self.clock.now();
        let Followee { task, kill, id, has_ended, is_down, failed, .. } = &mut self.tasks[index];
        let is_there = !*has_ended && failed.is_none() && !*is_down;
        match (deed, *id) {
            (Deed::Start, Some(_)) => self.agenda.add(now.after(SOON), index, deed), // not gone yet
            (Deed::Start, None) => self.start_again(order, index)?,
            (Deed::Continue, _) if !is_there => {}
            _ if !is_there => eprintln!("fault skipped: {task} does not run"),
            (Deed::Kill { restart_after }, _) => {
                eprintln!("fault: {task} is killed");
                (*kill, *is_down) = (None, true);
                match restart_after {
                    Some(pause) => self.agenda.add(now.after(pause), index, Deed::Start),
                    None => *has_ended = true,
                }
            }
            (Deed::Stop { lasts }, Some(id)) => {
                eprintln!("fault: {task} stands still for {lasts:?}");
                signal("STOP", id)?;
                self.agenda.add(now.after(lasts), index, Deed::Continue);
            }
            (Deed::Continue, Some(id)) => signal("CONT", id)?,
            (Deed::Stop { .. } | Deed::Continue, None) => {}
        }
        Ok(())
    }

    fn start_again(&mut self, order: &Launch, index: usize) -> Result<(), DeploymentError> {
        let Some(sender) = self.sender.clone() else { return Ok(()) };
        let member = self.starter.start_again(order, index)?;
        let task = member.task.clone();
        eprintln!("fault: {task} is started again");
        let id = member.child.id();
        let (way, kill) = listener::listen(Origin { index, sender }, member, &order.log(&task));
        let (way, kill) = (Some(way), Some(kill));
        self.tasks[index] = Followee { task, way, kill, id, ..Followee::new() };
        Ok(())
    }

    /// Whether all processes have ended, so that no fault is left for any.
    pub(super) fn have_all_ended(&self) -> bool {
        self.tasks.iter().all(|followee| followee.has_ended || followee.failed.is_some())
    }

    /// Forgets the faults that are still to come.
    pub(super) fn spare_the_rest(&mut self) {
        self.agenda.clear();
        self.sender = None;
    }
}
