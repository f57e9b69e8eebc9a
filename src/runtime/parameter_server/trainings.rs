//! The trainings that a parameter server has a part in: who takes part, how the ends of steps are
//! coordinated, and who waits for others.

mod chief;
mod ending;
mod joins;
mod losses;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use actix::{Context, SpawnHandle};

use crate::clock::Clock;
use crate::cluster::{ClusterSpec, TaskName};
use crate::graph::Replica;
use crate::sync::{Membership, Participation, Views};
use crate::transport::PeerId;

use super::ParameterServer;
use super::coordination::Coordination;
use super::notices::Notices;
use crate::runtime::mail::{Binding, ParameterServerMail};
use crate::runtime::mailbox::tell_later;
use crate::runtime::messages::{GraphHandle, ParameterServerMessage};
use crate::runtime::outbox::Outbox;
use crate::runtime::patience::NOTICE;
use crate::runtime::state::{Served, VariableId};
use joins::Joins;

/// What a parameter server knows of its trainings, beside the variables and their rounds. What
/// follows for these is done by the actor.
pub(super) struct Trainings {
    /// The actor's: all that they send goes with its flush.
    outbox: Outbox,
    clock: Rc<dyn Clock>,
    /// The coordinations, by global step: a task can hold those of several trainings.
    pub(super) coordinations: BTreeMap<VariableId, Coordination>,
    /// The members of these trainings.
    pub(super) members: Membership,
    /// The cluster whose workers they are, once a program has said so.
    pub(super) cluster: Option<ClusterSpec>,
    /// Who takes part in the rounds of the variables here.
    pub(super) participation: Participation,
    /// The views of the training whose global step is here, if it has rounds.
    pub(super) views: Option<Views>,
    /// The workers that another task holds off until a view lets them in: they had left there, and
    /// this task had not heard so.
    pub(super) awaiting_view: BTreeSet<u32>,
    /// The workers that others were told are lost, until they are back.
    told_lost: BTreeSet<u32>,
    /// Whether the shards of that training are its barrier.
    pub(super) has_barrier: bool,
    /// Whether steps of other tasks' workers are counted here.
    pub(super) counts: bool,
    /// The training that other tasks with variables were told of, by its number.
    told_of: u32,
    /// The task that counts the steps of the training, if that is another one.
    step_counter: Option<PeerId>,
    /// The workers that have announced the end of the training.
    pub(super) announcers: BTreeSet<u32>,
    /// Whether the task that counts the steps was told of the end.
    has_told_step_counter: bool,
    /// Partitions held off because a fence was up, or because their worker's last training was not
    /// over here.
    pub(super) held_off: Vec<Binding>,
    pub(super) joins: Joins,
    pub(super) notices: Notices,
}

impl Trainings {
    /// No training yet.
    pub(super) fn new(outbox: Outbox, clock: Rc<dyn Clock>) -> Self {
        Self {
            outbox,
            clock,
            coordinations: BTreeMap::new(),
            members: Membership::default(),
            cluster: None,
            participation: Participation::default(),
            views: None,
            awaiting_view: BTreeSet::new(),
            told_lost: BTreeSet::new(),
            has_barrier: false,
            counts: false,
            told_of: 1,
            step_counter: None,
            announcers: BTreeSet::new(),
            has_told_step_counter: false,
            held_off: Vec::new(),
            joins: Joins::default(),
            notices: Notices::default(),
        }
    }

    /// Another training begins, in which all workers take part.
    pub(super) fn begin_anew(&mut self) {
        self.forget_the_end();
        self.participation.begin_anew();
        self.views.iter_mut().for_each(Views::begin_anew);
        self.awaiting_view.clear();
        self.told_lost.clear();
        self.has_barrier = false;
    }

    /// The members of the training of `replica`, and its coordination.
    pub(super) fn of(
        &mut self,
        global_step: VariableId,
        replica: Replica,
    ) -> (&Membership, &mut Coordination) {
        let (members, views) = (&self.members, self.views.as_ref());
        let new = || Coordination::new(replica, members, views);
        (members, self.coordinations.entry(global_step).or_insert_with(new))
    }

    /// A program of a training in `cluster` runs here: from now on, somebody looks at its steps.
    pub(super) fn know(&mut self, cluster: ClusterSpec, context: &mut Context<ParameterServer>) {
        if self.cluster.replace(cluster).is_none() {
            self.check_steps_later(context);
        }
    }

    /// Looks at the steps again after [`NOTICE`]. Nobody looks where the run ends once nothing can
    /// happen any more: the timer is always set.
    pub(super) fn check_steps_later(&self, context: &mut Context<ParameterServer>) {
        if !self.clock.ends_when_idle() {
            self.tell_own_after(NOTICE, ParameterServerMail::CheckSteps, context);
        }
    }

