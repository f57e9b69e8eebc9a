//! What a run's time was spent on, held against what happens when that takes half the time.

use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::report::{Run, TimeCause};
use trainyard::training::train;

/// A step of next to no time, which the changes of each test make longer.
const SCENARIO: &str = r#"
    seed = 7
    [cluster]
    ps = 2
    worker = 4
    [network]
    latency = "10us"
    bandwidth = "400Gbps"
    message_cost = "1us"
    [compute]
    numerics = "shapes"
    rate = "1TFLOP/s"
    memory = "1TB/s"
    [program]
    model = "null"
    variables = 4
    bytes = "4MB"
    gradient = "full"
    optimizer = { rule = "gradient_descent", learning_rate = 0.1 }
    [stop]
    steps = 60
    [[run]]
    name = "sync"
    mode = "sync"
    [[run]]
    name = "async"
    mode = "async"
"#;

fn simulate(run: &str, change: &str) -> Result<Run> {
    simulate_changed(run, &[change])
}

fn simulate_changed(run: &str, changes: &[&str]) -> Result<Run> {
    let mut experiment = Experiment::parse(SCENARIO)?.only(run);
    for change in changes {
        experiment = experiment.set(change)?;
    }
    Ok(experiment.simulate(train)?.run(run)?.clone())
}

/// `causes` take most of the time of `run` with the change `slow`; `fast`, which halves them, makes
/// the run shorter by half of that.
#[track_caller]
fn assert_predicts(run: &str, causes: &[TimeCause], slow: &str, fast: &str) -> Result<()> {
    let (before, after) = (simulate(run, slow)?, simulate(run, fast)?);
    let path = before.critical_path.as_ref().expect("its steps have a path");
    assert!((path.seconds() / before.seconds - 1.0).abs() < 1e-9, "{path:?}");
    let share: f64 = causes.iter().map(|cause| path.share(*cause)).sum();
    assert!(share > 0.7, "{run}, {slow}: {path:?}");
    let saved = 1.0 - after.seconds / before.seconds;
    assert!((saved / (share / 2.0) - 1.0).abs() < 0.1, "{run}, {slow}: {saved} of {share}");
    Ok(())
}

#[test]
fn kernels_in_half_the_time_shorten_a_run_by_half_of_their_share() -> Result<()> {
    let time = |ms: u32| {
        format!("compute.tasks.worker.step_time={{ law = \"constant\", value = \"{ms}ms\" }}")
    };
    for run in ["sync", "async"] {
        assert_predicts(run, &[TimeCause::Compute], &time(20), &time(10))?;
    }
    Ok(())
}

#[test]
fn kernels_in_half_the_time_straggle_for_half_as_long_too() -> Result<()> {
    let time = |ms: u32| {
        format!(
            "compute.tasks.worker.step_time={{ law = \"lognormal\", mean = \"{ms}ms\", \
             sigma = 0.5 }}"
        )
    };
    let causes = [TimeCause::Compute, TimeCause::Stragglers];
    for run in ["sync", "async"] {
        assert_predicts(run, &causes, &time(20), &time(10))?;
        let before = simulate(run, &time(20))?;
        let path = before.critical_path.as_ref().expect("its steps have a path");
        let half = 50.0 * causes.map(|cause| path.share(cause)).iter().sum::<f64>();
        let limit = before.limit().expect("it takes steps");
        assert!(limit.starts_with("limited by the workers' kernels"), "{limit}");
        assert!(limit.contains(&format!("would be about {half:.0} % shorter: fas")), "{limit}");
    }
    Ok(())
}

#[test]
fn a_run_in_which_nobody_waits_for_a_straggler_is_not_limited_by_it() -> Result<()> {
    let heavy = "compute.tasks.worker.step_time={ law = \"lognormal\", mean = \"20ms\", \
                 sigma = 1.6 }";
    let stragglers = "limited by stragglers, ";
    let together = "limited by the workers' kernels and stragglers together, 99 % of the time; ";
    for (run, expected) in [("sync", stragglers), ("async", together)] {
        let limit = simulate(run, heavy)?.limit().expect("it takes steps");
        assert!(limit.starts_with(expected), "{limit}");
    }
    Ok(())
}

