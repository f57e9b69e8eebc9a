//! The cases of `tfconfig_cluster_resolver_test.py` and `run_config_test.py`, and the shapes TFJob
//! writes.

use super::*;
use crate::cluster::{AddressError, Flags, JobNameError};
use proptest::prelude::*;
use serde_json::{Value, json};

fn run(config: Value) -> RunConfig {
    RunConfig::from_tf_config(Some(&config.to_string())).unwrap()
}

/// Each mistake as its path and problem.
fn problems(config: Result<RunConfig, ConfigErrors>) -> Vec<(String, ConfigProblem)> {
    config
        .unwrap_err()
        .as_slice()
        .iter()
        .map(|error| (error.path.clone(), error.problem.clone()))
        .collect()
}

fn only_problem(config: Value) -> (String, ConfigProblem) {
    let problems = problems(RunConfig::from_tf_config(Some(&config.to_string())));
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].clone()
}

fn filters(config: &RunConfig) -> Vec<String> {
    config.device_filters().iter().map(ToString::to_string).collect()
}

fn with_chief() -> Value {
    json!({"chief": ["h0:1"], "ps": ["h1:1", "h2:1"], "worker": ["h3:1", "h4:1", "h5:1"]})
}

fn task(cluster: Value, job: &str, index: impl Into<Value>) -> Value {
    json!({"cluster": cluster, "task": {"type": job, "index": index.into()}})
}

#[test]
fn each_role_of_a_cluster_with_a_chief_is_as_in_run_config() {
    let cases = [
        ("chief", 0, true, "grpc://h0:1", vec!["/job:ps", "/job:chief"]),
        ("worker", 1, false, "grpc://h4:1", vec!["/job:ps", "/job:worker/task:1"]),
        (
            "ps",
            1,
            false,
            "grpc://h2:1",
            vec!["/job:ps", "/job:worker", "/job:chief", "/job:master"],
        ),
    ];
    for (job, index, is_chief, master, device_filters) in cases {
        let config = run(task(with_chief(), job, index));
        assert_eq!(config.task(), &TaskName::new(job, index));
        assert_eq!(config.is_chief(), is_chief, "{job}");
        assert_eq!(config.chief(), Some(TaskName::new("chief", 0)));
        assert_eq!(config.master(), master);
        assert_eq!(filters(&config), device_filters);
        assert_eq!(config.cluster_spec().as_dict(), with_chief());
    }
}

