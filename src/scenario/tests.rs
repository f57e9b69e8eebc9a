//! Tests of reading scenarios: the meaning of the files. The texts of errors are in `errors` and
//! `contradictions`, `--set` in `changes`.

mod changes;
mod cluster;
mod contradictions;
mod errors;
mod gpus;
mod guide;
mod hosts;
mod network;
mod null;
mod optimizer;
mod words;

use std::num::NonZeroU32;
use std::time::Duration;

use super::*;
use crate::cluster::TaskName;
use crate::graph::LearningRate;
use crate::kernels::KernelKind;
use crate::models::{Embedding, Model};
use crate::optimizer::{AdagradRule, ClipGradients, GradientDescentRule, Optimizer};
use crate::runtime::Patience;
use crate::simulation::{
    ComputeSpec, Damage, Fault, FaultKind, Faults, Law, NetworkSpec, Racks, Trigger,
};
use crate::sync::Mode;
use crate::training::{EvaluatorSettings, Stop};
use crate::units::{BytesPerSecond, FlopsPerSecond, Time};

/// The scenario in `text`, in a file called `sims/example.toml`.
fn example(text: &str) -> Result<Scenario, ScenarioError> {
    parse(text, "sims/example.toml")
}

#[test]
fn the_embedding_scenario_is_of_a_table_of_1_gb_in_a_shard_a_server() {
    let scenario = load(Path::new("sims/embedding.toml"), &[]).unwrap();
    let Model::Embedding(sizes) = scenario.settings.model else { panic!("{scenario:?}") };
    let Embedding { rows, dim, slots, partitions, .. } = sizes;
    assert_eq!((slots, partitions, scenario.dataset), (8, 4, Source::Synthetic));
    assert_eq!(4 * rows * dim, 1_024_000_000);
}

#[test]
fn the_scenario_of_less_traffic_has_a_run_of_each_way() {
    let runs = load(Path::new("sims/less_traffic.toml"), &[]).unwrap().runs;
    let compressed = runs.iter().filter(|run| run.compression != Compression::None).count();
    assert_eq!(
        (runs.len(), compressed, runs.iter().filter(|run| run.mode.copies().is_some()).count()),
        (7, 4, 3)
    );
}

#[test]
fn the_shipped_scenario_means_what_its_comments_say() {
    let scenario = load(Path::new("sims/sync_vs_async.toml"), &[]).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.seed), ("sync-vs-async", 7));
    assert_eq!(scenario.cluster["ps"], Tasks::Count(2));
    assert_eq!(scenario.cluster["worker"], Tasks::Count(8));
    assert_eq!(scenario.hardware.network.latency, Duration::from_micros(50));
    assert_eq!(scenario.hardware.network.bandwidth, BytesPerSecond(1.25e9));
    assert_eq!(scenario.hardware.compute.straggler, Some(Law::Lognormal { mean: 1.0, sigma: 0.3 }));
    assert_eq!(scenario.hardware.slow, BTreeMap::from([(TaskName::new("worker", 3), 2.0)]));
    assert_eq!(scenario.settings.model, Model::Mlp { hidden: vec![128] });
    assert_eq!(
        scenario.settings.optimizer.rule,
        AdagradRule { initial_accumulator_value: 0.1 }.into()
    );
    assert_eq!(scenario.settings.optimizer.learning_rate, 0.05.into());
    assert_eq!(scenario.settings.stop.steps, Some(2000));
    assert_eq!(scenario.settings.stop.time, Some(Duration::from_secs(60)));
    let runs: Vec<_> = scenario.runs.iter().map(|run| (run.name.as_str(), run.mode)).collect();
    let expected = [
        ("sync", Mode::Sync { backups: 0, cancel: false }),
        ("sync, 1 backup", Mode::Sync { backups: 1, cancel: false }),
        ("async", Mode::Async),
        ("ssp 4", Mode::BoundedStaleness { slack: 4 }),
    ];
    assert_eq!(runs, expected);
}

