//! `SyncReplicasHook`: the chief's part in TensorFlow's own synchronous training.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use actix_rt::task::JoinHandle;

use crate::graph::{Graph, Target};
use crate::optimizer::SyncReplicasOp;
use crate::runtime::{Code, Error, Result};
use crate::sync::Leaving;

use super::super::recovery::is_mendable;
use super::super::session::Session;
use super::super::task::Task;
use super::{Hook, HookContext, HookFuture, RunValues};

/// Runs the parts of a training with [`SyncReplicas`](crate::optimizer::SyncReplicas) that are not
/// in its steps (TensorFlow: `SyncReplicasOptimizer.make_session_run_hook`).
///
/// The chief puts the first tokens into the queue. Beside its own training it then applies one
/// update after the other, in a session of its own, until its training ends. Then, unless it was
/// asked to stop, it closes the queue of tokens: the other workers take the tokens that are left,
/// and their next step ends with `OutOfRange`, the end of their input. On the other workers the
/// hook sets their local step.
pub struct SyncReplicasHook {
    op: SyncReplicasOp,
    num_tokens: Option<u32>,
    /// The operations on the queue of tokens, once the hook has begun.
    queue: Option<Queue>,
    has_tokens: bool,
    updates: Option<Updates>,
}

shown!(SyncReplicasHook, op, num_tokens);

/// The operations on the queue of tokens.
#[derive(Clone)]
struct Queue {
    /// Puts the first tokens into it.
    init: Target,
    /// Puts the tokens of an update into it.
    refill: Target,
    close: Target,
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
        Self { op: op.clone(), num_tokens: None, queue: None, has_tokens: false, updates: None }
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
        let goes_on = self.updates.is_some();
        self.end_updates().await;
        let Queue { init, refill, close } =
            self.queue.clone().expect("a hook begins before there is a session");
        context.session.run().target(self.op.chief_init()).await?;
        if !self.has_tokens || context.restored.is_some() {
            context.session.run().target(&init).await?;
            self.has_tokens = true;
        } else if goes_on {
            // The update that was under way may be lost, and with it the tokens of the next step.
            context.session.run().target(&refill).await?;
        }
        let session = Session::new(&context.task.target(), context.session.graph()).await?;
        let stop_training = context.session.closer();
        let updates = Updates::begin(session, self.op.sync_op().clone(), close, stop_training);
        self.updates = Some(updates);
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
        // A chief that was asked to stop may come back, and the others go on with it.
        let is_done = context.task.leaving(context.stop.get()) == Leaving::Done;
        match self.queue.as_ref().filter(|_| is_done) {
            Some(queue) => context.session.run().target(&queue.close).await.map(drop),
            None => Ok(()),
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
            self.queue = Some(Queue {
                init: self.op.init_tokens(self.num_tokens)?,
                refill: self.op.init_tokens(Some(self.op.tokens_of_an_update()))?,
                close: self.op.close_tokens(),
            });
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
    /// Runs `sync_op` in `session` again and again, in a task of its own. `stop_training` ends the
    /// chief's own session.
    fn begin(
        session: Session,
        sync_op: Target,
        close: Target,
        stop_training: impl Fn(Error) + 'static,
    ) -> Self {
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
            if ended.get() {
                return;
            }
            if is_mendable(&error) {
                // The chief's step may wait for a token that only the lost update would have given.
                tracing::warn!(%error, "an update is lost; going on with a new session");
                failed.replace(Some(error.clone()));
                return stop_training(error);
            }
            close_queue(&own, &close, &error).await;
            failed.replace(Some(error));
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

/// Closes the queue after the last update, so that no worker waits for a token.
async fn close_queue(session: &Session, close: &Target, error: &Error) {
    tracing::error!(%error, "the chief's updates have failed; closing the queue of tokens");
    if let Err(error) = session.run().target(close).await {
        tracing::error!(%error, "the queue of tokens can't be closed");
    }
}
