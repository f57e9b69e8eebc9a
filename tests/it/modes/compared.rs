//! The scenario that compares the modes: each reaches its target; and what staleness does to an
//! update, in numbers.

use std::process::Command;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trainyard::prelude::*;
use trainyard::simulation::Law;
use trainyard::sync::Mode;
use trainyard::units::Time;

use crate::support::binary::{scenario, trainyard};
use crate::support::fixture::matrix;
use crate::support::simulated::Simulated;

#[test]
fn every_mode_reaches_the_target_and_accounts_for_its_gradients_and_its_bytes() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    let output = command.args(["sim", "sims/modes.toml", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 14);
    for run in runs {
        let name = run["name"].as_str().unwrap();
        assert!(run["seconds_to_target"].as_f64().is_some(), "{name} did not reach the target");
        let gradients = |what: &str| run["gradients"][what].as_u64().unwrap();
        let begun = gradients("computed") + gradients("stopped");
        assert_eq!(begun, gradients("applied") + gradients("dropped"), "{name}");
        assert_eq!(gradients("stopped") > 0, name.contains("cancelling"), "{name}");
        assert!(
            run["bytes_sent"].as_object().unwrap().values().all(|bytes| bytes.as_u64() > Some(0)),
            "{name}"
        );
    }
}

const RATE: f32 = 0.5;

/// What a program of the worked example saw: the late step's staleness, and the variable at the
/// end.
type Seen = Arc<Mutex<(i64, Vec<f32>)>>;

/// Descends on half the square of a variable of two rows, or of its row 1 alone. The first worker
/// takes three steps while the second takes one.
async fn descend(server: Rc<Server>, task: Task, by_rows: bool, seen: Seen) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let (v, _) = g.with_device("/job:ps/task:0", |g| {
        Ok((g.variable("v", &g.constant(matrix(2, 1, &[1.0, 1.0])))?, g.global_step()?))
    })?;
    let read =
        if by_rows { v.gather(&g.constant(Tensor::new([1], &[1i64]).unwrap()))? } else { v.read() };
    let loss = read.square().sum().mul(&g.constant(0.5f32))?;
    let train = task.minimize(GradientDescent::new(RATE), &loss)?;
    let mut session = MonitoredSession::builder(&task, g.clone()).open().await?;
    let all_begin = Time::ZERO.after(Duration::from_secs(60));
    server.clock().sleep_until(all_begin).await;
    let steps = if task.index() == 0 { 3 } else { 1 };
    for _ in 0..steps {
        let told = session.run().target(&train).fetch(&train.staleness()).await?;
        seen.lock().unwrap().0 = told.scalar(0)?;
    }
    server.clock().sleep_until(all_begin.after(Duration::from_secs(1))).await;
    if task.index() == 0 {
        let own = Session::new(&task.target(), &g).await?;
        let value = own.run().fetch(&v.read_again()).await?;
        seen.lock().unwrap().1 = value[0].values::<f32>().unwrap().to_vec();
    }
    session.close().await
}

/// Row 1 of the variable after the late gradient.
#[track_caller]
fn after_a_late_gradient(mode: Mode, by_rows: bool) -> f32 {
    let training = Simulated::new(1, 2, mode).step_time(Law::Constant { value: 0.01 }).slow(1, 3.5);
    let seen = Seen::default();
    let trained =
        training.run_on_servers(|server, task| descend(server, task, by_rows, Arc::clone(&seen)));
    assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
    let (staleness, values) = seen.lock().unwrap().clone();
    assert_eq!(staleness, 3, "{mode}: three updates came between");
    assert_eq!(values[0], if by_rows { 1.0 } else { values[1] }, "{mode}");
    values[1]
}

/// The gradient of v²/2 is v. The first worker takes v from 1 to 0.5, 0.25 and 0.125; then comes
/// the second worker's gradient of v = 1, which is 1.
#[test]
fn a_gradient_that_is_3_updates_late_counts_in_full_as_a_third_or_less_what_has_changed() {
    for by_rows in [false, true] {
        let after = |mode| after_a_late_gradient(mode, by_rows);
        assert_eq!(after(Mode::Async), 0.125 - RATE);
        assert_eq!(after(Mode::StalenessAware), 0.125 - RATE / 3.0);
        // 1 + 0.5 * 1 * 1 * (0.125 - 1)
        assert_eq!(after(Mode::DelayCompensated { lambda: 0.5 }), 0.125 - RATE * 0.5625);
        assert_eq!(after(Mode::DelayCompensated { lambda: 0.0 }), 0.125 - RATE);
    }
}

#[test]
fn a_synchronous_training_that_goes_on_with_fewer_workers_says_with_how_many() {
    for (mode, sizes) in
        [("'sync'", "before=3 now=2"), ("{ sync = { backups = 1 } }", "before=2 now=1")]
    {
        let lost = if mode == "'sync'" { 1 } else { 2 };
        let crashes =
            "[[fault]]\nat = '1s'\ncrash = 'worker:1'\n[[fault]]\nat = '2s'\ncrash = 'worker:2'\n";
        let text = format!(
            "[cluster]\nps = 1\nworker = 3\n[compute]\n\
             step_time = {{ law = 'constant', value = '100ms' }}\n\
             [program]\nmodel = 'null'\n[stop]\nsteps = 40\n[[run]]\nmode = {mode}\n{crashes}"
        );
        let said = trainyard(&["sim", &scenario(&format!("shrinks_{lost}"), &text), "-vv"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let line = said
            .err
            .lines()
            .find(|line| line.contains("fewer gradients make an update") && line.contains(sizes));
        assert!(line.is_some_and(|line| line.contains(&format!("worker={lost}"))), "{}", said.err);
    }
}