#[test]
fn faults_are_read_with_their_times() {
    let text = "[network]\nsilence = \"2s\"\nrecovery = \"20s\"\n\
                [[fault]]\nat = \"2s\"\ncrash = \"worker:1\"\n\
                restart_after = \"1s\"\n\
                [[fault]]\nat = \"3s\"\nstop = \"ps:0\"\nrestart_after = \"2s\"\n\
                [[fault]]\nat = \"500ms\"\nfreeze = \"ps:0\"\nfor = \"300ms\"\n\
                [[fault]]\nat = \"1s\"\npartition = [\"ps:0\", \"worker:1\"]\nfor = \"1s\"\n\
                [[fault]]\nat = \"1s\"\nslow_link = [\"ps:0\", \"worker:1\"]\nfactor = 3.0\n\
                for = \"1s\"\n\
                [[fault]]\nat = \"1s\"\none_way = [\"ps:0\", \"worker:1\"]\nfor = \"1s\"\n\
                [[fault]]\nat = \"1s\"\nloss = [\"ps:0\", \"worker:1\"]\nrate = 0.25\n\
                for = \"1s\"\n\
                [[fault]]\nat = \"1s\"\nslow_task = \"ps:0\"\nfactor = 2.0\nfor = \"1s\"\n\
                [[fault]]\nat = \"1s\"\nfull_disk = true\nfor = \"1s\"\n\
                [[fault]]\nat = \"1s\"\ntorn_checkpoint = \"cut\"\n\
                [checkpoint]\nevery_steps = 100";
    let (second, ps, worker) =
        (Duration::from_secs(1), TaskName::new("ps", 0), TaskName::new("worker", 1));
    let both = vec![ps.clone(), worker.clone()];
    let fault = |millis, kind| Fault {
        at: Trigger::Time(Time::ZERO.after(Duration::from_millis(millis))),
        kind,
    };
    let list = vec![
        fault(2000, FaultKind::Crash { task: worker, restart_after: Some(second) }),
        fault(3000, FaultKind::Stop { task: ps.clone(), restart_after: Some(2 * second) }),
        fault(500, FaultKind::Freeze { task: ps.clone(), lasts: Duration::from_millis(300) }),
        fault(1000, FaultKind::Partition { tasks: both.clone(), lasts: second }),
        fault(1000, FaultKind::SlowLink { tasks: both.clone(), factor: 3.0, lasts: second }),
        fault(
            1000,
            FaultKind::OneWay { from: both[0].clone(), to: both[1].clone(), lasts: second },
        ),
        fault(1000, FaultKind::Loss { tasks: both, rate: 0.25, lasts: second }),
        fault(1000, FaultKind::SlowTask { task: ps, factor: 2.0, lasts: second }),
        fault(1000, FaultKind::FullDisk { lasts: second }),
        fault(1000, FaultKind::TornCheckpoint { damage: Damage::Cut }),
    ];
    let scenario = example(text).unwrap();
    assert_eq!(scenario.faults.of_seed(7), Faults { silence: 2 * second, list });
    assert_eq!(scenario.settings.patience, Patience::new(20 * second));
}

/// What the tasks of an empty file run on.
fn standard_hardware() -> Hardware {
    Hardware {
        network: NetworkSpec {
            latency: Duration::from_micros(50),
            bandwidth: "10Gbps".parse().unwrap(),
            message_cost: Duration::from_micros(5),
            ..NetworkSpec::default()
        },
        compute: ComputeSpec {
            rate: "50GFLOP/s".parse().unwrap(),
            memory: "10GB/s".parse().unwrap(),
            efficiency: BTreeMap::new(),
            straggler: None,
            step_time: None,
            stop_cost: Duration::ZERO,
        },
        own_compute: BTreeMap::new(),
        devices: NonZeroU32::MIN,
        gpus: BTreeMap::new(),
        slow: BTreeMap::new(),
        hosts: None,
        message_thread: None,
        noise: Vec::new(),
    }
}

