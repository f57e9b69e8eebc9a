//! Programs that wait until all workers have left: their answers, how long they stay for lost
//! workers, and the limit of the wait while nobody uses the task.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use actix::{AsyncContext, Context, SpawnHandle};

use crate::cluster::ClusterSpec;
use crate::sync::Leaving;
use crate::transport::PeerId;
use crate::units::Time;

use super::Trainings;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::ParameterServerMail;
use crate::runtime::parameter_server::ParameterServer;
use crate::runtime::patience::{NOTICE, Patience};
use crate::runtime::reply::{Reply, answer};
use crate::runtime::waiting::{TO_LEAVE, Waiting};

/// A program that waits until all workers have left.
struct Join {
    workers: u32,
    patience: Patience,
    reply: Reply<Result<()>>,
}

/// The programs that wait, and what they know of those they wait for.
#[derive(Default)]
pub(crate) struct Joins {
    waiting: Vec<Join>,
    /// The other tasks that have registered something here, and the clients of this task's master,
    /// as far as they are not lost.
    users: BTreeSet<PeerId>,
    /// Whether any task or client has ever used this one.
    had_users: bool,
    /// The number of trainings whose end the programs were told.
    ended: u32,
    /// Whether a worker has departed since they were last told of one.
    has_news: bool,
    /// By worker that was lost or asked to stop: when.
    lost: BTreeMap<u32, Time>,
    /// When the last worker departed, if all have and none is back.
    over_since: Option<Time>,
    /// The time since which the task waits for nothing but that somebody comes back, and the next
    /// look at it.
    deserted: Option<(Time, SpawnHandle)>,
}

impl Joins {
    /// The task or client `user` uses this task; `worker` is the one that it runs, if any. Returns
    /// whether it has just begun to.
    pub(crate) fn has_come(&mut self, user: PeerId, worker: Option<u32>) -> bool {
        if let Some(worker) = worker {
            self.lost.remove(&worker);
            self.over_since = None;
        }
        self.had_users = true;
        self.users.insert(user)
    }

    /// Whether the task `user` uses this task.
    pub(crate) fn is_used_by(&self, user: PeerId) -> bool {
        self.users.contains(&user)
    }

    pub(crate) fn is_gone(&mut self, user: PeerId) {
        self.users.remove(&user);
    }

    pub(crate) fn has_lost(&mut self, worker: u32, now: Time) {
        self.lost.insert(worker, now);
    }

    /// A worker has left, or is lost.
    pub(crate) fn hear_of_departure(&mut self) {
        self.has_news = true;
    }

    /// The time that is left to `join` after a wait of `waited`.
    fn left(&self, join: &Join, waited: Duration) -> Duration {
        let Patience { first, recovery, .. } = join.patience;
        if self.had_users { recovery } else { first }.saturating_sub(waited)
    }
}

impl Trainings {
    pub(crate) fn join(&mut self, workers: u32, patience: Patience, reply: Reply<Result<()>>) {
        self.joins.waiting.push(Join { workers, patience, reply });
        self.answer_joins();
    }

    pub(crate) fn answer_joins(&mut self) {
        let (is_to_stop, failure) = (self.is_to_stop(), self.failure());
        // A program that waits once more waits for the next training to end, if anybody is left.
        let Joins { ended, has_news, users, .. } = &self.joins;
        let is_news = *ended < self.members.number() || *has_news || users.is_empty();
        let mut is_told = false;
        for join in std::mem::take(&mut self.joins.waiting) {
            let is_over = is_news && self.all_are_gone(join.workers);
            if is_over {
                self.note_missing(join.workers);
            }
            if is_to_stop {
                answer(join.reply, Ok(()));
            } else if is_over && self.stays(&join).is_none() {
                answer(join.reply, self.end());
                is_told = true;
            } else if let Some(error) = &failure {
                answer(join.reply, Err(error.clone()));
            } else {
                self.joins.waiting.push(join);
            }
        }
        if is_told {
            self.joins.ended += 1;
            self.joins.has_news = false;
        }
    }

