//! `status --cluster`: all tasks of a training are asked at once.

use std::fs;

use super::waits::endless;
use super::*;

#[test]
fn the_status_of_a_cluster_tells_how_each_task_is_and_why_one_does_not_answer() {
    let tasks = ThreeTasks::new("statuses", &endless("1min"));
    let (_ps, _chief) = (tasks.start("ps", 0), tasks.start("worker", 0));
    tasks.until_the_server_says("training at global step ");
    tasks.until_it_trains(0);
    let cluster = tasks.config("ps", 0)["cluster"].to_string();
    fs::write(tasks.folder.join("cluster.json"), cluster).unwrap();
    let status = |run: &str, more: &[&str]| {
        let args = ["status", "--cluster", "cluster.json", "--certs", "certs", "--run-name", run];
        trainyard_in(&tasks.folder, &[&args[..], more].concat(), &[])
    };
    let why = format!("no answer from {} by UDP", tasks.address("worker", 1));

    let said = status("tasks", &[]);
    assert_eq!(said.code, 10, "{}{}", said.out, said.err);
    let line = |task: &str| said.out.lines().find(|line| line.starts_with(task)).unwrap();
    assert!(line("ps:0 ").ends_with(" it trains"), "{}", said.out);
    assert!(line("worker:0 ").ends_with(" it trains"), "{}", said.out);
    assert!(line("worker:1 ").contains(&why), "{}", said.out);
    let below = said.out.split("\n\n").nth(1).unwrap_or_default();
    assert_eq!(below.matches("worker:1 never came\n").count(), 1, "{}", said.out);

    let said = status("tasks", &["--json"]);
    assert_eq!(said.code, 10, "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    let answers = document["tasks"].as_array().unwrap();
    let of = |key: &str| answers.iter().map(|answer| &answer[key]).collect::<Vec<_>>();
    assert_eq!(of("task"), ["ps:0", "worker:0", "worker:1"]);
    assert!(answers[0]["status"]["global_step"].as_u64() > Some(0), "{document}");
    assert!(answers[1]["status"]["bytes_sent"].as_u64() > Some(0), "{document}");
    let has_status: Vec<bool> = of("status").iter().map(|status| !status.is_null()).collect();
    assert_eq!(has_status, [true, true, false]);
    assert_eq!(of("error")[..2], [&Value::Null; 2]);
    assert!(of("error")[2].as_str().unwrap().contains(&why), "{document}");

    let _other = tasks.start("worker", 1);
    tasks.until_it_trains(1);
    let said = status("tasks", &[]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let said = status("another", &[]);
    assert_eq!(said.code, 2, "{}{}", said.out, said.err);
    let both = "asker:0 takes part in the training `another`, and worker:1 in `tasks`";
    assert!(said.out.contains(both), "{}", said.out);
}
