//! Goes back to a checkpoint: the chief has all tasks drop their variables, and sets these to the
//! checkpoint's values.

use std::collections::BTreeSet;

use super::super::own_values;
use super::super::record::{Fact, Restore};
use super::super::recovery::workers_have_left;
use super::super::restoring::restore;
use super::super::session::Session;
use super::{Created, SessionCreator};
use crate::checkpoint::Restored;
use crate::runtime::{Code, Error, Result};
use crate::sync::Departed;

impl SessionCreator {
    /// Clears all variables, and sets them to the values of `checkpoint`, in a training that was at
    /// `global_step` when the error `root` came, and `what` was lost.
    ///
    /// # Errors
    /// If a task fails; if workers are done that the steps after the checkpoint need again. Those
    /// that were asked to stop, or are lost, are gone on without until they are back.
    pub(super) async fn go_back(
        &self,
        global_step: u64,
        root: &Error,
        what: &str,
        checkpoint: Restored,
    ) -> Result<Created> {
        let departed = self.clear().await?;
        let takes_steps_again = checkpoint.global_step < global_step;
        if takes_steps_again && self.task.has_barrier() && !departed.done.is_empty() {
            return Err(workers_have_left(root, what, checkpoint.global_step, &departed.done));
        }
        self.restore(checkpoint).await
    }

    /// Sets all variables to the values of `checkpoint`.
    pub(super) async fn restore(&self, checkpoint: Restored) -> Result<Created> {
        let step = checkpoint.global_step;
        tracing::warn!(checkpoint = checkpoint.name, global_step = step, "restoring");
        let session = self.session(self.task.patience().recovery).await?;
        own_values::publish(&self.task, &self.graph, &checkpoint);
        // The variables are cleared: the steps so far are undone; none ends before they are set.
        let at = self.task.now();
        session.set_timeout(self.task.limit(self.task.patience().operation));
        restore(&session, &self.scaffold.shared, &checkpoint).await?;
        if self.scaffold.shared.iter().any(|variable| variable.restore.is_none()) {
            let found = self.find(&session).await?;
            self.scaffold.initialize_unsaved(&session, &found.missing).await?;
        }
        self.task.record(Fact::Restored(Restore { global_step: step, at }));
        self.ready(session, step, Some(step)).await
    }

    /// Has all tasks drop the variables and the updates under way: the leftovers of a later step
    /// would not fit a checkpoint. Workers that have departed stay departed, even if a task that
    /// has come back never heard of it.
    pub(super) async fn clear(&self) -> Result<Departed> {
        let (default, named): (BTreeSet<&str>, BTreeSet<&str>) = self
            .scaffold
            .shared
            .iter()
            .map(|variable| variable.container.as_str())
            .partition(|name| name.is_empty());
        let (target, limit) = (self.task.target(), self.task.limit(self.task.patience().recovery));
        let mut departed = Departed::default();
        if !default.is_empty() {
            departed.extend(Session::reset_within_training(&target, &[], limit).await?);
        }
        if !named.is_empty() {
            let named: Vec<&str> = named.into_iter().collect();
            match Session::reset_within_training(&target, &named, limit).await {
                Err(error) if error.code == Code::NotFound => {}
                others => departed.extend(others?),
            }
        }
        self.task.tell_who_has_departed(&departed);
        Ok(departed)
    }
}
