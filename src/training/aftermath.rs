//! A task whose program has ended: it leaves the training if its program has not, and waits for
//! the chief to save it; after an error, whether the training is over, nobody has ever been there,
//! or the task has to be started again.

use std::time::Duration;

use crate::cluster::Role;
use crate::runtime::{Code, Error, NOTICE, Result, never_saved};
use crate::sync::Leaving;

use super::checkpoints::Checkpoints;
use super::record::Fact;
use super::task::Task;

/// How often a worker that waits for its chief looks at least whether that is there. While its
/// process stands still, it does not look, and that time does not count.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs a task's program, which has begun, to its end.
///
/// # Errors
/// If it could not begin; else as [`at_the_end`] and [`after_a_loss`].
pub(crate) async fn run_to_end<F>(begun: Result<(Task, F)>) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let (task, program) = begun?;
    let ended = match program.await {
        Ok(()) => leave_if_still_there(&task),
        Err(error) if error.code == Code::OutOfRange => at_the_end(&task, error),
        failed => failed,
    };
    let saved = match ended {
        Ok(()) => until_the_chief_has_saved(&task).await,
        failed => failed,
    };
    match saved {
        Ok(()) => Ok(()),
        Err(error) => after_a_loss(&task, error).await,
    }
}

/// Waits until the chief has saved the training, with lasting checkpoints, that the worker `task`
/// has come to the end of: it may be away, and that it is lost is known only after a silence. A
/// worker whose own part has ended, while others train, waits for nobody.
///
/// # Errors
/// If the chief is away, and not back within `network.recovery`: started again, all tasks go on
/// from the newest checkpoint.
async fn until_the_chief_has_saved(task: &Task) -> Result<()> {
    let training = task.server().training();
    let is_other = task.role() == Role::Worker && !task.is_chief();
    if !is_other || !training.has_lasting_checkpoints() {
        return Ok(());
    }
    let (name, chief) = (task.name(), task.chief());
    let (is_asked, is_away) = (|| task.is_asked_to_stop(), || training.waits_for_checkpoints());
    if !training.is_at_its_end() {
        if is_away() && !is_asked() {
            tracing::warn!(
                "{name} has ended; no checkpoint is written until the chief, {chief}, is back"
            );
        }
        return Ok(());
    }
    let is_done = || is_asked() || training.chief_left() == Some(Leaving::Done);
    let recovery = task.patience().recovery;
    // A chief that does not know this task tells it nothing.
    while !is_done() && (is_away() || task.server().knows(&chief)) {
        let limit = recovery + task.server().longest_silence();
        if !until(task, limit, "is yet to save it", || is_done() || is_away()).await {
            return Ok(()); // it is there
        }
        if !is_done() {
            tracing::warn!(
                "the training is over; {name} waits for {chief}, which is to save it, for \
                 {recovery:.0?} more"
            );
            if !until(task, recovery, "is to save it", || is_asked() || !is_away()).await {
                return Err(never_saved(&chief).on(name));
            }
            // The chief's earlier life had them.
            task.server().tell_last_own_values(&chief);
        }
    }
    Ok(())
}

/// Waits until `is_so`, but not longer than `limit`, and returns whether it is so. Now and then it
/// says that it waits for the chief, and what that `is_yet` to do.
async fn until(task: &Task, limit: Duration, is_yet: &str, is_so: impl Fn() -> bool) -> bool {
    let news = &task.server().training().news;
    let (mut waited, mut next_notice) = (Duration::ZERO, NOTICE);
    loop {
        let seen = news.count();
        if is_so() {
            return true;
        }
        if waited >= limit {
            return false;
        }
        let left = limit - waited;
        if waited >= next_notice {
            let (name, chief) = (task.name(), task.chief());
            tracing::warn!(
                "the training is over; {name} waits for {chief}, which {is_yet}, for {left:.0?} \
                 more"
            );
            next_notice += NOTICE;
        }
        let (began, pause) = (task.now(), left.min(LOOK_EVERY));
        task.within(Some(pause), news.after(seen)).await;
        waited += task.now().since(began).min(pause);
    }
}

