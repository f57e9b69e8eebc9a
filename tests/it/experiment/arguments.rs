//! The arguments of a program: what follows `--` on the command line.

use std::sync::Mutex;

use trainyard::experiment::Experiment;
use trainyard::prelude::*;

use crate::support::binary::{scenario, trainyard};

const SMALL: &str = "[cluster]\nps = 1\nworker = 1\n[stop]\nsteps = 2\n";

#[test]
fn every_task_of_a_program_gets_its_arguments() {
    let heard = Mutex::new(Vec::new());
    let trainer = |task: Task| {
        heard.lock().unwrap().push((task.name().to_string(), task.arguments().to_vec()));
        async { Ok(()) }
    };
    let experiment = Experiment::parse(SMALL).unwrap().arguments(["--learning_rate", "0.5"]);
    experiment.simulate(trainer).unwrap();
    let arguments = vec!["--learning_rate".to_owned(), "0.5".to_owned()];
    let of = |task: &str| (task.to_owned(), arguments.clone());
    assert_eq!(heard.into_inner().unwrap(), [of("ps:0"), of("worker:0")]);
}

#[test]
fn the_built_in_trainer_refuses_arguments_in_both_worlds_and_a_misspelt_flag_is_an_error() {
    let path = scenario("program_arguments", SMALL);
    for command in ["sim", "launch"] {
        let said = trainyard(&[command, &path, "--", "--hidden_units=100"]);
        assert_ne!(said.code, 0, "{}", said.out);
        let refused = "`--hidden_units=100`: the built-in trainer takes no arguments";
        assert!(said.err.contains(refused), "{command}: {}", said.err);
        let said = trainyard(&[command, &path, "--hidden_units=100"]);
        assert_eq!(said.code, 2, "{}", said.err);
    }
}
