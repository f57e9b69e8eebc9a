//! Mirrored towers on the workers' tasks, whose gradients are summed by all-reduce.

use std::fs;
use std::sync::Arc;

use trainyard::checkpoint::Memory;
use trainyard::cluster::TaskName;
use trainyard::experiment::{Experiment, Simulated, Trial};
use trainyard::simulation::Activity;
use trainyard::training::{Checkpointing, SecondOrStepTimer, train};

use crate::support::binary::{folder, trainyard};
use crate::support::simulated::weights;

const WAYS: [&str; 4] = ["ring", "tree", "shuffle", "hierarchical"];
const ADAM: &str = "optimizer = { rule = \"adam\", learning_rate = 0.01, clip_global_norm = 0.5 }";

/// The global steps of each training.
const STEPS: u64 = 8;

/// A synchronous training of workers, by parameter servers unless `program` says otherwise.
fn scenario(workers: u32, program: &str, more: &str) -> String {
    let ps = if program.contains("all_reduce") { "" } else { "ps = 1\n" };
    format!(
        "seed = 3\n[cluster]\n{ps}worker = {workers}\n\
         [program]\nmodel = \"mlp\"\nhidden = [24, 16]\ndataset = \"digits\"\nbatch = 16\n\
         {program}\n\
         [stop]\nsteps = {STEPS}\n{more}\n[[run]]\nname = \"sync\"\nmode = \"sync\"\n"
    )
}

fn trial(workers: u32, program: &str, more: &str) -> Trial {
    Experiment::parse(scenario(workers, program, more)).unwrap().trials().unwrap().remove(0)
}

fn by(way: &str, optimizer: &str) -> String {
    format!("all_reduce = \"{way}\"\n{optimizer}")
}

const RULES: [&str; 3] = [
    "optimizer = { rule = \"momentum\", learning_rate = 0.1 }",
    "optimizer = { rule = \"adagrad\", learning_rate = 0.05 }",
    "optimizer = { rule = \"adam\", learning_rate = 0.01 }",
];

#[test]
fn two_workers_learn_in_every_way_what_a_parameter_server_teaches_them_to_the_last_bit() {
    for rule in RULES {
        let expected = weights(&trial(2, rule, ""));
        for way in WAYS {
            assert_eq!(weights(&trial(2, &by(way, rule), "")), expected, "{way}, {rule}");
        }
    }
}

#[test]
fn what_an_update_of_a_workers_mirrors_takes_longer_its_kernels_take_longer() {
    let times = |rule: &str| {
        let slow = "[compute]\nmemory = \"100MB/s\"";
        let simulated = trial(2, &by("ring", rule), slow).simulate(&train);
        let last = simulated.recording.steps().last().unwrap();
        let whole = last.ended.since(last.started);
        [whole, last.compute_time().unwrap()].map(|time| time.as_secs_f64())
    };
    let descent = times("optimizer = { rule = \"gradient_descent\", learning_rate = 0.1 }");
    let adam = times(RULES[2]);
    let [whole, computed] = [0, 1].map(|part| adam[part] - descent[part]);
    assert!(whole > 1e-4 && (computed / whole - 1.0).abs() < 0.05, "{computed} of {whole} s");
}

/// Bounds that most gradients exceed.
const CLIPPED: [&str; 3] = [
    "optimizer = { rule = \"adagrad\", learning_rate = 0.05, clip_global_norm = 0.1 }",
    "optimizer = { rule = \"momentum\", learning_rate = 0.1, clip_norm = 0.05 }",
    "optimizer = { rule = \"adagrad\", learning_rate = 0.05, clip_value = 0.002 }",
];

#[test]
fn each_workers_gradients_are_clipped_before_they_are_summed_as_they_are_before_they_are_sent() {
    for rule in CLIPPED {
        for (workers, ways) in [(2, &WAYS[..]), (3, &["shuffle"])] {
            let expected = weights(&trial(workers, rule, ""));
            for way in ways {
                let reduced = weights(&trial(workers, &by(way, rule), ""));
                assert_eq!(reduced, expected, "{workers}, {way}, {rule}");
            }
        }
    }
}

