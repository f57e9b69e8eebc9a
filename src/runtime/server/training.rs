//! What a server tells and knows of the training that its task is part of: who trains, who stops,
//! whether it is over, and where the variables are.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cluster::TaskName;
use crate::transport::PeerId;

use crate::runtime::checkpoint_news::Watched;
use crate::runtime::mail::{MasterMail, ParameterServerMail};
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{ParameterServerMessage, Places, ProgramMessage};
use crate::runtime::parameter_server::GRACE;
use crate::runtime::training_state::{Parting, TrainingState};

use super::Server;

impl Server {
    /// What the task knows of its training.
    pub(crate) fn training(&self) -> &TrainingState {
        &self.actors.training
    }

    /// Tells the parameter server which cluster trains, so that it knows which worker a lost task
    /// was. Why not a list of the workers: each of N tasks would hold N.
    pub(crate) fn know_cluster(&self) {
        let cluster = &self.def.cluster;
        self.actors
            .training
            .chief
            .set(cluster.workers().find_map(|task| self.outbox.resolve(&task)));
        tell(&self.actors.parameter_server, ParameterServerMail::Cluster(cluster.clone()));
    }

    /// Ends this task's training after the step that is under way; the other tasks go on. If this
    /// is a parameter server, they save its variables and end the training.
    pub fn request_stop(&self) {
        self.actors.training.request_stop();
        self.actors.remotes.request_stop();
        tell(&self.actors.master, MasterMail::AlarmRings);
        if self.task().is_parameter_server() {
            self.broadcast(&ParameterServerMessage::Stopping);
        }
        tell(&self.actors.parameter_server, ParameterServerMail::AskedToStop);
    }

    /// The other task that was asked to stop and ends the training by that, if there is one.
    pub(crate) fn stopping(&self) -> Option<TaskName> {
        let peer = self.actors.training.stopping().filter(|peer| *peer != self.outbox.local())?;
        Some(self.outbox.name(peer)).filter(|_| !self.training().is_over())
    }

    /// Forgets that a parameter server was asked to stop, if this task has met its next life.
    pub(crate) fn forget_past_stop(&self) {
        self.actors.training.forget_past_stop(|peer| self.outbox.incarnation(peer));
    }

    /// Whether this task has been connected to any other task.
    pub(crate) fn has_met_others(&self) -> bool {
        let mut others = self.def.cluster.tasks().filter(|task| task != self.task());
        others.any(|task| self.has_met(&task))
    }

    /// Whether this task has reached `task` since it began.
    pub(crate) fn has_met(&self, task: &TaskName) -> bool {
        let peer = self.outbox.resolve(task);
        peer.is_some_and(|peer| self.outbox.incarnation(peer).is_some())
    }

    /// The tasks with variables that this one does not reach though messages wait for them, each
    /// with the reason.
    pub(crate) fn unreached_holders(&self) -> Vec<(TaskName, String)> {
        let holders = self.actors.training.holders().iter();
        let others = holders.copied().filter(|holder| *holder != self.outbox.local());
        let unreached = |peer| Some((self.outbox.name(peer), self.outbox.obstacle(peer)?.why));
        others.filter_map(unreached).collect()
    }

    /// Whether there is no way to `task`, or it has never answered.
    pub(crate) fn is_unreached(&self, task: &TaskName) -> bool {
        self.outbox.resolve(task).is_some_and(|peer| self.outbox.obstacle(peer).is_some())
    }

    /// Whether `task` is among the tasks that this one knows.
    pub(crate) fn knows(&self, task: &TaskName) -> bool {
        self.outbox.resolve(task).is_some()
    }

    /// How long it can take at most, or little more, until a task that is lost is known to be.
    pub(crate) fn longest_silence(&self) -> Duration {
        2 * self.outbox.silence() + GRACE
    }

    /// Notes that this task's process has stood still for `time`.
    pub(crate) fn note_standstill(&self, time: Duration) {
        self.standstill.set(self.standstill.get().max(time));
    }

    /// The longest time for which this task's process has stood still.
    pub(crate) fn longest_standstill(&self) -> Duration {
        self.standstill.get()
    }

