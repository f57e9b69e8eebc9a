//! How long a client waits for the other server: its steps' deadlines, and the way to it.

use std::time::Duration;

use actix::Context;

use super::RemoteMaster;
use crate::runtime::error::{Code, Error};
use crate::runtime::mail::MasterMail;
use crate::runtime::mailbox::tell_later;
use crate::transport::Obstacle;
use crate::units::Time;

/// The time between two looks at the way to the other server.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A step ends here this long after its deadline. The other master ends it in time and names the
/// tasks that have not answered; that message has to arrive.
const LEEWAY: Duration = Duration::from_secs(1);

impl RemoteMaster {
    /// Looks from time to time for as long as a call is under way. In a simulation without faults
    /// there is no need: a wait in vain ends in a stall.
    pub(super) fn watch(&mut self, context: &mut Context<Self>) {
        if self.is_watching || self.clock.sees_stalls() {
            return;
        }
        self.is_watching = true;
        let sleep = self.clock.sleep_until(self.clock.now().after(LOOK_EVERY));
        tell_later(&self.own, MasterMail::AlarmRings, sleep, context);
    }

    /// Ends what is overdue, and gives the other server up if there has been no way to it for too
    /// long.
    pub(super) fn look(&mut self, context: &mut Context<Self>) {
        self.is_watching = false;
        if self.calls.is_empty() {
            return;
        }
        let (now, name) = (self.clock.now(), self.transport.peers().name(self.peer));
        let obstacle = self.transport.peers().obstacle(self.peer);
        let why = obstacle.as_ref().map_or("it is connected", |obstacle| &obstacle.why);
        let late = format!("{name} has not answered in the time that was given ({why})");
        let late = Error::new(Code::DeadlineExceeded, late).on(&name);
        let is_late = |deadline: Time| deadline.after(LEEWAY) < now;
        self.calls.time_out(is_late, &late);
        self.sessions.values_mut().for_each(|session| session.time_out(is_late, &late));
        match obstacle {
            None => self.cut_off = None,
            Some(Obstacle { why, refused: Some(refused) }) => {
                let message = format!("there is no connection to {name}: {why}");
                self.give_up(&Error::new(refused.into(), message));
            }
            Some(obstacle) if self.stop_requested.get() => {
                let message = format!(
                    "it is given up, since this task is to stop and there is no connection to \
                     {name}: {}",
                    obstacle.why
                );
                self.give_up(&Error::new(Code::Cancelled, message));
            }
            Some(obstacle) => {
                let since = *self.cut_off.get_or_insert(now);
                let Self { patience, has_answered, .. } = &*self;
                let limit = if *has_answered { patience.recovery } else { patience.first };
                if now.since(since) >= limit {
                    let message = format!(
                        "there is no connection to {name} for {limit:.0?}: {}",
                        obstacle.why
                    );
                    self.give_up(&Error::new(Code::Unavailable, message));
                }
            }
        }
        self.watch(context);
    }
}
