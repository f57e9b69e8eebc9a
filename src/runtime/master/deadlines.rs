//! The deadlines of a master's steps, and log lines about long waits.
//!
//! One alarm serves all steps that have a limit: it rings at the first deadline, and every
//! [`NOTICE`] before that to log who is waited for. A step that ends in time neither sets nor stops
//! it, so a limit costs the step nothing.

use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context, SpawnHandle};

use crate::transport::{PeerId, Refused};
use crate::units::Time;

use super::ways::not_there;
use super::{Master, refuse};
use crate::runtime::error::{Code, Error};
use crate::runtime::mail::MasterMail;
use crate::runtime::mailbox::tell_later;
use crate::runtime::master::step_plan::StepPlan;
use crate::runtime::master::steps::Limit;
use crate::runtime::messages::StepId;
use crate::runtime::patience::NOTICE;

/// The time between two looks at the ways to other tasks once this one is to stop: enough to
/// connect again to a task that is there.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The master's next alarm.
pub(super) struct Alarm {
    at: Time,
    timer: SpawnHandle,
    /// The number of the first step requested after the alarm was set.
    since: u64,
}

impl Master {
    /// Sets the alarm so that nothing with `deadline` goes on after it.
    pub(super) fn limit(&mut self, deadline: Time, context: &mut Context<Self>) {
        let at = deadline.min(self.clock.now().after(self.look_again()));
        if self.alarm.as_ref().is_some_and(|alarm| alarm.at <= at) {
            return;
        }
        if let Some(later) = self.alarm.take() {
            context.cancel_future(later.timer);
        }
        let timer = self.set_timer(at, MasterMail::AlarmRings, context);
        self.alarm = Some(Alarm { at, timer, since: self.next_step });
    }

    /// Ends the steps that have reached their deadline, and logs what long-waiting steps wait for.
    pub(super) fn alarm_rings(&mut self, context: &mut Context<Self>) {
        let Some(alarm) = self.alarm.take() else { return };
        let now = self.clock.now();
        let limited = self.limited();
        for (step, deadline, waits_for) in &limited {
            if *deadline <= now
                || self.is_refused_for_good(waits_for)
                || self.is_hopeless(waits_for)
            {
                self.deadline_reached(*step);
            } else if step.number < alarm.since && !self.is_to_stop() {
                let left = deadline.since(now);
                let who = self.names_and_obstacles(waits_for);
                let refused = self.refused_task();
                let refused = refused.map(|(_, why)| format!("; there is no way to {why}"));
                let (number, refused) = (step.number, refused.unwrap_or_default());
                let ways =
                    self.steps.get(step).map(|step| not_there(step) + &self.blocked_ways(step));
                let ways = ways.unwrap_or_default();
                tracing::warn!("step {number} waits for {who}, for {left:.0?} more{refused}{ways}");
                self.ask_for_ways(*step);
            }
        }
        let next = limited
            .iter()
            .map(|(_, deadline, _)| *deadline)
            .filter(|deadline| *deadline > now)
            .min();
        if let Some(next) = next {
            self.limit(next, context);
        }
    }

    /// The steps with a limit, running or waiting to: the deadline, and the peers they wait for.
    fn limited(&self) -> Vec<(StepId, Time, Vec<PeerId>)> {
        let running = self
            .steps
            .iter()
            .filter_map(|(id, step)| Some((*id, step.limit?.deadline, step.unanswered())));
        let plans = self.sessions.values().flat_map(|session| session.plans.values());
        let waiting = plans.filter_map(StepPlan::awaiting).flat_map(|(waiting, peers)| {
            waiting
                .iter()
                .filter_map(move |step| Some((step.step, step.run.deadline?, peers.clone())))
        });
        running.chain(waiting).collect()
    }

    pub(super) fn set_timer(
        &self,
        deadline: Time,
        message: MasterMail,
        context: &mut Context<Self>,
    ) -> SpawnHandle {
        let sleep = self.clock.sleep_until(deadline);
        tell_later(&self.outbox.actors.master, message, sleep, context)
    }

    /// Ends a step at its deadline, whether it runs or waits until its plan is registered.
    fn deadline_reached(&mut self, step: StepId) {
        if let Some(running) = self.steps.get(&step) {
            let span = running.limit.map(Limit::span);
            let too_slow = || {
                let error = self.too_slow("the step", span, &running.unanswered());
                Error { message: error.message + &not_there(running), ..error }
            };
            let error = self.no_way_error(step).unwrap_or_else(too_slow);
            return self.fail(step, error);
        }
        self.withdraw(step, |master, peers| master.too_slow("making the step ready", None, peers));
    }

    /// Refuses a step that waits until its plan is registered; `error` is given the peers that have
    /// not answered.
    fn withdraw(&mut self, step: StepId, error: impl FnOnce(&Self, &[PeerId]) -> Error) {
        let found = self.sessions.iter_mut().find_map(|(id, session)| {
            let (request, plan) =
                session.plans.iter_mut().find(|(_, plan)| plan.is_awaited_by(step))?;
            let (withdrawn, unregistered) = plan.withdraw(step)?;
            Some((*id, Arc::clone(request), withdrawn, unregistered))
        });
        let Some((session, request, withdrawn, unregistered)) = found else { return };
        refuse(withdrawn, error(self, &unregistered));
        // The registration may be lost: the next step with the same request sends it anew.
        if self.sessions[&session].plans[&request].is_awaited_by_none() {
            self.forget_plan(session, &request);
        }
    }

