//! From a scenario to a report, in a few lines: changes, runs with settings of their own, both
//! worlds.

use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::report::World;
use trainyard::training::train;

#[test]
fn asynchronous_training_reaches_its_target_though_a_worker_is_slow() -> Result<()> {
    let scenario = Experiment::load("sims/sync_vs_async.toml")?.only("async");
    let report = scenario.set("compute.slow.\"worker:3\"=4")?.seed(8).simulate(train)?;
    assert!(report.run("async")?.test_accuracy.unwrap() > 0.95);
    Ok(())
}

/// Two runs that differ in what is their own.
const TWO: &str = r#"
    seed = 3
    [compute]
    straggler = { law = "lognormal", sigma = 0.5 }
    [program]
    batch = 8
    optimizer = { rule = "adagrad", learning_rate = 0.1 }
    [stop]
    steps = 20
    [[run]]
    name = "as it is"
    mode = "sync"
    [[run]]
    name = "its own"
    mode = "sync"
    unset = ["compute.straggler"]
    set = { program.batch = 16, program.optimizer.learning_rate = 0.2, stop.steps = 30 }
"#;

#[test]
fn a_run_trains_with_its_own_settings_as_if_the_whole_scenario_had_them() -> Result<()> {
    let report = Experiment::parse(TWO)?.simulate(train)?;
    let (as_it_is, own) = (report.run("as it is")?, report.run("its own")?);
    assert_eq!((as_it_is.global_steps, as_it_is.samples), (20, 20 * 2 * 8));
    assert_eq!((own.global_steps, own.samples), (30, 30 * 2 * 16));
    assert_ne!(as_it_is.weights_digest, own.weights_digest);
    let changed = Experiment::parse(TWO)?
        .only("as it is")
        .unset("compute.straggler")?
        .set("program.batch=16")?
        .set("program.optimizer.learning_rate=0.2")?
        .set("stop.steps=30")?
        .unset("run[1]")?
        .simulate(train)?;
    let changed = changed.run("as it is")?;
    assert_eq!((&changed.digest, &changed.weights_digest), (&own.digest, &own.weights_digest));
    Ok(())
}

#[test]
fn runs_of_all_modes_end_after_as_many_samples() -> Result<()> {
    let scenario = r#"
        seed = 3
        cluster = { ps = 1, worker = 4 }
        [program]
        batch = 10
        [stop]
        samples = 1200
        [[run]]
        mode = "sync"
        [[run]]
        mode = { sync = { backups = 1 } }
        [[run]]
        mode = { k_async = { k = 3 } }
        [[run]]
        mode = "async"
        [[run]]
        mode = { local_sgd = { every = 5 } }
    "#;
    let report = Experiment::parse(scenario)?.simulate(train)?;
    let updates: Vec<u64> = report.runs.iter().map(|run| run.global_steps).collect();
    // Nobody stops the steps that asynchronous workers have begun.
    assert!((120..124).contains(&updates[3]), "{updates:?}");
    assert_eq!((&updates[..3], updates[4]), (&[30, 40, 40][..], 6));
    for run in &report.runs {
        assert!((1200..=1240).contains(&run.samples), "{}: {} samples", run.name, run.samples);
    }
    let epochs = Experiment::parse(scenario)?.unset("stop.samples")?.set("stop.epochs=2")?;
    let report = epochs.simulate(train)?;
    let train = trainyard::data::Dataset::digits().unwrap().train.len() as u64;
    assert_eq!(report.runs[0].global_steps, (2 * train).div_ceil(40));
    Ok(())
}

#[test]
fn a_run_is_as_long_where_only_shapes_are_computed() -> Result<()> {
    let text = "compute.rate = '1MFLOP/s'\nstop = { steps = 20, evaluate_every = 7 }\n\
                run = [{ name = 'sync', mode = 'sync' }, { name = 'async', mode = 'async' }]\n";
    let [real, shapes] = ["real", "shapes"].map(|numerics| {
        let text = format!("compute.numerics = '{numerics}'\n{text}");
        Experiment::parse(text).unwrap().simulate(train).unwrap()
    });
    for (real, shapes) in real.runs.iter().zip(&shapes.runs) {
        assert_eq!(real.seconds, shapes.seconds, "{}", real.name);
        assert!(real.test_accuracy.is_some() && shapes.test_accuracy.is_none());
    }
    Ok(())
}

#[test]
fn what_the_steps_send_is_told_apart_from_what_evaluations_read() -> Result<()> {
    let sent = |evaluate_every: &str| -> Result<(f64, f64)> {
        let report = Experiment::parse(TWO)?
            .only("as it is")
            .set("stop.accuracy=0.999")?
            .set("network.read_ahead=false")? // an evaluation throws away what was read ahead
            .set(&format!("stop.evaluate_every={evaluate_every}"))?
            .simulate(train)?;
        let run = report.run("as it is")?;
        let all = run.bytes_sent.values().sum::<u64>() as f64;
        Ok((all, run.step_bytes_sent.values().sum::<u64>() as f64))
    };
    let ((seldom, steps), (often, same_steps)) = (sent("20")?, sent("1")?);
    assert!((same_steps / steps - 1.0).abs() < 0.01, "{steps} and {same_steps} bytes");
    assert!(often > 1.2 * seldom && seldom > steps, "{steps} of {seldom}, and of {often} bytes");
    Ok(())
}

