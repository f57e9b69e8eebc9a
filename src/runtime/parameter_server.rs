//! The parameter server of a task: runs the operations on its variables; `sync` decides when.
//!
//! A variable that is being updated is locked: operations on it wait in order meanwhile, so no
//! reader sees a torn value. If nobody else holds the value, the update happens in place.

mod computing;
mod coordination;
mod done;
mod ending;
mod gradients;
mod membership;
mod notices;
mod read_ahead;
mod reset;
mod resources;
mod snapshots;
mod trainings;
pub(super) mod updating;
mod values;
mod variable_store;
mod views;

use std::rc::Rc;

use actix::{Actor, ActorContext, Context};
use smallvec::smallvec;
use tracing::trace_span;

use crate::clock::Clock;
use crate::graph::Replica;
use crate::sync::Views;
use crate::tensor::{Tensor, within_memory};
use crate::transport::PeerId;

use crate::runtime::devices::Devices;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::inquiry::Asked;
use crate::runtime::mail::{ParameterServerMail, WorkerMail};
use crate::runtime::mailbox::{Receive, tell};
use crate::runtime::messages::{MasterMessage, ParameterServerMessage, ProgramMessage};
use crate::runtime::outbox::Outbox;
use crate::runtime::parameter_server::resources::Resources;
use crate::runtime::parameter_server::variable_store::VariableStore;
use crate::runtime::progress::TrainingProgress;
use crate::runtime::state::{Action, Commit, Served, StateRequest, StateValues, Ticket};
use crate::runtime::waiting::Waiting;
pub(crate) use membership::GRACE;
use snapshots::Snapshots;
use trainings::Trainings;
use updating::Updates;

/// The most trainings that take turns for which something is kept: their last steps (`done`), and
/// what they have read (`snapshots`). The one whose turn is longest ago is forgotten first.
const TRAININGS: usize = 64;

/// Holds a task's variables and serves its worker.
pub(crate) struct ParameterServer {
    outbox: Outbox,
    devices: Devices,
    store: VariableStore,
    resources: Resources,
    trainings: Trainings,
    /// Requests that wait until the variables hold whole steps.
    deferred: Vec<StateRequest>,
    snapshots: Snapshots,
    /// Answers for the worker, sent at the end of the turn.
    served: Vec<Served>,
    /// Answers with copied rows, sent at the end of the turn.
    gathered: Vec<Served>,
    /// Updates to compute, launched at the end of the turn.
    updates: Box<Updates>,
    /// Boxes of updates that have been computed, to be used again.
    #[expect(clippy::vec_box, reason = "it is the boxes that go to the device")]
    idle: Vec<Box<Updates>>,
}

impl ParameterServer {
    pub(crate) fn new(outbox: Outbox, clock: Rc<dyn Clock>, devices: Devices) -> Self {
        Self {
            trainings: Trainings::new(outbox.clone(), clock),
            outbox,
            devices,
            store: VariableStore::default(),
            resources: Resources::default(),
            deferred: Vec::new(),
            snapshots: Snapshots::default(),
            served: Vec::new(),
            gathered: Vec::new(),
            updates: Box::default(),
            idle: Vec::new(),
        }
    }

    /// Hop 8 of a step: runs one operation on the task's state.
    fn serve(&mut self, request: StateRequest) {
        let _span =
            trace_span!("serve", step = request.ticket.step.number, node = request.ticket.node)
                .entered();
        if let Some(busy) = self.locked(&request.action) {
            return self.store.get_mut(busy).waiting.push_back(request);
        }
        if self.waits_for_whole_steps(&request) {
            return self.deferred.push(request);
        }
        if request.epoch < self.trainings.members.epoch() && request.is_of_epoch() {
            return self.answer(request.ticket, Err(outdated()));
        }
        let StateRequest { ticket, epoch, action } = request;
        match action {
            Action::Read { variable, with_version, origin } => {
                let outcome = self.read(variable, with_version);
                if with_version {
                    self.keep_snapshot(ticket, origin, variable);
                }
                self.answer(ticket, outcome);
            }
            Action::Gather { variable, ids, origin } => {
                self.gather(ticket, origin, variable, &ids);
            }
            Action::IsInitialized(variable) => {
                let is_initialized = self.store.get(variable).value().is_some();
                self.answer(ticket, Ok(smallvec![Tensor::scalar(is_initialized)]));
            }
            Action::Await(variable) => {
                let request = StateRequest { ticket, epoch, action: Action::Await(variable) };
                self.await_value(request, variable);
            }
            Action::Assign(variable, value) => self.assign(variable, ticket, value),
            Action::AssignAdd(variable, delta) => {
                let added = within_memory(|| self.store.get_mut(variable).assign_add(&delta));
                let added = added.unwrap_or_else(|refused| Err(refused.into()));
                let outcome = added.and_then(|()| self.read(variable, false));
                self.answer(ticket, outcome);
            }
            Action::Apply(apply) => self.apply(ticket, apply),
            Action::Begin(begin) => {
                let (members, coordination) = self.trainings.of(begin.global_step, begin.replica);
                let answers = coordination.begin(members, ticket, &begin);
                self.served.extend(answers);
            }
            Action::Commit(commit) => self.commit(ticket, &commit),
            Action::PutUpFence { global_step, replica } => {
                let (members, coordination) = self.trainings.of(global_step, replica);
                let answers = coordination.put_up_fence(members, replica, ticket);
                self.served.extend(answers);
            }
            Action::LiftFence { global_step, replica } => {
                let (_, coordination) = self.trainings.of(global_step, replica);
                let answers = coordination.lift_fence(replica, ticket);
                self.served.extend(answers);
            }
            Action::AwaitDepartures { global_step, replica } => {
                let (members, coordination) = self.trainings.of(global_step, replica);
                let answers = coordination.await_departures(members, replica, ticket);
                self.served.extend(answers);
            }
            Action::OnResource(asked) => {
                let served = self.resources.serve(ticket, *asked);
                self.served.extend(served);
            }
        }
    }

