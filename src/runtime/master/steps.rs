//! The steps that a master runs: it starts and collects them, and ends them at their first error or
//! their deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tracing::trace_span;

use crate::cluster::TaskName;
use crate::tensor::Tensor;
use crate::transport::PeerId;
use crate::units::Time;

use super::{Master, answer, refuse};
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::StepDone;
use crate::runtime::master::blocked::Blocked;
use crate::runtime::master::step_plan::{Accepted, Part, Ready, check_feeds};
use crate::runtime::messages::{
    GraphHandle, OperationTime, SessionId, StepId, StepOrder, Values, WorkerMessage,
};
use crate::runtime::reply::Reply;

/// A begin and an end.
type Span = (Time, Time);

/// The time that a step may take.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// When it began.
    pub(super) begun: Time,
    /// When it must have ended.
    pub(super) deadline: Time,
}

impl Limit {
    /// The time from the step's beginning to its deadline.
    pub(super) fn span(self) -> Duration {
        self.deadline.since(self.begun)
    }
}

/// A running step.
pub(super) struct RunningStep {
    pub(super) session: SessionId,
    /// The parts that have not ended yet.
    outstanding: SmallVec<[GraphHandle; 4]>,
    pub(super) plan: Arc<Ready>,
    fetches: SmallVec<[Option<Tensor>; 2]>,
    computed: Option<Span>,
    times: Vec<OperationTime>,
    pub(super) limit: Option<Limit>,
    /// The ways between its tasks that are blocked, as far as its senders have said.
    pub(super) blocked: Blocked,
    /// By part: the workers that its task waits for and that have yet to come, as it has said.
    pub(super) absent: BTreeMap<GraphHandle, Vec<TaskName>>,
    reply: Reply<Result<StepDone>>,
}

impl RunningStep {
    /// A step whose parts have all been ordered to run.
    fn new(
        session: SessionId,
        plan: Arc<Ready>,
        fetches: SmallVec<[Option<Tensor>; 2]>,
        limit: Option<Limit>,
        reply: Reply<Result<StepDone>>,
    ) -> Self {
        let outstanding = plan.parts.iter().map(|part| part.graph).collect();
        Self {
            session,
            outstanding,
            plan,
            fetches,
            computed: None,
            times: Vec::new(),
            limit,
            blocked: Blocked::default(),
            absent: BTreeMap::new(),
            reply,
        }
    }

    /// The tasks that have not answered.
    pub(super) fn unanswered(&self) -> Vec<PeerId> {
        self.plan.peers(&self.outstanding)
    }

    /// The workers that have yet to come and that those wait for that have not answered.
    pub(super) fn absent(&self) -> BTreeSet<TaskName> {
        let waits = |graph: &GraphHandle| self.outstanding.contains(graph);
        let absent = self.absent.iter().filter(|(graph, _)| waits(graph));
        absent.flat_map(|(_, tasks)| tasks.clone()).collect()
    }

    /// Whether a part of it runs, or has run, at `peer`.
    pub(super) fn has_part_at(&self, peer: PeerId) -> bool {
        self.plan.parts.iter().any(|part| part.peer == peer)
    }

    /// Whether a part that has not ended gets values of `peer`: they may be lost with it, though
    /// its own part has ended.
    pub(super) fn may_miss_values_of(&self, peer: PeerId) -> bool {
        let waiting = |part: &&Part| self.is_outstanding(part);
        self.plan.parts.iter().filter(waiting).any(|part| part.senders.contains(&peer))
    }

    /// Whether `part` has not ended.
    pub(super) fn is_outstanding(&self, part: &Part) -> bool {
        self.outstanding.contains(&part.graph)
    }
}

impl Master {
    /// Orders every partition of a step to run.
    pub(super) fn start(&mut self, accepted: Accepted, plan: Arc<Ready>) {
        let graph = &self.sessions[&accepted.run.session].graph;
        if let Err(error) = check_feeds(graph, &accepted.run.request, &accepted.run.feeds) {
            return refuse(accepted, error);
        }
        let Accepted { step, run } = accepted;
        let next = self.expect_after(&run, &plan);
        for part in &plan.parts {
            let feeds: Values =
                part.feeds.iter().map(|feed| run.feeds[*feed as usize].clone()).collect();
            self.outbox.send(
                part.peer,
                WorkerMessage::RunGraph(StepOrder {
                    step,
                    graph: part.graph,
                    feeds,
                    origin: run.origin,
                    is_traced: run.is_traced,
                    next,
                }),
            );
        }
        let mut fetches = smallvec![None; run.request.fetches.len()];
        for (fetch, feed) in &plan.fed_fetches {
            fetches[*fetch as usize] = Some(run.feeds[*feed as usize].clone());
        }
        let limit = run.deadline.map(|deadline| self.limit_until(deadline));
        let begun = RunningStep::new(run.session, plan, fetches, limit, run.reply);
        self.steps.insert(step, begun);
        self.end_if_done(step);
    }

