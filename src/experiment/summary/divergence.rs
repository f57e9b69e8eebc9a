//! The last loss of a training, and the step from which on it is not finite.

use std::collections::BTreeMap;

use crate::training::Recording;

/// The loss that was measured last. A program that measures nothing has diverged if a loss of its
/// last step is not finite: then it is that one.
pub(super) fn final_loss(recording: &Recording) -> Option<f64> {
    if let Some(last) = recording.evaluations.last() {
        return Some(f64::from(last.loss));
    }
    let since = last_stretch(losses_of_steps(recording))?;
    let losses =
        losses_of_steps(recording).filter(|(step, loss)| *step >= since && !loss.is_finite());
    losses.last().map(|(_, loss)| f64::from(loss))
}

/// The losses of the worker steps that no return to a checkpoint has undone, with their global
/// steps.
fn losses_of_steps(recording: &Recording) -> impl Iterator<Item = (u64, f32)> {
    let steps = recording.log.iter().filter(|step| !recording.has_undone(step));
    steps.filter_map(|step| Some((step.global_step, step.loss?)))
}

/// The first step of the stretch at the training's end in which each global step has a loss that is
/// not finite, by the looks and worker steps that no return to a checkpoint has undone; none if the
/// last step has none.
pub(super) fn since(recording: &Recording) -> Option<u64> {
    let looks = recording.evaluations.iter().filter(|look| !recording.has_undone_look(look));
    let looks = last_stretch(looks.map(|look| (look.global_step, look.loss)));
    looks.into_iter().chain(last_stretch(losses_of_steps(recording))).min()
}

/// The first step of the stretch at the end of `losses` in which each step has one that is not
/// finite: the workers of a round end it in any order.
fn last_stretch(losses: impl Iterator<Item = (u64, f32)>) -> Option<u64> {
    let mut finite: BTreeMap<u64, bool> = BTreeMap::new();
    for (step, loss) in losses {
        *finite.entry(step).or_insert(true) &= loss.is_finite();
    }
    let stretch = finite.into_iter().rev().take_while(|(_, is_finite)| !is_finite);
    stretch.last().map(|(step, _)| step)
}

#[cfg(test)]
mod tests {
    use super::last_stretch;
    use crate::experiment::Experiment;
    use crate::experiment::summary::tests::{resumed, step};
    use crate::report::End;
    use crate::training::{StepStats, train};

    #[test]
    fn the_last_stretch_of_losses_that_are_not_finite_begins_after_the_last_finite_one() {
        let of = |losses: &[f32]| last_stretch((1..).zip(losses.iter().copied()));
        assert_eq!(of(&[1.0, f32::NAN, 1.0, f32::INFINITY, f32::NAN]), Some(4));
        assert_eq!((of(&[f32::NAN, 1.0]), of(&[])), (None, None));
        let round = [(1, 1.0), (2, f32::NAN), (2, 1.0), (3, f32::NAN)];
        assert_eq!(last_stretch(round.into_iter()), Some(2), "in whatever order workers end");
        assert_eq!(last_stretch(round.into_iter().rev()), Some(2));
    }

    #[test]
    fn a_program_that_measures_nothing_has_diverged_if_the_last_loss_of_its_steps_is_not_finite() {
        let end = |losses: [f32; 2]| {
            let losses = losses.into_iter().zip(0..);
            let run = resumed(losses.map(|(loss, n)| StepStats {
                loss: Some(loss),
                ..step(0, n, 301 + n, 1_000 * (n + 1))
            }));
            (run.end, run.final_loss.is_some())
        };
        assert_eq!(end([1.0, f32::NAN]), (End::Diverged, true));
        assert_eq!(end([f32::INFINITY, 1.0]), (End::Done, false), "it has found back");
    }

    #[test]
    fn a_training_that_diverges_ends_at_the_next_look_and_says_when_it_diverged() {
        let run = |rate: &str| {
            let text = format!(
                "[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'mlp'\nhidden = [8]\n\
                 batch = 8\noptimizer = {{ rule = 'gradient_descent', learning_rate = {rate} }}\n\
                 [stop]\nsteps = 60\nevaluate_every = 20\n[[run]]\nmode = 'sync'\n"
            );
            Experiment::parse(&text).unwrap().simulate(train).unwrap().runs.remove(0)
        };
        let wild = run("1e30");
        assert_eq!((wild.end, wild.global_steps), (End::Diverged, 20));
        assert!(wild.diverged_at.is_some_and(|step| step <= 20), "{:?}", wild.diverged_at);
        let tame = run("0.01");
        assert_eq!((tame.end, tame.global_steps, tame.diverged_at), (End::Done, 60, None));
    }
}
