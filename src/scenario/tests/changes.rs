//! Tests of `--set`, `--unset`, `--sweep` and a run's own `set`: their effects on a scenario, and
//! the errors of those that do not fit it.

use super::*;

const FILE: &str = "sims/sync_vs_async.toml";

fn set(text: &str) -> Change {
    text.parse().unwrap()
}

fn expand_file(
    changes: &[Change],
    sweeps: &[Sweep],
) -> Result<Vec<(Vec<Change>, Scenario)>, ScenarioError> {
    expand(&read_file(Path::new(FILE))?, FILE, changes, sweeps, &[])
}

fn after(sets: &[&str]) -> Result<Scenario, ScenarioError> {
    load(Path::new(FILE), &sets.iter().map(|text| set(text)).collect::<Vec<_>>())
}

#[test]
fn a_setting_replaces_a_value_of_the_file() {
    let scenario =
        after(&["network.latency=1ms", "program.batch=64", "run.0.mode=async", "name=9 lives"])
            .unwrap();
    assert_eq!(scenario.hardware.network.latency, Duration::from_millis(1));
    assert_eq!(scenario.settings.batch, 64);
    assert_eq!(scenario.runs[0].mode, Mode::Async);
    assert_eq!(scenario.name, "9 lives");
}

#[test]
fn a_setting_adds_a_key_or_a_section_that_the_file_leaves_out() {
    let scenario = after(&[
        "compute.slow.\"worker:1\"=3",
        "program.optimizer.initial_accumulator_value=0.2",
        "network.racks.hosts_per_rack=5",
        "network.racks.uplink=10Gbps",
    ])
    .unwrap();
    let slow = [(TaskName::new("worker", 1), 3.0), (TaskName::new("worker", 3), 2.0)];
    assert_eq!(scenario.hardware.slow, BTreeMap::from(slow));
    assert_eq!(
        scenario.settings.optimizer.rule,
        AdagradRule { initial_accumulator_value: 0.2 }.into()
    );
    assert_eq!(scenario.hardware.network.racks.unwrap().hosts_per_rack, 5);
}

#[test]
fn a_setting_may_be_a_table_and_the_last_of_two_counts() {
    let scenario = after(&[
        "run[1].mode.sync.backups=2",
        "run[0].mode={ sync = { backups = 3 } }",
        "seed=1",
        "seed=2",
    ]);
    let scenario = scenario.unwrap();
    assert_eq!(scenario.runs[0].mode, Mode::Sync { backups: 3, cancel: false });
    assert_eq!(scenario.runs[1].mode, Mode::Sync { backups: 2, cancel: false });
    assert_eq!(scenario.seed, 2);
}