    /// The limit of a step that begins now and must have ended by `deadline`.
    pub(super) fn limit_until(&self, deadline: Time) -> Limit {
        Limit { begun: self.clock.now(), deadline }
    }

    /// The error of a step or reset that took longer than its `limit`, where that is known, or that
    /// would; says who has not answered. It is on the first of these to which there is no way, if
    /// there is one: a training may go on without it.
    pub(super) fn too_slow(
        &self,
        what: &str,
        limit: Option<Duration>,
        unanswered: &[PeerId],
    ) -> Error {
        let who = self.names_and_obstacles(unanswered);
        let limit = limit.map(|limit| format!("the {limit:.0?} that ")).unwrap_or_default();
        if unanswered.is_empty() {
            let message =
                format!("{what} took longer than {limit}it was given; not all was fetched");
            return Error::new(Code::DeadlineExceeded, message);
        }
        if let Some(refused) = self.refused(unanswered) {
            let message = format!("{what} can't be done: there is no connection to {who}");
            return Error::new(refused.into(), message);
        }
        if self.is_hopeless(unanswered) {
            let message =
                format!("{what} is given up, since this task is to stop; it waited for {who}");
            return Error::new(Code::Cancelled, message);
        }
        if let Some((refused, why)) = self.refused_task().filter(|_| self.are_reached(unanswered)) {
            let message = format!(
                "{what} took longer than {limit}it was given; no answer from {who}, and there is \
                 no way to {why}"
            );
            return Error::new(refused.into(), message);
        }
        let hint = match self.are_reached(unanswered) {
            true => {
                "there is a way to each, so it may still be at work: for steps that take so long, \
                 raise `network.recovery` (a step of a training has five times that, and at least \
                 5 minutes) or the session's own timeout; in a deployment, `trainyard status` says \
                 whom it waits for. In the mode `sync` all workers must take the same training \
                 operation in a round: choose it by `session.global_step()`"
            }
            false => "start what does not run, and ask the others with `trainyard status`",
        };
        let message =
            format!("{what} took longer than {limit}it was given; no answer from {who}; {hint}");
        let unreached = unanswered.iter().find(|peer| self.outbox.obstacle(**peer).is_some());
        let unreached = unreached.map(|peer| self.outbox.name(*peer));
        unreached.iter().fold(Error::new(Code::DeadlineExceeded, message), Error::on)
    }

    /// Whether this task is to stop.
    fn is_to_stop(&self) -> bool {
        self.outbox.actors.training.is_stop_requested()
    }

    /// The time until the next look at who is waited for: short where this task is to stop, and
    /// gives up a wait for a task that is gone.
    fn look_again(&self) -> Duration {
        if self.is_to_stop() { LOOK_EVERY } else { NOTICE }
    }

    /// Whether this task is to stop, and there is no way to one of `peers`.
    fn is_hopeless(&self, peers: &[PeerId]) -> bool {
        self.is_to_stop() && !self.are_reached(peers)
    }

    /// Whether there is a way to all `peers`.
    pub(super) fn are_reached(&self, peers: &[PeerId]) -> bool {
        peers.iter().all(|peer| self.outbox.obstacle(*peer).is_none())
    }

    /// Why there never will be a way to one of `peers`, if that is so.
    fn refused(&self, peers: &[PeerId]) -> Option<Refused> {
        peers.iter().find_map(|peer| self.outbox.obstacle(*peer)?.refused)
    }

    /// Whether no wait for `peers` helps, however long: one that this task has met before may come
    /// back as it was, unless it says that it has met a later incarnation of this task.
    fn is_refused_for_good(&self, peers: &[PeerId]) -> bool {
        peers.iter().any(|peer| match self.refused(&[*peer]) {
            Some(Refused::Outlived) => true,
            Some(_) => self.outbox.incarnation(*peer).is_none(),
            None => false,
        })
    }

    /// The first task of the cluster that this one refuses, or that refuses this one, and why.
    /// Those that a step waits for may wait for it.
    fn refused_task(&self) -> Option<(Refused, String)> {
        let tasks = self.devices.iter().filter_map(|device| self.outbox.resolve(device.task()));
        tasks.filter_map(|task| self.outbox.refusal(task)).next()
    }

    /// The names of `peers`, each with the reason why there is no way to it.
    fn names_and_obstacles(&self, peers: &[PeerId]) -> String {
        let told = |peer: &PeerId| match self.outbox.obstacle(*peer) {
            Some(obstacle) => format!("{} ({})", self.outbox.name(*peer), obstacle.why),
            None => self.outbox.name(*peer).to_string(),
        };
        peers.iter().map(told).collect::<Vec<_>>().join(", ")
    }
}
