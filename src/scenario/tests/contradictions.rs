//! Tests of the error for each contradiction in a scenario: what can be read and makes no sense.

use super::*;

#[test]
fn all_contradictions_are_reported_at_once_each_with_its_line_and_key() {
    let text = "[cluster]\nps = 0\nworker = 8\n[network]\nbandwidth = \"0Gbps\"\n\
[compute]\nslow = { \"worker:8\" = 2 }
[stop]\nevaluate_every = 0\nevaluate_every_samples = 100\n\
[[run]]\nmode = \"sync\"\n[[run]]\nmode = { sync = { backups = 8 } }\n\
[[run]]\nmode = { k_async = { k = 9 } }\n[[run]]\nmode = { k_batch_sync = { k = 0 } }
[[run]]\nmode = { delay_compensated = { lambda = -1.0 } }\n";
    let expected = "\
sims/example.toml:2: cluster.ps: a job has at least 1 task; remove it, or give it one, or train by \
`program.all_reduce`
sims/example.toml:5: network.bandwidth: must be above 0
sims/example.toml:7: compute.slow.\"worker:8\": the job `worker` has 8 tasks, counted from 0; \
`--unset` removes a key
sims/example.toml:8: stop: no condition, so no run would end; give `steps`, `samples` or `time`
sims/example.toml:9: stop.evaluate_every: 0 must be at least 1
sims/example.toml:10: stop.evaluate_every_samples: `evaluate_every` says the same in global steps; \
remove one of the two
sims/example.toml:14: run[1].mode.sync.backups: 8 backups of 8 workers leave nobody to wait for
sims/example.toml:16: run[2].mode.k_async.k: 9 workers are to be in each update, but there are 8
sims/example.toml:18: run[3].mode.k_batch_sync.k: 0 must be at least 1
sims/example.toml:20: run[4].mode.delay_compensated.lambda: -1 must be a finite number, at least 0";
    assert_eq!(example(text).unwrap_err().to_string(), expected);
}