    /// Ends a worker's step at the task of the global step.
    fn commit(&mut self, ticket: Ticket, commit: &Commit) {
        let global_step = commit.global_step;
        let now = self.store.get(global_step).initialized();
        let now = match now.and_then(|value| Ok(value.item::<i64>()?)) {
            Ok(now) => now,
            Err(error) => return self.answer(ticket, Err(error)),
        };
        if self.trainings.members.is_over() {
            self.trainings.tell_of_the_end(commit.replica.worker);
        }
        let needs_rest = self.trainings.views.as_ref().is_some_and(Views::needs_rest);
        let Replica { worker, workers, .. } = commit.replica;
        let has_others = self.trainings.participation.awaits_others(worker, workers);
        let (members, coordination) = self.trainings.of(global_step, commit.replica);
        if needs_rest {
            coordination.rest(now);
        }
        let answers = coordination.commit(members, ticket, now, commit, has_others);
        self.served.extend(answers);
        self.count_steps();
    }

    /// Adds to the global steps what has been counted, and sets what the counted steps set.
    fn count_steps(&mut self) {
        for (global_step, coordination) in &mut self.trainings.coordinations {
            for (variable, value) in coordination.take_set() {
                self.store.get_mut(variable).replace(value);
            }
            let steps = coordination.take_steps();
            if steps == 0 {
                continue;
            }
            if let Some(value) = self.store.get_mut(*global_step).value_mut() {
                let now = value.item::<i64>().expect("it was a number when it was last read");
                *value = Tensor::scalar(now.saturating_add(steps));
            }
        }
    }

    fn on_message(&mut self, from: PeerId, message: ParameterServerMessage) {
        match message {
            ParameterServerMessage::Leave { worker, why, training } => {
                self.hear_of_leaving(from, worker, why, training);
            }
            ParameterServerMessage::Lost { worker } => self.hear_of_loss(worker),
            ParameterServerMessage::Found { worker } => self.trainings.hear_of_found(worker),
            ParameterServerMessage::Back { worker } => self.trainings.hear_of_return(worker),
            ParameterServerMessage::Flush { number, out } => self.on_flush(from, number, out),
            ParameterServerMessage::Flushed { number, progress, is_cut_off } => {
                self.hear_of_flush(from, number, &progress, is_cut_off);
            }
            ParameterServerMessage::Install(view) => self.install(from, view),
            ParameterServerMessage::LetIn { worker, view } => {
                self.on_let_in(worker, view);
            }
            ParameterServerMessage::TrainingOver { training } => {
                self.hear_of_the_end(from, training);
            }
            // Others end the training.
            ParameterServerMessage::Stopping | ParameterServerMessage::ChiefFailed { .. } => {
                self.trainings.answer_joins();
            }
            ParameterServerMessage::Reset { number, containers, within_training, incarnations } => {
                self.trainings.note_incarnations(&incarnations);
                self.cut_off_what_lacks_an_announcer();
                self.reset(from, number, containers, within_training);
            }
        }
    }

    fn answer(&mut self, ticket: Ticket, outcome: Result<StateValues>) {
        self.served.push(Served { ticket, outcome });
    }

