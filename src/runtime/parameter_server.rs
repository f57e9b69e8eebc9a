//! The parameter server of a task: runs the operations on its variables, and decides with `sync` when.
//!
//! A variable that is being updated is locked: what comes for it meanwhile waits in order, so that no
//! reader sees a torn value. Where nobody else holds the value the update happens in place.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use actix::{Actor, Context, Handler};
use smallvec::smallvec;
use tokio::sync::oneshot;
use tracing::trace_span;

use crate::graph::Replica;
use crate::kernels::Cost;
use crate::optimizer::apply;
use crate::sync::{Accumulator, Mode, Offer};
use crate::tensor::Tensor;
use crate::transport::PeerId;

use super::compute::{ComputeModel, Work};
use super::coordination::Coordination;
use super::error::{Code, Error, Result};
use super::link::Link;
use super::mailbox::tell;
use super::messages::{
    Action, ApplyGradient, ParameterServerMessage, PeerMessage, Served, StateRequest, Ticket, Values, VariableId,
    Verdict, Waiting, WaitingList, WorkerMessage,
};
use super::variable_store::{Updating, VariableStore};

/// Holds a task's variables and serves its worker.
pub(crate) struct ParameterServer {
    link: Link,
    device: Rc<dyn ComputeModel>,
    store: VariableStore,
    /// By global step: a task can hold those of several trainings.
    coordinations: BTreeMap<VariableId, Coordination>,
    /// The workers that take no more steps.
    departed: BTreeSet<u32>,
    is_over: bool,
    joins: Vec<(u32, oneshot::Sender<()>)>,
    /// Answers for the worker, until the end of the turn.
    served: Vec<Served>,
    /// Updates to compute, until the end of the turn.
    updates: Vec<Updating>,
}

impl ParameterServer {
    pub(crate) fn new(link: Link, device: Rc<dyn ComputeModel>) -> Self {
        Self {
            link,
            device,
            store: VariableStore::default(),
            coordinations: BTreeMap::new(),
            departed: BTreeSet::new(),
            is_over: false,
            joins: Vec::new(),
            served: Vec::new(),
            updates: Vec::new(),
        }
    }

    /// Hop 8 of a step: one operation on the task's state.
    fn serve(&mut self, request: StateRequest) {
        let _span = trace_span!("serve", step = request.ticket.step.number, node = request.ticket.node).entered();
        if let Some(busy) = self.locked(&request.action) {
            return self.store.get_mut(busy).waiting.push_back(request);
        }
        let StateRequest { ticket, action } = request;
        match action {
            Action::Read { variable, with_version } => {
                let outcome = self.read(variable, with_version);
                self.answer(ticket, outcome);
            }
            Action::IsInitialized(variable) => {
                let is_initialized = self.store.get(variable).value.is_some();
                self.answer(ticket, Ok(smallvec![Tensor::scalar(is_initialized)]));
            }
            Action::Await(variable) => self.await_value(variable, ticket),
            Action::Assign(variable, value) => self.assign(variable, ticket, value),
            Action::AssignAdd(variable, delta) => {
                let outcome = self.store.get_mut(variable).assign_add(&delta);
                let outcome = outcome.and_then(|()| self.read(variable, false));
                self.answer(ticket, outcome);
            }
            Action::Apply(apply) => self.apply(ticket, *apply),
            Action::Vote { global_step, replica, versions } => {
                let answers = self.coordination(global_step, replica).vote(replica, ticket, &versions);
                self.served.extend(answers);
            }
            Action::Commit { global_step, replica, read, verdict } => {
                let mut now = match self.store.get(global_step).initialized() {
                    Ok(value) => value.slice::<i64>()[0],
                    Err(error) => return self.answer(ticket, Err(error)),
                };
                let coordination = self.coordination(global_step, replica);
                let answers = coordination.commit(replica, ticket, &mut now, read, verdict.as_ref());
                self.served.extend(answers);
                self.store.get_mut(global_step).value = Some(Tensor::scalar(now));
            }
        }
    }

    /// The variable that an action has to wait for.
    fn locked(&self, action: &Action) -> Option<VariableId> {
        let is_locked = |id: &VariableId| self.store.get(*id).is_updating;
        match action {
            Action::Read { variable, .. }
            | Action::IsInitialized(variable)
            | Action::Assign(variable, _)
            | Action::AssignAdd(variable, _) => Some(*variable).filter(is_locked),
            Action::Apply(apply) if apply.aggregate.is_none() => apply.variables.iter().copied().find(is_locked),
            Action::Await(_) | Action::Apply(_) | Action::Vote { .. } | Action::Commit { .. } => None,
        }
    }

    fn await_value(&mut self, variable: VariableId, ticket: Ticket) {
        let stored = self.store.get_mut(variable);
        if stored.is_initialized() {
            return self.answer(ticket, Ok(Values::new()));
        }
        stored.waiting.push_back(StateRequest { ticket, action: Action::Await(variable) });
    }

