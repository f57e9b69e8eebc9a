//! Each caution is said where its setting does nothing, and nowhere else.

use super::*;
use crate::experiment::Experiment;

/// What is said of a simulation of two workers in `mode`, of 200 steps unless `stop` says more,
/// with `more` keys.
fn said_of(mode: &str, stop: &str, more: &str) -> Vec<String> {
    let text = format!("{more}\n[stop]\nsteps = 200\n{stop}\n[[run]]\nname = 'a'\nmode = {mode}\n");
    let trials = Experiment::parse(text).unwrap().trials().unwrap();
    cautions(&trials, World::Simulation, true).into_iter().collect()
}

/// What is said of a learning rate.
fn said_of_rate(mode: &str, rate: &str) -> Vec<String> {
    said_of(mode, "", &format!("program.optimizer.learning_rate = {{ {rate} }}"))
}

const NOTHING: [String; 0] = [];

#[track_caller]
fn assert_says(said: &[String], says: &str) {
    assert!(said.len() == 1 && said[0].contains(says), "{said:?} does not say `{says}`");
}

#[test]
fn a_tree_of_a_number_of_towers_that_is_no_power_of_two_is_warned_of() {
    let of = |reduce: &str, workers: u32| {
        let more = format!("cluster.worker = {workers}\nprogram.all_reduce = '{reduce}'");
        said_of("'sync'", "", &more)
    };
    for workers in [3, 5, 6] {
        let says = format!("run `a`: `all_reduce = \"tree\"` of {workers}");
        assert_says(&of("tree", workers), &says);
    }
    for (reduce, workers) in [("tree", 2), ("tree", 8), ("ring", 3)] {
        assert_eq!(of(reduce, workers), NOTHING);
    }
}

#[test]
fn a_learning_rate_that_is_0_for_most_of_the_run_is_warned_of() {
    let cosine = |mode: &str, steps: u64, more: &str| {
        let rate = format!("schedule = 'cosine', initial = 0.1, decay_steps = {steps}{more}");
        said_of_rate(mode, &rate)
    };
    assert_says(&cosine("'sync'", 20, ""), "is 0 from step 20 on, and the run has up to 200");
    for steps in [190, 200, 2000] {
        assert_eq!(cosine("'sync'", steps, ""), NOTHING);
    }
    assert_eq!(cosine("'sync'", 20, ", alpha = 0.1"), NOTHING);
    let local = "{ local_sgd = { every = 5 } }";
    assert_says(&cosine(local, 200, ""), "up to 1000 steps of each worker");
    assert_eq!(cosine(local, 1000, ""), NOTHING);
    let polynomial = "schedule = 'polynomial', initial = 0.1, decay_steps = 20, end = 0.0";
    assert_says(&said_of_rate("'async'", polynomial), "an `end` above 0");
    assert_eq!(said_of_rate("'async'", &format!("{polynomial}, cycle = true")), NOTHING);
    let shapes = "compute.numerics = 'shapes'\nprogram.optimizer.learning_rate = \
                  { schedule = 'cosine', initial = 0.1, decay_steps = 20 }";
    assert_eq!(said_of("'sync'", "", shapes), NOTHING, "nothing is learnt anyway");
}

#[test]
fn a_schedule_whose_first_change_or_whose_warm_up_comes_after_the_run_is_warned_of() {
    let steps = |first: u64| {
        let rate = format!(
            "schedule = 'piecewise_constant', boundaries = [{first}, 1000], \
             values = [0.1, 0.05, 0.01]"
        );
        said_of_rate("'async'", &rate)
    };
    assert_says(&steps(500), "run `a`: the learning rate first changes at step 500");
    assert_eq!(steps(150), NOTHING);
    let warm = |steps: u64| {
        said_of_rate(
            "'sync'",
            &format!("schedule = 'constant', initial = 0.1, warmup_steps = {steps}"),
        )
    };
    assert_says(&warm(2000), "warm-up takes 2000 steps");
    assert_eq!(warm(200), NOTHING);
}

#[test]
fn a_look_that_never_comes_is_warned_of() {
    let of = |stop: &str| said_of("'sync'", stop, "program.batch = 8");
    assert_says(&of("evaluate_every = 1000"), "`stop.evaluate_every = 1000` has no effect");
    assert_says(&of("evaluate_every_samples = 1_000_000"), "200 global steps of 16 samples");
    for stop in ["evaluate_every = 100", "evaluate_every_samples = 1000", "accuracy = 0.5"] {
        assert_eq!(of(stop), NOTHING);
    }
    let other_program = |more: &str| {
        let text = format!("[stop]\nsteps = 2\nevaluate_every = 9\n{more}");
        let trials = Experiment::parse(text).unwrap().trials().unwrap();
        cautions(&trials, World::Simulation, false)
    };
    assert!(other_program("").is_empty(), "another program may look when it likes");
}