/// Has a worker leave whose program has used sessions, and has returned without closing a monitored
/// one: the others would wait for it. They are told of a chief that has used none.
///
/// # Errors
/// If it is the chief of a training with lasting checkpoints, which lack the end, and was not asked
/// to stop.
fn leave_if_still_there(task: &Task) -> Result<()> {
    let training = task.server().training();
    let Some(replica) = task.replica() else { return Ok(()) };
    if !task.has_used_sessions() || training.partings.have_left(replica.worker) {
        if !task.has_used_sessions() && task.is_chief() && task.cluster().tasks().count() > 1 {
            task.tell_that_no_session_comes();
        }
        return Ok(());
    }
    task.pass_on_the_end();
    let is_to_save = task.is_chief() && task.has_trained() && training.has_lasting_checkpoints();
    if is_to_save && task.leaving(false) == Leaving::Done {
        task.leave(Leaving::Stopped);
        let message = "the chief's program has ended without closing its `MonitoredSession`: what \
                       was learnt after its last checkpoint is in none; end with \
                       `session.close_after(…)`, which saves the last one";
        return Err(Error::new(Code::FailedPrecondition, message).on(task.name()));
    }
    tracing::warn!(
        "{} has ended without closing a `MonitoredSession`: it leaves the training, but no hook \
         had its `end`, and no last checkpoint is saved; end with `session.close_after(…)`",
        task.name()
    );
    leave(task);
    Ok(())
}

/// Has the worker leave in good order.
fn leave(task: &Task) {
    if !task.is_chief() {
        // Checkpoints that are still to come have what it alone had learnt.
        task.server().tell_last_own_values(&task.chief());
    }
    task.leave(task.leaving(false));
}

/// The result of a program that has ended by `error`, the end of its input or of the training,
/// which `MonitoredSession::close_after` would have taken. A worker has nothing left to do.
///
/// # Errors
/// `error`, of the chief, who has saved no last checkpoint, and of a task that does not train.
fn at_the_end(task: &Task, error: Error) -> Result<()> {
    const NEXT: &str =
        "a program that hands this error to `session.close_after(…)` takes it for its end";
    if task.is_chief() {
        let message = format!("{}; {NEXT}, and saves the last checkpoint", error.message);
        return Err(Error { message, ..error });
    }
    if task.replica().is_none() {
        return Err(error);
    }
    tracing::warn!("{error}; {} has ended; {NEXT}, and calls its hooks' `end`", task.name());
    leave(task);
    Ok(())
}

/// The result of the program of `task` that has failed with `error`. A task that comes back after
/// the end finds nobody: it has nothing left to do, if the checkpoints show that.
///
/// # Errors
/// `error`, unless the training is over; of class `Unanswered` if the task has reached no other, or
/// if it is a worker that reaches none after it has stood still for longer than the others wait for
/// it: a restart would find nobody, and no checkpoint.
async fn after_a_loss(task: &Task, error: Error) -> Result<()> {
    if !matches!(error.code, Code::Unavailable | Code::Aborted | Code::DeadlineExceeded) {
        return Err(error);
    }
    // A chief that has trained has a result, which it could not report; an evaluator knows itself
    // whether it has measured the last checkpoint.
    let knows_itself = match task.name().role() {
        Role::Evaluator => true,
        _ => task.is_chief() && task.has_trained(),
    };
    if let Some(step) = last_step(task).await.filter(|_| !knows_itself) {
        tracing::warn!(
            "{error}; but the training has ended, and its last checkpoint is that of step {step}: \
             nothing is left to do"
        );
        task.record(Fact::NothingToDo);
        // Who waits for it to leave goes on at once.
        task.leave(Leaving::Done);
        return Ok(());
    }
    let has_others = task.cluster().tasks().count() > 1;
    if has_others && !task.server().has_met_others() {
        let next = match newest_step(task).await {
            Some(step) => format!(
                "The newest checkpoint is of step {step}, and not the last: to go on from it, \
                 start this task again together with the others"
            ),
            None => "If it is over, nothing is left to do; if it is yet to begin, start this task \
                     again together with the others"
                .to_owned(),
        };
        let message =
            format!("{}; no task of the training has ever answered. {next}", error.message);
        return Err(Error { code: Code::Unanswered, message, ..error });
    }
    let (stood, limit) = (task.server().longest_standstill(), task.patience().recovery);
    if has_others && task.replica().is_some() && stood > limit && task.kept().is_none() {
        let message = format!(
            "{}; this task has stood still for {stood:.0?}, and the others wait for {limit:.0?}: \
             the training is over, or they have given it up. To train again, start this task \
             together with all others",
            error.message
        );
        return Err(Error { code: Code::Unanswered, message, ..error });
    }
    Err(error)
}

/// The step of the newest checkpoint that `task` finds, if there is one.
async fn newest_step(task: &Task) -> Option<u64> {
    Checkpoints::new(&task.kept()?).newest(task).await.ok()?
}

/// The step of the last checkpoint, if the training of `task` has come to its end.
async fn last_step(task: &Task) -> Option<u64> {
    let checkpoints = Checkpoints::new(&task.kept()?);
    let last = checkpoints.last_of_all(task).await;
    last.inspect_err(|error| tracing::warn!(%error, "it is not known whether the training is over"))
        .ok()?
}
