//! Which runs of a monitored session are training steps, and what a report has of them.

use trainyard::graph::variable_gradients;
use trainyard::prelude::*;
use trainyard::sync::Mode;

use crate::support::alone::{Seen, alone};
use crate::support::simulated::Simulated;

/// A graph whose variable `v` is moved by hand: how far it is, and the operation that adds 1 to it
/// and to the global step.
fn by_hand() -> Result<(Graph, Output, Target)> {
    let g = Graph::new();
    let v = g.variable("v", &g.constant(0f32))?;
    let moved = v.assign_add(&g.constant(1f32))?;
    let step = g.global_step()?;
    let counted = g.with_control_dependencies(&[&moved], |g| step.assign_add(&g.constant(1i64)))?;
    let train = g.group("train", &[&moved, &counted])?;
    Ok((g, v.read(), train))
}

#[test]
fn a_training_step_made_by_hand_is_counted_and_stops_at_its_last_step() {
    let seen = Seen::default();
    alone(|_, task| {
        let seen = seen.clone();
        async move {
            let (g, v, train) = by_hand()?;
            let hook = StopAtStep::last_step(3);
            let mut session = MonitoredSession::builder(&task, g).hook(hook).open().await?;
            // The fourth run would be an error.
            while !session.should_stop() {
                session.run().target(&train).await?;
            }
            let moved = session.raw().run().fetch(&v).await?.scalar::<f32>(0)?;
            seen.add((session.global_step(), moved));
            session.close().await
        }
    });
    assert_eq!(seen.all(), [(3, 3.0)]);
}

#[test]
fn a_value_fetched_behind_a_training_step_takes_the_step() {
    let seen = Seen::default();
    alone(|_, task| {
        let seen = seen.clone();
        async move {
            let (g, v, train) = by_hand()?;
            let behind = g.with_control_dependencies(&[&train], |_| Ok(v.identity()))?;
            let hook = StopAtStep::last_step(3);
            let mut session = MonitoredSession::builder(&task, g).hook(hook).open().await?;
            while !session.should_stop() {
                session.run().fetch(&behind).await?;
            }
            seen.add(session.global_step());
            session.close().await
        }
    });
    assert_eq!(seen.all(), [3]);
}

/// The losses in the rows of two steps, built by `train_op` of the loss, which is 9, of another
/// value, -3, and of the variable: the first fetches -3 and then the loss, the second -3 alone.
fn losses(
    train_op: impl Fn(&Task, [&Output; 2], Variable) -> Result<TrainOp, GraphError> + Sync,
) -> Vec<Option<f32>> {
    let trained = Simulated::new(0, 1, Mode::Async).run_program(|task| {
        let built = || -> Result<_> {
            let g = Graph::new();
            let w = g.variable("w", &g.constant(3f32))?;
            let (loss, other) = (w.read().square(), w.read().negate());
            let train_op = train_op(&task, [&loss, &other], w)?;
            Ok((g, loss, other, train_op))
        };
        let built = built();
        async move {
            let (g, loss, other, train_op) = built?;
            let mut session = MonitoredSession::builder(&task, g).open().await?;
            session.run().fetch(&other).fetch(&loss).target(&train_op).await?;
            session.run().fetch(&other).target(&train_op).await?;
            session.close().await
        }
    });
    trained.outcome.result.unwrap();
    trained.steps.iter().map(|step| step.loss).collect()
}

#[test]
fn the_loss_of_a_step_is_what_its_optimizer_minimizes_whatever_is_fetched_before_it() {
    let minimized = losses(|task, [loss, _], _| task.minimize(GradientDescent::new(0.0), loss));
    assert_eq!(minimized, [Some(9.0), Some(-3.0)]);
    let with_a_penalty = losses(|task, [loss, other], w| {
        variable_gradients(other, &[w])?;
        task.minimize(GradientDescent::new(0.0), loss)
    });
    assert_eq!(with_a_penalty, minimized, "what is minimized comes before what is differentiated");
}

#[test]
fn the_loss_of_a_step_that_applies_gradients_of_ones_own_is_what_was_differentiated() {
    let own = losses(|task, [loss, _], w| {
        let gradients = variable_gradients(loss, std::slice::from_ref(&w))?;
        let pairs: Vec<_> = gradients.into_iter().flatten().map(|g| (w.clone(), g)).collect();
        task.apply_gradients(GradientDescent::new(0.0), &pairs)
    });
    assert_eq!(own, [Some(9.0), Some(-3.0)]);
}
