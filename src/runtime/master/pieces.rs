//! Steps in pieces: a program feeds and fetches a part of a step at a time (TensorFlow:
//! `partial_run`). All pieces are of one step: each operation runs once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::graph::{Edge, GraphDef, OpId};
use crate::partition::Request;
use crate::tensor::Tensor;
use crate::transport::PeerId;

use super::{Master, answer};
use crate::runtime::error::{Code, Error, Result, given_up_pieces};
use crate::runtime::mail::RunPiece;
use crate::runtime::master::step_plan::{Accepted, Part, Ready, StepPlan, check_feeds};
use crate::runtime::messages::{GraphHandle, SessionId, StepId, Values, WorkerMessage};
use crate::runtime::reply::Reply;

/// What a program has fed and fetched of a step.
pub(super) struct Pieces {
    /// The number by which the program knows the step.
    handle: u64,
    request: Arc<Request>,
    /// The numbers of the request's feeds.
    feeds: BTreeMap<Edge, usize>,
    fed: Vec<bool>,
    given: Vec<bool>,
    /// The piece that waits for its fetches.
    waiting: Option<(Vec<u32>, Reply<Result<Values>>)>,
}

impl Pieces {
    pub(super) fn new(handle: u64, request: Arc<Request>) -> Self {
        let (fed, given) = (vec![false; request.feeds.len()], vec![false; request.fetches.len()]);
        let feeds = (0..).zip(&request.feeds).map(|(number, feed)| (*feed, number)).collect();
        Self { handle, request, feeds, fed, given, waiting: None }
    }

    /// Whether the program has fetched everything.
    pub(super) fn are_over(&self) -> bool {
        self.given.iter().all(|given| *given)
    }

    /// Ends the piece under way, if there is one, with the error of its step.
    pub(super) fn fail(self, error: &Error) {
        if let Some((_, reply)) = self.waiting {
            answer(reply, Err(error.clone()));
        }
    }
}

impl Master {
    fn step_in_pieces(&self, session: SessionId, handle: u64) -> Option<StepId> {
        let is_it = |step: &super::steps::RunningStep| {
            let pieces = step.pieces.as_ref();
            step.session == session && pieces.is_some_and(|pieces| pieces.handle == handle)
        };
        self.steps.iter().find(|(_, step)| is_it(step)).map(|(id, _)| *id)
    }

    /// Feeds and fetches a part of a step.
    pub(super) fn run_piece(&mut self, piece: RunPiece) {
        let RunPiece { session, handle, feeds, fetches, reply } = piece;
        let Some(step) = self.step_in_pieces(session, handle) else {
            let message = "the partial run is over: all of it was fetched, it has failed, or its \
                           session is closed";
            return answer(reply, Err(Error::new(Code::InvalidArgument, message)));
        };
        if let Err(error) = self.check_piece(step, &feeds, &fetches) {
            return answer(reply, Err(error));
        }
        let running = self.steps.get_mut(&step).expect("it was just there");
        let pieces = running.pieces.as_mut().expect("it is in pieces");
        feeds.iter().for_each(|(feed, _)| pieces.fed[*feed as usize] = true);
        pieces.waiting = Some((fetches, reply));
        let values: BTreeMap<u32, &Tensor> =
            feeds.iter().map(|(feed, value)| (*feed, value)).collect();
        for (fetch, feed) in &running.plan.fed_fetches {
            if let Some(value) = values.get(feed) {
                running.fetches[*fetch as usize] = Some((*value).clone());
            }
        }
        let plan = Arc::clone(&running.plan);
        self.send_feeds(step, &plan, &feeds);
        self.give_fetches(step);
    }

    fn send_feeds(&self, step: StepId, plan: &Ready, feeds: &[(u32, Tensor)]) {
        for part in &plan.parts {
            let positions: BTreeMap<u32, u32> = part.feeds.iter().copied().zip(0..).collect();
            let own = |(feed, value): &(u32, Tensor)| Some((*positions.get(feed)?, value.clone()));
            let own: Vec<(u32, Tensor)> = feeds.iter().filter_map(own).collect();
            if !own.is_empty() {
                let message = WorkerMessage::Feed { step, graph: part.graph, feeds: own };
                self.link.send(part.peer, message);
            }
        }
    }