#[test]
fn of_towers_on_the_gpus_of_a_worker_the_mean_is_clipped_as_it_is_before_it_is_sent() {
    for rule in CLIPPED {
        for workers in [1, 2] {
            let expected = weights(&trial(workers, &format!("towers = 2\n{rule}"), GPUS));
            for way in WAYS {
                let mirrored = format!("towers = 2\n{}", by(way, rule));
                let reduced = weights(&trial(workers, &mirrored, GPUS));
                assert_eq!(reduced, expected, "{workers}, {way}, {rule}");
            }
        }
    }
}

/// The seconds of a step of 8 workers with two layers of `hidden`, beyond the second that
/// `worker:3` computes in it; the others compute for `others`.
fn behind_one(way: &str, hidden: u32, others: &str) -> f64 {
    let text = format!(
        "seed = 3\n[cluster]\nworker = 8\n\
         [network]\nlatency = \"0us\"\nbandwidth = \"8Gbps\"\nmessage_cost = \"0us\"\n\
         [compute]\nrate = \"1000000TFLOP/s\"\nmemory = \"1000000TB/s\"\n\
         numerics = \"shapes\"\n\
         step_time = {{ law = \"constant\", value = \"{others}\" }}\n\
         [compute.tasks.\"worker:3\"]\n\
         step_time = {{ law = \"constant\", value = \"1s\" }}\n\
         [program]\nmodel = \"mlp\"\nhidden = [{hidden}, {hidden}]\nbatch = 16\n\
         all_reduce = \"{way}\"\n[stop]\nsteps = 5\n[[run]]\nmode = \"sync\"\n"
    );
    let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let simulated = trial.simulate(&train);
    let last = simulated.recording.steps().last().expect("it takes five steps");
    last.ended.since(last.started).as_secs_f64() - 1.0
}

/// The seconds in which 68 MB are summed by a ring or a tree of 8 workers, at 1 GB/s.
const CLOSED_FORM: f64 = 2.0 * 7.0 / 8.0 * 0.0682;

#[test]
fn a_ring_behind_a_straggler_takes_a_rings_time_from_when_that_one_begins() {
    let seconds = |hidden: u32, others: &str| behind_one("ring", hidden, others);
    let (alike, behind) = (seconds(4096, "1s"), seconds(4096, "500ms"));
    assert!((0.95..1.05).contains(&(alike / CLOSED_FORM)), "{alike} s of {CLOSED_FORM} s");
    assert!((0.95..1.05).contains(&(behind / alike)), "{alike} s alike, {behind} s behind one");
    // Pieces that have waited for the straggler leave at once, each in an envelope of its own.
    let (alike, behind) = (seconds(1024, "1s"), seconds(1024, "500ms"));
    assert!(behind < 1.4 * alike, "of 0.5 MB: {alike} s alike, {behind} s behind one");
}

#[test]
fn a_tree_behind_a_straggler_takes_a_trees_time_from_when_that_one_begins() {
    let (alike, behind) = (behind_one("tree", 4096, "1s"), behind_one("tree", 4096, "500ms"));
    assert!((0.95..1.05).contains(&(alike / CLOSED_FORM)), "{alike} s of {CLOSED_FORM} s");
    assert!((0.95..1.05).contains(&(behind / alike)), "{alike} s alike, {behind} s behind one");
}

#[test]
fn any_number_of_workers_learns_by_shuffle_what_a_parameter_server_teaches_it() {
    for workers in [1, 3, 4, 7] {
        let expected = weights(&trial(workers, RULES[1], ""));
        assert_eq!(weights(&trial(workers, &by("shuffle", RULES[1]), "")), expected, "{workers}");
    }
}