    /// The worker that runs at `peer`, if one does.
    pub(super) fn worker_at(&self, peer: PeerId) -> Option<u32> {
        self.cluster.as_ref()?.worker_index(&self.outbox.name(peer))
    }

    /// The task that `worker` runs at.
    pub(super) fn task_of(&self, worker: u32) -> Option<PeerId> {
        self.outbox.resolve(&self.cluster.as_ref()?.worker(worker)?)
    }

    /// Whether `binding` has to wait: for the end of a training, for a view, or for a fence. The
    /// answers that follow are returned, too.
    pub(super) fn hold_off(&mut self, binding: &Binding) -> (bool, Vec<Served>) {
        let is_kept_out = self.keep_out(binding);
        let mut is_held_off = is_kept_out || self.is_early(binding);
        let mut answers = Vec::new();
        for coordination in self.coordinations.values_mut() {
            for replica in &binding.replicas {
                if let Some(more) = coordination.hold_off(&self.members, *replica, binding.is_again)
                {
                    answers.extend(more);
                    is_held_off = true;
                }
            }
        }
        (is_held_off, answers)
    }

    /// Whether `binding` has to wait until another training begins. Of several tasks with variables
    /// that which counts the steps decides when: those who have left may not be the same for all.
    /// One that has just begun its life knows of no other training.
    fn is_early(&self, binding: &Binding) -> bool {
        let decides = binding.counts || binding.training <= self.members.number();
        let is_early = |replica: &Replica| match decides {
            true => self.members.is_early(replica.worker, replica.workers, binding.training),
            false => !self.members.are_unknown(),
        };
        !self.is_own(binding.from) && binding.replicas.iter().any(is_early)
    }

    /// Whether `binding` is for another training than the present or last one.
    pub(super) fn is_for_next(&self, binding: &Binding) -> bool {
        let is_for_next =
            |replica: &Replica| self.members.is_for_next(replica.worker, binding.training);
        binding.replicas.iter().any(is_for_next)
    }

    /// Tells the program of a parameter server which training goes on, and the other tasks with
    /// variables, if the steps are counted here.
    pub(super) fn note_training(&mut self) {
        let (number, training) = (self.members.number(), &self.outbox.actors.training);
        let local = self.outbox.local();
        let is_server = || training.is_holder(local) && self.worker_at(local).is_none();
        if number != training.number() && is_server() {
            training.reach(number);
        }
        if self.counts && number > self.told_of {
            for other in self.other_holders() {
                self.outbox.send(other, ParameterServerMessage::Install(self.view()));
            }
        }
        self.told_of = if self.counts { number } else { self.told_of };
    }

    /// Whether what the master of `from` trains here is its worker's own: where there are parameter
    /// servers, other workers train nothing here, and do not say here that they leave.
    pub(super) fn is_own(&self, from: PeerId) -> bool {
        from == self.outbox.local() && self.outbox.actors.training.has_servers()
    }

    /// Nobody waits for these partitions: to make them ready later would bring back workers that
    /// may have left since.
    pub(super) fn give_up_bindings(&mut self, graphs: &[GraphHandle]) {
        self.held_off.retain(|binding| !graphs.contains(&binding.graph));
    }

    /// `worker` is lost, or was asked to stop: who waits for the end stays a while for it.
    pub(super) fn has_lost(&mut self, worker: u32) {
        self.joins.has_lost(worker, self.clock.now());
    }

    /// Tells the task of a worker, which has just begun to use this task, if this is a parameter
    /// server that was asked to stop.
    ///
    /// All were told at the request, and those that are lost are told again (`Server::broadcast`).
    /// Why that is not enough: who has said goodbye is told nothing more, or this task would wait
    /// for it to come back; its next life has not heard. Why not this alone: another parameter
    /// server, an evaluator, a helper, and a worker that has ended and waits for the chief begin
    /// nothing here.
    pub(super) fn tell_of_own_stop(&self, task: PeerId) {
        let training = &self.outbox.actors.training;
        let is_server = || self.outbox.name(self.outbox.local()).is_parameter_server();
        if training.is_stop_requested() && !training.is_done() && is_server() {
            self.outbox.send(task, ParameterServerMessage::Stopping);
        }
    }

    /// Tells `peer`, which was lost, who takes no more steps, if it holds variables and the chief
    /// is here, who hears of all: a worker's process may have ended before its word came through.
    /// They are said to have left this training by its number: `peer` may hear it in the next one.
    pub(super) fn tell_who_has_departed(&self, peer: PeerId) {
        let training = &self.outbox.actors.training;
        let is_chief = training.chief.get() == Some(self.outbox.local());
        let number = self.members.number();
        if !is_chief || !training.is_holder(peer) || training.number() != number {
            return;
        }
        let departed = self.members.all_that_departed();
        for (worker, message) in ParameterServerMessage::of_departed(&departed, number) {
            if worker > 0 && self.worker_at(peer) != Some(worker) {
                self.outbox.send(peer, message);
            }
        }
    }