/// Each pair: a setting of the shipped scenario, and its error.
#[test]
fn a_setting_that_does_not_fit_the_scenario_says_why() {
    let cases = [
        (
            "run.9.mode=async",
            "`run.9.mode=async`: `run.9` is not there: `run` has 4 elements, counted from 0",
        ),
        (
            "run.first.mode=async",
            "`run.first.mode=async`: `run.first` is not there: `run` has 4 elements, counted from \
             0",
        ),
        (
            "run.0.mode.sync.backups=1",
            "`run.0.mode.sync.backups=1`: `run.0.mode` is of type string, with nothing below it; \
             set it as a whole: 'run.0.mode={ sync = { backups = 1 } }'",
        ),
        (
            "netwrok.latency=1ms",
            "`netwrok.latency=1ms`: unknown field `netwrok`, expected one of …; did you mean \
             `network`?",
        ),
        (
            "run.0.mode=asinc",
            "`run.0.mode=asinc`: unknown variant `asinc`, expected one of …; did you mean `async`?",
        ),
        (
            "network.latency=50",
            "`network.latency=50`: invalid type: integer `50`, expected a length of time in \
             quotes, such as \"50us\"",
        ),
        ("program.batch=0", "sims/sync_vs_async.toml: program.batch: 0 must be at least 1"),
        (
            "compute.slow.\"worker:8\"=2",
            "sims/sync_vs_async.toml: compute.slow.\"worker:8\": the job `worker` has 8 tasks, \
             counted from 0; `--unset` removes a key",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(without_names(&after(&[text]).unwrap_err()), expected);
    }
}

/// An error without the names that there are, which grow in number.
fn without_names(error: &ScenarioError) -> String {
    let text = error.to_string();
    let Some((before, names)) = text.split_once("expected one of `") else { return text };
    let rest = names.find("; did you mean").map_or("", |at| &names[at..]);
    format!("{before}expected one of …{rest}")
}

#[test]
fn of_several_settings_the_one_that_broke_the_scenario_is_blamed() {
    let error =
        after(&["seed=1", "network.racks.uplink=fast", "program.batch=8"]).unwrap_err().to_string();
    assert!(error.starts_with("`network.racks.uplink=fast`: `fast` is no data rate"), "{error}");
    let error = after(&["seed=1", "network.racks.uplink=10Gbps"]).unwrap_err().to_string();
    assert_eq!(
        error,
        "sims/sync_vs_async.toml: network.racks: racks need both `hosts_per_rack` and `uplink`"
    );
}

#[test]
fn a_text_that_is_no_setting_or_sweep_is_refused_with_an_example() {
    for text in ["seed", "a.\"b=1"] {
        let error = text.parse::<Change>().unwrap_err();
        assert_eq!(error, ChangeError::Unreadable(text.to_owned()));
        assert!(error.to_string().contains("write, for example, `network.latency=1ms`"), "{error}");
    }
    for text in ["cluster.worker", "4,8"] {
        let error = text.parse::<Sweep>().unwrap_err();
        assert_eq!(error, ChangeError::NoSweep(text.to_owned()));
        assert!(error.to_string().contains("for example, `cluster.worker=4,8,16`"), "{error}");
    }
    for path in ["", "a..b"] {
        let error = format!("{path}=1").parse::<Change>().unwrap_err();
        assert_eq!(error, ChangeError::NoPath(path.to_owned()));
    }
    for text in ["seed=", "seed=1,,2", "seed=1,"] {
        let error = text.parse::<Sweep>().unwrap_err();
        assert_eq!(error.to_string(), format!("`{text}` has an empty value; write `path=a,b,c`"));
    }
}

#[test]
fn sweeps_expand_to_every_combination_with_the_first_changing_slowest() {
    let sweeps = ["cluster.worker=4,8", "seed=1,2,3"].map(|text| text.parse().unwrap());
    let expanded = expand_file(&[set("program.batch=16"), set("seed=9")], &sweeps).unwrap();
    let label = |(swept, _): &(Vec<Change>, _)| {
        swept.iter().map(Change::to_string).collect::<Vec<_>>().join(", ")
    };
    let labels: Vec<_> = expanded.iter().map(label).collect();
    let expected = [
        "cluster.worker=4, seed=1",
        "cluster.worker=4, seed=2",
        "cluster.worker=4, seed=3",
        "cluster.worker=8, seed=1",
        "cluster.worker=8, seed=2",
        "cluster.worker=8, seed=3",
    ];
    assert_eq!(labels, expected);
    let (_, last) = &expanded[5];
    assert_eq!((last.cluster["worker"].count(), last.seed, last.settings.batch), (8, 3, 16));
}

#[test]
fn commas_within_brackets_or_quotes_do_not_separate_the_values_of_a_sweep() {
    let sweep = "run.0.mode=async,{ sync = { backups = 1 } },{bounded_staleness={slack=2}},\
                 {k_async={k=2}},staleness_aware,{delay_compensated={lambda=0.5}}"
        .parse()
        .unwrap();
    let modes: Vec<_> =
        expand_file(&[], &[sweep]).unwrap().iter().map(|(_, each)| each.runs[0].mode).collect();
    let expected = [
        Mode::Async,
        Mode::Sync { backups: 1, cancel: false },
        Mode::BoundedStaleness { slack: 2 },
        Mode::KAsync { k: 2 },
        Mode::StalenessAware,
        Mode::DelayCompensated { lambda: 0.5 },
    ];
    assert_eq!(modes, expected);
    let sweep = "program.hidden=[64,64],[128]".parse().unwrap();
    let hidden: Vec<_> = expand_file(&[], &[sweep])
        .unwrap()
        .into_iter()
        .map(|(_, each)| each.settings.model)
        .collect();
    let mlp = |hidden: &[usize]| Model::Mlp { hidden: hidden.to_vec() };
    assert_eq!(hidden, [mlp(&[64, 64]), mlp(&[128])]);
}

#[test]
fn without_sweeps_there_is_one_scenario() {
    let expanded = expand_file(&[], &[]).unwrap();
    assert_eq!(expanded, [(Vec::new(), load(Path::new(FILE), &[]).unwrap())]);
}

#[test]
fn a_sweep_whose_value_does_not_fit_the_scenario_is_refused_as_a_whole() {
    let sweep = "cluster.worker=8,2".parse().unwrap();
    let error = expand_file(&[], &[sweep]).unwrap_err().to_string();
    assert_eq!(
        error,
        "sims/sync_vs_async.toml: compute.slow.\"worker:3\": the job `worker` has 2 tasks, counted \
         from 0; `--unset` removes a key"
    );
}

#[test]
fn a_key_that_is_swept_twice_is_refused_with_one_sweep_of_all_its_values() {
    let sweeps = ["run[0].mode=async", "seed=1,2", "run.0.mode=sync,async"];
    let error = expand_file(&[], &sweeps.map(|text| text.parse().unwrap())).unwrap_err();
    let expected = "`run.0.mode` is swept twice; write `--sweep run.0.mode=async,sync`";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_key_that_is_unset_has_its_default_and_an_element_of_a_list_is_gone() {
    let changes =
        ["compute.straggler", "stop.accuracy", "run[1]"].map(|path| Change::unset(path).unwrap());
    let scenario = load(Path::new(FILE), &changes).unwrap();
    assert_eq!(
        (scenario.hardware.compute.straggler, scenario.settings.stop.accuracy),
        (None, None)
    );
    let names: Vec<_> = scenario.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["sync", "async", "ssp 4"]);
}

#[test]
fn what_is_not_set_can_not_be_unset() {
    for path in ["fault.0", "compute.straggler.low", "run.9", "name.x"] {
        let error = load(Path::new(FILE), &[Change::unset(path).unwrap()]).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("`unset {path}`: `{path}` is not set, so that it can't be removed")
        );
    }
    assert_eq!(Change::unset("a..b").unwrap_err(), ChangeError::NoPath("a..b".to_owned()));
}