    /// Gives a variable a value, and lets go whoever waited for the first one.
    fn assign(&mut self, variable: VariableId, ticket: Ticket, value: Tensor) {
        let stored = self.store.get_mut(variable);
        let outcome = stored.assign(value.clone());
        let waited = if outcome.is_ok() { std::mem::take(&mut stored.waiting) } else { VecDeque::new() };
        self.answer(ticket, outcome.map(|()| smallvec![value]));
        waited.into_iter().for_each(|request| self.serve(request));
    }

    fn read(&self, variable: VariableId, with_version: bool) -> Result<Values> {
        let stored = self.store.get(variable);
        let mut outputs: Values = smallvec![stored.initialized()?.clone()];
        if with_version {
            outputs.push(Tensor::scalar(stored.version as i64));
        }
        Ok(outputs)
    }

    /// Applies a gradient at once, or offers it to the round of its variable.
    fn apply(&mut self, ticket: Ticket, apply: ApplyGradient) {
        let Some((replica, version)) = apply.aggregate else {
            let gradient = apply.gradient.clone();
            return self.update(&apply, vec![gradient], vec![ticket]);
        };
        if self.is_over || apply.verdict == Some(Verdict::TooLate) {
            return self.answer(ticket, Ok(Values::new()));
        }
        let variable = apply.variables[0];
        let stored = self.store.get_mut(variable);
        let round = stored.round.get_or_insert_with(|| new_round(replica, &self.departed));
        let verdict = apply.verdict.clone();
        match round.offer(replica.worker, version, (ticket, apply)) {
            Offer::Held => {}
            Offer::Stale | Offer::Departed => return self.answer(ticket, Ok(Values::new())),
            Offer::Duplicate => {
                let message = format!("worker {} has contributed to this round already", replica.worker);
                return self.answer(ticket, Err(Error::new(Code::Aborted, message)));
            }
        }
        if let Some(Verdict::Counts { round: number, contributors }) = verdict {
            round.close_on(number, &contributors);
        }
        self.apply_rounds(variable);
    }

    /// Applies the mean of a round's gradients, in the order of the workers, once it is complete.
    fn apply_rounds(&mut self, variable: VariableId) {
        let stored = self.store.get_mut(variable);
        while let Some(round) = stored.round.as_mut().and_then(Accumulator::take_ready) {
            assert!(!stored.is_updating, "a round needs the version that the update before it makes");
            let (tickets, applies): (Vec<Ticket>, Vec<ApplyGradient>) =
                round.gradients.into_iter().map(|(_, offered)| offered).unzip();
            let Some(first) = applies.first() else {
                stored.version += 1;
                continue;
            };
            let gradients = applies.iter().map(|apply| apply.gradient.clone()).collect();
            return self.update(first, gradients, tickets);
        }
    }

    fn update(&mut self, apply: &ApplyGradient, gradients: Vec<Tensor>, tickets: Vec<Ticket>) {
        match self.store.lock(apply, gradients, tickets.clone()) {
            Ok(updating) => self.updates.push(updating),
            Err(error) => tickets.into_iter().for_each(|ticket| self.answer(ticket, Err(error.clone()))),
        }
    }

    /// The updates of this turn go to the device as one piece of work.
    fn launch(&mut self) {
        if self.updates.is_empty() {
            return;
        }
        let mut updates = std::mem::take(&mut self.updates);
        let cost: Cost = updates.iter().map(|updating| updating.update.cost()).sum();
        let this = self.link.actors.parameter_server.clone();
        let run = move || {
            updates.iter_mut().for_each(|updating| apply(&mut updating.update));
            updates
        };
        let done = move |updates| tell(&this, ParameterServerMessage::Updated(updates));
        self.device.launch(Work::new(None, cost, run, done));
    }

    fn updated(&mut self, updates: Vec<Updating>) {
        for Updating { variables, update, tickets } in updates {
            let waited = self.store.put_back(&variables, update.values);
            tickets.into_iter().for_each(|ticket| self.answer(ticket, Ok(Values::new())));
            waited.into_iter().for_each(|request| self.serve(request));
        }
    }

    fn coordination(&mut self, global_step: VariableId, replica: Replica) -> &mut Coordination {
        let departed = &self.departed;
        self.coordinations.entry(global_step).or_insert_with(|| {
            let mut coordination = Coordination::new(replica);
            for worker in departed.iter().filter(|worker| **worker < replica.workers) {
                let answers = coordination.leave(*worker);
                assert!(answers.is_empty(), "nobody waits at a coordination that has just begun");
            }
            coordination
        })
    }

