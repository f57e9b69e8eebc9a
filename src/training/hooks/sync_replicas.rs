//! `SyncReplicasHook`: has the chief drive TensorFlow's own synchronous training.

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

/// Does what a training with [`SyncReplicas`](crate::optimizer::SyncReplicas) needs besides its
/// steps (TensorFlow: `SyncReplicasOptimizer.make_session_run_hook`).
///
/// The chief hands out the first tokens and then, beside its own training, applies updates in a
/// session of its own, one after the other, until its training ends. It closes the queue of tokens
/// then: another worker takes those that are left, and its next step ends with `OutOfRange`, the
/// end of its input. On the other workers it sets their step.
pub struct SyncReplicasHook {
    op: SyncReplicasOp,
    num_tokens: Option<u32>,
    /// Once the hook has begun: what puts the first tokens into the queue, and what closes it.
    begun: Option<(Target, Target)>,
    has_tokens: bool,
    updates: Option<Updates>,
}

/// The chief's updates, in the making.
struct Updates {
    session: Rc<Session>,
    is_ended: Rc<Cell<bool>>,
    failure: Rc<RefCell<Option<Error>>>,
    task: JoinHandle<()>,
}

impl SyncReplicasHook {
    /// A hook for the training of `op`, that begins with as many tokens as an update takes
    /// gradients.
    pub fn new(op: &SyncReplicasOp) -> Self {
        Self { op: op.clone(), num_tokens: None, begun: None, has_tokens: false, updates: None }
    }

    /// Begins with so many tokens. With none no gradient is wasted: a worker's first step waits for
    /// the first update.
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

    /// Waits until no update is under way any more.
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
    /// Runs `sync_op` in `session`, one after the other.
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

    /// Ends them; gives the error that they had ended with before.
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

/// There will be no more updates: nobody is to wait for a token. Where a new session may mend it,
/// they all wait for that.
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