#[test]
fn the_error_of_a_path_that_is_too_long_says_how_long_one_may_be_and_does_not_repeat_it_all() {
    let path = vec!["a"; 1000].join(".");
    for error in [Change::unset(&path), format!("{path}=1").parse()].map(Result::unwrap_err) {
        let error = error.to_string();
        assert!(error.contains("write at most 32 names"), "{error}");
        assert!(error.len() < 250, "{error}");
    }
}

const OWN: &str = "[cluster]\nworker = 4\n[compute]\nstraggler = { law = \"exponential\" }\n\
    [program]\nbatch = 8\noptimizer = { rule = \"adagrad\", learning_rate = 0.1 }\n\
    [[run]]\nmode = \"sync\"\n\
    [[run]]\nmode = { k_async = { k = 6 } }\nunset = [\"compute.straggler\"]\n\
    set = { program.batch = 16, program.optimizer.learning_rate = 0.2, cluster.worker = 8 }\n\
    [[run]]\nname = \"adam\"\nmode = \"sync\"\n\
    set = { \"program.optimizer.rule\" = \"adam\", stop.steps = 7 }\n";

#[test]
fn a_run_may_have_settings_of_its_own_and_all_others_of_the_scenario() {
    let scenario = example(OWN).unwrap();
    let own: Vec<&Scenario> = scenario.runs.iter().map(|run| scenario.of(run)).collect();
    assert_eq!(own.iter().map(|own| own.settings.batch).collect::<Vec<_>>(), [8, 16, 8]);
    let rates: Vec<_> =
        own.iter().map(|own| own.settings.optimizer.learning_rate.clone()).collect();
    assert_eq!(rates, [0.1, 0.2, 0.1].map(LearningRate::from));
    let adam = crate::optimizer::AdamRule::default().into();
    assert_eq!(
        (own[2].settings.optimizer.rule.clone(), own[2].settings.stop.steps),
        (adam, Some(7))
    );
    assert_eq!(own.iter().map(|own| own.cluster["worker"].count()).collect::<Vec<_>>(), [4, 8, 4]);
    let [first, second] = [0, 1].map(|run| own[run].hardware.compute.straggler.is_some());
    assert!(first && !second);
    let names: Vec<_> = scenario.runs.iter().map(|run| run.name.as_str()).collect();
    let second = "6-async, without compute.straggler, cluster.worker=8, program.batch=16, \
                  program.optimizer.learning_rate=0.2";
    assert_eq!(names, ["sync", second, "adam"]);
}