#[test]
fn without_a_cluster_this_process_is_worker_0_and_chief() {
    for text in [None, Some(""), Some(" \n"), Some("{}"), Some(r#"{"cluster": {}, "task": null}"#)]
    {
        let config = RunConfig::from_tf_config(text).unwrap();
        assert_eq!(config.task(), &TaskName::new("worker", 0));
        assert!(
            config.is_chief()
                && config.cluster_spec().is_empty()
                && config.device_filters().is_empty()
        );
        assert_eq!(config.master(), "");
    }
    let config =
        run(json!({"session_master": "s:1", "eval_session_master": "e:1", "model_dir": "logs"}));
    assert_eq!((config.master(), config.model_dir()), ("s:1", Some("logs")));
    assert!(config.warnings().is_empty());
    for key in ["eval_session_master", "environment"] {
        assert_eq!(only_problem(json!({key: 1})).0, key);
    }
    let wrong =
        problems(RunConfig::from_tf_config(Some(r#"{"task": {"type": "ps", "index": 1}}"#)));
    let expected = [
        ("task.type", ConfigProblem::LocalType("ps".into())),
        ("task.index", ConfigProblem::LocalIndex(1)),
    ];
    assert_eq!(wrong, expected.map(|(path, problem)| (path.to_owned(), problem)));
}

#[test]
fn without_a_chief_job_worker_0_leads() {
    let cluster = json!({"ps": ["a:1"], "worker": ["b:1", "c:1"]});
    assert!(run(task(cluster.clone(), "worker", 0)).is_chief());
    let other = run(task(cluster, "worker", "1"));
    assert!(!other.is_chief());
    assert_eq!(other.chief(), Some(TaskName::new("worker", 0)));
}

#[test]
fn a_cluster_of_other_jobs_is_led_by_its_first_task_that_is_no_ps() {
    let spec = ClusterSpec::simulated([("ps", 1), ("trainer", 2)]).unwrap();
    let config = RunConfig::of_task(spec, &TaskName::new("trainer", 0)).unwrap();
    assert!(config.is_chief() && config.device_filters().is_empty());
}

#[test]
fn the_legacy_master_leads_as_a_chief_does() {
    let cluster = json!({"master": ["a:1"], "ps": ["b:1"], "worker": ["c:1"]});
    let config = run(task(cluster, "master", 0));
    assert!(config.is_chief());
    assert_eq!(filters(&config), ["/job:ps", "/job:master"]);
}

#[test]
fn an_evaluator_is_outside_the_cluster_whether_listed_or_not() {
    let mut listed = with_chief();
    listed["evaluator"] = json!(["h6:1"]);
    for (cluster, index) in [(with_chief(), 12), (listed.clone(), 0)] {
        let config = run(task(cluster, "evaluator", index));
        assert!(
            config.cluster_spec().is_empty()
                && !config.is_chief()
                && config.device_filters().is_empty()
        );
        assert_eq!(config.master(), "");
    }
    assert_eq!(run(task(listed, "worker", 0)).cluster_spec().as_dict(), with_chief());
    let alone = run(task(json!({"chief": ["a:1"], "evaluator": ["b:1"]}), "chief", 0));
    assert_eq!(alone.master(), "");
}

#[test]
fn a_session_master_is_taken_verbatim() {
    let mut config = task(with_chief(), "worker", 1);
    config["session_master"] = json!("elsewhere");
    assert_eq!(run(config).master(), "elsewhere");
}

#[test]
fn the_dense_shape_of_a_tfjob_is_read_without_a_warning() {
    let mut config = task(
        json!({"ps": ["j-ps-0.ns.svc:2222"], "worker": ["j-worker-0.ns.svc:2222"]}),
        "worker",
        0,
    );
    config["environment"] = json!("cloud");
    let config = run(config);
    assert!(config.is_chief() && !config.is_dynamic() && config.warnings().is_empty());
}

#[test]
fn a_worker_of_a_dynamic_tfjob_sees_the_ps_and_itself() {
    let cluster = json!({"worker": {"3": "w3:2222"}, "ps": ["p0:2222", "p1:2222"]});
    for key in ["cluster", "sparseCluster"] {
        let config = run(json!({key: cluster, "task": {"type": "worker", "index": 3}}));
        assert!(config.is_dynamic() && !config.is_chief());
        assert_eq!(config.cluster_spec().num_tasks("ps"), Ok(2));
        assert_eq!(config.master(), "grpc://w3:2222");
        assert_eq!(config.chief(), Some(TaskName::new("worker", 0)));
    }
}

#[test]
fn a_ps_of_a_dynamic_tfjob_sees_itself_at_its_own_index() {
    let config = run(json!({
        "sparseCluster": {"worker": {}, "ps": ["p1:2222"]},
        "task": {"type": "ps", "index": 1},
    }));
    assert_eq!(config.cluster_spec().task_address(config.task()), Ok("p1:2222"));
}

#[test]
fn a_chief_of_a_dynamic_tfjob_sees_nothing_and_leads() {
    let cluster = json!({"worker": {}, "ps": []});
    let config = run(task(cluster.clone(), "chief", 0));
    assert!(config.is_chief() && config.is_dynamic());
    assert_eq!(config.master(), "");
    assert_eq!(only_problem(task(cluster, "chief", 1)).0, "task.type");
}

#[test]
fn wrong_roles_are_refused() {
    let two = task(json!({"chief": ["a:1", "b:1"]}), "chief", 0);
    assert_eq!(
        only_problem(two),
        ("cluster.chief".into(), ConfigProblem::Chief { job: "chief", indices: "0, 1".into() })
    );
    let both = task(json!({"chief": ["a:1"], "master": ["b:1"]}), "chief", 0);
    assert_eq!(only_problem(both), ("cluster.master".into(), ConfigProblem::ChiefAndMaster));
    let evaluator = task(json!({"master": ["a:1"]}), "evaluator", 0);
    assert_eq!(only_problem(evaluator), ("task.type".into(), ConfigProblem::EvaluatorWithMaster));
    let evaluators = task(json!({"chief": ["a:1"], "evaluator": ["b:1", "c:1"]}), "chief", 0);
    assert_eq!(
        only_problem(evaluators),
        ("cluster.evaluator".into(), ConfigProblem::SeveralEvaluators(2))
    );
    let (path, problem) = only_problem(task(with_chief(), "workers", 0));
    assert_eq!(path, "task.type");
    assert!(
        problem
            .to_string()
            .contains("No such job in cluster: 'workers'; its jobs are: chief, ps, worker")
    );
    let (path, problem) = only_problem(task(with_chief(), "worker", 3));
    assert_eq!(path, "task.index");
    assert!(
        problem
            .to_string()
            .contains("No task with index 3 in job 'worker'; its indices are: 0, 1, 2")
    );
    for index in [json!(-1), json!("x"), json!(1.5), json!(true), json!([0])] {
        let (path, problem) = only_problem(task(with_chief(), "worker", index));
        assert!(path == "task.index" && matches!(problem, ConfigProblem::Type { .. }));
    }
}

#[test]
fn every_mistake_is_reported_at_once_and_none_twice() {
    let wrong = json!({
        "cluster": {"my-job": ["a:1"], "ps": "b:1", "worker": ["c", "d:99999", "d:1", "d:1"]},
        "task": {"type": "worker", "index": 1, "trial": 3},
        "model_dir": "",
        "rpc_layer": 7,
        "service": [],
    });
    let found = problems(RunConfig::from_tf_config(Some(&wrong.to_string())));
    let wrong_type = |expected, found: &str| ConfigProblem::Type { expected, found: found.into() };
    let duplicate = ConfigProblem::DuplicateAddress {
        address: "d:1".into(),
        first: "cluster.worker[2]".into(),
    };
    let expected = [
        ("rpc_layer", wrong_type("a text", "the number 7")),
        ("model_dir", ConfigProblem::Empty),
        ("service", wrong_type("a map", "a list")),
        ("cluster.my-job", JobNameError::Hyphen("my-job".into()).into()),
        (
            "cluster.ps",
            wrong_type(
                "a list of addresses or a map from task index to address",
                "the text \"b:1\"",
            ),
        ),
        ("cluster.worker[0]", AddressError::NoPort("c".into()).into()),
        ("cluster.worker[1]", AddressError::PortRange("99999".into()).into()),
        ("cluster.worker[3]", duplicate),
    ];
    assert_eq!(found, expected.map(|(path, problem)| (path.to_owned(), problem)));
}

#[test]
fn what_is_missing_or_unreadable_is_one_mistake() {
    let missing = only_problem(json!({"cluster": {"worker": ["a:1"]}, "task": {"index": 0}}));
    assert_eq!(missing, ("task.type".to_owned(), ConfigProblem::Missing));
    let task = json!({"type": "ps", "index": 1});
    assert_eq!(only_problem(json!({"cluster": null, "task": task})).0, "cluster");
    assert_eq!(only_problem(json!({"cluster": {"ps": ["a:1"]}, "task": "ps"})).0, "task");
    assert_eq!(only_problem(json!({"cluster": {"ps": 3}, "task": task})).0, "cluster.ps");
    assert_eq!(only_problem(json!([])).0, "TF_CONFIG");
    let clusters = json!({"cluster": {"ps": ["a:1", "b:1"]}, "sparseCluster": {}, "task": task});
    assert_eq!(only_problem(clusters), ("sparseCluster".into(), ConfigProblem::TwoClusters));
    let unreadable = RunConfig::from_tf_config(Some("{")).unwrap_err().to_string();
    assert!(
        unreadable.starts_with("TF_CONFIG: cannot be read as JSON")
            && unreadable.contains("line 1")
    );
    let twice =
        RunConfig::from_tf_config(Some(r#"{"task": {}, "task": {}}"#)).unwrap_err().to_string();
    assert!(twice.contains("the key `task` is repeated"), "{twice}");
}

/// As TensorFlow's `RunConfig`, whose client has no task type and is the chief.
#[test]
fn a_cluster_without_a_task_is_seen_by_a_client_that_is_chief() {
    let config = run(json!({"cluster": with_chief()}));
    assert_eq!((config.task_type(), config.is_chief()), (None, true));
    assert_eq!(config.cluster_spec().as_dict(), with_chief());
    assert_eq!((config.master(), config.chief()), ("", Some(TaskName::new("chief", 0))));
    let told = run(json!({"cluster": with_chief(), "session_master": "s:1"}));
    assert_eq!(told.master(), "s:1");
    let own = run(task(with_chief(), "worker", 2));
    assert_eq!((own.task_type(), own.is_chief()), (Some("worker"), false));
    assert_eq!(own.task(), &TaskName::new("worker", 2));
}

#[test]
fn unknown_keys_and_roles_are_warned_of() {
    let mut config = task(json!({"chief": ["a:1"], "workers": ["b:1"]}), "chief", 0);
    config["task"]["trial"] = json!(1);
    config["job"] = json!({});
    let warned: Vec<String> =
        run(config).warnings().iter().map(|warning| warning.path.clone()).collect();
    assert_eq!(warned, ["job", "task.trial", "cluster.workers"]);
}

#[test]
fn the_flags_of_the_example_trainer_say_the_same_as_tf_config() {
    let flags = |job: Option<&str>, index| Flags {
        ps_hosts: Some("a:2222, b:2222".into()),
        worker_hosts: Some("c:2222,d:2222".into()),
        job_name: job.map(Into::into),
        task_index: index,
        task: None,
    };
    let cluster = json!({"ps": ["a:2222", "b:2222"], "worker": ["c:2222", "d:2222"]});
    let same = run(task(cluster, "worker", 1));
    assert_eq!(RunConfig::from_flags(&flags(Some("worker"), Some(1))), Ok(same));
    assert_eq!(RunConfig::from_flags(&Flags::default()), RunConfig::from_tf_config(None));
    let first = RunConfig::from_flags(&flags(Some("worker"), None)).unwrap();
    assert_eq!(first.task(), &TaskName::new("worker", 0), "TensorFlow's default index is 0");

    let missing = problems(RunConfig::from_flags(&flags(None, None)));
    assert_eq!(
        missing,
        ["--job-name", "--task-index"].map(|path| (path.to_owned(), ConfigProblem::Missing))
    );
    let wrong = Flags { ps_hosts: Some("a:2222,,c:2222".into()), ..flags(Some("ps"), Some(3)) };
    let paths: Vec<String> =
        problems(RunConfig::from_flags(&wrong)).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["--ps-hosts[1]", "--worker-hosts[0]", "--task-index"]);
    let at_once = Flags { task: Some(TaskName::new("worker", 2)), ..flags(None, None) };
    let told = RunConfig::from_flags(&at_once).unwrap_err().to_string();
    assert!(told.starts_with("--task: No task with index 2"), "{told}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_reason(
        text in "(\\{|\\}|\\[|\\]|\"cluster\":|\"task\":|\"ps\":|\"a:1\"|,|[0-9]|\\PC){0,24}"
    ) {
        if let Err(errors) = RunConfig::from_tf_config(Some(&text)) {
            prop_assert!(!errors.as_slice().is_empty());
        }
    }

    #[test]
    fn in_a_valid_cluster_just_one_task_leads(
        chief in 0..2u32, ps in 0..4u32, worker in 1..4u32
    ) {
        let jobs = [("chief", chief), ("ps", ps), ("worker", worker)];
        let spec =
            ClusterSpec::simulated(jobs.into_iter().filter(|(_, count)| *count > 0)).unwrap();
        let configs: Vec<_> =
            spec.tasks().map(|task| RunConfig::of_task(spec.clone(), &task).unwrap()).collect();
        prop_assert_eq!(configs.iter().filter(|config| config.is_chief()).count(), 1);
    }
}