#[test]
fn a_straggler_that_loses_half_as_much_shortens_a_run_by_half_of_its_share() -> Result<()> {
    let slow = |factor: u32| {
        format!(
            "compute={{ numerics = \"shapes\", slow = {{ \"worker:1\" = {factor} }}, \
             step_time = {{ law = \"constant\", value = \"2ms\" }} }}"
        )
    };
    assert_predicts("sync", &[TimeCause::Stragglers], &slow(21), &slow(11))
}

#[test]
fn a_slow_worker_limits_an_average_alike_whatever_the_steps_between_two() -> Result<()> {
    let of = |every: u32, factor: u32| {
        let slow = format!(
            "compute={{ numerics = 'shapes', slow = {{ 'worker:3' = {factor} }}, \
             step_time = {{ law = 'constant', value = '10ms' }} }}"
        );
        let mode = format!("{{ local_sgd = {{ every = {every} }} }}");
        let run = format!("run=[{{ name = 'local', mode = {mode} }}]");
        let steps = format!("stop.steps={}", 300 / every);
        simulate_changed("local", &[&slow, &run, &steps, "program.bytes=4kB"])
    };
    for every in [1, 10, 100] {
        for (factor, share) in [(4, 0.75), (2, 0.5)] {
            let run = of(every, factor)?;
            let path = run.critical_path.as_ref().expect("its steps have a path");
            let own = path.share(TimeCause::Stragglers);
            assert!((own / share - 1.0).abs() < 0.04, "every {every}, {factor}: {path:?}");
        }
    }
    let saved = 1.0 - of(10, 2)?.seconds / of(10, 3)?.seconds;
    let path = of(10, 3)?.critical_path.expect("its steps have a path");
    let half = path.share(TimeCause::Stragglers) / 2.0;
    assert!((saved / half - 1.0).abs() < 0.04, "{saved} of {path:?}");
    Ok(())
}

#[test]
fn faster_checkpoints_shorten_a_run_by_half_of_their_share_though_only_the_chief_saves()
-> Result<()> {
    let of = |rate: &str| {
        let compute = "compute={ rate = '1TFLOP/s', memory = '1TB/s', \
                       step_time = { law = 'constant', value = '20ms' } }";
        let save = format!("checkpoint={{ every_steps = 5, write_rate = '{rate}' }}");
        simulate_changed("sync", &["cluster.worker=2", compute, &save])
    };
    let (before, after) = (of("40MB/s")?, of("80MB/s")?);
    let path = before.critical_path.as_ref().expect("its steps have a path");
    let share = path.share(TimeCause::Other);
    let (saving, computing) = (12.0 * 4.0 / 40.0, 60.0 * 0.02);
    let all = saving + computing;
    assert!((share / (saving / all) - 1.0).abs() < 0.1, "{share}, {path:?}");
    let computed = path.share(TimeCause::Compute);
    assert!((computed / (computing / all) - 1.0).abs() < 0.1, "{computed}, {path:?}");
    let saved = 1.0 - after.seconds / before.seconds;
    assert!((saved / (share / 2.0) - 1.0).abs() < 0.1, "{saved} of {path:?}");
    Ok(())
}

#[test]
fn parameter_servers_cards_twice_as_fast_shorten_a_run_by_half_of_their_share() -> Result<()> {
    for run in ["sync", "async"] {
        let card = |gigabits: u32| format!("network.tasks.ps.bandwidth=\"{gigabits}Gbps\"");
        assert_predicts(run, &[TimeCause::ServerCard], &card(1), &card(2))?;
    }
    Ok(())
}

#[test]
fn cards_that_only_the_last_messages_of_a_step_meet_do_not_limit_it() -> Result<()> {
    let card = |gigabits: u32| {
        format!(
            "network={{ latency = '10us', message_cost = '1us', bandwidth = '1Gbps', \
             tasks = {{ ps = {{ bandwidth = '{gigabits}Gbps' }} }} }}"
        )
    };
    assert_predicts("sync", &[TimeCause::ServerCard], &card(1), &card(2))
}

