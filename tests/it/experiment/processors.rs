//! Tasks that share a machine, and what their messages cost, through whole trainings.

use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::report::Report;
use trainyard::training::{RunSettings, train};

use crate::support::simulated::assert_near;

const CALIBRATION: &str = "[calibration]\nsend = { fixed = '8us', per_byte = '0.7ns' }\n\
     receive = { fixed = '8us', per_byte = '0.6ns' }\nwake = '20us'\noperation = '0.5us'\n\
     hand_over = '10us'\n";

#[test]
fn workers_that_share_cores_take_their_number_over_the_cores_times_as_long() -> Result<()> {
    for (cores, expected) in [(1, 0.04), (2, 0.02), (3, 0.04 / 3.0), (4, 0.01), (8, 0.01)] {
        let text = format!(
            "[cluster]\nps = 1\nworker = 4\n[hosts]\ntasks_per_host = 5\ncores = {cores}\n\
             [network]\nmessage_cost = '0s'\n[calibration]\nloopback = {{ latency = '1ns' }}\n\
             [compute]\nstep_time = {{ law = 'constant', value = '10ms' }}\n\
             [program]\nmodel = 'null'\n[stop]\nsteps = 40\n[[run]]\nname = 'a'\nmode = 'sync'\n"
        );
        let report = Experiment::parse(text)?.simulate(train)?;
        let median = report.run("a")?.step_seconds.unwrap().p50;
        assert_near(&format!("on {cores} cores"), median, expected, 0.01);
    }
    Ok(())
}

/// A training of one worker whose kernels spread, on a host of 4 cores that it has to itself.
fn of_large_kernels(program: &str) -> String {
    format!(
        "[cluster]\nworker = 1\n[hosts]\ntasks_per_host = 1\ncores = 4\n\
         [compute]\nnumerics = 'shapes'\n\
         [program]\nmodel = 'mlp'\nhidden = [4096]\nbatch = 512\n{program}\
         [stop]\nsteps = 5\n[[run]]\nname = 'a'\nmode = 'sync'\n"
    )
}

#[test]
fn kernels_that_spread_take_as_much_longer_as_there_are_fewer_cores_for_them() -> Result<()> {
    let step = |program: &str| -> Result<f64> {
        let report = Experiment::parse(of_large_kernels(program))?.simulate(train)?;
        Ok(report.run("a")?.step_seconds.unwrap().p50)
    };
    let all = step("")?;
    for (cores, factor) in [(1, 4.0), (2, 2.0), (4, 1.0), (64, 1.0)] {
        let seconds = step(&format!("num_cores = {cores}\n"))?;
        assert_near(&format!("{cores} cores"), seconds / all, factor, 0.05);
    }
    let own = Experiment::parse(of_large_kernels("num_cores = 1\n"))?.simulate(with_two_cores)?;
    assert_near("the program's", own.run("a")?.step_seconds.unwrap().p50 / all, 2.0, 0.05);
    Ok(())
}

/// The built-in trainer on two cores, whatever the scenario says.
async fn with_two_cores(task: Task) -> Result<()> {
    train(task.with_settings(RunSettings::new().num_cores(2))).await
}

#[test]
fn synchronous_weights_do_not_depend_on_processors_and_any_run_repeats() -> Result<()> {
    let run = |sections: &str| -> Result<Report> {
        let text = format!(
            "seed = 3\n[cluster]\nps = 2\nworker = 3\n{sections}[stop]\nsteps = 30\n\
             [[run]]\nname = 'sync'\nmode = 'sync'\n[[run]]\nname = 'async'\nmode = 'async'\n"
        );
        Ok(Experiment::parse(text)?.simulate(train)?)
    };
    let hosts = "[hosts]\ntasks_per_host = 3\ncores = 2\n";
    let (plain, shared) = (run("")?, run(&format!("{hosts}{CALIBRATION}"))?);
    let weights = |report: &Report, name: &str| report.run(name).unwrap().weights_digest.clone();
    assert_eq!(weights(&plain, "sync"), weights(&shared, "sync"));
    let again = run(&format!("{hosts}{CALIBRATION}"))?;
    for name in ["sync", "async"] {
        assert_eq!(shared.run(name)?.digest, again.run(name)?.digest);
        assert!(shared.run(name)?.seconds > plain.run(name)?.seconds);
    }
    Ok(())
}