    /// Tells all tasks that `worker`, which had left, takes part again.
    pub(super) fn tell_of_return(&self, worker: u32) {
        let tasks = self.cluster.iter().flat_map(ClusterSpec::tasks);
        let others = tasks.filter_map(|task| self.outbox.resolve(&task));
        for other in others.filter(|other| *other != self.outbox.local()) {
            self.outbox.send(other, ParameterServerMessage::Back { worker });
        }
    }

    /// `worker`, which had left, takes part again at the task that counts its steps.
    pub(super) fn hear_of_return(&mut self, worker: u32) {
        if self.is_told_of_chief(worker) && self.outbox.actors.training.find_chief() {
            tracing::warn!("the chief is back");
        }
        if self.members.come_back(worker) {
            self.welcome_back(worker);
        }
    }

    /// The chief is about to give the variables other values, from which all begin side by side:
    /// itself and others that are back after a stop, too. It is not left to a view to let them in,
    /// since a task that has come back to decide the views may know of no stop.
    pub(super) fn begin_side_by_side(&mut self) {
        if !self.members.is_done(0) && self.members.come_back(0) {
            self.welcome_back(0);
            if self.outbox.actors.training.is_holder(self.outbox.local()) {
                self.tell_of_return(0);
            }
        }
        let members = &self.members;
        self.participation.readmit(|worker| members.is_live(worker));
    }

    /// Has all trainings wait again for `worker`, which had departed.
    pub(super) fn welcome_back(&mut self, worker: u32) {
        self.log_worker(worker, "a worker is back");
        for coordination in self.coordinations.values_mut() {
            coordination.rejoin(&self.members, worker);
        }
    }

    /// Logs what has become of `worker`: as a warning at the first task with variables, which
    /// speaks for the others.
    pub(super) fn log_worker(&self, worker: u32, what: &str) {
        let task = self.cluster.as_ref().and_then(|cluster| cluster.worker(worker));
        let task = task.map_or_else(|| format!("worker {worker}"), |task| task.to_string());
        if self.speaks_for_others() {
            tracing::warn!(%task, "{what}");
        } else {
            tracing::info!(%task, "{what}");
        }
    }

    /// Whether this is the first task with variables.
    fn speaks_for_others(&self) -> bool {
        self.outbox.actors.training.holders().first() == Some(&self.outbox.local())
    }

    /// Notes the incarnations of tasks that the resetting master has met.
    pub(super) fn note_incarnations(&mut self, incarnations: &[(TaskName, u64)]) {
        for (task, incarnation) in incarnations {
            self.outbox.has_restarted(task, *incarnation);
            if let Some(peer) = self.outbox.resolve(task) {
                self.participation.forget_earlier_life(peer.0, *incarnation);
            }
        }
    }

    /// The time for which no step has been answered, if a line about it is due.
    pub(super) fn silence(&mut self) -> Option<Duration> {
        self.notices.due(self.clock.now())
    }

    /// The workers that are still to come, or to come back, each with its task.
    fn all_absent(&self) -> impl Iterator<Item = (u32, PeerId)> {
        let workers = self.cluster.as_ref().map_or(0, ClusterSpec::num_workers);
        let here: Vec<u32> = self.members.training(workers).collect();
        (0..workers)
            .filter(move |worker| !self.members.has_left(*worker) && !here.contains(worker))
            .filter_map(|worker| Some((worker, self.task_of(worker)?)))
            .filter(|(_, task)| *task != self.outbox.local() && !self.joins.is_used_by(*task))
    }

    /// The tasks of the workers that are still to come, or to come back, each with the reason if
    /// this task and it refuse each other.
    pub(super) fn absent(&self) -> Vec<String> {
        let told = |task| match self.outbox.refusal(task) {
            Some((_, why)) => why,
            None => self.outbox.name(task).to_string(),
        };
        self.all_absent().map(|(_, task)| told(task)).collect()
    }

    /// The tasks of those of `workers` that are still to come: nobody goes on without them.
    pub(super) fn yet_to_come(&self, workers: &BTreeSet<u32>) -> Vec<TaskName> {
        let is_to_come = |worker| workers.contains(&worker) && self.members.is_live(worker);
        let awaited = self.all_absent().filter(|(worker, _)| is_to_come(*worker));
        awaited.map(|(_, task)| self.outbox.name(task)).collect()
    }

    pub(super) fn title(&self) -> String {
        format!("parameter server of {}", self.outbox.name(self.outbox.local()))
    }

    /// Sends the actor `mail` after `wait`, unless the returned timer is cancelled.
    pub(super) fn tell_own_after(
        &self,
        wait: Duration,
        mail: ParameterServerMail,
        context: &mut Context<ParameterServer>,
    ) -> SpawnHandle {
        let sleep = self.clock.sleep_until(self.clock.now().after(wait));
        tell_later(&self.outbox.actors.parameter_server, mail, sleep, context)
    }
}
