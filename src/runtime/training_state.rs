//! What a task knows of the training that it is part of: who takes part in which way, who has
//! stopped, and whether it is over.

mod partings;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use crate::cluster::{ClusterSpec, TaskName};
use crate::sync::Leaving;
use crate::transport::{PeerId, Peers};

use crate::runtime::checkpoint_news::News;
use crate::runtime::error::{Code, Error};
use crate::runtime::messages::{ParameterServerMessage, PeerMessage};
use crate::runtime::progress::TrainingProgress;
use crate::runtime::signal::Signal;
use crate::units::Time;

pub(super) use self::partings::Parting;
use self::partings::Partings;

/// A task's knowledge of its training, which its actors and its program share.
#[derive(Default)]
pub(crate) struct TrainingState {
    /// Whether the chief has announced the end of the training.
    pub(super) is_over: Cell<bool>,
    /// Wakes the programs that wait for the chief's announcement.
    end: Signal,
    /// The number of trainings that the task's program has ended.
    ended: Cell<u32>,
    /// Whether this task is to take no more steps, whatever the others do.
    stop_requested: Cell<bool>,
    /// The parameter server that was asked to stop, if one was, and the incarnation that was.
    stopping: Cell<Option<(PeerId, Option<u64>)>>,
    /// Why worker 0 takes no more steps, if it has said so.
    chief_left: Cell<Option<Leaving>>,
    /// Whether the chief is lost, in a training with lasting checkpoints.
    chief_is_lost: Cell<bool>,
    /// Whether the chief has been away, and come back.
    chief_came_back: Cell<bool>,
    /// Whether this task has stopped at the last step of the training.
    is_at_last_step: Cell<bool>,
    /// Whether the training keeps checkpoints that outlast its chief's process.
    has_lasting_checkpoints: Cell<bool>,
    /// Why the chief can't give the variables their values, or save them, if it has said so.
    chief_failed: RefCell<Option<ChiefFailure>>,
    /// The number of times that the task's variables have been cleared.
    resets: Cell<u64>,
    /// Whether the cluster has parameter servers.
    has_servers: bool,
    /// The tasks that hold variables: the parameter servers or, if there are none, those
    /// that train.
    holders: Vec<PeerId>,
    /// The training's chief, once it is known.
    pub(super) chief: Cell<Option<PeerId>>,
    /// By peer, as far as any: whether this task has sent it something for a step.
    partners: RefCell<Vec<bool>>,
    /// What this task has said about the end of the training.
    pub(crate) partings: Partings,
    /// How long a lost task has to come back, as the training's settings say.
    recovery: Cell<Option<Duration>>,
    /// Wakes the programs that wait for a checkpoint or for the training to end.
    pub(crate) news: Rc<News>,
    /// How far the training is, as far as this task knows.
    progress: RefCell<TrainingProgress>,
}

/// What the chief has said that it can't do.
struct ChiefFailure {
    error: Error,
    /// Whether the training has never been saved, so that those who train end, too.
    is_unsaved: bool,
}

impl TrainingState {
    /// The knowledge of a task of `cluster`.
    pub(super) fn new(cluster: &ClusterSpec, peers: &dyn Peers) -> Self {
        let holders = cluster.holders().into_iter();
        Self {
            has_servers: cluster.has_parameter_servers(),
            holders: holders.filter_map(|task| peers.resolve(&task)).collect(),
            ..Self::default()
        }
    }

    /// Begins to train: announcements of an earlier end no longer hold. It is the next training of
    /// the program if the last one has come to its end here; a worker whose own part alone had
    /// ended goes on in the same.
    pub(crate) fn begin(&self) {
        if self.partings.have_left_done() && self.is_at_its_end() {
            self.reach(self.number() + 1);
            self.forget_failure();
        }
        self.partings.forget();
        self.chief_left.set(None);
        self.is_over.set(false);
        self.is_at_last_step.set(false);
        self.progress.take();
    }

    /// The number of the training in the task's program: 1 for the first, and 1 more for each that
    /// it has ended.
    pub(crate) fn number(&self) -> u32 {
        self.ended.get() + 1
    }

    /// The training of that number has begun.
    pub(super) fn reach(&self, number: u32) {
        self.ended.set(number - 1);
        self.chief_left.set(None);
    }

    /// How far the training is, as far as this task knows.
    pub(crate) fn progress(&self) -> TrainingProgress {
        self.progress.borrow().clone()
    }

    /// The training is at `global_step`.
    pub(crate) fn note_step(&self, global_step: u64) {
        self.progress.borrow_mut().global_step = Some(global_step);
    }

    /// At `at` the checkpoint of `global_step` was saved, or restored; it is the last one.
    pub(crate) fn note_saved(&self, global_step: u64, at: Time) {
        self.progress.borrow_mut().saved = Some((global_step, at));
    }

