//! Learning rates whose schedule does not fit the length of the run.

use super::LONGEST;
use crate::experiment::Trial;
use crate::graph::{LearningRate, Schedule};
use crate::kernels::Numerics;
use crate::sync::Mode;

/// The learning rate of a run that learns by it, and the number of global steps to which the run is
/// limited.
fn learning(trial: &Trial) -> Option<(&LearningRate, u64)> {
    let settings = &trial.settings;
    let learns = settings.model.has_data()
        && settings.model.own_train_op().is_none()
        && trial.cluster.numerics == Numerics::Real;
    let limit = settings.stop.steps.filter(|limit| learns && *limit <= LONGEST)?;
    Some((&settings.optimizer.learning_rate, limit))
}

/// The steps of a schedule at the global step `step`, in words that a number precedes; none where
/// each worker counts its own, and not all are as far.
fn steps_of_schedule(trial: &Trial, step: u64) -> Option<(u64, &'static str)> {
    let workers = trial.cluster.spec.workers().count() as u32;
    match trial.mode {
        Mode::LocalSgd { backups: 0, .. } | Mode::DiLoCo { backups: 0, .. } => {
            Some((trial.mode.steps_of_a_worker(step, workers), "steps of each worker"))
        }
        mode if mode.copies().is_some() => None,
        _ => Some((step, "global steps")),
    }
}

/// More than the last step of `limit`: each worker may be in one when that is taken.
pub(super) fn beyond(trial: &Trial, limit: u64) -> u64 {
    limit + trial.cluster.spec.workers().count() as u64
}

/// A rate that falls to 0 long before the end.
pub(super) fn rate_of_zero(trial: &Trial) -> Option<String> {
    let (rate, limit) = learning(trial)?;
    let (key, zero_from) = match rate.schedule {
        Schedule::CosineDecay { decay_steps, alpha: 0.0, .. } => ("alpha", decay_steps),
        Schedule::PolynomialDecay { decay_steps, end: 0.0, power, cycle: false, .. }
            if power > 0.0 =>
        {
            ("end", decay_steps)
        }
        _ => return None,
    };
    let (all, unit) = steps_of_schedule(trial, limit)?;
    // Who counts otherwise by a step or two means the end.
    let is_early = zero_from < all - all / 10;
    is_early.then(|| {
        format!(
            "the learning rate is 0 from step {zero_from} on, and the run has up to {all} {unit}: \
             nothing is learnt after that; set `decay_steps` to {all}, or give the schedule an \
             `{key}` above 0"
        )
    })
}

/// A schedule whose first change comes after the end.
pub(super) fn boundary_beyond(trial: &Trial) -> Option<String> {
    let (rate, limit) = learning(trial)?;
    let (key, first) = match &rate.schedule {
        Schedule::PiecewiseConstant { until, .. } => ("boundaries", until.first()?.0),
        Schedule::ExponentialDecay { decay_steps, staircase: true, .. }
        | Schedule::NaturalExpDecay { decay_steps, staircase: true, .. }
        | Schedule::InverseTimeDecay { decay_steps, staircase: true, .. } => {
            ("decay_steps", *decay_steps)
        }
        _ => return None,
    };
    let (last, unit) = steps_of_schedule(trial, beyond(trial, limit))?;
    let (all, _) = steps_of_schedule(trial, limit)?;
    (last < first).then(|| {
        format!(
            "the learning rate first changes at step {first} (`{key}`), and the run has {all} \
             {unit} at most: the schedule has no effect"
        )
    })
}

/// A warm-up that is not over at the end.
pub(super) fn warm_up_beyond(trial: &Trial) -> Option<String> {
    let (rate, limit) = learning(trial)?;
    let (last, _) = steps_of_schedule(trial, beyond(trial, limit))?;
    let (all, unit) = steps_of_schedule(trial, limit)?;
    let steps = rate.warmup_steps;
    (last < steps).then(|| {
        format!(
            "the learning rate's warm-up takes {steps} steps (`warmup_steps`), and the run has \
             {all} {unit} at most: the rate never comes to what the schedule says"
        )
    })
}
