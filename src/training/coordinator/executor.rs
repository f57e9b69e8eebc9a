//! An executor's part of a coordinator: takes closures, and runs them in a session of its own.

use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use futures_util::FutureExt;

use crate::cluster::TaskName;
use crate::runtime::{Code, Error, Result, program_panicked};

use super::super::hooks::{Hook, HookContext, HookFuture, RunValues};
use super::super::monitored_session::{Builder, MonitoredSession};
use super::super::recovery::is_mendable;
use super::shared::{Scheduled, Shared};

/// A task that runs closures, with its copy of the model.
pub(super) struct Executor<M> {
    pub(super) name: TaskName,
    pub(super) builder: Builder,
    pub(super) model: M,
}

impl<M: 'static> Executor<M> {
    /// Runs closures, until no more are taken or the executor's task is lost for good.
    pub(super) async fn run(self, shared: Rc<Shared<M>>) {
        let name = self.name.clone();
        match AssertUnwindSafe(self.serve(&shared)).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shared.go_on_without(&name, error),
            Err(panic) => shared.give_up(program_panicked(&*panic)),
        }
    }

    async fn serve(self, shared: &Rc<Shared<M>>) -> Result<()> {
        let shown = Shown(Rc::clone(shared));
        let mut session = self.builder.hook(shown).open().await?;
        while let Some(next) = shared.next(&session).await {
            match (next.closure)(&self.model, session.run()).await {
                Ok(fetched) => shared.done(next, fetched),
                Err(error) if error.code == Code::OutOfRange && session.should_stop() => {
                    shared.put_back(next);
                }
                Err(error) if session.can_recover_from(&error) => {
                    recover(shared, &mut session, next, error).await?;
                }
                Err(error) => shared.fail(next, error),
            }
        }
        Ok(())
    }
}

/// Replaces `session`, in which `next` has ended by `error`. If a task is lost, `next` is for
/// others at once. If not, variables may just be being restored, or it was the closure's mistake:
/// that shows only then.
async fn recover<M>(
    shared: &Shared<M>,
    session: &mut MonitoredSession,
    next: Scheduled<M>,
    error: Error,
) -> Result<()> {
    let held = if is_mendable(&error) {
        shared.put_back(next);
        None
    } else {
        Some(next)
    };
    if !shared.recovers().await {
        return Ok(());
    }
    let recovered = session.recover(error).await;
    shared.has_recovered();
    match (recovered, held) {
        (Err(error), Some(next)) if error.code == Code::FailedPrecondition => {
            shared.fail(next, error);
            Ok(())
        }
        (recovered, held) => {
            if let Some(next) = held {
                shared.put_back(next);
            }
            recovered.map(drop)
        }
    }
}

/// Shows the executor's steps to the chief's hooks.
struct Shown<M>(Rc<Shared<M>>);

impl<M> Hook for Shown<M> {
    fn after_run<'a>(
        &'a mut self,
        _: &'a HookContext<'_>,
        run: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        if let Some(step) = run.step {
            self.0.show(step.clone());
        }
        Box::pin(ready(Ok(())))
    }
}
