//! The master that a configuration names (`session_master` of TF_CONFIG) leads the task's sessions.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{run, text, with_certificates};
use crate::support::binary::{free_addresses, scenario, trainyard_in};

/// What a task is told that connects to the master at `master`.
fn told(cluster: &Value, task: (&str, u32), master: &str) -> Value {
    let (job, index) = task;
    json!({
        "cluster": cluster, "task": {"type": job, "index": index},
        "session_master": format!("grpc://{master}"),
    })
}

#[test]
fn workers_that_are_told_of_another_master_have_their_sessions_there() {
    let folder = with_certificates("session_master");
    let path = scenario("session_master", &text("sync", "time = '4s'"));
    let [ps, first, second] = free_addresses();
    let cluster = json!({"ps": [ps], "worker": [first, second]});
    let tasks = [("ps", 0), ("worker", 0), ("worker", 1)];
    let running = tasks.map(|task| run(&folder, &path, &told(&cluster, task, &ps)));
    let began = Instant::now();
    loop {
        let status = ["status", &ps, "--task", "ps:0", "--run-name", "tasks", "--certs", "certs"];
        let said = trainyard_in(&folder, &status, &[]);
        if ["of worker:0: ", "of worker:1: "].iter().all(|client| said.out.contains(client)) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{} {}", said.out, said.err);
    }
    for task in running {
        let said = task.end();
        assert_eq!(said.code, 0, "{}", said.err);
    }
}

#[test]
fn a_master_that_is_no_task_of_the_cluster_is_refused() {
    let folder = with_certificates("session_master_strange");
    let path = scenario("session_master_strange", &text("sync", "steps = 1"));
    let [ps, first, strange] = free_addresses();
    let cluster = json!({"ps": [ps], "worker": [first]});
    let said = run(&folder, &path, &told(&cluster, ("worker", 0), &strange)).end();
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("the session master") && said.err.contains(&strange), "{}", said.err);
}
