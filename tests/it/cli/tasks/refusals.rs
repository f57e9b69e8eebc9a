//! Tasks that are refused after their training has begun: they end with the code of the refusal,
//! which no restart mends, once who refuses them has been waited for in vain.

use super::waits::endless;
use super::*;
use crate::support::binary::free_address;

/// Two workers of `tasks`, whose training was under way when its parameter server was killed.
fn workers_without_a_server(tasks: &ThreeTasks) -> [Running; 2] {
    let (ps, workers) = (tasks.start("ps", 0), tasks.start_workers());
    tasks.until_both_train();
    drop(ps); // kills it
    workers
}

#[test]
fn workers_whose_parameter_server_comes_back_with_another_runs_certificates_end_with_11() {
    let (ours, theirs) =
        (ThreeTasks::new("refusals_ours", &endless("2s")), with_certificates("refusals_theirs"));
    let workers = workers_without_a_server(&ours);
    let quickly = ["--set", "network.recovery=800ms"];
    let ps = run_with(&theirs, &ours.scenario, &ours.config("ps", 0), &quickly);
    for worker in workers.map(Running::end) {
        assert_eq!(worker.code, 11, "{}", worker.err);
        let last = worker.err.lines().last().unwrap_or_default();
        for part in ["ps:0 was lost", "ps:0 (its certificate is not one of this run"] {
            assert!(last.contains(part), "{}", worker.err);
        }
    }
    let ps = ps.end();
    assert_eq!(ps.code, 11, "it was dialed from the address of a task: {}", ps.err);
    let last = ps.err.lines().last().unwrap_or_default();
    assert!(last.contains("a connection from 127.0.0.1 was refused"), "{}", ps.err);
}

#[test]
fn workers_whose_parameter_server_comes_back_with_other_settings_end_with_2() {
    let tasks = ThreeTasks::new("refusals_settings", &endless("2s"));
    let workers = workers_without_a_server(&tasks);
    let _ps = tasks.start_with("ps", 0, &["--set", "program.batch=16"]);
    for worker in workers.map(Running::end) {
        assert_eq!(worker.code, 2, "{}", worker.err);
        let last = worker.err.lines().last().unwrap_or_default();
        assert!(last.contains("start both with the same scenario"), "{}", worker.err);
    }
}

#[test]
fn a_parameter_server_whose_peer_comes_back_with_other_settings_ends_with_2_as_the_workers_do() {
    let folder = with_certificates_of("refusals_servers", "ps:0,ps:1,worker:0,worker:1");
    let path = scenario("refusals_servers", &endless("2s").replace("ps = 1", "ps = 2"));
    let [ps, other_ps, first, second] = free_addresses();
    let start = |job: &str, index: u32, more: &[&str]| {
        let cluster = json!({"ps": [ps, other_ps], "worker": [first, second]});
        let config = json!({"cluster": cluster, "task": {"type": job, "index": index}});
        run_with(&folder, &path, &config, more)
    };
    let [right, other] = [0, 1].map(|index| start("ps", index, &[]));
    let [mut chief, worker] = [0, 1].map(|index| start("worker", index, &[]));
    chief.line_with(" steps, ");
    drop(other); // kills it
    let _wrong = start("ps", 1, &["--set", "program.batch=16"]);
    for task in [chief, worker, right].map(Running::end) {
        assert_eq!(task.code, 2, "{}", task.err);
        let last = task.err.lines().last().unwrap_or_default();
        assert!(last.contains("start both with the same scenario"), "{}", task.err);
    }
}

#[test]
fn a_worker_that_refuses_who_comes_back_goes_on_with_the_right_one_if_that_comes_in_time() {
    let saving = "[checkpoint]\nevery_steps = 5\ndirectory = 'saved'\n";
    let tasks = ThreeTasks::new("refusals_mended", &(endless("40s") + saving));
    let [mut chief, _other] = workers_without_a_server(&tasks);
    let wrong = tasks.start_with("ps", 0, &["--set", "program.batch=16"]);
    chief.line_with("program.batch = 16: start both with the same scenario");
    let notice = chief.line_with("step "); // after ten seconds
    assert!(notice.contains(" waits for ps:0 ("), "{notice}");
    drop(wrong);
    let _ps = tasks.start("ps", 0);
    chief.line_with("restoring");
}