    /// These workers are lost.
    pub(super) fn note_lost(&self, lost: impl IntoIterator<Item = u32>) {
        self.progress.borrow_mut().lost = lost.into_iter().collect();
    }

    /// Whether the chief has announced the end of the training.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// This task stops at the last step of the training: others stop there, too.
    pub(crate) fn reach_last_step(&self) {
        self.is_at_last_step.set(true);
    }

    /// Whether the training has come to its end for all, as far as this task knows: by its last
    /// step, or by an announcement.
    pub(crate) fn is_at_its_end(&self) -> bool {
        self.is_over() || self.is_at_last_step.get()
    }

    /// Waits until the chief has announced the end of the training.
    pub(crate) async fn ended(&self) {
        self.end.until(|| self.is_over.get().then_some(())).await;
    }

    /// This task is to take no more steps.
    pub(super) fn request_stop(&self) {
        self.stop_requested.set(true);
        self.news.come();
    }

    /// Whether this task is to take no more steps.
    pub(crate) fn is_stop_requested(&self) -> bool {
        self.stop_requested.get()
    }

    /// A task of the training that is lost has so long to come back.
    pub(crate) fn expect_back_within(&self, recovery: Duration) {
        self.recovery.set(Some(recovery));
    }

    /// How long a lost task has to come back, if a training has said so.
    pub(super) fn recovery(&self) -> Option<Duration> {
        self.recovery.get()
    }

    /// The parameter server that was asked to stop, if one was.
    pub(super) fn stopping(&self) -> Option<PeerId> {
        self.stopping.get().map(|(peer, _)| peer)
    }

    /// Forgets that a parameter server was asked to stop, if another life of it has come since:
    /// `incarnation` says which life of a peer this task has met last.
    pub(super) fn forget_past_stop(&self, incarnation: impl Fn(PeerId) -> Option<u64>) {
        let has_come = |(peer, asked): (PeerId, _)| incarnation(peer) != asked;
        if self.stopping.get().is_some_and(has_come) {
            self.stopping.set(None);
        }
    }

    /// Forgets that a parameter server was asked to stop: the training has ended since, and not by
    /// that.
    pub(crate) fn forget_stop(&self) {
        self.stopping.set(None);
    }

    /// Why worker 0 takes no more steps, if it has said so.
    pub(crate) fn chief_left(&self) -> Option<Leaving> {
        self.chief_left.get()
    }

    /// The training keeps checkpoints that outlast its chief's process.
    pub(crate) fn expect_lasting_checkpoints(&self) {
        self.has_lasting_checkpoints.set(true);
    }

    /// Whether the training keeps checkpoints that outlast its chief's process.
    pub(crate) fn has_lasting_checkpoints(&self) -> bool {
        self.has_lasting_checkpoints.get()
    }

    /// The chief is lost; returns whether that is new.
    pub(super) fn lose_chief(&self) -> bool {
        !self.chief_is_lost.replace(true)
    }

    /// The chief is there; returns whether it was lost before.
    pub(crate) fn find_chief(&self) -> bool {
        let (was_lost, had_stopped) = (self.chief_is_lost.replace(false), self.has_chief_stopped());
        if had_stopped {
            self.chief_left.set(None);
        }
        if was_lost || had_stopped {
            self.chief_came_back.set(true);
            self.news.come();
        }
        was_lost
    }

    /// Whether a worker that this task meets anew may not know that the chief is there: it has been
    /// away, or has given the variables of a task that was lost their values.
    pub(super) fn may_seem_lost(&self) -> bool {
        self.has_lasting_checkpoints() && (self.chief_came_back.get() || self.resets() > 0)
    }

    /// Whether the chief is lost.
    pub(super) fn is_chief_lost(&self) -> bool {
        self.chief_is_lost.get()
    }

    fn has_chief_stopped(&self) -> bool {
        self.chief_left.get() == Some(Leaving::Stopped)
    }

    /// Whether the chief is away: it is lost, or was asked to stop.
    pub(crate) fn is_chief_away(&self) -> bool {
        self.is_chief_lost() || self.has_chief_stopped()
    }

    /// Whether no checkpoint is written until the chief is back.
    pub(crate) fn waits_for_checkpoints(&self) -> bool {
        self.has_lasting_checkpoints() && self.is_chief_away()
    }

    /// Why the chief can't give the variables their values, or save them, if it has said so.
    pub(crate) fn chief_failed(&self) -> Option<Error> {
        self.chief_failed.borrow().as_ref().map(|failure| failure.error.clone())
    }

    /// Why the chief could not save the training for the first time, if it has said so: who trains
    /// does so for nothing.
    pub(crate) fn never_saved_for(&self) -> Option<Error> {
        let failure = self.chief_failed.borrow();
        failure.as_ref().filter(|failure| failure.is_unsaved).map(|failure| failure.error.clone())
    }