    /// Checks a piece: each feed and each fetch is one of the step's and comes once, and what is
    /// fetched needs nothing that has not been fed.
    fn check_piece(&self, step: StepId, feeds: &[(u32, Tensor)], fetches: &[u32]) -> Result<()> {
        let running = self.steps.get(&step).expect("it was just there");
        let pieces = running.pieces.as_ref().expect("it is in pieces");
        let graph = &self.sessions[&running.session].graph;
        let refused = |message: String, edge: Option<&Edge>| {
            let error = Error::new(Code::InvalidArgument, message);
            let name = edge.map(|edge| graph.operation(edge.op).name.to_string());
            Err(name.into_iter().fold(error, Error::in_operation))
        };
        if pieces.waiting.is_some() {
            return refused("another piece of this partial run is under way".to_owned(), None);
        }
        let mut fed = pieces.fed.clone();
        for (feed, value) in feeds {
            let Some(edge) = pieces.request.feeds.get(*feed as usize) else {
                return refused(format!("the partial run has no feed {feed}"), None);
            };
            if std::mem::replace(&mut fed[*feed as usize], true) {
                return refused("it was fed before in this partial run".to_owned(), Some(edge));
            }
            let one = Request { feeds: vec![*edge], ..Request::default() };
            check_feeds(graph, &one, std::slice::from_ref(value))?;
        }
        let (mut asked, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for fetch in fetches {
            let Some(edge) = pieces.request.fetches.get(*fetch as usize) else {
                return refused(format!("the partial run has no fetch {fetch}"), None);
            };
            if pieces.given[*fetch as usize] || !asked.insert(*fetch) {
                return refused("it was fetched before in this partial run".to_owned(), Some(edge));
            }
            if let Some(missing) = unfed(graph, &pieces.feeds, &fed, *edge, &mut seen) {
                let name = &graph.operation(missing.op).name;
                return refused(format!("it needs `{name}`, which is not fed yet"), Some(edge));
            }
        }
        Ok(())
    }

    /// A partition has computed values that are fetched, each with its position there.
    pub(super) fn fetched(
        &mut self,
        from: PeerId,
        step: StepId,
        graph: GraphHandle,
        fetches: Vec<(u32, Tensor)>,
    ) {
        let Some(running) = self.steps.get_mut(&step) else { return };
        let is_its = |part: &&Part| part.graph == graph && part.peer == from;
        let Some(part) = running.plan.parts.iter().find(is_its) else { return };
        for (position, value) in fetches {
            if let Some(fetch) = part.fetches.get(position as usize) {
                running.fetches[*fetch as usize] = Some(value);
            }
        }
        self.give_fetches(step);
    }

    /// Answers the piece that waits, once all that it fetches is there.
    fn give_fetches(&mut self, step: StepId) {
        let running = self.steps.get_mut(&step).expect("it was just there");
        let Some(pieces) = &mut running.pieces else { return };
        let all_there = |(fetches, _): &mut (Vec<u32>, _)| {
            fetches.iter().all(|fetch| running.fetches[*fetch as usize].is_some())
        };
        let Some((fetches, reply)) = pieces.waiting.take_if(all_there) else { return };
        fetches.iter().for_each(|fetch| pieces.given[*fetch as usize] = true);
        let value = |fetch: &u32| running.fetches[*fetch as usize].clone();
        let values = fetches.iter().map(|fetch| value(fetch).expect("all are there")).collect();
        answer(reply, Ok(values));
        self.end_if_done(step);
    }

    /// The program gives up a step in pieces, which may still wait for its plan.
    pub(super) fn give_up_pieces(&mut self, session: SessionId, handle: u64) {
        if let Some(step) = self.step_in_pieces(session, handle) {
            return self.fail(step, given_up_pieces());
        }
        let plans = self.sessions.get(&session).into_iter();
        let plans = plans.flat_map(|session| session.plans.values());
        let is_it = |(other, _): &(u64, Reply<()>)| *other == handle;
        let is_its = |accepted: &&Accepted| accepted.run.pieces.as_ref().is_some_and(is_it);
        let found = plans.flat_map(StepPlan::waiting).find(is_its).map(|accepted| accepted.step);
        if let Some(step) = found {
            self.withdraw(step, |_, _| given_up_pieces());
        }
    }
}

/// A feed that `edge` needs and that has not been fed, if there is one. Operations that are `seen`
/// need none such; it adds its own, so that the fetches of a piece walk the graph once together.
fn unfed(
    graph: &GraphDef,
    feeds: &BTreeMap<Edge, usize>,
    fed: &[bool],
    edge: Edge,
    seen: &mut BTreeSet<OpId>,
) -> Option<Edge> {
    let feed_of = |edge: &Edge| feeds.get(edge).copied();
    if let Some(feed) = feed_of(&edge) {
        return (!fed[feed]).then_some(edge);
    }
    let mut open = vec![edge.op];
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let operation = graph.operation(id);
        for input in &operation.inputs {
            match feed_of(input) {
                Some(feed) if !fed[feed] => return Some(*input),
                Some(_) => {}
                None => open.push(input.op),
            }
        }
        open.extend(&operation.control_inputs);
    }
    None
}