#[test]
fn cards_that_are_full_at_both_ends_save_next_to_nothing_alone() -> Result<()> {
    let even = ["cluster.ps=4", "network.bandwidth=1Gbps"];
    let with = |faster: &str| simulate_changed("sync", &[even[0], even[1], faster]);
    let before = simulate_changed("sync", &even)?;
    let path = before.critical_path.as_ref().expect("its steps have a path");
    assert!(path.share(TimeCause::Bandwidth) > 0.8, "{path:?}");
    let limit = before.limit().expect("it takes steps");
    assert!(limit.starts_with("limited by network cards and links that are full"), "{limit}");
    let saved = |after: Run| 1.0 - after.seconds / before.seconds;
    for job in ["ps", "worker"] {
        let one = saved(with(&format!("network.tasks.{job}.bandwidth=2Gbps"))?);
        assert!(one < 0.05, "{job}: {one}");
    }
    let all = saved(with("network.bandwidth=2Gbps")?);
    assert!(all > 0.45, "{all}");
    Ok(())
}

#[test]
fn slow_workers_that_nobody_waits_for_do_not_limit_a_run_of_a_fast_one() -> Result<()> {
    let slow = "compute.tasks.worker.step_time={ law = 'constant', value = '1s' }";
    let fast = "compute.tasks.\"worker:0\".step_time={ law = 'constant', value = '1ms' }";
    let of = |latency: &str| simulate_changed("async", &[slow, fast, latency, "stop.steps=600"]);
    let (before, after) = (of("network.latency=5ms")?, of("network.latency=2500us")?);
    let path = before.critical_path.as_ref().expect("its steps have a path");
    let share = path.share(TimeCause::Latency) + path.share(TimeCause::Coordination);
    let gained = 1.0 - before.samples_per_second / after.samples_per_second;
    assert!(share > 0.8 && (gained / (share / 2.0) - 1.0).abs() < 0.1, "{gained} of {path:?}");
    Ok(())
}

#[test]
fn a_late_workers_last_step_is_no_evaluation() -> Result<()> {
    let slow = "compute={ numerics = 'shapes', slow = { 'worker:3' = 100 }, \
                step_time = { law = 'constant', value = '2ms' } }";
    let backup = "run=[{ name = 'sync', mode = { sync = { backups = 1 } } }]";
    let run = simulate_changed("sync", &[slow, backup, "stop.steps=10"])?;
    let path = run.critical_path.as_ref().expect("its steps have a path");
    assert!(path.share(TimeCause::LateSteps) > 0.5, "{path:?}");
    assert!(path.share(TimeCause::Other) < 0.01, "{path:?}");
    Ok(())
}

#[test]
fn parameter_servers_processors_twice_as_fast_shorten_a_run_by_half_of_their_share() -> Result<()> {
    for run in ["sync", "async"] {
        let memory = |megabytes: u32| format!("compute.tasks.ps.memory=\"{megabytes}MB/s\"");
        assert_predicts(run, &[TimeCause::ServerProcessor], &memory(100), &memory(200))?;
    }
    Ok(())
}

#[test]
fn half_the_latency_shortens_a_run_by_half_of_its_share() -> Result<()> {
    for run in ["sync", "async"] {
        let latency = |ms: u32| format!("network.latency=\"{ms}ms\"");
        // The start is all latency, too.
        let causes = [TimeCause::Start, TimeCause::Latency, TimeCause::Coordination];
        assert_predicts(run, &causes, &latency(20), &latency(10))?;
    }
    Ok(())
}

#[test]
fn a_slow_link_of_two_tasks_that_limits_a_run_is_named() -> Result<()> {
    let slow = "network.link=[{ between = ['worker:3', 'ps:0'], bandwidth = '100Mbps' }]";
    let run = simulate("sync", slow)?;
    let limit = run.limit().expect("it takes steps");
    assert!(limit.starts_with("limited by links between network cards, "), "{limit}");
    assert!(limit.contains(" % the link of ps:0 and worker:3)"), "{limit}");
    assert!(limit.contains("faster links"), "{limit}");
    Ok(())
}