    /// What the chief has failed with, for this task to end with, once: another training may
    /// follow.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.chief_failed.take().map(|failure| failure.error)
    }

    /// The chief is back, or another training begins: what it failed with is past.
    pub(crate) fn forget_failure(&self) {
        self.chief_failed.take();
    }

    /// The variables have their values: a failure to give them any is past; one to save them
    /// stays, unless this task is the chief.
    pub(crate) fn find_values(&self, is_chief: bool) {
        self.chief_failed.borrow_mut().take_if(|failure| is_chief || !failure.is_unsaved);
    }

    /// The number of times that the task's variables have been cleared.
    pub(crate) fn resets(&self) -> u64 {
        self.resets.get()
    }

    /// Whether the cluster has parameter servers.
    pub(super) fn has_servers(&self) -> bool {
        self.has_servers
    }

    /// The tasks that hold variables.
    pub(super) fn holders(&self) -> &[PeerId] {
        &self.holders
    }

    /// Whether `peer` holds variables.
    pub(super) fn is_holder(&self, peer: PeerId) -> bool {
        self.holders.contains(&peer)
    }

    /// The tasks to notify when this worker (`local`) leaves, in a cluster with parameter servers:
    /// itself, the chief, the holders, and every task it has sent step data. Helpers are added by
    /// the caller. Not all tasks, since that would need a connection between any two workers.
    pub(super) fn who_misses_a_worker(&self, local: PeerId) -> BTreeSet<PeerId> {
        let partners = self.partners.borrow();
        let partners = (0..).zip(&*partners).filter(|(_, is_partner)| **is_partner);
        let partners = partners.map(|(peer, _)| PeerId(peer));
        let always = [local].into_iter().chain(self.chief.get());
        always.chain(self.holders.iter().copied()).chain(partners).collect()
    }

    /// Whether the training has come to its end for this task, as far as it knows: by an
    /// announcement, or since it or the chief has left in good order.
    pub(crate) fn is_done(&self) -> bool {
        self.is_over() || self.chief_left() == Some(Leaving::Done) || self.partings.have_left_done()
    }

    /// Notes that this task sends `to` something for a step, unless `messages` are only about the
    /// end of the training.
    pub(super) fn note_partner(&self, to: PeerId, messages: &[PeerMessage]) {
        if messages.iter().all(partings::is_about_the_end) {
            return;
        }
        let mut partners = self.partners.borrow_mut();
        let index = to.0 as usize;
        if partners.len() <= index {
            partners.resize(index + 1, false);
        }
        partners[index] = true;
    }

    /// Notes what the task's program asks about its training, as `from`, in its life `incarnation`,
    /// tells it.
    pub(super) fn note(
        &self,
        from: PeerId,
        incarnation: Option<u64>,
        message: &ParameterServerMessage,
    ) {
        let is_past = |training: u32| (1..self.number()).contains(&training);
        match message {
            ParameterServerMessage::TrainingOver { training } if !is_past(*training) => {
                self.is_over.set(true);
                self.end.raise();
            }
            ParameterServerMessage::Reset { .. } => self.resets.set(self.resets.get() + 1),
            ParameterServerMessage::Leave { worker: 0, why, training } if !is_past(*training) => {
                self.chief_left.set(Some(*why));
                self.chief_is_lost.set(false); // it has come back, and said so
                self.news.come();
            }
            ParameterServerMessage::Back { worker: 0 } => {
                if self.has_lasting_checkpoints() && self.has_chief_stopped() {
                    self.chief_came_back.set(true);
                    tracing::warn!("the chief is back");
                }
                self.chief_left.set(None);
                self.forget_failure();
                self.news.come();
            }
            ParameterServerMessage::ChiefFailed { error, is_unsaved } => {
                let (error, is_unsaved) = (Error::clone(error), *is_unsaved);
                self.chief_failed.replace(Some(ChiefFailure { error, is_unsaved }));
                self.news.come();
            }
            ParameterServerMessage::Stopping => {
                self.stopping.set(Some((from, incarnation)));
                self.news.come();
            }
            ParameterServerMessage::Leave { .. }
            | ParameterServerMessage::Lost { .. }
            | ParameterServerMessage::Back { .. }
            | ParameterServerMessage::Found { .. }
            | ParameterServerMessage::Flush { .. }
            | ParameterServerMessage::Flushed { .. }
            | ParameterServerMessage::Install(_)
            | ParameterServerMessage::LetIn { .. }
            | ParameterServerMessage::TrainingOver { .. } => {} // of one that has ended here
        }
    }
}

/// The error of a task that has waited in vain for the `chief` to save a training that is over.
pub(crate) fn never_saved(chief: &TaskName) -> Error {
    let message = format!(
        "the training is over, but {chief}, the chief, never came back to save it: what was learnt \
         after its last checkpoint, or all if there is none, is lost; start all tasks again: they \
         go on from that checkpoint, or begin anew"
    );
    Error::new(Code::Unavailable, message)
}