/// Each pair: a file with one mistake, and the error after the file's name.
#[test]
fn each_contradiction_of_the_cluster_says_what_to_write_instead() {
    let cases = [
        (
            "[cluster]\nwroker = 2",
            "1: cluster: no `worker` job, so nobody trains; is `wroker` meant to be it?",
        ),
        ("[cluster]\nps = 2", "1: cluster: no `worker` job, so nobody trains"),
        (
            "[cluster]\nworker = 2\nworkers = 3",
            "3: cluster.workers: the tasks of `workers` would not train; is `worker` meant?",
        ),
        (
            "[cluster]\nworker = 2\nwroker = 3",
            "3: cluster.wroker: the tasks of `wroker` would not train; is `worker` meant?",
        ),
        (
            "[cluster]\nworker = 2\nPS = 2",
            "3: cluster.PS: the tasks of `PS` would not hold variables; is `ps` meant?",
        ),
        (
            "[cluster]\nworker = [\"a:1\", \"b\"]",
            "2: cluster.worker[1]: `b` is no `host:port`; write, for example, `10.0.0.1:2222`",
        ),
        (
            "[cluster]\nps = [\"a:1\"]\nworker = [\"b:1\", \"A:01\"]",
            "3: cluster.worker[1]: `A:01` is the address of ps:0 already; give worker:1 another",
        ),
        (
            "[cluster]\nworker = 1\n\"a:b\" = 1",
            "3: cluster.\"a:b\": a job's name is letters, digits and `_`, and begins with a letter",
        ),
        (
            "[network.racks]\nuplink = \"1Gbps\"",
            "1: network.racks: racks need both `hosts_per_rack` and `uplink`",
        ),
        ("[compute]\nrate = \"0FLOP/s\"", "2: compute.rate: must be above 0"),
        ("[compute]\ndevices = 0", "2: compute.devices: 0 must be at least 1 and at most 1024"),
        (
            "[compute]\nslow = { \"worker:1\" = -2 }",
            "2: compute.slow.\"worker:1\": -2 must be finite and above 0",
        ),
        (
            "[compute]\nslow = { worker = 2 }",
            "2: compute.slow.\"worker\": no task's name; write, for example, `worker:0`",
        ),
        (
            "[compute]\nslow = { \"worker:01\" = 2 }",
            "2: compute.slow.\"worker:01\": no task's name; write, for example, `worker:0`",
        ),
        (
            "[compute]\nslow = { \"wroker:0\" = 2 }",
            "2: compute.slow.\"wroker:0\": the cluster has no job `wroker`; it has ps, worker",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(example(text).unwrap_err().to_string(), format!("sims/example.toml:{expected}"));
    }
}

#[test]
fn an_evaluator_without_anything_to_measure_is_told_what_to_add() {
    let cases = [
        (
            "[cluster]\nworker = 2\nevaluator = 1",
            "3: cluster.evaluator: an evaluator measures checkpoints, and there are none; add \
             `[checkpoint]`",
        ),
        (
            "[cluster]\nworker = 2\nevaluator = 1\n[checkpoint]",
            "3: cluster.evaluator: an evaluator reads checkpoints in another process than the \
             chief's; give `checkpoint.directory`, a folder or URL that both see",
        ),
        (
            "[cluster]\nworker = 2\nevaluator = 2\n[checkpoint]\ndirectory = \"a\"",
            "3: cluster.evaluator: there can be one evaluator at most, not 2",
        ),
        (
            "[cluster]\nworker = 2\nevaluator = 1\n[checkpoint]\ndirectory = \"a\"\n[program]\n\
             model = \"null\"",
            "3: cluster.evaluator: the models `null` and `count`, and an imported graph without \
             `program.accuracy`, have nothing to measure; remove it",
        ),
        (
            "[cluster]\nworker = 2\nmaster = 1\nevaluator = 1\n[checkpoint]\ndirectory = \"a\"",
            "4: cluster.evaluator: beside the job `master`, an evaluator is not supported; rename \
             `master` to `chief`",
        ),
        (
            "[cluster]\nworker = 2\nevaluator = 1\n[checkpoint]\ndirectory = \"a\"\n[stop]\n\
             steps = 9\nevaluate_every = 3",
            "8: stop.evaluate_every: with an evaluator, looks are at checkpoints; set \
             `checkpoint.every_steps` instead",
        ),
        (
            "[evaluator]\nthrottle = \"1s\"",
            "1: evaluator: the cluster has no evaluator; add `evaluator = 1` to `[cluster]`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(example(text).unwrap_err().to_string(), format!("sims/example.toml:{expected}"));
    }
}

#[test]
fn each_contradiction_of_the_program_or_the_end_says_what_to_write_instead() {
    let accuracy = "neither `numerics = \"shapes\"`, nor the models `null` and `count`, nor an \
                    imported graph without `program.accuracy` have an accuracy; stop by `steps` or \
                    `time`";
    let computed = format!("2: stop.accuracy: {accuracy}");
    let looked_at = "3: stop.evaluate_every: neither the models `null` and `count`, nor an \
                     imported graph without `program.accuracy` have an accuracy to look at; \
                     remove the key";
    let cases = [
        (
            "[stop]\naccuracy = 0.9",
            "1: stop: the accuracy may never be reached; give `steps`, `samples` or `time` as well",
        ),
        ("[stop]\nsteps = 9\naccuracy = 95", "3: stop.accuracy: 95 must be above 0 and at most 1"),
        ("[stop]\naccuracy = 0.9\nsteps = 9\n[program]\nmodel = \"null\"", computed.as_str()),
        ("[stop]\naccuracy = 0.9\nsteps = 9\n[compute]\nnumerics = \"shapes\"", computed.as_str()),
        ("[stop]\nsteps = 9\nevaluate_every = 3\n[program]\nmodel = \"null\"", looked_at),
        ("[program]\nbatch = 0", "2: program.batch: 0 must be at least 1"),
        (
            "[program]\nhidden = [8]",
            "2: program.hidden: only the models `mlp` and `embedding` have hidden layers; use one, \
             or remove them",
        ),
        (
            "[program]\nmodel = \"mlp\"\nhidden = [8, 0]",
            "3: program.hidden: the model `mlp` needs at least one hidden layer, each of width 1 \
             or more; without one, it is `softmax`",
        ),
        (
            "[program.optimizer]\nrule = \"adam\"\nmomentum = 0.9",
            "3: program.optimizer.momentum: the optimizer's `rule` has no such parameter; \
             `momentum` and `rms_prop` have `momentum`",
        ),
        (
            "[program.optimizer]\nlearning_rate = nan",
            "2: program.optimizer.learning_rate: must be finite and at least 0",
        ),
        (
            "[program.optimizer]\nrule = \"adam\"\nbeta1 = 1.0",
            "3: program.optimizer.beta1: must be at least 0 and below 1",
        ),
        (
            "[[run]]\nmode = \"sync\"\n[[run]]\nname = \"sync\"\nmode = \"async\"",
            "4: run[1].name: an earlier run is also called `sync`",
        ),
        ("run = []", "1: run: no run; give one, or remove the key"),
    ];
    for (text, expected) in cases {
        assert_eq!(example(text).unwrap_err().to_string(), format!("sims/example.toml:{expected}"));
    }
}

#[test]
fn rates_to_choose_from_where_nothing_is_learnt_are_refused() {
    let tune = "[tune]\nlearning_rate = [0.1, 0.2]\n";
    for unlearnt in
        ["compute.numerics = 'shapes'", "program.model = 'null'", "program.model = 'count'"]
    {
        let said = example(&format!("{unlearnt}\n{tune}")).unwrap_err().to_string();
        let expected = "sims/example.toml:2: tune: with `numerics = \"shapes\"`, a table of layers";
        assert!(said.starts_with(expected), "{said}");
    }
    assert!(example(tune).is_ok());
}

#[test]
fn a_key_or_a_data_set_of_another_model_is_refused() {
    let cases = [
        (
            "[program]\nrows = 7",
            "2: program.rows: only the model `embedding` has `rows`; use it, or remove this",
        ),
        ("[program]\nmodel = \"embedding\"\ndim = 0", "3: program.dim: 0 must be at least 1"),
        (
            "[program]\nmodel = \"embedding\"\ndataset = \"digits\"",
            "3: program.dataset: the model `embedding` needs sparse samples: \
             `{ libsvm = \"FILE\" }`, or no key for synthetic ones",
        ),
        (
            "[program]\nmodel = \"resnet50\"\ndataset = \"digits\"",
            "3: program.dataset: a published model has random images of its own size; remove the \
             key",
        ),
        (
            "[program]\nmodel = \"null\"\nlabel_concentration = 0.1",
            "3: program.label_concentration: only samples in memory are shared out by their \
             labels; remove the key",
        ),
        ("[program]\nlabel_concentration = 0", "2: program.label_concentration: must be above 0"),
    ];
    for (text, expected) in cases {
        assert_eq!(example(text).unwrap_err().to_string(), format!("sims/example.toml:{expected}"));
    }
}

/// Each pair: a law, and the error after its key.
#[test]
fn a_law_with_the_wrong_parameters_is_refused() {
    let cases = [
        ("law = \"lognormal\", sigma = -0.3", ".sigma: -0.3 must be finite and at least 0"),
        ("law = \"lognormal\"", ".sigma: this law needs it"),
        ("law = \"constant\", value = 1, sigma = 0.1", ".sigma: this law has no such parameter"),
        ("law = \"uniform\", low = 2, high = 1", ".high: 1 is less than `low`, 2"),
        ("law = \"exponential\", mean = 0", ".mean: 0 must be finite and above 0"),
        ("law = \"pareto\", scale = 1, shape = inf", ".shape: inf must be finite and above 0"),
        (
            "law = \"empirical\", values = []",
            ".values: give at least one value, each finite and at least 0",
        ),
        ("law = \"empirical\"", ".values: give at least one value, each finite and at least 0"),
    ];
    for (law, expected) in cases {
        let error = example(&format!("[compute]\nstraggler = {{ {law} }}")).unwrap_err();
        assert_eq!(error.to_string(), format!("sims/example.toml:2: compute.straggler{expected}"));
    }
    let error = example("[compute]\nstep_time = { law = \"exponential\" }").unwrap_err();
    assert_eq!(error.to_string(), "sims/example.toml:2: compute.step_time.mean: this law needs it");
}

#[test]
fn a_convnet_of_what_are_no_images_is_a_mistake() {
    let text =
        "[program]\nmodel = \"convnet\"\ndataset = { csv = \"table.csv\", label = \"class\" }";
    let error = example(text).unwrap_err().to_string();
    assert!(
        error.starts_with("sims/example.toml:3: program.dataset: the model `convnet` needs images"),
        "{error}"
    );
}

#[test]
fn a_name_that_is_blank_or_has_control_characters_is_a_mistake() {
    let text = "name = \"a\\u001b[31m\"\n[[run]]\nname = \" \"\nmode = \"sync\"\n\
                [[run]]\nname = \"a\\nb\"\nmode = \"sync\"\n\
                [[run]]\nname = \"a/b, é\"\nmode = \"sync\"\n";
    let error = example(text).unwrap_err().to_string();
    for says in [
        r#"1: name: the name "a\u{1b}[31m" has control characters"#,
        r#"3: run[0].name: the name " " is empty"#,
        r#"6: run[1].name: the name "a\nb" has control characters"#,
    ] {
        assert!(error.contains(says), "`{error}` does not say `{says}`");
    }
    assert!(!error.contains("run[2]"), "folders are named safely: {error}");
}

#[test]
fn a_fault_of_checkpoints_in_a_scenario_without_any_is_a_mistake() {
    let text = "[[fault]]\nat = \"1s\"\ntorn_checkpoint = \"cut\"\n\
                [[fault]]\nat = \"1s\"\nfull_disk = true\nfor = \"1s\"";
    let error = example(text).unwrap_err().to_string();
    for key in ["fault[0].torn_checkpoint", "fault[1].full_disk"] {
        let says = format!("{key}: the run has no checkpoints for it to harm; add `[checkpoint]`");
        assert!(error.contains(&says), "`{error}` does not say `{says}`");
    }
    assert!(example(&format!("checkpoint = {{ every_steps = 9 }}\n{text}")).is_ok());
}

#[test]
fn a_fault_that_lacks_something_or_has_too_much_is_a_mistake_where_it_is() {
    let text = "[cluster]\nps = 1\nworker = 2\n[[fault]]\nat = \"1s\"\n[[fault]]\nat = \"1s\"\n\
                freeze = \"ps:1\"\n\
                [[fault]]\ncrash = \"worker:0\"\nfor = \"1s\"\n\
                [[fault]]\nat = \"1s\"\npartition = [\"ps:0\"]\nfor = \"1s\"\n\
                [[fault]]\nat = \"1s\"\nslow_task = \"ps:0\"\nfactor = 0.5\nfor = \"1s\"\n\
                restart_after = \"1s\"\n\
                [[fault]]\nat = \"1s\"\nevery = \"1s\"\nfreeze = \"ps\"\nfor = \"1s\"\n\
                [[fault]]\nevery = { law = \"pareto\", scale = \"1s\" }\nfreeze = \"ps\"\n\
                for = \"1s\"";
    let error = example(text).unwrap_err().to_string();
    for says in [
        "fault[5].at: only of a fault that happens once",
        "fault[5]: `stop.time` is missing: what comes again and again is drawn until then",
        "fault[6].every.shape: this law needs it",
        "fault[0]: a fault is one of `crash`, `stop`, `freeze`, `partition`, `one_way`, `loss`, \
         `slow_link`, `slow_task`, `full_disk` or `torn_checkpoint`",
        "fault[1]: `for` is missing: how long it lasts",
        "fault[1].freeze: the job `ps` has 1 tasks, counted from 0; `--unset` removes a key",
        "fault[2]: `at` is missing: when it happens",
        "fault[2].for: only of `freeze`, `partition`, `one_way`, `loss`, `slow_link`, \
         `slow_task` or `full_disk`; `crash` takes `restart_after`",
        "fault[3].partition: it is between two tasks or more, each named once",
        "fault[4].factor: 0.5 must be at least 1 and at most a million",
        "fault[4].restart_after: only of `crash` or `stop`; `slow_task` takes `factor` and `for`",
    ] {
        assert!(error.contains(says), "`{error}` does not say `{says}`");
    }
}

#[test]
fn a_fault_that_comes_without_end_is_a_mistake() {
    let every = |time: &str| {
        let fault = format!("{{ every = \"{time}\", torn_checkpoint = \"cut\" }}");
        let stop = "stop = { time = \"1h\" }\ncheckpoint = { every_steps = 9 }";
        example(&format!("{stop}\nfault = [{fault}]"))
    };
    assert!(every("1s").is_ok());
    for time in ["0s", "10ms"] {
        let error = every(time).unwrap_err().to_string();
        let says = "fault[0].every: it comes 100000 times and more until `stop.time`";
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_fault_with_a_key_that_there_is_not_is_asked_whether_another_was_meant() {
    let error =
        example("[[fault]]\nat = \"1s\"\nfreez = \"ps:0\"\nfor = \"1s\"").unwrap_err().to_string();
    assert!(error.contains("freez") && error.contains("did you mean `freeze`?"), "{error}");
}

#[test]
fn more_hidden_layers_than_are_built_are_refused() {
    let of = |layers: usize| {
        let hidden = vec!["1"; layers].join(", ");
        example(&format!("[program]\nmodel = \"mlp\"\nhidden = [{hidden}]\n"))
    };
    assert!(of(1000).is_ok());
    let said = of(1001).unwrap_err().to_string();
    let expected = "3: program.hidden: 1001 hidden layers are more than 1000";
    assert!(said.starts_with(&format!("sims/example.toml:{expected}")), "{said}");
}

#[test]
fn more_tasks_than_any_run_can_have_are_refused_before_anything_is_made_for_each() {
    for other in [
        "hosts = { tasks_per_host = 3, cores = 2 }",
        "gpus = { worker = { count = 1 } }",
        "network = { tasks = { worker = { latency = \"1us\" } } }",
        "network = { link = [{ between = [\"worker\", \"ps\"], latency = \"1us\" }] }",
        "compute = { tasks = { worker = { rate = \"1GFLOP/s\" } } }",
        "program.all_reduce = \"ring\"",
    ] {
        let text = format!("cluster = {{ ps = 4294967295, worker = 4294967295 }}\n{other}\n");
        let said = example(&text).unwrap_err().to_string();
        let expected = "1: cluster: 8589934590 tasks are more than 100000, the most of a run";
        assert_eq!(said, format!("sims/example.toml:{expected}"));
    }
}

#[test]
fn what_follows_from_another_mistake_is_not_said() {
    let modes = "[[run]]\nmode = 'sync'\n[[run]]\nmode = { sync = { backups = 1 } }\n\
                 [[run]]\nmode = { k_async = { k = 3 } }\n\
                 [[run]]\nmode = { k_batch_sync = { k = 0 } }";
    let said = |before: &str| example(&format!("{before}\n{modes}")).unwrap_err().to_string();
    let reduces = said("[cluster]\nworker = 8\n[program]\nall_reduce = 'ring'");
    assert_eq!(reduces.matches("set `mode = \"sync\"`").count(), 3, "{reduces}");
    assert_eq!(reduces.lines().count(), 3, "{reduces}");
    let nobody = said("[cluster]\nps = 1\nworker = 0");
    assert!(nobody.contains("cluster.worker: a job has at least 1 task"), "{nobody}");
    assert!(nobody.contains("k_batch_sync.k: 0 must be at least 1"), "{nobody}");
    assert_eq!(nobody.lines().count(), 2, "{nobody}");
    let servers = "[cluster]\nps = 0\nworker = 8\n[program]\nall_reduce = 'ring'";
    let servers = example(&format!("{servers}\n[[run]]\nmode = 'sync'")).unwrap_err().to_string();
    let says = "cluster.ps: an all-reduce has no parameter servers; remove the key, by \
                `--unset cluster.ps`";
    assert!(servers.ends_with(says), "{servers}");
}