#[test]
fn hardware_that_the_built_in_trainer_leaves_idle_is_warned_of() {
    let of = |more: &str| said_of("'sync'", "", more);
    assert_says(&of("gpus.worker.count = 4"), "worker:0 has 4 GPUs, and the built-in trainer");
    assert_eq!(of("gpus.worker.count = 4\nprogram.towers = 4"), NOTHING);
    assert_says(&of("compute.devices = 4"), "`compute.devices = 4` has no effect");
    assert_says(&of("cluster = { ps = 1, worker = 2, gpu_box = 1 }"), "job `gpu_box`");
    let racks = |hosts: u32| {
        of(&format!("network.racks = {{ hosts_per_rack = {hosts}, uplink = '1Gbps' }}"))
    };
    assert_says(&racks(100), "all 3 hosts are in one rack of 100");
    assert_eq!(racks(2), NOTHING);
    let cost = "compute.stop_cost = '5ms'";
    assert_says(&of(cost), "`stop_cost` has no effect");
    let faults = "[[fault]]\nat = '1ms'\ncrash = 'worker:1'\nrestart_after = '1ms'";
    assert_eq!(of(&format!("{cost}\n{faults}")), NOTHING);
    let cancels = "{ sync = { backups = 1, cancel = true } }";
    assert_eq!(said_of(cancels, "", cost), NOTHING);
    let both = format!("[[run]]\nmode = {cancels}");
    assert_eq!(said_of(&format!("'sync'\n{both}"), "", cost), NOTHING, "one run stops steps");
}

#[test]
fn a_lognormal_law_by_which_kernels_take_next_to_no_time_is_warned_of() {
    let of = |law: &str| said_of("'sync'", "", &format!("compute.{law}"));
    let endless = of("straggler = { law = 'lognormal', sigma = 6 }");
    assert_says(
        &endless,
        "run `a`: with `sigma = 6` half of a lognormal law's draws are below 2e-8",
    );
    let own = "tasks.\"worker:1\".step_time = { law = 'lognormal', mean = '1s', sigma = 4 }";
    assert_says(&of(own), "`sigma = 4`");
    for law in [
        "straggler = { law = 'lognormal', sigma = 3 }",
        "straggler = { law = 'lognormal', sigma = 9, shift = 1 }",
        "straggler = { law = 'pareto', scale = 1, shape = 0.5 }",
    ] {
        assert_eq!(of(law), NOTHING);
    }
}

#[test]
fn a_partitioner_that_can_cut_nothing_is_warned_of() {
    let of = |cut: &str| said_of("'sync'", "", &format!("program.partitioner = {{ {cut} }}"));
    let whole = of("min_max = { max_partitions = 4 }");
    assert_says(&whole, "all variables together have 2600 bytes");
    assert_eq!(of("min_max = { max_partitions = 4, min_slice = '1kB' }"), NOTHING);
    assert_says(&of("variable_axis_size = { max_shard = '1MB' }"), "`program.partitioner`");
    assert_eq!(of("fixed_size = 4"), NOTHING);
}

#[test]
fn no_scenario_of_this_project_is_warned_of() {
    let sims = concat!(env!("CARGO_MANIFEST_DIR"), "/sims");
    // Their programs are their own: executors, operations on a job, a rule.
    let of_others = ["coordinator.toml", "in_graph.toml", "own_operation.toml"];
    let mut read = 0;
    for file in std::fs::read_dir(sims).unwrap() {
        let path = file.unwrap().path();
        let is_scenario = path.extension().is_some_and(|is| is == "toml");
        if !is_scenario || of_others.iter().any(|other| path.ends_with(other)) {
            continue;
        }
        let trials = Experiment::load(&path).unwrap().trials().unwrap();
        for world in [World::Simulation, World::Deployment] {
            let said = cautions(&trials, world, true);
            assert!(said.is_empty(), "{}: {said:?}", path.display());
        }
        read += 1;
    }
    assert!(read > 10, "{read} scenarios were read");
}

#[test]
fn a_deployment_is_not_warned_of_the_hardware_of_a_simulation() {
    let text = "compute.devices = 4\n[program]\nmodel = 'softmax'\n[stop]\nsteps = 2\n";
    let trials = Experiment::parse(text).unwrap().trials().unwrap();
    assert_eq!(cautions(&trials, World::Simulation, true).len(), 1);
    assert!(cautions(&trials, World::Deployment, true).is_empty());
}

#[test]
fn parameter_servers_of_an_all_reduce_are_warned_of() {
    let of = |more: &str| said_of("'sync'", "", more);
    let reduce = "cluster.worker = 2\nprogram.all_reduce = 'ring'";
    assert_says(&of(&format!("cluster.ps = 2\n{reduce}")), "the job `ps` do nothing: ");
    assert_eq!(of(reduce), NOTHING);
    assert_eq!(of("program.all_reduce = 'ring'"), NOTHING, "there is no default one");
    assert_eq!(of("cluster.ps = 2\ncluster.worker = 2"), NOTHING);
}

#[test]
fn variables_that_nothing_changes_in_a_training_by_the_loss_of_a_graph_are_warned_of() {
    let of = |mode: &str, more: &str| {
        let graph = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/graphdefs/averages.pb");
        let own = format!(
            "[program]\ngraph_def = '{graph}'\nloss = 'loss'\n{more}\n\
             inputs = {{ images = 'images', labels = 'labels' }}"
        );
        said_of(mode, "", &own)
    };
    let by_ours = of("'sync'", "accuracy = 'accuracy'\noptimizer = 'adam'");
    assert_says(&by_ours, "run `a`: the variables `mean` keep their first values");
    assert_eq!(of("'async'", "accuracy = 'accuracy'\ntrain = 'train'"), NOTHING);
    assert_eq!(of("'sync'", "optimizer = 'adam'"), NOTHING, "`loss` reads none");
}
