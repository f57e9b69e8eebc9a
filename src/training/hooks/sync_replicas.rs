//! `SyncReplicasHook`: the chief's part in TensorFlow's own synchronous training.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use actix_rt::task::JoinHandle;

use crate::graph::{Graph, Target};
use crate::optimizer::SyncReplicasOp;
use crate::runtime::{Code, Error, Result};

use super::super::recovery::is_mendable;
use super::super::session::Session;
use super::super::task::Task;
use super::{Hook, HookContext, HookFuture, RunValues};

/// Runs the parts of a training with [`SyncReplicas`](crate::optimizer::SyncReplicas) that are not
/// in its steps (TensorFlow: `SyncReplicasOptimizer.make_session_run_hook`).
///
/// The chief puts the first tokens into the queue. Beside its own training it then applies one
/// update after the other, in a session of its own, until its training ends. Then it closes the
/// queue of tokens: the other workers take the tokens that are left, and their next step ends with
/// `OutOfRange`, the end of their input. On the other workers the hook sets their local step.
pub struct SyncReplicasHook {
    op: SyncReplicasOp,
    num_tokens: Option<u32>,
    /// The operations that put the first tokens into the queue and that close it, once the hook has
    /// begun.
    begun: Option<(Target, Target)>,
    has_tokens: bool,
    updates: Option<Updates>,
}

/// The chief's updates under way.
struct Updates {
    session: Rc<Session>,
    is_ended: Rc<Cell<bool>>,
    failure: Rc<RefCell<Option<Error>>>,
    task: JoinHandle<()>,
}

impl SyncReplicasHook {
    /// A hook for the training of `op`. The number of first tokens is the number of gradients in an
    /// update.
    pub fn new(op: &SyncReplicasOp) -> Self {
        Self { op: op.clone(), num_tokens: None, begun: None, has_tokens: false, updates: None }
    }

    /// Sets the number of first tokens. With 0 no gradient is wasted: a worker's first step waits
    /// for the first update.
    #[must_use]
    pub fn num_tokens(mut self, number: u32) -> Self {
        self.num_tokens = Some(number);
        self
    }

    async fn prepare(&mut self, context: &HookContext<'_>) -> Result<()> {
        if !context.task.is_chief() {
            return context.session.run().target(self.op.local_init()).await.map(drop);
        }
        self.end_updates().await;
        let (init_tokens, close) =
            self.begun.clone().expect("a hook begins before there is a session");
        context.session.run().target(self.op.chief_init()).await?;
        if !self.has_tokens || context.restored.is_some() {
            context.session.run().target(&init_tokens).await?;
            self.has_tokens = true;
        }
        let session = Session::new(&context.task.target(), context.session.graph()).await?;
        self.updates = Some(Updates::begin(session, self.op.sync_op().clone(), close));
        Ok(())
    }

    /// Waits until no update is under way. Returns the error that ended the updates, if there was
    /// one.
    async fn end_updates(&mut self) -> Option<Error> {
        self.updates.take()?.end().await
    }

    async fn finish(&mut self, context: &HookContext<'_>) -> Result<()> {
        if let Some(error) = self.end_updates().await {
            return Err(error);
        }
        match &self.begun {
            Some((_, close)) if context.task.is_chief() => {
                context.session.run().target(close).await.map(drop)
            }
            _ => Ok(()),
        }
    }
}

impl Hook for SyncReplicasHook {
    fn begin(&mut self, task: &Task, graph: &Graph) -> Result<()> {
        if !graph.same_as(self.op.graph()) {
            let message = "the hook is of another graph than the session: make it from what \
                           `SyncReplicas` gave for it";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if task.is_chief() {
            self.begun = Some((self.op.init_tokens(self.num_tokens)?, self.op.close_tokens()));
        }
        Ok(())
    }

    fn after_create_session<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(self.prepare(context))
    }

    fn after_run<'a>(&'a mut self, _: &'a HookContext<'_>, _: &'a RunValues<'_>) -> HookFuture<'a> {
        let failure = self.updates.as_ref().and_then(|updates| updates.failure.take());
        Box::pin(std::future::ready(failure.map_or(Ok(()), Err)))
    }

    fn end<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(self.finish(context))
    }
}

impl Updates {
    /// Runs `sync_op` in `session` again and again, in a task of its own.
    fn begin(session: Session, sync_op: Target, close: Target) -> Self {
        let (session, is_ended, failure) =
            (Rc::new(session), Rc::new(Cell::new(false)), Rc::default());
        let (own, ended): (Rc<Session>, Rc<Cell<bool>>) =
            (Rc::clone(&session), Rc::clone(&is_ended));
        let failed: Rc<RefCell<Option<Error>>> = Rc::clone(&failure);
        let task = actix_rt::spawn(async move {
            let error = loop {
                if let Err(error) = own.run().target(&sync_op).await {
                    break error;
                }
            };
            if !ended.get() {
                give_up(&own, &close, &error).await;
                failed.replace(Some(error));
            }
        });
        Self { session, is_ended, failure, task }
    }

    /// Ends the updates. Returns the error that had ended them before, if there was one.
    async fn end(self) -> Option<Error> {
        let Self { session, is_ended, failure, task } = self;
        is_ended.set(true);
        session.close();
        let ended = task.await;
        let panicked =
            |error| Error::new(Code::Internal, format!("the chief's updates ended: {error}"));
        ended.err().map(panicked).or_else(|| failure.take())
    }
}

/// After the last update: closes the queue, so that no worker waits for a token. After an error
/// that a new session can mend, it stays open: the workers wait for that session.
async fn give_up(session: &Session, close: &Target, error: &Error) {
    if is_mendable(error) {
        tracing::warn!(%error, "an update is lost");
        return;
    }
    tracing::error!(%error, "the chief's updates have failed; closing the queue of tokens");
    if let Err(error) = session.run().target(close).await {
        tracing::error!(%error, "the queue of tokens can't be closed");
    }
}