#[test]
fn each_way_repeats_itself_and_every_task_computes_its_part() {
    for way in WAYS {
        let trial = trial(5, &by(way, ADAM), "");
        let simulated = trial.simulate(&train);
        simulated.outcome.result.unwrap();
        let again = trial.simulate(&train);
        assert_eq!(simulated.outcome.digest, again.outcome.digest, "{way}");
        for task in (0..5).map(|index| TaskName::new("worker", index)) {
            let usage = &simulated.outcome.usage[&task];
            assert!(!usage.of(Activity::Kernels).is_zero(), "{way}: {task} computes nothing");
        }
        let steps = simulated.recording.steps();
        let last = steps.clone().last().unwrap();
        assert_eq!((steps.count() as u64, last.global_step), (STEPS, STEPS));
    }
}

/// The rows of an embedding's table that a batch names, and variables in shards.
#[test]
fn rows_and_shards_have_mirrors_too() {
    let embedding = |workers: u32, program: &str| {
        let text =
            scenario(workers, program, "").replace("model = \"mlp\"", "model = \"embedding\"");
        let text = text.replace("dataset = \"digits\"\n", "");
        Experiment::parse(text).unwrap().trials().unwrap().remove(0)
    };
    for rule in [RULES[1], CLIPPED[0], CLIPPED[2]] {
        for (workers, ways) in [(2, &["ring", "shuffle"][..]), (3, &["shuffle"]), (5, &["shuffle"])]
        {
            let expected = weights(&embedding(workers, rule));
            for way in ways {
                let reduced = weights(&embedding(workers, &by(way, rule)));
                assert_eq!(reduced, expected, "{workers}, {way}, {rule}");
            }
        }
    }
    let shards = "partitioner = { fixed_size = 3 }\n";
    let expected = weights(&trial(2, RULES[1], ""));
    assert_eq!(weights(&trial(2, &format!("{shards}{}", by("ring", RULES[1])), "")), expected);
}

/// Two GPUs a worker.
const GPUS: &str =
    "[gpus.worker]\ncount = 2\nhost = { latency = \"10us\", bandwidth = \"12GB/s\" }\n";

#[test]
fn towers_on_gpus_reduce_within_their_worker_first_and_learn_what_shared_towers_learn() {
    let towers = format!("towers = 2\n{}", RULES[1]);
    let expected = weights(&trial(1, &towers, GPUS));
    for way in WAYS {
        let mirrored = format!("towers = 2\n{}", by(way, RULES[1]));
        assert_eq!(weights(&trial(1, &mirrored, GPUS)), expected, "{way}");
        weights(&trial(3, &mirrored, GPUS));
    }
}

/// A training that takes 10 ms a step and more.
const SLOW: &str = "[compute]\nstep_time = { law = \"constant\", value = \"10ms\" }\n\
                    [network]\nsilence = \"50ms\"\nrecovery = \"2s\"\n";

#[test]
fn a_worker_that_dies_and_comes_back_costs_time_and_no_weight_even_without_checkpoints() {
    let program = by("ring", ADAM);
    let spared = trial(3, &program, SLOW).simulate(&train);
    spared.outcome.result.unwrap();
    let expected = spared.recording.ending.unwrap().weights_digest;
    // At many moments of a step: while it computes, reduces, updates, and begins the next.
    for micros in (50_000..64_000).step_by(1400) {
        let crash = format!(
            "{SLOW}[[fault]]\nat = \"{micros}us\"\ncrash = \"worker:1\"\nrestart_after = \"30ms\"\n"
        );
        let hit = trial(3, &program, &crash).simulate(&train);
        hit.outcome.result.unwrap();
        assert!(hit.outcome.ended > spared.outcome.ended, "the fault has cost no time");
        assert_eq!(hit.recording.ending.unwrap().weights_digest, expected, "{micros} us");
    }
}

#[test]
fn a_worker_that_does_not_come_back_is_gone_on_without() {
    for way in WAYS {
        let crash = format!("{SLOW}[[fault]]\nat = \"55ms\"\ncrash = \"worker:2\"\n");
        let trial = trial(4, &by(way, ADAM), &crash);
        let hit = trial.simulate(&train);
        hit.outcome.result.unwrap();
        assert_eq!(hit.recording.steps().map(|it| it.global_step).max(), Some(STEPS), "{way}");
        assert!(hit.recording.ending.unwrap().weights_digest.is_some());
        let again = trial.simulate(&train);
        assert_eq!(again.outcome.digest, hit.outcome.digest, "{way}");
    }
}