    /// Hop 9 of a step: takes a partition's result, or its error.
    pub(super) fn collect(
        &mut self,
        from: PeerId,
        step: StepId,
        graph: GraphHandle,
        outcome: Result<Values>,
        computed: Option<Span>,
    ) {
        let _span = trace_span!("collect", step = step.number).entered();
        let Some(running) = self.steps.get_mut(&step) else {
            return tracing::debug!(
                step = step.number,
                ?graph,
                "an answer for a step that is over; dropped"
            );
        };
        let asked = running.outstanding.iter().position(|awaited| *awaited == graph);
        let mut parts = running.plan.parts.iter();
        let part = parts.find(|part| part.graph == graph && part.peer == from);
        let Some((asked, part)) = asked.zip(part) else {
            if let Some(answers) = self.dropped.count(from, 1, self.clock.now()) {
                let from = self.outbox.name(from);
                tracing::warn!(
                    answers, step = step.number, ?graph, %from,
                    "answers that nobody waits for; dropped"
                );
            }
            return;
        };
        let wanted = part.fetches.len();
        let values = match outcome {
            Ok(values) if values.len() == wanted => values,
            Ok(values) => {
                let message =
                    format!("{} values came of {wanted} that were asked for", values.len());
                let error = Error::new(Code::Internal, message).on(&self.outbox.name(part.peer));
                return self.fail(step, error);
            }
            Err(error) => return self.fail(step, error),
        };
        running.outstanding.swap_remove(asked);
        let local = self.outbox.local();
        if part.peer == local {
            running.computed = spanned(running.computed, computed);
        } else if !running.has_part_at(local) && !self.outbox.actors.training.is_holder(part.peer) {
            let computed = computed.map(|span| ending_at(self.clock.now(), span));
            running.computed = spanned(running.computed, computed);
        }
        for (fetch, value) in part.fetches.iter().zip(values) {
            running.fetches[*fetch as usize] = Some(value);
        }
        self.end_if_done(step);
    }

    /// Takes the times of a partition's operations.
    pub(super) fn traced(
        &mut self,
        from: PeerId,
        step: StepId,
        graph: GraphHandle,
        times: Vec<OperationTime>,
    ) {
        let Some(running) = self.steps.get_mut(&step) else { return };
        let is_awaited = running.outstanding.contains(&graph);
        let is_its = |part: &Part| part.graph == graph && part.peer == from;
        if is_awaited && running.plan.parts.iter().any(is_its) {
            running.times.extend(times);
        }
    }

    fn end_if_done(&mut self, step: StepId) {
        if !self.running(step).outstanding.is_empty() {
            return;
        }
        let done = self.take_step(step);
        let fetches = done
            .fetches
            .into_iter()
            .map(|value| value.expect("every partition brings its fetches"));
        let (fetches, computed, times) = (fetches.collect(), done.computed, done.times);
        answer(done.reply, Ok(StepDone { fetches, computed, times }));
    }

    /// Ends a step with its first error, which is the root cause: errors that follow elsewhere are
    /// not reported.
    pub(super) fn fail(&mut self, step: StepId, error: Error) {
        let failed = self.take_step(step);
        self.expected = None;
        let all: Vec<GraphHandle> = failed.plan.parts.iter().map(|part| part.graph).collect();
        // A lost task forgets the step by itself.
        let lost = self.sessions.get(&failed.session).map(|session| &session.lost);
        for peer in failed
            .plan
            .peers(&all)
            .into_iter()
            .filter(|peer| !lost.is_some_and(|lost| lost.contains_key(peer)))
        {
            self.outbox.send(peer, WorkerMessage::AbortStep(step));
        }
        answer(failed.reply, Err(error));
    }

    /// Fails all steps of which `is_hit` holds, each with its own `error`.
    pub(super) fn fail_steps(
        &mut self,
        is_hit: impl Fn(&Self, StepId, &RunningStep) -> bool,
        error: impl Fn(&Self, StepId) -> Error,
    ) {
        let hit = self.steps.iter().filter(|(id, step)| is_hit(self, **id, step));
        let hit: Vec<StepId> = hit.map(|(id, _)| *id).collect();
        for step in hit {
            let error = error(self, step);
            self.fail(step, error);
        }
    }

    fn running(&self, step: StepId) -> &RunningStep {
        self.steps.get(&step).expect("it is asked of a step that runs")
    }

    fn take_step(&mut self, step: StepId) -> RunningStep {
        self.steps.remove(&step).expect("a step that ends runs")
    }

    /// The names of the tasks that have not answered a step.
    pub(super) fn unanswered(&self, step: StepId) -> String {
        self.names(&self.running(step).unanswered())
    }

    pub(super) fn names(&self, peers: &[PeerId]) -> String {
        peers.iter().map(|peer| self.outbox.name(*peer).to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// `span`, which is by another task's clock, moved so that it ends `now`.
fn ending_at(now: Time, (from, until): Span) -> Span {
    (Time(now.0.saturating_sub(until.0.saturating_sub(from.0))), now)
}

/// The span from the first begin to the last end.
fn spanned(one: Option<Span>, other: Option<Span>) -> Option<Span> {
    match (one, other) {
        (Some((begin, end)), Some((other_begin, other_end))) => {
            Some((begin.min(other_begin), end.max(other_end)))
        }
        (one, other) => one.or(other),
    }
}