#[test]
fn each_run_is_made_once_for_each_value_of_a_sweep() -> Result<()> {
    let experiment = Experiment::parse(TWO)?.only("as it is").sweep("program.batch=4,8")?;
    let report = experiment.simulate(train)?;
    let samples: Vec<_> = report.runs.iter().map(|run| (run.name.as_str(), run.samples)).collect();
    let expected = [("as it is (program.batch=4)", 160), ("as it is (program.batch=8)", 320)];
    assert_eq!(samples, expected);
    Ok(())
}

#[test]
fn a_key_that_a_run_sets_or_removes_itself_can_not_be_swept_or_tuned() -> Result<()> {
    let refused = |own: &str, sweep: &str| -> Result<String> {
        let text = format!("{TWO}[[run]]\nname = \"mine\"\nmode = \"async\"\n{own}\n");
        let frozen = "fault=[{ at = '1ms', freeze = 'worker:1', for = '1ms' }]";
        let experiment = Experiment::parse(text)?.set("stop.steps=2")?.set(frozen)?;
        let experiment = match sweep {
            "tune" => experiment.set("tune.learning_rate=[0.1, 0.2]")?,
            sweep => experiment.sweep(sweep)?,
        };
        assert!(experiment.clone().only("as it is").simulate(train).is_ok(), "{sweep}");
        Ok(experiment.only("mine").simulate(train).err().map_or(String::new(), |e| e.to_string()))
    };
    let said = refused("set = { program.batch = 16 }", "program.batch=4,8")?;
    let expected = "`program.batch` takes several values, but not in run `mine`, which has its own \
                    `program.batch`: its rows would be alike under different names; remove that \
                    from the run, or name the other runs with `--run`";
    assert_eq!(said, expected);
    let rate = "set = { program.optimizer.learning_rate = 0.1 }";
    let optimizers = "program.optimizer={ rule = \"adam\", learning_rate = 0.1 }";
    let cases = [
        (rate, "tune", "its own `program.optimizer.learning_rate`"),
        (rate, optimizers, "its own `program.optimizer.learning_rate`"),
        ("set = { fault = [] }", "fault.0.at=1ms,2ms", "its own `fault`"),
        (
            "unset = [\"compute.straggler\"]",
            "compute.straggler.sigma=0.1,0.2",
            "its own `compute.straggler`",
        ),
        ("compression = \"bf16\"", "network.compression=int8", "its own `network.compression`"),
        ("set = { program.batch = 16 }", "network.latency=1ms,2ms", ""),
    ];
    for (own, sweep, expected) in cases {
        let said = refused(own, sweep)?;
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
    }
    Ok(())
}

#[test]
fn what_is_launched_reports_the_weights_that_are_simulated() -> Result<()> {
    let experiment = Experiment::parse(TWO)?.seed(5);
    let simulated = experiment.simulate(train)?;
    let launched = experiment.launch(env!("CARGO_BIN_EXE_trainyard"))?;
    assert_eq!((simulated.world, launched.world), (World::Simulation, World::Deployment));
    for run in &simulated.runs {
        let real = launched.run(&run.name)?;
        assert_eq!((real.samples, real.global_steps), (run.samples, run.global_steps));
        assert!(run.weights_digest.is_some() && real.weights_digest == run.weights_digest);
    }
    Ok(())
}

#[test]
fn what_can_not_be_run_says_why_before_anything_runs() {
    let error = |experiment: Experiment| experiment.simulate(train).unwrap_err().to_string();
    let scenario = || Experiment::parse(TWO).unwrap();
    let missing = error(scenario().only("its owm"));
    assert_eq!(missing, "the scenario has no run `its owm`; it has `as it is`, `its own`");
    let rejected = error(scenario().set("program.bach=3").unwrap());
    assert!(
        rejected.contains("unknown field `bach`") && rejected.contains("did you mean `batch`?")
    );
    let mistaken = Experiment::parse("[program]\nbatch = 0").unwrap_err().to_string();
    assert_eq!(mistaken, "scenario:2: program.batch: 0 must be at least 1");
    let report = scenario().only("its own").simulate(train).unwrap();
    let absent = report.run("as it is").unwrap_err().to_string();
    assert_eq!(absent, "the report has no run `as it is`; it has `its own`");
}

#[test]
fn a_run_that_fails_is_named_with_its_cause() {
    async fn trainer(task: Task) -> Result<()> {
        if task.job() == "ps" { task.join().await } else { Err(Error::new(Code::NanLoss, "no")) }
    }
    let error = Experiment::parse(TWO).unwrap().only("its own").simulate(trainer).unwrap_err();
    assert!(error.to_string().starts_with("run `its own`: "), "{error}");
    assert_eq!(Error::from(error).code, Code::NanLoss);
}

#[test]
fn the_record_of_a_training_has_its_graph_for_tensorboard() -> Result<()> {
    let trial = Experiment::parse(TWO)?.only("as it is").trials()?.remove(0);
    let recording = trial.simulate(&train).recording;
    let graph = recording.beginning.expect("the chief has told of it").graph;
    let has = |name: &[u8]| graph.windows(name.len()).any(|bytes| bytes == name);
    assert!(has(b"global_step") && has(b"MatMul") && !has(b"no such operation"));
    Ok(())
}
