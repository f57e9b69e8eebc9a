//! Replicas that do not have their variables in the same places: they are told so, in both worlds.

use std::time::Duration;

use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::training::{Builder, train};

use crate::support::fixture::{assert_error, cluster, on_actix};
use crate::support::simulated::{Simulated, real_worker};

const BOTH_PLACES: [&str; 3] =
    ["`layer/v` is on /job:worker/task:1", "and on /job:worker/task:0", "the chief, worker:0"];

/// A training whose layer is on the replica's own task, and so are its variables.
fn on_its_own_task(task: &Task) -> Result<(Builder, TrainOp)> {
    let g = Graph::new();
    let train_op = g.with_device(&task.device().to_string(), |g| {
        let v = g.variable("layer/v", &g.constant(0f32))?;
        task.apply_gradients(GradientDescent::new(1.0), &[(v, g.constant(1f32))])
    })?;
    let builder = MonitoredSession::builder(task, g).hook(StopAtStep::last_step(3));
    Ok((builder, train_op))
}

#[test]
fn a_simulated_worker_that_has_a_variable_elsewhere_than_the_chief_is_told_both_places() {
    for mode in [Mode::Async, Mode::Sync { backups: 0, cancel: false }] {
        let trained = Simulated::new(0, 2, mode).run_program(|task| async move {
            let (builder, train_op) = on_its_own_task(&task)?;
            let mut session = builder.open().await?;
            assert!(task.is_chief(), "no other worker takes a step");
            while !session.should_stop() {
                session.run().target(&train_op).await?;
            }
            session.close().await?;
            task.sleep(Duration::from_secs(60)).await; // it is there to be asked
            Ok(())
        });
        assert_error(trained.outcome.result, Code::InvalidArgument, &BOTH_PLACES);
    }
}

#[test]
fn a_real_worker_that_has_a_variable_elsewhere_than_the_chief_is_told_both_places() {
    on_actix(async {
        let tasks = cluster(0, 2).into_iter().map(real_worker).collect::<Result<Vec<_>>>()?;
        let _chief = on_its_own_task(&tasks[0])?.0.open().await?;
        let opened = on_its_own_task(&tasks[1])?.0.open().await.map(drop);
        assert_error(opened, Code::InvalidArgument, &BOTH_PLACES);
        Ok(())
    });
}

#[test]
fn workers_that_share_variables_that_no_task_holds_are_told_to_add_a_parameter_server() {
    let report = |workers: u32| {
        let scenario = format!("[cluster]\nworker = {workers}\n[stop]\nsteps = 3\n");
        Experiment::parse(scenario).unwrap().simulate(train).map_err(Error::from)
    };
    assert_eq!(report(1).unwrap().runs[0].global_steps, 3, "a worker alone holds its own");
    let said = ["no task of the job `ps`", "add `ps = 1`", "by `program.all_reduce`"];
    assert_error(report(2), Code::InvalidArgument, &said);
}
