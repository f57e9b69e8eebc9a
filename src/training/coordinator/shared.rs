//! What a coordinator, its executors and its chief's session have in common.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::cluster::TaskName;
use crate::runtime::{Error, Result, Signal};

use super::super::fetched::Fetched;
use super::super::monitored_session::{MonitoredRun, MonitoredSession};
use super::super::record::StepStats;
use super::super::task::Task;
use super::queue::ClosureQueue;
use super::remote_value::Promise;

/// The time between two checks of the variables by the chief, while an executor waits for a lost
/// task.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A step to take: makes one of an executor's model and its session. It may be called again.
pub(super) type Closure<M> = Rc<dyn for<'a> Fn(&M, MonitoredRun<'a>) -> MonitoredRun<'a>>;

/// A closure that was scheduled.
pub(super) struct Scheduled<M> {
    pub(super) closure: Closure<M>,
    pub(super) promise: Promise,
}

/// What the coordinator's tasks tell each other.
pub(super) struct Shared<M> {
    task: Task,
    state: RefCell<State<M>>,
    changed: Signal,
}

struct State<M> {
    queue: ClosureQueue<Scheduled<M>>,
    /// The steps that the chief's hooks have yet to see.
    steps: VecDeque<StepStats>,
    /// The number of executors that have not been given up.
    executors: usize,
    /// The number of those that wait for lost tasks.
    recovering: usize,
    /// The number of times that executors have asked the chief to check the variables.
    asked: u64,
    /// The last of these that the chief has answered.
    looked: u64,
    /// Whether no closure is taken any more.
    has_ended: bool,
    /// Whether the chief's session ends as soon as its hooks have seen all steps.
    is_closing: bool,
    /// Why the coordinator can't go on.
    lost: Option<Error>,
}

/// What the chief's session does next.
pub(super) enum Duty {
    /// It checks that the variables have their values, for all requests up to this number.
    Look(u64),
    /// Its hooks see a step.
    Show(StepStats),
    /// It ends.
    End,
}

impl<M> Shared<M> {
    /// Of `executors`, with room for so many closures that wait.
    pub(super) fn new(task: &Task, executors: usize, room: usize) -> Rc<Self> {
        let state = RefCell::new(State {
            queue: ClosureQueue::new(room),
            steps: VecDeque::new(),
            executors,
            recovering: 0,
            asked: 0,
            looked: 0,
            has_ended: false,
            is_closing: false,
            lost: None,
        });
        Rc::new(Self { task: task.clone(), state, changed: Signal::default() })
    }

    /// Changes the state, and wakes all that wait for it.
    fn change<T>(&self, change: impl FnOnce(&mut State<M>) -> T) -> T {
        let changed = change(&mut self.state.borrow_mut());
        self.changed.raise();
        changed
    }

    /// Waits until `look` finds something in the state, or takes something out of it.
    async fn until<T>(&self, mut look: impl FnMut(&mut State<M>) -> Option<T>) -> T {
        let found = self.changed.until(|| look(&mut self.state.borrow_mut())).await;
        self.changed.raise();
        found
    }

    /// Whether no closure is taken any more.
    pub(super) fn should_stop(&self) -> bool {
        self.state.borrow().has_ended || self.task.is_training_over()
    }

    /// Waits until there is room, then schedules what `make` makes. None if no closure is taken any
    /// more.
    ///
    /// # Errors
    /// If the coordinator can't go on, or a closure has failed.
    pub(super) async fn put(&self, make: impl FnOnce() -> Scheduled<M>) -> Result<Option<()>> {
        let mut make = Some(make);
        self.until(|state| {
            if let Some(failed) = state.told_failure() {
                return Some(Err(failed));
            }
            if self.task.is_training_over() || state.has_ended {
                return Some(Ok(None));
            }
            if !state.queue.has_room() || state.queue.has_failed() {
                return None;
            }
            let make = make.take()?;
            state.queue.put(make());
            Some(Ok(Some(())))
        })
        .await
    }

    /// Waits until all scheduled closures have ended.
    ///
    /// # Errors
    /// If the coordinator can't go on, or a closure has failed.
    pub(super) async fn all_done(&self) -> Result<()> {
        self.until(|state| {
            let failed = state.told_failure().map(Err);
            failed.or_else(|| state.queue.is_empty().then_some(Ok(())))
        })
        .await
    }

    /// Whether all scheduled closures have ended.
    ///
    /// # Errors
    /// As [`Self::all_done`].
    pub(super) fn is_done(&self) -> Result<bool> {
        let state = &mut *self.state.borrow_mut();
        state.told_failure().map_or_else(|| Ok(state.queue.is_empty()), Err)
    }

    /// The next closure for the executor with this `session`; none if it is to take no more.
    pub(super) async fn next(&self, session: &MonitoredSession) -> Option<Scheduled<M>> {
        let next = self
            .until(|state| match state.has_ended || session.should_stop() {
                true => Some(None),
                false => state.queue.take().map(Some),
            })
            .await;
        if next.is_none() {
            self.end();
        }
        next
    }