#[test]
fn a_task_that_was_started_twice_is_displaced_by_the_later_one_and_ends_with_2() {
    let tasks = ThreeTasks::new("refusals_twice", &endless("20s"));
    let (_ps, first) = (tasks.start("ps", 0), tasks.start("worker", 0));
    tasks.until_it_trains(0);
    let mut elsewhere = tasks.config("worker", 0);
    elsewhere["cluster"]["worker"][0] = json!(free_address());
    let mut second = run(&tasks.folder, &tasks.scenario, &elsewhere);
    let first = first.end();
    assert_eq!(first.code, 2, "{}", first.err);
    let last = first.err.lines().last().unwrap_or_default();
    let says = "ps:0 was lost, a later incarnation of this task has connected to it";
    assert!(last.contains(says), "{}", first.err);
    second.line_with(" steps, ");
}

#[test]
fn a_training_in_the_folder_of_another_ends_with_2_and_names_who_saves_there() {
    let saving = "[checkpoint]\nevery_steps = 5\ndirectory = 'saved'\n";
    let mut tasks = ThreeTasks::new("refusals_folder", &(endless("20s") + saving));
    let (_ps, [mut chief, _other]) = (tasks.start("ps", 0), tasks.start_workers());
    chief.line_with(" steps, ");
    let first = format!("worker:0 (process {} on ", chief.id());
    tasks.move_elsewhere();
    let other = ["--set", "program.batch=16"];
    let [ps, second] = ["ps", "worker"].map(|job| tasks.start_with(job, 0, &other));
    for task in [second, ps].map(Running::end) {
        assert_eq!(task.code, 2, "{}", task.err);
        let last = task.err.lines().last().unwrap_or_default();
        let says = ["another training saves to saved/only", &first, "(`checkpoint.directory`)"];
        says.iter().for_each(|part| assert!(last.contains(part), "{part}: {}", task.err));
    }
    chief.line_with(" steps, "); // it goes on
    // One that was told the same is taken for its next life.
    let (_ps, mut again) = (tasks.start("ps", 0), tasks.start("worker", 0));
    let replaced = chief.end();
    assert_eq!(replaced.code, 2, "{}", replaced.err);
    let says = format!(" by now, worker:0 (process {} on ", again.id());
    assert!(replaced.err.contains(&says), "{}", replaced.err);
    again.line_with(" steps, ");
}

#[test]
fn a_worker_that_was_told_fewer_parameter_servers_ends_with_2_and_names_the_missing_one() {
    let training = endless("2s").replace("ps = 1", "ps = 2");
    let folder = with_certificates_of("refusals_fewer", "ps:0,ps:1,worker:0,worker:1");
    let path = scenario("refusals_fewer", &training);
    let [ps, other_ps, first, second] = free_addresses();
    let start = |servers: &[&String], job: &str, index: u32| {
        let cluster = json!({"ps": servers, "worker": [first, second]});
        run(&folder, &path, &json!({"cluster": cluster, "task": {"type": job, "index": index}}))
    };
    let all = [&ps, &other_ps];
    let _servers = [start(&all, "ps", 0), start(&all, "ps", 1)];
    let _chief = start(&all, "worker", 0);
    let told_fewer = start(&all[..1], "worker", 1).end();
    assert_eq!(told_fewer.code, 2, "{}", told_fewer.err);
    let last = told_fewer.err.lines().last().unwrap_or_default();
    let says = "worker:1 was started with ps:0 alone, and ps:0 with ps:0 and ps:1: start all";
    assert!(last.contains(says), "{}", told_fewer.err);
}
