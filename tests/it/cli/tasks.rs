//! `task`: several processes that find one another, as on several hosts: with partial knowledge,
//! and asked to stop.

mod all_reduce;
mod ends;
mod own_values;
mod refusals;
mod results;
mod session_master;
mod statuses;
mod stops;
mod three;
mod waits;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::binary::{Running, folder, free_addresses, scenario, trainyard_in};
use three::ThreeTasks;

/// No training of these takes this long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn text(mode: &str, stop: &str) -> String {
    format!(
        "name = 'tasks'\nseed = 3\n[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'softmax'\n\
         batch = 8\n\
         optimizer = {{ rule = 'adagrad', learning_rate = 0.2 }}\n[stop]\n{stop}\n\
         [[run]]\nname = 'only'\nmode = '{mode}'\n"
    )
}

/// Runs a task with certificates of the folder `certs`.
fn run(folder: &Path, scenario: &str, config: &Value) -> Running {
    run_with(folder, scenario, config, &[])
}

/// Runs a task with `more` arguments.
fn run_with(folder: &Path, scenario: &str, config: &Value, more: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command
        .args(["task", scenario, "--certs", "certs"])
        .args(more)
        .current_dir(folder)
        .env("TF_CONFIG", config.to_string());
    Running::start(&mut command, LIMIT)
}

/// A folder with the certificates of one parameter server and two workers.
fn with_certificates(test: &str) -> std::path::PathBuf {
    with_certificates_of(test, "ps:0,worker:0,worker:1,client:0")
}

/// A folder with the certificates of `tasks`.
fn with_certificates_of(test: &str, tasks: &str) -> std::path::PathBuf {
    let folder = folder(&format!("{test}_in"));
    for args in [&["certs", "new", "certs"][..], &["certs", "issue", "certs", "--task", tasks]] {
        let said = trainyard_in(&folder, args, &[]);
        assert_eq!(said.code, 0, "{}", said.err);
    }
    folder
}

#[test]
fn workers_that_know_the_ps_and_themselves_alone_train_and_all_hear_of_the_end() {
    let folder = with_certificates("tasks_partial");
    let path = scenario("tasks_partial", &text("sync", "steps = 100000\naccuracy = 0.8"));
    let [ps, first, second] = free_addresses();
    let told = |worker: Value, job: &str, index: u32| {
        let cluster = json!({"ps": [ps], "worker": worker});
        json!({"sparseCluster": cluster, "task": {"type": job, "index": index}})
    };
    let start = |config: Value| run(&folder, &path, &config);
    let workers = [told(json!({"0": first}), "worker", 0), told(json!({"1": second}), "worker", 1)]
        .map(start);
    let ps = start(told(json!({}), "ps", 0)); // last: the others wait for it
    let [chief, other] = workers.map(Running::end);
    let ps = ps.end();
    assert_eq!((chief.code, other.code, ps.code), (0, 0, 0), "{}{}", chief.err, other.err);
    assert!(ps.err.contains("ps:0 listens on UDP port "), "{}", ps.err);
    assert!(ps.err.contains("; the chief, worker:0, prints the result\n"), "{}", ps.err);
    assert!(other.err.contains("worker:1: the training is over\n"), "{}", other.err);
    assert!(chief.out.contains("deployment, seconds of the wall clock"), "{}", chief.out);
    assert_eq!(other.out, "");
    let weights =
        |out: &str| out.split("weights=").nth(1).map(|rest| rest.trim().to_owned()).unwrap();
    let simulated = trainyard_in(&folder, &["sim", &path], &[]);
    assert_eq!(weights(&chief.out), weights(&simulated.out));
}

#[test]
fn a_worker_that_is_asked_to_stop_leaves_and_the_others_go_on() {
    let tasks = ThreeTasks::new("tasks_stop", &text("async", "time = '4s'\nsteps = 100000000"));
    let (ps, [chief, other]) = (tasks.start("ps", 0), tasks.start_workers());
    tasks.until_it_trains(1);
    other.signal("TERM");
    let other = other.end();
    assert_eq!(other.code, 143, "{}", other.err);
    let (chief, ps) = (chief.end(), ps.end());
    assert_eq!((chief.code, ps.code), (0, 0), "{}{}", chief.err, ps.err);
}

#[test]
fn a_lost_parameter_server_gets_its_variables_back_though_a_worker_has_stopped_before() {
    let rest = "[network]\nrecovery = '10s'\n[checkpoint]\nevery_steps = 5\ndirectory = 'saved'\n";
    let text = text("async", "steps = 100000000") + rest;
    let tasks = ThreeTasks::new("tasks_stopped", &text);
    let (ps, [mut chief, other]) = (tasks.start("ps", 0), tasks.start_workers());
    chief.line_with(" steps, ");
    other.signal("TERM");
    assert_eq!(other.end().code, 143);
    drop(ps); // kills it
    let _ps = tasks.start("ps", 0);
    chief.line_with("restoring");
    chief.line_with(" steps, ");
    chief.signal("TERM");
    assert_eq!(chief.end().code, 143);
}

