//! The tasks of towers that a training goes on without, until they are back.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::cluster::{DeviceSpec, TaskName};
use crate::graph::Graph;
use crate::runtime::{Code, Error, Result};
use crate::training::record::Formed;
use crate::training::session::Session;
use crate::training::task::Task;

/// A step on a lost task, without a deadline: it ends when the task answers again.
type SignOfLife = Pin<Box<dyn Future<Output = Result<()>>>>;

/// The tasks of the replica that are lost, each with the step that it is to answer.
#[derive(Default)]
pub(super) struct Absent {
    tasks: BTreeMap<TaskName, SignOfLife>,
}

impl Absent {
    /// Whether `task` is one of them.
    pub(super) fn contains(&self, task: &TaskName) -> bool {
        self.tasks.contains_key(task)
    }

    /// Goes on without the other task of the replica of `task` that `error` says has not come back
    /// in time, and without all that there is no way to now: each would be waited for anew. One
    /// that has never come since this task began ends the training: it may never have been started.
    ///
    /// # Errors
    /// `error`, if it says something else, or the training has no towers on other tasks.
    pub(super) fn go_on_without(&mut self, task: &Task, error: Error) -> Result<()> {
        if task.settings().all_reduce.is_none() {
            return Err(error);
        }
        let server = task.server();
        let is_away = |helper: &TaskName| server.has_met(helper) && server.is_unreached(helper);
        let is_named = |helper: &TaskName| error.task.as_ref() == Some(helper);
        let mut gone = task.cluster().replica_of(task.name()).split_off(1);
        gone.retain(|helper| !self.contains(helper));
        let is_of_them = match error.code {
            Code::Unavailable => gone.iter().any(is_named),
            Code::DeadlineExceeded => gone.iter().any(is_away),
            _ => false,
        };
        if !is_of_them {
            return Err(error);
        }
        gone.retain(|helper| {
            is_away(helper) || error.code == Code::Unavailable && is_named(helper)
        });
        for helper in gone {
            tracing::warn!(%error, "going on without the towers of {helper}, until it is back");
            let sign = sign_of_life(task, &helper);
            self.tasks.insert(helper, sign);
        }
        Ok(())
    }

    /// The formation of `towers` that begins without them.
    pub(super) fn formed(&self, task: &Task, towers: usize) -> Formed {
        let samples = task.settings().batch / towers * towers;
        Formed {
            at: task.now(),
            without: self.tasks.keys().cloned().collect(),
            samples: samples as u64,
        }
    }

    /// Takes out those that have answered; returns whether there are any.
    pub(super) fn take_back(&mut self, task: &Task) -> bool {
        let before = self.tasks.len();
        let mut context = Context::from_waker(Waker::noop());
        self.tasks.retain(|gone, sign| {
            let Poll::Ready(answered) = sign.as_mut().poll(&mut context) else { return true };
            match &answered {
                Ok(()) => tracing::warn!("{gone} is back: forming anew with its towers"),
                // It was lost once more before it answered.
                Err(_) => *sign = sign_of_life(task, gone),
            }
            answered.is_err()
        });
        self.tasks.len() < before
    }
}

/// A step of a session of its own on `gone`, which goes on until that has taken it.
fn sign_of_life(task: &Task, gone: &TaskName) -> SignOfLife {
    let (target, device) = (task.target(), DeviceSpec::of_task(gone));
    Box::pin(async move {
        let g = Graph::new();
        let alive = g.with_device(&device.to_string(), |g| Ok(g.constant(true)))?;
        let session = Session::new(&target, &g).await?;
        session.run().fetch(&alive).await.map(drop)
    })
}