    /// `scheduled` has run.
    pub(super) fn done(&self, scheduled: Scheduled<M>, fetched: Fetched) {
        self.change(|state| state.queue.done());
        scheduled.promise.keep(Ok(fetched));
    }

    /// `scheduled` has failed.
    pub(super) fn fail(&self, scheduled: Scheduled<M>, error: Error) {
        self.change(|state| state.queue.fail(error.clone()));
        scheduled.promise.keep(Err(error));
    }

    /// Another executor is to take `scheduled`.
    pub(super) fn put_back(&self, scheduled: Scheduled<M>) {
        self.change(|state| match state.has_ended {
            true => state.queue.done(),
            false => state.queue.put_back(scheduled),
        });
    }

    /// An executor has taken `step`, which the chief's hooks are to see.
    pub(super) fn show(&self, step: StepStats) {
        self.change(|state| state.steps.push_back(step));
    }

    /// An executor has lost a task, and waits for it: first for the chief, since it may be one with
    /// variables. Returns whether the coordinator goes on.
    pub(super) async fn recovers(&self) -> bool {
        let asked = self.change(|state| {
            state.recovering += 1;
            state.asked += 1;
            state.asked
        });
        self.until(|state| match state.lost.is_some() {
            true => Some(false),
            false => (state.looked >= asked).then_some(true),
        })
        .await
    }

    /// The chief has checked the variables for all requests up to number `asked`: they have their
    /// values.
    pub(super) fn has_looked(&self, asked: u64) {
        self.change(|state| state.looked = asked);
    }

    /// An executor no longer waits for lost tasks.
    pub(super) fn has_recovered(&self) {
        self.change(|state| state.recovering -= 1);
    }

    /// The coordinator goes on without the executor `name`, for `error`.
    pub(super) fn go_on_without(&self, name: &TaskName, error: Error) {
        if self.should_stop() {
            return;
        }
        let left = self.change(|state| {
            state.executors -= 1;
            state.executors
        });
        tracing::warn!(%error, left, "the coordinator goes on without {name}");
        if left == 0 {
            self.give_up(error);
        }
    }

    /// The coordinator can't go on, for `error`.
    pub(super) fn give_up(&self, error: Error) {
        self.change(|state| {
            state.lost.get_or_insert(error);
        });
        self.end();
    }

    /// No closure is taken any more; those that wait are cancelled.
    pub(super) fn end(&self) {
        self.change(|state| {
            state.has_ended = true;
            state.queue.cancel();
        });
    }

    /// Ends, and waits until those under way have ended.
    ///
    /// # Errors
    /// If the coordinator can't go on.
    pub(super) async fn close(&self) -> Result<()> {
        self.end();
        self.until(|state| match &state.lost {
            Some(lost) => Some(Err(lost.clone())),
            None => state.queue.is_at_rest().then_some(Ok(())),
        })
        .await?;
        self.change(|state| state.is_closing = true);
        Ok(())
    }

    /// The first error of a closure, unless `schedule`, `join` or `done` has returned it.
    pub(super) fn take_failure(&self) -> Option<Error> {
        self.state.borrow_mut().queue.take_failure()
    }

    /// The training has gone back: the hooks see none of the steps before.
    pub(super) fn forget_steps(&self) {
        self.change(|state| state.steps.clear());
    }

    /// What the chief's session does next, once there is something. Closures end when the training
    /// does.
    pub(super) async fn duty(&self) -> Duty {
        loop {
            let (recovers, has_ended) = {
                let state = self.state.borrow();
                (state.recovering > 0, state.has_ended)
            };
            let is_over = pin!(async {
                match has_ended {
                    true => std::future::pending().await,
                    false => self.task.training_is_over().await,
                }
            });
            // A timer that is always set would hide a stall.
            let every = if recovers { self.task.limit(LOOK_EVERY) } else { None };
            let duty = self.task.within(every, self.until(State::duty));
            match select(pin!(duty), is_over).await {
                Either::Left((duty, _)) => {
                    let asked = self.state.borrow().asked;
                    return duty.unwrap_or(Duty::Look(asked));
                }
                Either::Right(_) => self.end(),
            }
        }
    }
}

impl<M> State<M> {
    /// What is told once: why the coordinator can't go on or, after all under way have ended, the
    /// failure of a closure.
    fn told_failure(&mut self) -> Option<Error> {
        if let Some(lost) = &self.lost {
            return Some(lost.clone());
        }
        if self.queue.is_at_rest() { self.queue.take_failure() } else { None }
    }

    fn duty(&mut self) -> Option<Duty> {
        if self.looked < self.asked {
            return Some(Duty::Look(self.asked));
        }
        let step = self.steps.pop_front().map(Duty::Show);
        step.or_else(|| (self.is_closing || self.lost.is_some()).then_some(Duty::End))
    }
}
