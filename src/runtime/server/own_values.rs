//! What a server tells and asks of variables that a worker alone has: for checkpoints.

use std::collections::BTreeMap;

use crate::cluster::TaskName;

use crate::runtime::messages::ProgramMessage;
use crate::runtime::own_values::{OwnValues, OwnValuesAnswer};

use super::Server;

impl Server {
    /// Keeps the values of this task's program after one of its steps, and tells them to the chief
    /// if it has waited for them.
    pub(crate) fn keep_own_values(&self, own: OwnValues) {
        if let Some(waits) = self.actors.program.own_values.keep(own.clone()) {
            let answer = OwnValuesAnswer::Values(own);
            self.outbox.send(waits, ProgramMessage::OwnValues(answer));
            self.outbox.flush();
        }
    }

    /// Forgets them: the training has gone back to an earlier step.
    pub(crate) fn forget_own_values(&self) {
        self.actors.program.own_values.forget();
    }

    /// Tells them to `chief`: this task takes no more steps.
    pub(crate) fn tell_last_own_values(&self, chief: &TaskName) {
        let own = self.actors.program.own_values.last();
        if let Some((peer, own)) = self.outbox.resolve(chief).zip(own) {
            let answer = OwnValuesAnswer::Last(own);
            self.outbox.send(peer, ProgramMessage::OwnValues(answer));
            self.outbox.flush();
        }
    }

    /// Tells the workers that ask for it what a checkpoint that is being restored has of them.
    pub(crate) fn publish_own_values(&self, restored: BTreeMap<TaskName, OwnValues>) {
        let by_peer = restored.into_iter();
        let by_peer = by_peer.filter_map(|(task, own)| Some((self.outbox.resolve(&task)?, own)));
        self.actors.program.own_values.publish(by_peer.collect());
    }

    /// Asks `worker` for its values after its step `count`. One that has not answered before is
    /// not asked again.
    pub(crate) fn ask_for_own_values(&self, worker: &TaskName, count: u64) -> bool {
        let own_values = &self.actors.program.own_values;
        let peer = self.outbox.resolve(worker).filter(|peer| !own_values.is_silent(*peer));
        let Some(peer) = peer else { return false };
        if own_values.ask(peer, count) {
            self.outbox.send(peer, ProgramMessage::AskForOwnValues { count });
            self.outbox.flush();
        }
        true
    }

    /// Asks `chief` for what the checkpoint that it has restored has of this task.
    pub(crate) fn ask_for_restored_values(&self, chief: &TaskName) {
        if let Some(peer) = self.outbox.resolve(chief) {
            self.actors.program.own_values.ask(peer, u64::MAX); // whatever it has told before
            self.outbox.send(peer, ProgramMessage::AskForRestoredValues);
            self.outbox.flush();
        }
    }

    /// Waits until `task` has answered, if only that its values come later.
    pub(crate) async fn has_answered(&self, task: &TaskName) {
        if let Some(peer) = self.outbox.resolve(task) {
            self.actors.program.own_values.answered(peer).await;
        }
    }

    /// Waits for the values that `task` was asked for.
    pub(crate) async fn own_values_of(&self, task: &TaskName) -> Option<OwnValues> {
        self.actors.program.own_values.told(self.outbox.resolve(task)?).await
    }
}
