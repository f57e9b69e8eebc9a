//! Replicas of several tasks: the first trains, and the layers of the model are dealt to all.

use std::collections::BTreeSet;
use std::fs;

use trainyard::cluster::Role;
use trainyard::experiment::{Experiment, Trial};
use trainyard::prelude::*;
use trainyard::training::train;

use crate::support::binary::{folder, trainyard};
use crate::support::simulated::weights;

/// A synchronous training of two replicas, each of `tasks` tasks.
fn scenario(model: &str, tasks: u32, more: &str) -> String {
    let workers = 2 * tasks;
    format!(
        "seed = 3\n[cluster]\nps = 1\nworker = {workers}\n\
         [replicas]\nworker = {{ tasks = {tasks} }}\n\
         [program]\n{model}\ndataset = \"digits\"\nbatch = 16\n[stop]\nsteps = 20\n\
         {more}\n[[run]]\nname = \"sync\"\nmode = \"sync\"\n"
    )
}

fn trial(model: &str, tasks: u32, more: &str) -> Trial {
    Experiment::parse(scenario(model, tasks, more)).unwrap().trials().unwrap().remove(0)
}

const MLP: &str = "model = \"mlp\"\nhidden = [24, 16]";

#[test]
fn layers_dealt_to_the_tasks_of_a_replica_learn_the_same_to_the_last_bit() {
    for model in [MLP, "model = \"convnet\""] {
        let alone = weights(&trial(model, 1, ""));
        for tasks in [2, 3] {
            assert_eq!(weights(&trial(model, tasks, "")), alone, "{model}, {tasks} tasks");
        }
    }
}

#[test]
fn each_task_of_a_replica_computes_a_part_of_each_step() {
    let trial = trial(MLP, 3, "");
    let simulated = trial.simulate(&train);
    let trained: BTreeSet<u32> =
        simulated.recording.steps().map(|step| step.worker.index()).collect();
    assert_eq!(trained, [0, 3].into());
    for (task, sent) in simulated.outcome.sent.iter().filter(|(task, _)| task.job() == "worker") {
        assert!(sent.steps > 20 * 16 * 10 * 4, "{task} sent {} bytes", sent.steps);
    }
}

#[test]
fn a_helper_that_dies_and_comes_back_changes_no_weight() {
    let run = |more: &str| {
        let slow = "[compute]\nstep_time = { law = \"constant\", value = \"10ms\" }\n";
        let simulated = trial(MLP, 2, &format!("{slow}{more}")).simulate(&train);
        simulated.outcome.result.unwrap();
        (simulated.recording.ending.unwrap().weights_digest, simulated.outcome.ended)
    };
    let crash = "[[fault]]\nat = \"55ms\"\ncrash = \"worker:1\"\nrestart_after = \"20ms\"\n";
    let ((hit, late), (spared, early)) = (run(crash), run(""));
    assert_eq!(hit, spared);
    assert!(late > early, "the fault has cost no time: {late:?}, {early:?}");
}

#[test]
fn launched_as_processes_they_learn_what_one_task_a_replica_learns() {
    let path = folder("replicas").join("scenario.toml");
    fs::write(&path, scenario(MLP, 2, "")).unwrap();
    let said = trainyard(&["launch", path.to_str().unwrap(), "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let digest = format!("{:016x}", weights(&trial(MLP, 1, "")));
    assert_eq!(result["runs"][0]["weights_digest"].as_str(), Some(&*digest));
}

#[test]
fn replicas_that_cannot_be_are_refused_by_their_key() {
    let refused = |text: String| Experiment::parse(text).map(drop).unwrap_err().to_string();
    let of = |section: &str| scenario(MLP, 1, "").replace("worker = { tasks = 1 }", section);
    for (section, why) in [
        ("ps = { tasks = 1 }", "only the jobs `worker`, `chief` and `master` have replicas"),
        ("worker = { tasks = 0 }", "replicas.worker.tasks"),
        (
            "worker = { tasks = 3 }",
            "2 tasks of `worker` can't be shared out to replicas of 3 tasks",
        ),
        ("chief = { tasks = 1 }", "the cluster has no job `chief`"),
    ] {
        let said = refused(of(section));
        assert!(said.contains(why), "{section}: {said}");
    }
    let null = refused(scenario("model = \"null\"", 2, "").replace("dataset = \"digits\"\n", ""));
    assert!(null.contains("the layers of a model are dealt to a replica's tasks"), "{null}");
}

/// Names the devices of its replica.
async fn names_its_devices(task: Task) -> Result<()> {
    let devices: Vec<String> = task.replica_devices().iter().map(ToString::to_string).collect();
    match (task.role(), task.index()) {
        (Role::Worker, 2) => {
            assert_eq!(devices, ["/job:worker/task:2", "/job:worker/task:3"]);
            assert_eq!(task.replica().unwrap().worker, 1);
        }
        (Role::Helper, 1 | 3) | (Role::Worker, 0) | (Role::ParameterServer, 0) => {}
        (role, index) => panic!("task {index} is {role:?}"),
    }
    Ok(())
}

#[test]
fn a_program_finds_the_devices_of_its_replica() {
    let simulated = trial(MLP, 2, "").simulate(&names_its_devices);
    simulated.outcome.result.unwrap();
}