    /// Says how far the training is. If this task has the global step it is as that says, and not
    /// as the last step of the task's worker did.
    fn look_at_progress(&self, asked: &Asked<TrainingProgress>) {
        let training = &self.outbox.actors.training;
        let value = |id| self.store.get(id).value()?.item::<i64>().ok();
        if let Some(step) = self.trainings.coordinations.keys().copied().filter_map(value).max() {
            training.note_step(step.max(0) as u64);
        }
        training.note_lost(self.trainings.members.all_that_departed().lost);
        asked.answer([training.progress()]);
    }

    fn inquire(&self, asked: &Asked<Waiting>) {
        asked.answer(self.steps_wait_for());
        asked.answer(self.trainings.joins_wait_for(&self.trainings.title()));
    }

    /// Ends a turn: sends its answers and launches its work.
    fn end_turn(&mut self) {
        self.count_steps();
        self.launch_gathers();
        self.launch();
        if !self.served.is_empty() {
            self.trainings.notices.has_answered();
            let served = std::mem::replace(&mut self.served, self.outbox.actors.served.take());
            tell(&self.outbox.actors.worker, WorkerMail::Served(served));
        }
        self.outbox.flush();
    }
}

/// The error of a step whose training has begun anew, or been reset or restored, since the step's
/// session was made.
fn outdated() -> Error {
    let message = "the training has begun anew, or its variables have been reset or restored, \
                   since the step was made ready; make a new session";
    Error::new(Code::Aborted, message)
}

impl Actor for ParameterServer {
    type Context = Context<Self>;
}

impl Receive for ParameterServer {
    type Message = ParameterServerMail;
    const ROLE: &'static str = "the parameter server";

    fn receive(&mut self, message: ParameterServerMail, context: &mut Context<Self>) {
        match message {
            ParameterServerMail::Bind(binding) => self.make_ready(*binding),
            ParameterServerMail::GiveUp(graphs) => self.trainings.give_up_bindings(&graphs),
            ParameterServerMail::Cluster(cluster) => self.trainings.know(cluster, context),
            ParameterServerMail::Lost { peer, masters, loss } => {
                self.lose(peer, &masters, loss, context);
            }
            ParameterServerMail::GraceIsOver { silence } => self.end_grace(silence),
            ParameterServerMail::CloseScope(scope) => self.close_scope(scope),
            ParameterServerMail::Serve(mut requests) => {
                requests.drain(..).for_each(|request| self.serve(request));
                self.outbox.actors.requests.give(requests);
            }
            ParameterServerMail::ReadAhead { graph, step, reads } => {
                self.read_ahead(graph, step, reads);
            }
            ParameterServerMail::Forget(step) => {
                self.store.forget(step);
                self.deferred.retain(|request| request.ticket.step != step);
                self.served.extend(self.resources.forget(step));
                self.trainings
                    .coordinations
                    .values_mut()
                    .for_each(|each| self.served.extend(each.forget(step)));
            }
            ParameterServerMail::FromPeer { from, message } => self.on_message(from, message),
            ParameterServerMail::FromProgram { from, message } => {
                if matches!(message, ProgramMessage::WatchCheckpoints) {
                    self.outbox.send_parting(from); // an earlier life of it may have been told
                }
                let is_chief = self.outbox.actors.training.chief.get() == Some(self.outbox.local());
                if let Some(answer) = self.outbox.actors.program.hear(from, message, is_chief) {
                    self.outbox.send(from, answer);
                }
            }
            ParameterServerMail::ClientHasCome { client, master } => {
                self.has_come(client, master);
            }
            ParameterServerMail::Gathered(served) => self.served.extend(served),
            ParameterServerMail::Updated(updates) => self.updated(updates),
            ParameterServerMail::TellWays { master, step, graph, to } => {
                let absent = self.awaited();
                self.outbox.send(master, MasterMessage::BlockedWays { step, graph, to, absent });
            }
            ParameterServerMail::Join { workers, patience, reply } => {
                self.trainings.join(workers, patience, reply);
            }
            ParameterServerMail::CheckJoins => self.trainings.check_joins(context),
            ParameterServerMail::CheckSteps => self.check_steps(context),
            ParameterServerMail::AskedToStop => self.trainings.answer_joins(),
            ParameterServerMail::Inquire(asked) => self.inquire(&asked),
            ParameterServerMail::LookAtProgress(asked) => self.look_at_progress(&asked),
            ParameterServerMail::Stop => context.stop(),
        }
        self.trainings.note_training();
        self.advance_views();
        self.serve_deferred();
        self.bind_held_off();
        self.trainings.note_training(); // what was held off may have begun the next one
        self.trainings.update_join_timer(context);
        self.end_turn();
    }
}