#[test]
fn a_fault_that_comes_again_is_drawn_for_each_task_of_a_job_until_the_training_ends() {
    let text = "[cluster]\nps = 1\nworker = 200\n[stop]\ntime = \"100h\"\n\
                [[fault]]\nevery = { law = \"exponential\", mean = \"9h\" }\n\
                crash = \"worker\"\nrestart_after = \"1h\"\n\
                [[fault]]\nevery = \"30h\"\nfreeze = \"ps:0\"\nfor = \"3h\"\n\
                [[fault]]\nevery = \"1h\"\ncrash = \"worker:0\"";
    let faults = example(text).unwrap().faults;
    let drawn = faults.of_seed(7).list;
    assert_eq!(drawn, faults.of_seed(7).list);
    assert_ne!(drawn, faults.of_seed(8).list);
    let of = |name: &str| -> Vec<f64> {
        let is_its = |fault: &&Fault| fault.kind.tasks()[0].to_string() == name;
        let hours = |fault: &Fault| fault.at.time().unwrap().as_secs_f64() / 3600.0;
        drawn.iter().filter(is_its).map(hours).collect()
    };
    assert_eq!(of("ps:0"), [30.0, 63.0, 96.0], "each a law's time after the end of the last");
    assert_eq!(of("worker:0").last(), Some(&1.0), "it never comes back from the third fault");
    assert_ne!(of("worker:1"), of("worker:2"));
    // A renewal after 10 h in the mean, over 100 h, of 200 workers: 2,000 within three deviations.
    let crashes = drawn.len() - of("ps:0").len() - 1;
    assert!((1_880..2_120).contains(&crashes), "{crashes} crashes");
}

#[test]
fn an_empty_file_is_a_scenario_with_the_documented_defaults() {
    let scenario = example("").unwrap();
    let optimizer = Optimizer::new(GradientDescentRule, 0.01);
    let expected = Scenario {
        replicas: BTreeMap::new(),
        name: "example".to_owned(),
        seed: 0,
        memory_limit: None,
        cluster: BTreeMap::from([
            ("ps".to_owned(), Tasks::Count(1)),
            ("worker".to_owned(), Tasks::Count(2)),
        ]),
        faults: ScenarioFaults { once: Faults::none(), again: Vec::new() },
        tune: Tune::default(),
        plan: PlanSpec::default(),
        checkpoint: None,
        hardware: standard_hardware(),
        numerics: Numerics::Real,
        settings: Settings {
            read_rate: None,
            towers: 1,
            all_reduce: None,
            allow_soft_placement: false,
            label_concentration: None,
            num_cores: None,
            model: Model::Softmax,
            partitioner: None,
            optimizer,
            batch: 32,
            stop: Stop {
                steps: Some(1000),
                samples: None,
                epochs: None,
                accuracy: None,
                evaluate_every: None,
                evaluate_every_samples: None,
                time: None,
            },
            sync_replicas: None,
            evaluator: EvaluatorSettings::default(),
            patience: Patience::new(Duration::from_secs(60)),
            read_ahead: true,
        },
        dataset: Source::Digits,
        runs: vec![RunSpec {
            name: "async".to_owned(),
            ..RunSpec::new(Mode::Async, Compression::None)
        }],
    };
    assert_eq!(scenario, expected);
}

#[test]
fn a_run_without_a_name_is_called_by_its_mode() {
    let scenario =
        example("[cluster]\nworker = 4\n[[run]]\nmode = { sync = { backups = 2 } }").unwrap();
    assert_eq!(scenario.runs[0].name, "sync, 2 backups");
}

