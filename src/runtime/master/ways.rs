//! The ways between the other tasks of a step. A master may reach all of them, and the step waits
//! all the same, because two of them can't reach each other, which only they know. So the master
//! asks those that send something to whom it waits for, and gives the step up once there has been
//! no way for as long as a lost task has to come back. Those that it waits for also say which
//! workers have yet to come.
//!
//! Until then the step goes on to wait: what was sent is kept, and arrives as soon as there is a
//! way. A loss alone tells nothing of it: a connection that never was can't be lost.

use std::collections::BTreeMap;

use actix::Context;

use crate::cluster::TaskName;
use crate::transport::PeerId;
use crate::units::Time;

use super::Master;
use super::blocked::BlockedWay;
use super::step_plan::Part;
use super::steps::{Limit, RunningStep};
use crate::runtime::error::{Code, Error};
use crate::runtime::messages::{GraphHandle, StepId, WorkerMessage};

impl RunningStep {
    /// Whether `graph` is a part of it at `peer`.
    fn is_part(&self, graph: GraphHandle, peer: PeerId) -> bool {
        self.plan.parts.iter().any(|part| part.graph == graph && part.peer == peer)
    }

    /// The parts that the step may wait for, none of them at `local`: those that have not ended,
    /// and those that send something to another task whose part has not.
    fn awaited(&self, local: PeerId) -> impl Iterator<Item = &Part> {
        let gets_from = move |part: &Part, sender: PeerId| {
            let is_far = ![sender, local].contains(&part.peer);
            is_far && self.is_outstanding(part) && part.senders.contains(&sender)
        };
        let far = self.plan.parts.iter().filter(move |part| part.peer != local);
        far.filter(move |from| {
            self.is_outstanding(from)
                || self.plan.parts.iter().any(|part| gets_from(part, from.peer))
        })
    }
}

/// The workers that have yet to come and that `step` waits for, as the end of a sentence; nothing
/// if there are none.
pub(super) fn not_there(step: &RunningStep) -> String {
    let absent: Vec<String> = step.absent().iter().map(ToString::to_string).collect();
    if absent.is_empty() { String::new() } else { format!("; not there: {}", absent.join(", ")) }
}

impl Master {
    /// Asks the tasks that `step` waits for whom they wait for, and the senders to them whether
    /// they can reach them. If this task itself can't, that is the reason already. Without faults
    /// everything is reachable.
    pub(super) fn ask_for_ways(&self, step: StepId) {
        let Some(running) = self.steps.get(&step) else { return };
        if self.clock.sees_stalls() || !self.are_reached(&running.unanswered()) {
            return;
        }
        for Part { peer, graph, .. } in running.awaited(self.outbox.local()) {
            self.outbox.send(*peer, WorkerMessage::AskForWays { step, graph: *graph });
        }
    }

    /// The task `from` says that workers have yet to come for which its part `graph` of `step` may
    /// wait.
    pub(super) fn absence_told(
        &mut self,
        from: PeerId,
        (step, graph): (StepId, GraphHandle),
        absent: Vec<TaskName>,
    ) {
        let Some(running) = self.steps.get_mut(&step) else { return };
        if !running.is_part(graph, from) {
            return;
        }
        let known = running.absent();
        running.absent.insert(graph, absent);
        if !running.absent().is_subset(&known) {
            let (awaited, absent) = (running.unanswered(), not_there(running));
            let (number, who) = (step.number, self.names(&awaited));
            tracing::warn!("step {number} waits for {who}{absent}");
        }
    }

    /// The part `graph` of `step` at `from` can't reach the tasks in `blocked`, for the reasons
    /// beside them.
    pub(super) fn ways_told(
        &mut self,
        from: PeerId,
        (step, graph): (StepId, GraphHandle),
        blocked: Vec<(TaskName, String)>,
        context: &mut Context<Self>,
    ) {
        let now = self.clock.now();
        let Some(running) = self.steps.get_mut(&step) else { return };
        if !running.is_part(graph, from) {
            return;
        }
        let awaited = running.unanswered();
        let awaited: BTreeMap<TaskName, PeerId> =
            awaited.into_iter().map(|peer| (self.outbox.name(peer), peer)).collect();
        let is_awaited = |(to, why)| Some((*awaited.get(&to)?, why));
        let receivers = blocked.into_iter().filter_map(is_awaited).collect();
        let is_new = running.blocked.take((graph, from), receivers, now);
        let Some((limit, since)) = running.limit.zip(running.blocked.since()) else { return };
        let end = self.no_way_until(limit, since);
        let Some(running) = self.steps.get(&step) else { return };
        if end <= now {
            let error = self.no_way(running, limit);
            return self.fail(step, error);
        }
        if is_new {
            let (number, left, ways) = (step.number, end.since(now), self.blocked_ways(running));
            tracing::warn!(
                "step {number} waits{ways}; it is given up in {left:.0?} if there is no way then"
            );
        }
        self.limit(end, context);
    }

    /// When a step is given up that has begun within `limit` and has a way blocked `since` then: as
    /// a task is that is lost. A way may be blocked for a moment: so not at the first word of it.
    fn no_way_until(&self, limit: Limit, since: Time) -> Time {
        limit.begun.after(self.outbox.recovery()).max(since.after(self.outbox.silence()))
    }

    /// The ways of `step` that are blocked, as the end of a sentence; nothing if none is.
    pub(super) fn blocked_ways(&self, step: &RunningStep) -> String {
        let told = |(to, way): (PeerId, &BlockedWay)| {
            let (from, to) = (self.outbox.name(way.from), self.outbox.name(to));
            format!("; {from} can't reach {to} ({})", way.why)
        };
        step.blocked.all().map(told).collect()
    }

    /// The error of `step` with `limit`, a way of which is blocked; none if all are open, as far as
    /// this task knows.
    pub(super) fn no_way_error(&self, step: StepId) -> Option<Error> {
        let running = self.steps.get(&step)?;
        running.blocked.since()?;
        Some(self.no_way(running, running.limit?))
    }

    fn no_way(&self, step: &RunningStep, limit: Limit) -> Error {
        let took = self.clock.now().since(limit.begun);
        let (who, ways) = (self.names(&step.unanswered()), self.blocked_ways(step));
        let message = format!(
            "the step is given up after {took:.0?}: it waits for {who}{ways}; mend the network \
             between the two, in both directions: all tasks with variables have to reach each \
             other, and those that train have to reach them"
        );
        let first = step.blocked.all().next().map(|(to, _)| self.outbox.name(to));
        first.iter().fold(Error::new(Code::DeadlineExceeded, message), Error::on)
    }
}
