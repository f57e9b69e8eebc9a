//! Tasks that wait for others in vain, and tasks that are asked to stop: they say for whom they
//! wait, and end in time with a code that tells what to do.

use std::fs;
use std::time::Instant;

use super::*;

/// A training of one parameter server and two workers that goes on until it is stopped, in which a
/// lost task has `recovery` to come back.
pub(super) fn endless(recovery: &str) -> String {
    text("async", "time = '10min'\nsteps = 100000000")
        + &format!("[network]\nsilence = '1s'\nrecovery = '{recovery}'\n")
}

pub(super) fn role(addresses: &[String; 3], job: &str, index: u32) -> Value {
    let [ps, first, second] = addresses;
    let cluster = json!({"ps": [ps], "worker": [first, second]});
    json!({"cluster": cluster, "task": {"type": job, "index": index}})
}

pub(super) fn signal(name: &str, task: &Running) {
    let kill = format!("kill -{name} {}", task.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[test]
fn a_parameter_server_whose_workers_are_all_killed_names_them_and_is_to_be_started_again() {
    let folder = with_certificates("waits_workers");
    let path = scenario("waits_workers", &endless("2s"));
    let at = addresses();
    let start = |job, index| run(&folder, &path, &role(&at, job, index));
    let (ps, workers) = (start("ps", 0), [start("worker", 0), start("worker", 1)]);
    std::thread::sleep(Duration::from_secs(2));
    drop(workers);
    let ps = ps.end();
    assert_eq!(ps.code, 138, "{}", ps.err);
    assert!(ps.err.contains("worker:0, worker:1"), "{}", ps.err);
    assert!(ps.err.contains("none has come back"), "{}", ps.err);
}

#[test]
fn a_task_that_has_stood_still_does_not_take_that_for_the_time_that_its_peers_need() {
    let folder = with_certificates("waits_still");
    let path = scenario("waits_still", &endless("1s"));
    let at = addresses();
    let start = |job, index| run(&folder, &path, &role(&at, job, index));
    let (ps, worker) = (start("ps", 0), start("worker", 0));
    std::thread::sleep(Duration::from_secs(2));
    signal("STOP", &worker);
    drop(ps);
    std::thread::sleep(Duration::from_secs(6));
    signal("CONT", &worker);
    let began = Instant::now();
    let worker = worker.end();
    assert_eq!(worker.code, 10, "for longer than others wait for it: {}", worker.err);
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}: {}", began.elapsed(), worker.err);
}

#[test]
fn a_task_whose_others_never_come_names_them_and_is_not_started_again_for_ever() {
    let folder = with_certificates("waits_alone");
    let path = scenario("waits_alone", &endless("500ms"));
    let (at, elsewhere) = (addresses(), addresses());
    let ps = run(&folder, &path, &role(&at, "ps", 0));
    let worker = run(&folder, &path, &role(&elsewhere, "worker", 1));
    let (ps, worker) = (ps.end(), worker.end());
    assert_eq!((ps.code, worker.code), (10, 10), "{}{}", ps.err, worker.err);
    assert!(ps.err.contains("none has come"), "{}", ps.err);
    let unreached = format!("ps:0 (no answer from {} by UDP: ", elsewhere[0]);
    assert!(worker.err.contains(&unreached), "{}", worker.err);
    assert!(worker.err.contains("worker:1 waits for ps:0 ("), "{}", worker.err);
    assert!(!worker.err.contains("has not given"), "it is not the chief's fault: {}", worker.err);
}

#[test]
fn a_worker_whose_certificate_is_of_another_run_says_so_and_is_not_to_be_started_again() {
    let (ours, theirs) = (with_certificates("waits_ours"), with_certificates("waits_theirs"));
    let path = scenario("waits_foreign", &endless("1s"));
    let at = addresses();
    let _ps = run(&ours, &path, &role(&at, "ps", 0));
    let worker = run(&theirs, &path, &role(&at, "worker", 0)).end();
    assert_eq!(worker.code, 11, "{}", worker.err);
    assert!(worker.err.contains("ps:0 (its certificate is not one of this run"), "{}", worker.err);
}

#[test]
fn a_parameter_server_that_waits_in_vain_names_the_worker_it_refused_and_ends_with_its_code() {
    let folder = with_certificates("waits_refused");
    let path = scenario("waits_refused", &endless("2s").replace("'async'", "'sync'"));
    let at = addresses();
    let (ps, chief) = (&role(&at, "ps", 0), &role(&at, "worker", 0));
    let [ps, chief] = [ps, chief].map(|role| run(&folder, &path, role));
    let other = ["--set", "program.batch=16"];
    let refused = run_with(&folder, &path, &role(&at, "worker", 1), &other).end();
    assert_eq!(refused.code, 2, "{}", refused.err);
    std::thread::sleep(Duration::from_secs(1));
    drop(chief); // kills it
    let ps = ps.end();
    assert_eq!(ps.code, 2, "{}", ps.err);
    let why = "worker:1 has program.batch = 16, and ps:0 program.batch = 8";
    let last = ps.err.lines().last().unwrap_or_default();
    assert!(last.contains("all are gone") && last.contains(why), "{}", ps.err);
}

#[test]
fn all_tasks_end_at_once_with_the_code_and_the_words_of_a_chief_that_refuses_the_checkpoint() {
    let folder = with_certificates("waits_misfit");
    let text = text("sync", "steps = 20").replace("'softmax'", "'mlp'\nhidden = [8]");
    let saving = "[checkpoint]\nevery_steps = 10\ndirectory = 'saved'\n";
    let path = scenario("waits_misfit", &(text + saving));
    let ended = |more: &[&str]| {
        let at = addresses();
        let roles = [("ps", 0), ("worker", 0), ("worker", 1)];
        let running =
            roles.map(|(job, index)| run_with(&folder, &path, &role(&at, job, index), more));
        running.map(Running::end)
    };
    assert_eq!(ended(&[]).map(|said| said.code), [0, 0, 0]);
    let began = Instant::now();
    for said in ended(&["--set", "program.hidden=[16]", "--set", "stop.steps=40"]) {
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("go on with the model that was saved"), "{}", said.err);
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_parameter_server_that_is_asked_to_stop_has_the_chief_save_and_all_are_to_be_started_again() {
    let folder = with_certificates("waits_stop");
    let saving = "[checkpoint]\nevery = '1h'\ndirectory = 'saved'\n";
    let path = scenario("waits_stop", &(endless("10s") + saving));
    let at = addresses();
    let start = |job, index| run(&folder, &path, &role(&at, job, index));
    let (ps, chief, other) = (start("ps", 0), start("worker", 0), start("worker", 1));
    let saved = || {
        let files = fs::read_dir(folder.join("saved/only")).into_iter().flatten().flatten();
        files.filter(|file| file.path().to_string_lossy().ends_with(".index.json")).count()
    };
    let began = Instant::now();
    while saved() == 0 {
        assert!(began.elapsed() < LIMIT, "there is no checkpoint of the first values");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    signal("TERM", &ps);
    let (ps, chief, other) = (ps.end(), chief.end(), other.end());
    let said = format!("{}{}{}", ps.err, chief.err, other.err);
    assert_eq!((ps.code, chief.code, other.code), (143, 138, 138), "{said}");
    assert!(chief.err.contains("ps:0 was asked to stop"), "{said}");
    assert_eq!(saved(), 2, "one of the beginning, one of the end");
}

#[test]
fn a_second_signal_ends_a_task_at_once() {
    let folder = with_certificates("waits_twice");
    let path = scenario("waits_twice", &endless("30s").replace("'1s'", "'30s'"));
    let at = addresses();
    let (ps, worker) = (run(&folder, &path, &role(&at, "ps", 0)), role(&at, "worker", 0));
    let worker = run(&folder, &path, &worker);
    std::thread::sleep(Duration::from_secs(2));
    signal("STOP", &worker); // the parameter server waits until it has left
    let began = Instant::now();
    signal("TERM", &ps);
    std::thread::sleep(Duration::from_millis(200));
    signal("TERM", &ps);
    let ps = ps.end();
    assert_eq!(ps.code, 143, "{}", ps.err);
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
}

#[test]
fn a_worker_with_other_settings_is_refused_and_the_others_go_on_with_the_right_one() {
    let folder = with_certificates("waits_other");
    let right = text("sync", "epochs = 0.5"); // which the parameter server can't count
    let wrong = scenario("waits_wrong", &right.replace("batch = 8", "batch = 16"));
    let right = scenario("waits_right", &right);
    let at = addresses();
    let start = |path: &str, job, index| run(&folder, path, &role(&at, job, index));
    let others = [start(&right, "ps", 0), start(&right, "worker", 0)];
    let refused = start(&wrong, "worker", 1).end();
    assert_eq!(refused.code, 2, "{}", refused.err);
    let says = "worker:1 has program.batch = 16, and ps:0 program.batch = 8: start both";
    assert!(refused.err.contains(says), "{}", refused.err);
    let worker = start(&right, "worker", 1);
    for task in others.into_iter().chain([worker]) {
        let said = task.end();
        assert_eq!(said.code, 0, "{}", said.err);
    }
}