    /// Why the programs wait in vain: the chief can't give the variables their values, and nobody
    /// trains with those that they have.
    fn failure(&self) -> Option<Error> {
        let failure = || self.outbox.actors.training.chief_failed();
        self.joins.users.is_empty().then(failure).flatten()
    }

    /// Whether the programs wait no longer, since this task is to stop. The variables of a training
    /// go with one that holds them, and so the training ends first: who uses it is told, and so are
    /// the others that hold some.
    fn is_to_stop(&self) -> bool {
        let training = &self.outbox.actors.training;
        let (is_asked, is_unused) = (training.is_stop_requested(), self.joins.users.is_empty());
        let holds_variables = training.is_holder(self.outbox.local());
        let is_told = is_asked || training.stopping().is_some();
        is_told && is_unused || is_asked && !holds_variables
    }

    /// How much longer the task stays, though all workers have departed, for those that are lost:
    /// they hear here that the training is over, and a chief finds the variables. That is waited
    /// for from the end on, since it still has to save them.
    fn stays(&self, join: &Join) -> Option<Duration> {
        if !self.all_are_gone(join.workers) {
            return None;
        }
        let now = self.clock.now();
        let since = |worker| match worker {
            0 => Some(self.joins.over_since.unwrap_or(now)),
            other => self.joins.lost.get(&other).copied(),
        };
        let last = self.strays(join.workers).filter_map(since).max()?;
        let left = last.after(join.patience.recovery).since(now);
        Some(left).filter(|left| !left.is_zero())
    }

    /// Whether nobody of `workers` is still to leave. Once the chief has ended the training in good
    /// order, a worker that has never come in this life of the task is not waited for.
    fn all_are_gone(&self, workers: u32) -> bool {
        let others_train = || self.members.training(workers).next().is_some();
        let is_chief_done = self.outbox.actors.training.chief_left() == Some(Leaving::Done);
        let some_may_be_absent = LazyCell::new(|| is_chief_done && !others_train());
        self.members.all_are_gone(workers, &self.participation, |worker| {
            self.members.is_expected(worker) && !self.is_here(worker) && *some_may_be_absent
        })
    }

    /// Whether the task of `worker` uses this one.
    pub(super) fn is_here(&self, worker: u32) -> bool {
        self.task_of(worker).is_some_and(|task| self.joins.is_used_by(task))
    }

    /// The workers among `workers` that may come back for what is here: those that are lost and, if
    /// it was asked to stop, the chief, who has yet to report.
    fn strays(&self, workers: u32) -> impl Iterator<Item = u32> {
        let is_stray = |worker: &u32| match worker {
            0 => !self.members.is_done(0),
            other => !self.members.has_left(*other),
        };
        (0..workers).filter(is_stray)
    }

    /// Notes the loss of workers that only other tasks have told of, and the end.
    fn note_missing(&mut self, workers: u32) {
        let (now, strays) = (self.clock.now(), self.strays(workers).collect::<Vec<_>>());
        for worker in strays {
            self.joins.lost.entry(worker).or_insert(now);
        }
        self.joins.over_since.get_or_insert(now);
    }

    /// Begins to count the time when the last user is gone, or all that are left are lost ones, and
    /// stops when one has come.
    pub(crate) fn update_join_timer(&mut self, context: &mut Context<ParameterServer>) {
        if self.failure().is_some() {
            self.answer_joins(); // the last user may just have gone
        }
        let Joins { waiting, users, deserted, .. } = &self.joins;
        let in_vain = || users.is_empty() && !self.clock.sees_stalls();
        let stays = || waiting.iter().any(|join| self.stays(join).is_some());
        let is_deserted = !waiting.is_empty() && (in_vain() || stays());
        if is_deserted == deserted.is_some() {
            return;
        }
        match self.joins.deserted.take() {
            Some((_, timer)) => drop(context.cancel_future(timer)),
            None => self.check_joins_later(self.clock.now(), context),
        }
    }

