//! `task`: what it makes of its role, and what it says where that is missing or wrong.

use std::fs;

use serde_json::json;

use crate::support::binary::{Said, folder, scenario, trainyard_in};

const SCENARIO: &str =
    "[cluster]\nps = 1\nworker = 2\n[stop]\nsteps = 10\n[[run]]\nname = 'a b'\nmode = 'sync'\n";

/// Runs `task` on a scenario, with `args` and the variables.
fn task(test: &str, args: &[&str], variables: &[(&str, &str)]) -> Said {
    let path = scenario(test, SCENARIO);
    trainyard_in(&folder(&format!("{test}_in")), &[&["task", &path], args].concat(), variables)
}

#[track_caller]
fn assert_refused(said: &Said, words: &[&str]) {
    assert_ended_with(2, said, words);
}

/// The task would run, if it had its certificate.
#[track_caller]
fn assert_lacks(said: &Said, file: &str) {
    assert_ended_with(11, said, &[&format!("can't read none/{file}")]);
}

#[track_caller]
fn assert_ended_with(code: i32, said: &Said, words: &[&str]) {
    assert_eq!((said.code, said.out.as_str()), (code, ""), "{}", said.err);
    for word in words {
        assert!(said.err.contains(word), "no `{word}` in: {}", said.err);
    }
}

#[test]
fn a_task_that_is_told_nothing_says_what_to_set() {
    let said = task("role_none", &[], &[]);
    assert_refused(&said, &["--ps-hosts", "--cluster FILE", "TF_CONFIG", "SLURM"]);
}

#[test]
fn tf_config_is_told_to_be_overruled_by_flags_and_named_once_in_an_error() {
    let flags = ["--ps-hosts=c:1", "--worker-hosts=d:1", "--task=worker:0"];
    let cluster = |args: &[&str], config: &str| {
        let args = [&["cluster"], args].concat();
        trainyard_in(&folder("role_overruled"), &args, &[("TF_CONFIG", config)])
    };
    let config = r#"{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}"#;
    let said = cluster(&flags, config);
    assert!(said.out.contains("ps:0     c:1"), "{}", said.out);
    assert!(said.err.contains("TF_CONFIG: is not read, since flags name the task"), "{}", said.err);
    assert_eq!(cluster(&[], config).err, "");
    assert_eq!(cluster(&flags, "").err, "");
    let torn = cluster(&[], "{");
    assert_eq!((torn.code, torn.err.matches("TF_CONFIG").count()), (2, 1), "{}", torn.err);
}

#[test]
fn all_mistakes_in_tf_config_are_told_at_once() {
    let config = json!({
        "cluster": {"ps": ["a"], "worker": ["b:1", "b:1"]},
        "task": {"type": "boss", "index": 0},
    });
    let said = task("role_wrong", &[], &[("TF_CONFIG", &config.to_string())]);
    assert_refused(
        &said,
        &["cluster.ps[0]: `a` has no port", "cluster.worker[1]", "No such job in cluster: 'boss'"],
    );
}

#[test]
fn flags_come_before_a_file_a_file_before_tf_config() {
    let config = json!({
        "cluster": {"ps": ["a:1"], "worker": ["b:1"]},
        "task": {"type": "worker", "index": 0},
    });
    let config = config.to_string();
    let variables = [("TF_CONFIG", &*config)];
    let folder = folder("role_order_files");
    assert_lacks(&task("role_order_1", &["--certs", "none"], &variables), "worker-0.pem");
    for (name, text) in [
        ("c.toml", "[cluster]\nps = ['a:1']\nworker = ['b:1', 'c:1']\n"),
        ("plain.toml", "ps = ['a:1']\nworker = ['b:1', 'c:1']\n"),
        ("c.json", r#"{"ps": ["a:1"], "worker": ["b:1", "c:1"]}"#),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        let args = [
            "--certs",
            "none",
            "--cluster",
            path.to_str().unwrap(),
            "--job_name",
            "worker",
            "--task_index",
            "1",
        ];
        assert_lacks(&task("role_order_2", &args, &variables), "worker-1.pem");
    }
    let hosts = [
        "--certs",
        "none",
        "--ps_hosts",
        "a:1",
        "--worker_hosts",
        "b:1",
        "--job-name",
        "ps",
        "--task-index",
        "0",
    ];
    assert_lacks(&task("role_order_3", &hosts, &variables), "ps-0.pem");
    let both = [&hosts[..], &["--cluster", "x.toml"]].concat();
    assert_refused(&task("role_order_4", &both, &variables), &["give one of them"]);
    assert_refused(
        &task("role_order_5", &["--job-name", "ps"], &variables),
        &["name a task of no cluster"],
    );
}

#[test]
fn a_task_without_a_certificate_is_told_how_to_make_one() {
    let config =
        json!({"cluster": {"ps": ["a:1"], "worker": ["b:1"]}, "task": {"type": "ps", "index": 0}});
    let said = task("role_certs", &[], &[("TF_CONFIG", &config.to_string())]);
    assert_refused(&said, &["--certs DIR", "certs issue DIR --task ps:0"]);
}

#[test]
fn a_worker_beyond_those_of_the_scenario_is_refused_where_it_is_told_of_some_tasks_only() {
    let config = json!({
        "cluster": {"ps": ["a:1"], "worker": {"7": "b:1"}},
        "task": {"type": "worker", "index": 7},
    });
    let said = task("role_beyond", &[], &[("TF_CONFIG", &config.to_string())]);
    assert_refused(&said, &["worker:7", "--set cluster.worker=N"]);
}