#[test]
fn a_law_or_schedule_of_a_runs_own_replaces_one_of_another_kind_and_changes_one_of_the_same() {
    let text = "[compute]\nstep_time = { law = 'exponential', mean = '1s' }\n[program]\n\
                optimizer.learning_rate = { schedule = 'exponential', initial = 0.1, \
                decay_steps = 9, decay_rate = 0.5 }\n\
                [[run]]\nmode = 'sync'\n\
                set = { compute.step_time = { law = 'constant', value = '2s' }, \
                program.optimizer.learning_rate = { schedule = 'constant', initial = 0.3 } }\n\
                [[run]]\nmode = 'sync'\n\
                set = { compute.step_time = { law = 'exponential', shift = '3s' } }\n";
    let scenario = example(text).unwrap();
    let own: Vec<&Scenario> = scenario.runs.iter().map(|run| scenario.of(run)).collect();
    let laws: Vec<_> = own.iter().map(|own| own.hardware.compute.step_time.clone()).collect();
    assert_eq!(laws[0], Some(Law::Constant { value: 2.0 }));
    let law = Box::new(Law::Exponential { mean: 1.0 });
    assert_eq!(laws[1], Some(Law::Shifted { shift: 3.0, law }));
    assert_eq!(own[0].settings.optimizer.learning_rate, LearningRate::from(0.3));
    let keys: Vec<String> = scenario.runs[0].own_keys.iter().map(ToString::to_string).collect();
    assert_eq!(keys, ["compute.step_time", "program.optimizer.learning_rate"]);
}

#[test]
fn a_mistake_that_a_runs_own_settings_make_of_the_scenarios_key_is_told_of_that_key() {
    let text = "[program]\noptimizer = { rule = 'momentum', momentum = 0.9 }\n\
                [[run]]\nmode = 'sync'\nset = { program.optimizer.rule = 'adam' }\n";
    let error = example(text).unwrap_err().to_string();
    let expected = "example.toml:2: program.optimizer.momentum: the optimizer's `rule` has no such \
                    parameter; `momentum` and `rms_prop` have `momentum`; this is so in run[0], \
                    whose `set` changes only the keys that it names: its `unset` removes others";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_mistake_in_what_is_a_runs_own_is_told_with_its_line() {
    let run = "[[run]]\nmode = \"sync\"\n[[run]]\nname = \"b\"\nmode = \"sync\"\n";
    let cases = [
        ("set = { program.batch = 0 }", ":6: run[1].set.program.batch: 0 must be at least 1"),
        (
            "set = { program.hiden = [3] }",
            ":6: run[1].set.program.hiden: unknown field `hiden`, expected one of …; did you mean \
             `hidden`?",
        ),
        (
            "set = { stop.steps = 5, program.batch = inf }",
            ":6: run[1].set.program.batch: invalid type: floating point `inf`, expected a whole",
        ),
        ("set = { seed = 3 }", "`run[1].set`: `seed` is the same for all runs"),
        ("unset = [\"stop\"]", "`unset stop`: `stop` is not set, so that it can't be removed"),
        (
            "set = { cluster.worker = 0 }",
            ":6: run[1].set.cluster.worker: a job has at least 1 task",
        ),
    ];
    for (own, expected) in cases {
        let error = without_names(&example(&format!("{run}{own}")).unwrap_err());
        assert!(error.contains(expected), "`{error}` does not say `{expected}`");
    }
}

#[test]
fn a_change_that_does_not_fit_a_run_which_is_not_wanted_is_no_mistake() {
    let text = "[cluster]\nworker = 4\n[[run]]\nname = 'a'\nmode = 'sync'\n\
                [[run]]\nname = 'b'\nmode = 'async'\n\
                [[run]]\nname = 'c'\nmode = 'async'\nset = { program.batch = 8 }\n\
                [[run]]\nname = 'd'\nmode = { sync = { backups = 3 } }\n";
    let changes = ["program.all_reduce=ring", "cluster.worker=2"].map(set);
    let read = |only: &[&str]| {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        expand(text, "own.toml", &changes, &[], &only)
    };
    let refused = |only: &[&str]| read(only).unwrap_err().to_string();
    assert_eq!(read(&["a"]).unwrap()[0].1.runs.len(), 4);
    for (only, at) in [("b", "run[1].mode"), ("c", "run[2]"), ("d", "run[3].mode")] {
        let said = refused(&["a", only]);
        assert!(said.contains(at), "{only}: {said}");
    }
    assert!(refused(&[]).contains("run[1].mode"));
}