#[test]
fn a_worker_that_comes_back_after_the_others_have_formed_anew_is_taken_in_as_often_as_it_does() {
    let slow = SLOW.replace("recovery = \"2s\"", "recovery = \"200ms\"");
    let of = |way: &str, again: &str| {
        let mut faults = slow.clone();
        for at in ["55ms", "1500ms"] {
            faults += &format!("[[fault]]\nat = \"{at}\"\ncrash = \"worker:2\"\n{again}\n");
        }
        let mut trial = trial(3, &by(way, ADAM), &faults);
        trial.settings.stop.steps = Some(200);
        trial.simulate(&train)
    };
    for way in WAYS {
        let (gone, back) = (of(way, ""), of(way, "restart_after = \"400ms\""));
        let computed = |hit: &Simulated| {
            let last = hit.recording.steps().last().unwrap();
            assert_eq!((hit.outcome.result.is_ok(), last.global_step), (true, 200), "{way}");
            let usage = &hit.outcome.usage[&TaskName::new("worker", 2)];
            usage.of(Activity::Kernels).as_secs_f64() / 10e-3
        };
        let steps = [computed(&gone), computed(&back)];
        // It computes all but the steps that the others take while it is away.
        assert!(steps[0] < 10.0 && steps[1] > 150.0, "{way}: {steps:?}");
        let again = of(way, "restart_after = \"400ms\"");
        assert_eq!(again.outcome.digest, back.outcome.digest, "{way}");
    }
}

#[test]
fn checkpoints_are_those_of_a_training_by_parameter_servers() {
    let until = |program: &str, steps: u64, store: &Memory| {
        let mut trial = trial(2, program, "");
        trial.settings.stop.steps = Some(steps);
        let every = SecondOrStepTimer::every_steps(2);
        let own = Checkpointing::new(Arc::new(store.clone()));
        trial.checkpointing = Some(Checkpointing { every, ..own });
        weights(&trial)
    };
    let (servers, mirrors) = (RULES[2].to_owned(), by("tree", RULES[2]));
    let shards = format!("partitioner = {{ fixed_size = 3 }}\n{servers}");
    let expected = weights(&trial(2, &servers, ""));
    for (first, second) in [
        (&servers, &mirrors),
        (&mirrors, &servers),
        (&mirrors, &mirrors),
        (&shards, &mirrors),
        (&mirrors, &shards),
    ] {
        let store = Memory::default();
        until(first, STEPS / 2, &store);
        assert_eq!(until(second, STEPS, &store), expected, "{first}, then {second}");
    }
}

#[test]
fn launched_as_processes_they_learn_what_the_simulation_says() {
    let path = folder("all_reduce").join("scenario.toml");
    fs::write(&path, scenario(3, &by("hierarchical", ADAM), "")).unwrap();
    let said = trainyard(&["launch", path.to_str().unwrap(), "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let expected = format!("{:016x}", weights(&trial(3, &by("hierarchical", ADAM), "")));
    assert_eq!(result["runs"][0]["weights_digest"].as_str(), Some(&*expected));
}

#[test]
fn what_can_not_be_reduced_is_refused_by_its_key() {
    let refused = |text: String| Experiment::parse(text).map(drop).unwrap_err().to_string();
    let of = |more: &str| scenario(2, &by("ring", ""), more);
    for (text, why) in [
        (of("[replicas]\nworker = { tasks = 2 }\n"), "replicas: with `program.all_reduce`"),
        (of("").replace("worker = 2", "worker = 2\nchief = 1"), "the tasks of one job"),
        (of("").replace("mode = \"sync\"", "mode = \"async\""), "set `mode = \"sync\"`"),
        (of("[network]\ncompression = \"bf16\"\n"), "remove the compression"),
        (of("").replace("\"mlp\"\nhidden = [24, 16]", "\"null\""), "have no towers"),
        (of("").replace("\"ring\"", "\"rings\""), "did you mean `ring`?"),
    ] {
        let said = refused(text);
        assert!(said.contains(why), "{why}: {said}");
    }
}