    fn from_peer(&mut self, from: PeerId, message: PeerMessage) {
        match message {
            PeerMessage::Leave { worker } => self.leave(worker),
            PeerMessage::TrainingOver => self.finish(),
            PeerMessage::Reset(containers) => {
                let variables = self.store.reset(&containers);
                self.coordinations.clear();
                self.link.send(from, PeerMessage::ResetDone { variables });
            }
            other => tracing::warn!(?other, "not for a parameter server; dropped"),
        }
    }

    /// `worker` takes no more steps: nobody waits for it from now on.
    fn leave(&mut self, worker: u32) {
        if !self.departed.insert(worker) {
            return;
        }
        for coordination in self.coordinations.values_mut() {
            self.served.extend(coordination.leave(worker));
        }
        for id in self.store.ids() {
            if let Some(round) = &mut self.store.get_mut(id).round {
                round.leave(worker);
                self.apply_rounds(id);
            }
        }
        self.answer_joins();
    }

    /// The training is over: whoever waits is let go, without its gradient.
    fn finish(&mut self) {
        self.is_over = true;
        for coordination in self.coordinations.values_mut() {
            self.served.extend(coordination.finish());
        }
        for id in self.store.ids() {
            let round = self.store.get_mut(id).round.as_mut();
            for (ticket, _) in round.map(Accumulator::finish).unwrap_or_default() {
                self.answer(ticket, Ok(Values::new()));
            }
        }
    }

    fn answer_joins(&mut self) {
        let departed = self.departed.len() as u32;
        for (workers, reply) in std::mem::take(&mut self.joins) {
            if departed < workers {
                self.joins.push((workers, reply));
            } else if reply.send(()).is_err() {
                tracing::debug!("nobody waits any more for the end of the training");
            }
        }
    }

    fn answer(&mut self, ticket: Ticket, outcome: Result<Values>) {
        self.served.push(Served { ticket, outcome });
    }

    fn inquire(&self, list: &WaitingList) {
        let who = format!("parameter server of {}", self.link.name(self.link.local()));
        let mut list = list.lock().expect("nobody panics while writing what it waits for");
        for coordination in self.coordinations.values() {
            for worker in coordination.waiting_for() {
                list.push(Waiting { who: who.clone(), what: format!("the step of worker {worker}") });
            }
        }
        for id in self.store.ids() {
            let stored = self.store.get(id);
            for worker in stored.round.as_ref().map(Accumulator::waiting_for).unwrap_or_default() {
                let what = format!("worker {worker}'s gradient of `{}`", stored.spec.shared_name);
                list.push(Waiting { who: who.clone(), what });
            }
            for request in stored.waiting.iter().filter(|_| !stored.is_initialized()) {
                let who = format!("{who}, step {}", request.ticket.step.number);
                list.push(Waiting { who, what: format!("the initialization of `{}`", stored.spec.shared_name) });
            }
        }
        for (workers, _) in &self.joins {
            let what = format!("{} of {workers} workers to leave", workers - self.departed.len() as u32);
            list.push(Waiting { who: who.clone(), what });
        }
    }

    /// Ends a turn: what it decided takes effect.
    fn end_turn(&mut self) {
        self.launch();
        if !self.served.is_empty() {
            let served = std::mem::take(&mut self.served);
            tell(&self.link.actors.worker, WorkerMessage::Served(served));
        }
        self.link.flush();
    }
}

/// The first round of a variable, without the workers that have left before it.
fn new_round<G>(replica: Replica, departed: &BTreeSet<u32>) -> Accumulator<G> {
    let mut round = match replica.mode {
        Mode::Sync { backups: 1.. } => Accumulator::with_backups(replica.workers),
        _ => Accumulator::new(replica.workers),
    };
    departed.iter().filter(|worker| **worker < replica.workers).for_each(|worker| round.leave(*worker));
    round
}

impl Actor for ParameterServer {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.set_mailbox_capacity(0);
    }
}

impl Handler<ParameterServerMessage> for ParameterServer {
    type Result = ();

    fn handle(&mut self, message: ParameterServerMessage, _: &mut Self::Context) {
        match message {
            ParameterServerMessage::Bind { graph, scope, variables } => {
                let outcome = self.store.bind(scope, variables);
                let outcome = outcome.map_err(|error| error.on(&self.link.name(self.link.local())));
                tell(&self.link.actors.worker, WorkerMessage::Bound { graph, outcome });
            }
            ParameterServerMessage::CloseScope(scope) => self.store.close_scope(scope),
            ParameterServerMessage::Serve(requests) => requests.into_iter().for_each(|request| self.serve(request)),
            ParameterServerMessage::Forget(step) => self.store.forget(step),
            ParameterServerMessage::FromPeer { from, message } => self.from_peer(from, message),
            ParameterServerMessage::Updated(updates) => self.updated(updates),
            ParameterServerMessage::Join { workers, reply } => {
                self.joins.push((workers, reply));
                self.answer_joins();
            }
            ParameterServerMessage::Inquire(list) => self.inquire(&list),
        }
        self.end_turn();
    }
}
