//! What becomes of runs that end in unusual ways, and when their data are loaded.

use crate::experiment::{Experiment, ExperimentError};
use crate::report::Run;
use crate::training::train;

/// A training of two workers for 5 s, whose chief takes 100 s a step, with `more` keys.
fn run(more: &str) -> Result<Run, ExperimentError> {
    let text = format!(
        "{more}\n[cluster]\nps = 1\nworker = 2\n[compute]\n\
         step_time = {{ law = 'constant', value = '1s' }}\nslow = {{ 'worker:0' = 100.0 }}\n\
         [program]\nmodel = 'softmax'\nbatch = 8\n[stop]\ntime = '5s'\n\
         [[run]]\nname = 'a'\nmode = 'async'\n"
    );
    Ok(Experiment::parse(text)?.simulate(train)?.runs.remove(0))
}

#[test]
fn a_chief_whose_step_takes_longer_than_the_time_and_the_recovery_is_waited_for() {
    let run = run("").unwrap();
    assert!((100.0..102.0).contains(&run.seconds), "{}", run.seconds);
}

#[test]
fn a_chief_that_is_gone_when_the_time_is_up_ends_the_training_with_what_to_do() {
    let error = run("fault = [{ at = '2s', crash = 'worker:0' }]").unwrap_err().to_string();
    for says in ["by `stop.time`, 5s", "its chief, worker:0", "set `network.recovery`, 60s"] {
        assert!(error.contains(says), "`{error}` does not say `{says}`");
    }
}
