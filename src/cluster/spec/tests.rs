//! The cases of `server_lib_test.py` for `ClusterSpec`, our differences, and properties.

use super::*;
use crate::cluster::{AddressError, ConfigError, JobNameError};
use proptest::collection::btree_map;
use proptest::prelude::*;
use serde_json::json;

fn errors(spec: Result<ClusterSpec, ConfigErrors>) -> Vec<ConfigError> {
    spec.unwrap_err().as_slice().to_vec()
}

fn only_problem(spec: Result<ClusterSpec, ConfigErrors>) -> (String, ConfigProblem) {
    let [error]: [ConfigError; 1] = errors(spec).try_into().expect("one mistake");
    (error.path, error.problem)
}

fn toml(text: &str) -> Result<ClusterSpec, ConfigErrors> {
    ClusterSpec::from_toml(&text.parse().unwrap())
}

#[test]
fn a_spec_is_the_same_however_it_was_written() {
    let dense =
        ClusterSpec::dense([("worker", vec!["w0:1", "w1:1"]), ("ps", vec!["ps0:1"])]).unwrap();
    let sparse = ClusterSpec::sparse([
        ("ps", vec![(0, "ps0:1")]),
        ("worker", vec![(1, "w1:1"), (0, "w0:1")]),
    ]);
    let json = ClusterSpec::from_json(r#"{"worker": {"1": "w1:1", "0": "w0:1"}, "ps": ["ps0:1"]}"#);
    let toml = toml("ps = ['ps0:1']\nworker = { 0 = 'w0:1', 1 = 'w1:1' }");
    for other in [sparse, json, toml] {
        assert_eq!(other.unwrap(), dense);
    }
    assert_ne!(
        ClusterSpec::dense([("worker", ["w1:1", "w0:1"])]),
        ClusterSpec::dense([("worker", ["w0:1", "w1:1"])])
    );
}

#[test]
fn it_prints_as_tensorflow_prints_it() {
    let spec =
        ClusterSpec::from_json(r#"{"worker": {"3": "w3:1"}, "ps": ["ps0:1111", "ps1:1111"]}"#)
            .unwrap();
    assert_eq!(
        spec.to_string(),
        "ClusterSpec({'ps': ['ps0:1111', 'ps1:1111'], 'worker': {3: 'w3:1'}})"
    );
}

#[test]
fn a_sparse_job_has_holes_where_an_index_is_left_out() {
    let spec = ClusterSpec::sparse([("a", [(3, "d:1"), (0, "a:1")])]).unwrap();
    assert_eq!(spec.num_tasks("a"), Ok(2));
    assert_eq!(spec.task_indices("a").unwrap(), [0, 3]);
    assert_eq!(spec.as_dict(), json!({"a": {"0": "a:1", "3": "d:1"}}));
    assert!(spec.contains(&TaskName::new("a", 3)) && !spec.contains(&TaskName::new("a", 1)));
}

#[test]
fn a_job_without_tasks_is_a_job_and_an_empty_list() {
    let spec = ClusterSpec::from_json(r#"{"worker": []}"#).unwrap();
    assert!(!spec.is_empty());
    assert_eq!(spec.num_tasks("worker"), Ok(0));
    assert_eq!(spec.as_dict(), json!({"worker": []}));
    assert!(ClusterSpec::from_json("{}").unwrap().is_empty());
}

#[test]
fn unknown_jobs_and_tasks_are_named_with_those_there_are() {
    let spec = ClusterSpec::simulated([("a", 2), ("c", 0)]).unwrap();
    let no_job = "No such job in cluster: 'b'; its jobs are: a, c";
    assert_eq!(spec.num_tasks("b").unwrap_err().to_string(), no_job);
    assert_eq!(spec.task_indices("b").unwrap_err().to_string(), no_job);
    assert_eq!(spec.task_address(&TaskName::new("b", 0)).unwrap_err().to_string(), no_job);
    let no_task = spec.task_address(&TaskName::new("a", 3)).unwrap_err().to_string();
    assert_eq!(no_task, "No task with index 3 in job 'a'; its indices are: 0, 1");
    let no_tasks = spec.task_address(&TaskName::new("c", 0)).unwrap_err().to_string();
    assert_eq!(no_tasks, "No task with index 0 in job 'c'; its indices are: none");
}

#[test]
fn a_scenario_gives_numbers_of_tasks_or_addresses_but_not_both() {
    let spec = toml("worker = 2\nps = 1").unwrap();
    assert_eq!(spec, ClusterSpec::simulated([("ps", 1), ("worker", 2)]).unwrap());
    assert!(spec.is_simulated() && !toml("ps = ['a:1']").unwrap().is_simulated());
    let tasks: Vec<String> = spec.tasks().map(|task| task.to_string()).collect();
    assert_eq!(tasks, ["ps:0", "worker:0", "worker:1"]);
    assert_eq!(spec.task_address(&TaskName::new("worker", 1)), Ok("worker:1"));

    let mixed = only_problem(toml("ps = 1\nworker = ['a:1']"));
    assert_eq!(mixed, ("cluster.ps".into(), ConfigProblem::MixedCounts));
    let (path, problem) = only_problem(toml("ps = -1"));
    assert!(path == "cluster.ps" && matches!(problem, ConfigProblem::Type { .. }));
    assert_eq!(only_problem(toml("ps = 2000000")).1, ConfigProblem::TooManyTasks(2_000_000));
    assert!(matches!(only_problem(toml("ps = 1979-05-27")).1, ConfigProblem::Type { .. }));
}

#[test]
fn every_mistake_is_reported_at_its_path() {
    let spec = ClusterSpec::from_json(
        r#"{"my-ps": ["a:1"], "worker": ["b:2222", "B:02222", "c:99999", 5],
            "x": {"-1": "d:1", "y": "e:1"}, "z": "f:1"}"#,
    );
    let found: Vec<_> = errors(spec).into_iter().map(|error| (error.path, error.problem)).collect();
    let wrong_type = |expected, found: &str| ConfigProblem::Type { expected, found: found.into() };
    let first = "cluster.worker[0]".to_owned();
    let expected = [
        ("cluster.my-ps", JobNameError::Hyphen("my-ps".into()).into()),
        ("cluster.worker[1]", ConfigProblem::DuplicateAddress { address: "B:02222".into(), first }),
        ("cluster.worker[2]", AddressError::PortRange("99999".into()).into()),
        ("cluster.worker[3]", wrong_type("an address, \"host:port\"", "the number 5")),
        ("cluster.x.-1", ConfigProblem::Index("-1".into())),
        ("cluster.x.y", ConfigProblem::Index("y".into())),
        (
            "cluster.z",
            wrong_type(
                "a list of addresses or a map from task index to address",
                "the text \"f:1\"",
            ),
        ),
    ];
    assert_eq!(found, expected.map(|(path, problem)| (path.to_owned(), problem)));
}

#[test]
fn the_errors_print_a_line_each() {
    let errors = ClusterSpec::dense([("ps", ["a", "b:99999"])]).unwrap_err().to_string();
    let lines = [
        "cluster.ps[0]: `a` has no port; write `host:port`, such as `a:2222`",
        "cluster.ps[1]: port 99999 is out of range (1 to 65535)",
    ];
    assert_eq!(errors, lines.join("\n"));
}

#[test]
fn a_job_or_task_given_twice_is_refused() {
    let twice = only_problem(ClusterSpec::simulated([("ps", 1), ("ps", 2)]));
    assert_eq!(twice, ("cluster.ps".into(), ConfigProblem::DuplicateJob));
    let twice = only_problem(ClusterSpec::from_json(r#"{"ps": {"2": "a:1", "02": "b:1"}}"#));
    assert_eq!(twice.1, ConfigProblem::DuplicateTask(2));
}

#[test]
fn an_index_cannot_ask_for_all_the_memory() {
    let (path, problem) = only_problem(ClusterSpec::from_json(r#"{"ps": {"4294967295": "a:1"}}"#));
    assert_eq!(
        (path.as_str(), problem),
        ("cluster.ps.4294967295", ConfigProblem::Index("4294967295".into()))
    );
}

fn any_spec() -> impl Strategy<Value = ClusterSpec> {
    let tasks = btree_map(0..6u32, Just(()), 0..4);
    btree_map("[a-z]{1,4}", tasks, 0..4).prop_map(|jobs| {
        let mut ports = 1..;
        let mut address = || format!("host:{}", ports.next().unwrap());
        let jobs = jobs
            .into_iter()
            .map(|(job, tasks)| (job, tasks.into_keys().map(|i| (i, address())).collect()));
        ClusterSpec::sparse::<_, _, Vec<_>>(jobs).unwrap()
    })
}

proptest! {
    #[test]
    fn what_as_dict_writes_reads_back_as_the_same_spec(spec in any_spec()) {
        prop_assert_eq!(ClusterSpec::from_json(&spec.as_dict().to_string()).unwrap(), spec);
    }

    #[test]
    fn tasks_are_in_order_and_all_have_an_address(spec in any_spec()) {
        let tasks: Vec<TaskName> = spec.tasks().collect();
        prop_assert!(tasks.is_sorted());
        prop_assert!(
            tasks.iter().all(|task| spec.contains(task) && spec.task_address(task).is_ok())
        );
        let counted: usize = spec.jobs().map(|job| spec.num_tasks(job).unwrap()).sum();
        prop_assert_eq!(counted, tasks.len());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(\\{|\\}|\\[|\\]|\"|:|,|ps|[0-9]|\\PC){0,24}") {
        let _read_or_refused = ClusterSpec::from_json(&text);
    }
}