#[test]
fn a_run_compresses_as_it_says_or_as_the_network_does() {
    let text = "[network]\ncompression = \"bf16\"\n[[run]]\nmode = \"sync\"\n\
                [[run]]\nmode = \"sync\"\ncompression = \"none\"\n\
                [[run]]\nmode = \"sync\"\ncompression = \"int8\"\n\
                [[run]]\nmode = \"async\"\ncompression = { int8 = { block = 32 } }\n\
                [[run]]\nmode = \"async\"\ncompression = { top_k = { fraction = 0.01 } }";
    let runs = example(text).unwrap().runs;
    let of_blocks = |block| Compression::Int8 { block: NonZeroU32::new(block).unwrap() };
    let expected = [
        ("sync, bf16", Compression::Bf16),
        ("sync", Compression::None),
        ("sync, int8 in blocks of 256", of_blocks(256)),
        ("async, int8 in blocks of 32", of_blocks(32)),
        ("async, top 1 %", Compression::TopK { fraction: 0.01 }),
    ];
    let found: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.compression)).collect();
    assert_eq!(found, expected);
    assert_eq!(
        example("[network]\ncompression = \"bf16\"").unwrap().runs[0].compression,
        Compression::Bf16
    );
}

#[test]
fn workers_that_train_copies_of_their_own_say_how_often_they_average_them() {
    let text = "[cluster]\nworker = 4\n[[run]]\nmode = { local_sgd = { every = 8 } }\n\
                [[run]]\nmode = { diloco = { every = 16, backups = 1 } }\n\
                [[run]]\nmode = { diloco = { every = 4, outer_learning_rate = 0.5, \
                outer_momentum = 0.8 } }";
    let runs = example(text).unwrap().runs;
    let diloco = |every, backups, outer_learning_rate, outer_momentum| Mode::DiLoCo {
        every,
        backups,
        outer_learning_rate,
        outer_momentum,
    };
    let outer = "DiLoCo, every 4, outer learning rate 0.5, outer momentum 0.8";
    let expected = [
        ("local SGD, every 8", Mode::LocalSgd { every: 8, backups: 0 }),
        ("DiLoCo, every 16, sync, 1 backup", diloco(16, 1, 0.7, 0.9)),
        (outer, diloco(4, 0, 0.5, 0.8)),
    ];
    let found: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.mode)).collect();
    assert_eq!(found, expected);
    let said = example(
        "[[run]]\nmode = { local_sgd = { every = 0 } }\n[[run]]\n\
         mode = { diloco = { every = 1, backups = 2 } }",
    );
    let said = said.unwrap_err().to_string();
    assert!(
        said.contains("run[0].mode.local_sgd.every") && said.contains("leave nobody"),
        "{said}"
    );
    let said = example("[[run]]\nmode = { diloco = { every = 1, outer_momentum = -1.0 } }")
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("run[0].mode.diloco.outer_momentum") && said.contains("at least 0"),
        "{said}"
    );
}

#[test]
fn a_job_is_a_number_of_tasks_or_their_addresses() {
    let scenario =
        example("[cluster]\nps = [\"a:2222\"]\nworker = [\"b:2222\", \"[::1]:2222\"]").unwrap();
    assert_eq!(scenario.cluster["ps"], Tasks::Addresses(vec!["a:2222".to_owned()]));
    assert_eq!(scenario.cluster["worker"].count(), 2);
}

#[test]
fn racks_come_with_their_size_and_uplink() {
    let scenario = example("[network.racks]\nhosts_per_rack = 4\nuplink = \"40Gbps\"").unwrap();
    assert_eq!(
        scenario.hardware.network.racks,
        Some(Racks { hosts_per_rack: 4, uplink: BytesPerSecond(5e9) })
    );
}