    /// Tells all tasks `message`, which is about the end of the training, and keeps it for those
    /// that are lost after it.
    pub(crate) fn broadcast(&self, message: &ParameterServerMessage) {
        let to = self.tell_all(message);
        self.actors.training.partings.keep(Parting { message: message.clone(), to });
    }

    /// The word that the task's training is over.
    pub(crate) fn training_over(&self) -> ParameterServerMessage {
        ParameterServerMessage::TrainingOver { training: self.training().number() }
    }

    /// Tells the tasks without variables that the training is over. Those with variables hear of it
    /// from the announcer; from this task they would take it for a round that is cut off.
    pub(crate) fn pass_on_the_end(&self) {
        let message = self.training_over();
        let tasks = self.def.cluster.tasks().filter_map(|task| self.outbox.resolve(&task));
        let to: BTreeSet<PeerId> = tasks.filter(|peer| !self.training().is_holder(*peer)).collect();
        to.iter().for_each(|peer| self.outbox.send(*peer, message.clone()));
        self.outbox.flush();
        self.actors.training.partings.keep(Parting { message, to: Some(to) });
    }

    /// Asks the program of `chief` to announce the end of the training.
    pub(crate) fn ask_for_the_end(&self, chief: &TaskName) {
        let Some(chief) = self.outbox.resolve(chief) else { return };
        let message = ParameterServerMessage::TrainingOver { training: 0 };
        self.outbox.send(chief, message.clone());
        self.outbox.flush();
        if self.actors.training.partings.sent_to(chief).is_empty() {
            self.actors.training.partings.keep(Parting { message, to: Some([chief].into()) });
        }
    }

    /// Tells all tasks of the cluster `message`. That a worker leaves or is lost is for those alone
    /// that miss it, which are returned; any other message is for all.
    pub(crate) fn tell_all(&self, message: &ParameterServerMessage) -> Option<BTreeSet<PeerId>> {
        use ParameterServerMessage::{Leave, Lost};
        let resolved = |task: TaskName| self.outbox.resolve(&task);
        let is_for_few = matches!(message, Leave { worker: 1.., .. } | Lost { .. })
            && self.actors.training.has_servers();
        let few: Option<BTreeSet<PeerId>> = is_for_few.then(|| {
            let helpers = self.def.cluster.helpers().filter_map(resolved);
            let missing = self.actors.training.who_misses_a_worker(self.outbox.local());
            missing.into_iter().chain(helpers).collect()
        });
        let tell = |peer: &PeerId| self.outbox.send(*peer, message.clone());
        match &few {
            Some(few) => few.iter().for_each(tell),
            None => {
                let all: BTreeSet<PeerId> = self.def.cluster.tasks().filter_map(resolved).collect();
                all.iter().for_each(tell);
            }
        }
        self.outbox.flush();
        few
    }

    /// Tells the workers that ask for it where this task's graph has the shared variables.
    pub(crate) fn publish_places(&self, places: Places) {
        for asked_by in self.actors.program.places.publish(places.clone()) {
            self.outbox.send(asked_by, ProgramMessage::Places(places.clone()));
        }
        self.outbox.flush();
    }

    /// Where the graph of the program of `chief` has the shared variables, once that is built.
    pub(crate) async fn places_of(&self, chief: &TaskName) -> Places {
        if let Some(peer) = self.outbox.resolve(chief) {
            self.actors.program.places.ask(peer);
            self.outbox.send(peer, ProgramMessage::AskForPlaces);
            self.outbox.flush();
        }
        self.actors.program.places.told().await
    }

    /// Asks the task of `chief` to say of each checkpoint that it is saved.
    pub(crate) fn watch_checkpoints(&self, chief: &TaskName) {
        if let Some(peer) = self.outbox.resolve(chief) {
            self.actors.program.checkpoints.watch(peer);
            self.outbox.send(peer, ProgramMessage::WatchCheckpoints);
            self.outbox.flush();
        }
    }

    /// How this task's watch over the chief's checkpoints stands.
    pub(crate) fn watched(&self) -> Watched {
        self.actors.program.checkpoints.watched()
    }

    /// Tells the tasks that watch this task's checkpoints that there is another one.
    pub(crate) fn tell_of_checkpoint(&self) {
        for watcher in self.actors.program.checkpoints.watchers() {
            self.outbox.send(watcher, ProgramMessage::CheckpointSaved);
        }
        self.outbox.flush();
    }
}