    /// Ends the joins that nobody has come to in time, and says whom the others wait for.
    pub(crate) fn check_joins(&mut self, context: &mut Context<ParameterServer>) {
        let Some((since, _)) = self.joins.deserted.take() else { return };
        self.answer_joins();
        let waited = self.clock.now().since(since);
        let missing = self.missing();
        for join in std::mem::take(&mut self.joins.waiting) {
            let left = self.left(&join, waited);
            if left.is_zero() {
                answer(join.reply, Err(self.deserted(&missing, waited)));
                continue;
            }
            let here = self.outbox.name(self.outbox.local());
            tracing::warn!("{here} waits for {missing}, for {left:.0?} more");
            self.joins.waiting.push(join);
        }
        if !self.joins.waiting.is_empty() {
            self.check_joins_later(since, context);
        }
    }

    /// The time for which `join` goes on if nobody comes, after a wait of `waited`.
    fn left(&self, join: &Join, waited: Duration) -> Duration {
        self.stays(join).unwrap_or_else(|| self.joins.left(join, waited))
    }

    /// Looks at the joins at the next notice, or when the first of them has waited long enough.
    fn check_joins_later(&mut self, since: Time, context: &mut Context<ParameterServer>) {
        let now = self.clock.now();
        let left = |join| self.left(join, now.since(since));
        let next = self.joins.waiting.iter().map(left).min().unwrap_or(NOTICE).min(NOTICE);
        let timer = self.tell_own_after(next, ParameterServerMail::CheckJoins, context);
        self.joins.deserted = Some((since, timer));
    }

    /// The tasks of the workers whose training has not ended in good order.
    fn missing(&self) -> String {
        let done = self.members.all_that_departed().done;
        let workers = self.cluster.iter().flat_map(ClusterSpec::workers);
        let missing: Vec<String> = (0..)
            .zip(workers)
            .filter(|(worker, _)| !done.contains(worker))
            .map(|(_, task)| task.to_string())
            .collect();
        if missing.is_empty() { "its workers".to_owned() } else { missing.join(", ") }
    }

    fn deserted(&self, missing: &str, waited: Duration) -> Error {
        let what = match self.joins.had_users {
            true => "all are gone, and none has come back",
            false => "none has come",
        };
        let here = self.outbox.name(self.outbox.local());
        let own_part = match here.is_parameter_server() {
            true => "the parameter server".to_owned(),
            false => format!("{here}, which helps a worker,"),
        };
        let workers = (0..).map_while(|worker| self.task_of(worker));
        let holders = self.outbox.actors.training.holders().iter().copied();
        let others = workers.clone().chain(holders).filter(|task| *task != self.outbox.local());
        let refusal = others.filter_map(|task| self.outbox.refusal(task)).next();
        let (code, advice) = match refusal {
            Some((refused, why)) => (refused.into(), format!("there is no way to {why}")),
            None => (Code::Unavailable, "start it again together with them".to_owned()),
        };
        let absent = self.never_came(workers.count() as u32).join(", ");
        let absent = match self.joins.had_users && !absent.is_empty() {
            true => format!("{absent} never came, so look at that first; "),
            false => String::new(),
        };
        let message =
            format!("{own_part} waits for {missing}: {what} for {waited:.0?}; {absent}{advice}");
        Error::new(code, message).on(&here)
    }

    /// What the joins wait for, for the report of a hang.
    pub(crate) fn joins_wait_for(&self, who: &str) -> impl Iterator<Item = Waiting> {
        self.joins.waiting.iter().map(move |Join { workers, .. }| {
            let mut what = format!("{} of {workers} {TO_LEAVE}", self.members.live(*workers));
            let absent = self.never_came(*workers);
            if !absent.is_empty() {
                append!(what, ", of which {} never came", absent.join(", "));
            }
            Waiting { who: who.to_owned(), what }
        })
    }

    /// The tasks of those `workers` that have never come in this life of the task.
    fn never_came(&self, workers: u32) -> Vec<String> {
        let is_absent = |worker: &u32| {
            self.members.is_expected(*worker)
                && !self.is_here(*worker)
                && !self.joins.lost.contains_key(worker)
        };
        let task = |worker| self.cluster.as_ref()?.worker(worker).map(|task| task.to_string());
        (0..workers).filter(is_absent).filter_map(task).collect()
    }
}