#[test]
fn every_law_is_written_with_its_own_parameters() {
    let laws = [
        ("law = \"constant\", value = 2", Law::Constant { value: 2.0 }),
        ("law = \"uniform\", low = 1, high = 1.5", Law::Uniform { low: 1.0, high: 1.5 }),
        ("law = \"exponential\"", Law::Exponential { mean: 1.0 }),
        ("law = \"exponential\", mean = 2", Law::Exponential { mean: 2.0 }),
        (
            "law = \"shifted_exponential\", shift = 1, mean = 0.2",
            Law::ShiftedExponential { shift: 1.0, mean: 0.2 },
        ),
        (
            "law = \"shifted_exponential\", shift = 0.5",
            Law::ShiftedExponential { shift: 0.5, mean: 1.0 },
        ),
        ("law = \"lognormal\", mean = 1.5, sigma = 0.3", Law::Lognormal { mean: 1.5, sigma: 0.3 }),
        ("law = \"pareto\", scale = 1, shape = 2.5", Law::Pareto { scale: 1.0, shape: 2.5 }),
        (
            "law = \"pareto\", scale = 1, shape = 2.5, shift = 0.5",
            Law::Shifted { shift: 0.5, law: Box::new(Law::Pareto { scale: 1.0, shape: 2.5 }) },
        ),
        ("law = \"weibull\", scale = 1, shape = 0.7", Law::Weibull { scale: 1.0, shape: 0.7 }),
        (
            "law = \"empirical\", values = [1, 1.25, 3]",
            Law::Empirical { values: vec![1.0, 1.25, 3.0] },
        ),
    ];
    for (text, law) in laws {
        let scenario = example(&format!("[compute]\nstraggler = {{ {text} }}")).unwrap();
        assert_eq!(scenario.hardware.compute.straggler, Some(law));
    }
}

#[test]
fn a_job_or_a_task_has_what_is_its_own_and_else_what_all_have() {
    let text = "[cluster]\nps = 1\nworker = 2\n[compute]\nrate = \"1GFLOP/s\"\n\
                efficiency = { matmul = 0.5 }\nstraggler = { law = \"constant\", value = 2 }\n\
                [compute.tasks.ps]\nmemory = \"1GB/s\"\n\
                step_time = { law = \"constant\", value = \"1ms\" }\n\
                [compute.tasks.worker]\nrate = \"2GFLOP/s\"\n\
                [compute.tasks.\"worker:1\"]\nstep_time = { law = \"constant\", value = \"1s\" }";
    let scenario = example(text).unwrap();
    let all = &scenario.hardware.compute;
    assert_eq!(all.efficiency, BTreeMap::from([(KernelKind::Matmul, 0.5)]));
    let time = |value| Some(Law::Constant { value });
    let rate = FlopsPerSecond(2e9);
    let own = |straggler, step_time| ComputeSpec { straggler, step_time, ..all.clone() };
    let expected = BTreeMap::from([
        (
            TaskName::new("ps", 0),
            ComputeSpec { memory: BytesPerSecond(1e9), ..own(None, time(1e-3)) },
        ),
        (TaskName::new("worker", 0), ComputeSpec { rate, ..all.clone() }),
        (TaskName::new("worker", 1), ComputeSpec { rate, ..own(None, time(1.0)) }),
    ]);
    assert_eq!(scenario.hardware.own_compute, expected);
    for (text, expected) in [
        (
            "[compute]\nefficiency = { matmul = 1.5 }",
            "2: compute.efficiency: matmul: 1.5 must be above 0 and at most 1",
        ),
        (
            "[compute.tasks.master]\nrate = \"1GFLOP/s\"",
            "1: compute.tasks.\"master\": no task's name; write, for example, `worker:0`",
        ),
    ] {
        assert_eq!(example(text).unwrap_err().to_string(), format!("sims/example.toml:{expected}"));
    }
}

#[test]
fn a_law_of_step_times_is_written_in_lengths_of_time_and_means_seconds() {
    let scenario =
        example("[compute]\nstep_time = { law = \"exponential\", mean = \"100ms\" }").unwrap();
    assert_eq!(scenario.hardware.compute.step_time, Some(Law::Exponential { mean: 0.1 }));
    let scenario =
        example("[compute]\nstep_time = { law = \"empirical\", values = [\"1s\", \"20ms\"] }")
            .unwrap();
    assert_eq!(
        scenario.hardware.compute.step_time,
        Some(Law::Empirical { values: vec![1.0, 0.02] })
    );
}