#[test]
fn a_replica_of_several_tasks_is_shown_by_the_cluster_and_by_a_running_task() {
    let folder = with_certificates("tasks_replicas");
    let replicas = text("sync", "steps = 10") + "[replicas]\nworker = { tasks = 2 }\n";
    let path = scenario("tasks_replicas", &replicas.replace("softmax", "mlp"));
    let [ps, first, second] = free_addresses();
    let cluster = json!({"ps": [ps], "worker": [first, second]});
    let told = json!({"cluster": cluster, "task": {"type": "worker", "index": 1}});
    let told = |args: &[&str]| trainyard_in(&folder, args, &[("TF_CONFIG", &told.to_string())]);
    let line = "\nreplica  worker:0 trains with worker:1\n";
    let shown = told(&["cluster", &path]);
    assert!(shown.code == 0 && shown.out.contains(line), "{}{}", shown.out, shown.err);
    assert!(!told(&["cluster"]).out.contains("replica"), "the scenario says so");
    let shown: Value = serde_json::from_str(&told(&["cluster", &path, "--json"]).out).unwrap();
    assert_eq!(shown["replicas"], json!([["worker:0", "worker:1"]]));
    let as_a_task = ["cluster", &path, "--run", "only", "--certs", "certs", "--run-name", "tasks"];
    let shown = told(&as_a_task);
    assert!(shown.code == 0 && shown.out.contains(line), "{}{}", shown.out, shown.err);
    let shown = told(&["cluster", &path, "--run", "asink"]);
    assert!(shown.code == 2 && shown.err.contains("asink"), "{}", shown.err);
    let _running =
        run(&folder, &path, &json!({"cluster": cluster, "task": {"type": "ps", "index": 0}}));
    let status = ["status", &ps, "--task", "ps:0", "--run-name", "tasks", "--certs", "certs"];
    let said = trainyard_in(&folder, &status, &[]);
    assert!(said.code == 0 && said.out.contains(line), "{}{}", said.out, said.err);
}

#[test]
fn a_running_task_tells_whoever_has_a_certificate_of_its_run_how_it_is() {
    let tasks = ThreeTasks::new("tasks_status", &text("sync", "steps = 10"));
    let running = tasks.start("ps", 0);
    let ps = tasks.address("ps", 0);
    let status = |task: &str, run: &str| {
        let args = ["status", ps, "--task", task, "--run-name", run, "--certs", "certs"];
        trainyard_in(&tasks.folder, &args, &[])
    };
    let said = status("ps:0", "tasks");
    assert_eq!(said.code, 0, "{}", said.err);
    for line in [
        "ps:0: it trains",
        "parameter server of ps:0 waits for 2 of 2 workers to leave, of which worker:0, worker:1 \
         never came",
        "worker:1",
    ] {
        assert!(said.out.contains(line), "no `{line}` in: {}", said.out);
    }
    // Who is refused hears it at once, and not after the 5 s in which a task has to answer.
    let began = std::time::Instant::now();
    let said = status("ps:0", "another");
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
    let both = "asker:0 takes part in the training `another`, and ps:0 in `tasks`";
    assert!(said.err.contains(both), "{}", said.err);
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    let after = status("ps:0", "tasks").out;
    assert!(!after.contains("`another`"), "it was the asker's mistake: {after}");
    let said = status("worker:0", "tasks");
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
    let mistake = format!("{ps} is ps:0, not worker:0");
    assert_eq!(said.err.matches(&mistake).count(), 1, "{}", said.err);
    tasks.until_the_server_says("took this task for another (worker:0)");
    let after = status("ps:0", "tasks").out;
    assert!(!after.contains("this task's certificate"), "it is the right one: {after}");
    running.signal("TERM");
    let warnings = running.end().err;
    assert!(!warnings.contains("no connection"), "it was the asker's mistake: {warnings}");
}

#[test]
fn without_a_cluster_a_task_trains_alone_and_needs_no_certificate() {
    let folder = with_certificates("tasks_alone");
    let path = scenario("tasks_alone", &text("sync", "steps = 10"));
    // No cluster: a training in one process.
    let config = json!({"task": {"type": "worker", "index": 0}});
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(["task", &path]).current_dir(&folder).env("TF_CONFIG", config.to_string());
    let said = Running::start(&mut command, LIMIT).end();
    assert_eq!(said.code, 0, "{}", said.err);
}

/// Kills the parameter server of a run with these keys after its checkpoint of step 60, and starts
/// it again. The weights then are those of a simulation without the loss.
#[track_caller]
fn goes_on_after_a_loss(test: &str, run_keys: &str, steps: u64) {
    let training = text("sync", &format!("steps = {steps}")).replace("mode = 'sync'", run_keys);
    let checkpoints = "[checkpoint]\nevery_steps = 20\ndirectory = 'saved'\n";
    let tasks = ThreeTasks::new(test, &(training + checkpoints));
    let (killed, [chief, other]) = (tasks.start("ps", 0), tasks.start_workers());
    let began = std::time::Instant::now();
    while !tasks.folder.join("saved/only/model.ckpt-60.index.json").exists() {
        assert!(began.elapsed() < LIMIT, "there is no checkpoint of step 60");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(killed);
    let again = tasks.start("ps", 0);
    let ended = [chief, other, again].map(Running::end);
    let said: String = ended.iter().map(|one| &*one.err).collect();
    assert_eq!(ended.each_ref().map(|one| one.code), [0, 0, 0], "{said}");
    assert!(ended[0].err.contains("restoring") && !said.contains("begins anew"), "{said}");
    let weights =
        |out: &str| out.split("weights=").nth(1).map(|rest| rest.trim().to_owned()).unwrap();
    let simulated = trainyard_in(&tasks.folder, &["sim", &tasks.scenario], &[]);
    assert_eq!(weights(&ended[0].out), weights(&simulated.out));
}

#[test]
fn a_restarted_parameter_server_gets_its_variables_back_and_the_weights_are_the_same() {
    goes_on_after_a_loss("tasks_ps_again", "mode = 'sync'", 600);
}
