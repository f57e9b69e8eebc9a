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

#[test]
fn a_parameter_server_whose_workers_are_all_killed_names_them_and_is_to_be_started_again() {
    let tasks = ThreeTasks::new("waits_workers", &endless("2s"));
    let (ps, workers) = (tasks.start("ps", 0), tasks.start_workers());
    tasks.until_both_train();
    drop(workers);
    let ps = ps.end();
    assert_eq!(ps.code, 138, "{}", ps.err);
    assert!(ps.err.contains("worker:0, worker:1"), "{}", ps.err);
    assert!(ps.err.contains("none has come back"), "{}", ps.err);
}

#[test]
fn the_status_tells_how_far_the_training_is_and_who_is_lost() {
    let saving = "[checkpoint]\nevery_steps = 1000\ndirectory = 'saved'\n";
    let tasks = ThreeTasks::new("waits_status", &(endless("1min") + saving));
    let (_ps, [_chief, worker]) = (tasks.start("ps", 0), tasks.start_workers());
    tasks.until_the_server_says("training at global step ");
    tasks.until_the_server_says(" steps/s of late\n");
    tasks.until_the_chief_says("checkpoint of global step ");
    tasks.until_the_chief_says("training at global step ");
    let said = |part: &str| tasks.status("ps", 0, &[]).out.contains(part);
    assert!(!said("workers to leave"), "that it waits for the end says nothing");
    assert!(!said("lost   "), "all are there");
    drop(worker);
    tasks.until_the_server_says("lost     worker:1\n");
}

#[test]
fn a_task_that_has_stood_still_does_not_take_that_for_the_time_that_its_peers_need() {
    let tasks = ThreeTasks::new("waits_still", &endless("1s"));
    let (ps, worker) = (tasks.start("ps", 0), tasks.start("worker", 0));
    tasks.until_it_trains(0);
    worker.signal("STOP");
    drop(ps);
    std::thread::sleep(Duration::from_secs(6)); // longer than others wait for it
    worker.signal("CONT");
    let began = Instant::now();
    let worker = worker.end();
    assert_eq!(worker.code, 10, "for longer than others wait for it: {}", worker.err);
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}: {}", began.elapsed(), worker.err);
}

#[test]
fn a_task_whose_others_never_come_names_them_and_is_not_started_again_for_ever() {
    let text = endless("500ms");
    let [here, elsewhere] =
        ["waits_alone", "waits_elsewhere"].map(|test| ThreeTasks::new(test, &text));
    let (ps, worker) = (here.start("ps", 0), elsewhere.start("worker", 1));
    let (ps, worker) = (ps.end(), worker.end());
    assert_eq!((ps.code, worker.code), (10, 10), "{}{}", ps.err, worker.err);
    assert!(ps.err.contains("none has come"), "{}", ps.err);
    let unreached = format!("ps:0 (no answer from {} by UDP: ", elsewhere.address("ps", 0));
    assert!(worker.err.contains(&unreached), "{}", worker.err);
    assert!(worker.err.contains("worker:1 waits for ps:0 ("), "{}", worker.err);
    assert!(!worker.err.contains("has not given"), "it is not the chief's fault: {}", worker.err);
}

#[test]
fn a_chief_whose_step_waits_for_a_worker_that_has_yet_to_come_names_it() {
    let tasks = ThreeTasks::new("waits_absent", &endless("20s").replace("'async'", "'sync'"));
    let (_ps, mut chief) = (tasks.start("ps", 0), tasks.start("worker", 0));
    chief.line_with("; not there: worker:1");
    tasks.until_the_chief_says("waits for worker:1, which is not there\n");
    chief.line_with("more; not there: worker:1");
}

#[test]
fn a_worker_whose_certificate_is_of_another_run_says_so_and_is_not_to_be_started_again() {
    let (ours, theirs) =
        (ThreeTasks::new("waits_ours", &endless("1s")), with_certificates("waits_theirs"));
    let _ps = ours.start("ps", 0);
    let worker = run(&theirs, &ours.scenario, &ours.config("worker", 0)).end();
    assert_eq!(worker.code, 11, "{}", worker.err);
    assert!(worker.err.contains("ps:0 (its certificate is not one of this run"), "{}", worker.err);
}

#[test]
fn a_parameter_server_that_waits_in_vain_names_the_worker_it_refused_and_ends_with_its_code() {
    let tasks = ThreeTasks::new("waits_refused", &endless("2s").replace("'async'", "'sync'"));
    let (ps, chief) = (tasks.start("ps", 0), tasks.start("worker", 0));
    let refused = tasks.start_with("worker", 1, &["--set", "program.batch=16"]).end();
    assert_eq!(refused.code, 2, "{}", refused.err);
    tasks.until_the_server_says("of which worker:1 never came");
    drop(chief); // kills it
    let ps = ps.end();
    assert_eq!(ps.code, 2, "{}", ps.err);
    let why = "worker:1 has program.batch = 16, and ps:0 program.batch = 8";
    let last = ps.err.lines().last().unwrap_or_default();
    assert!(last.contains("all are gone") && last.contains(why), "{}", ps.err);
}

#[test]
fn all_tasks_end_at_once_with_the_code_and_the_words_of_a_chief_that_refuses_the_checkpoint() {
    let text = text("sync", "steps = 20").replace("'softmax'", "'mlp'\nhidden = [8]");
    let saving = "[checkpoint]\nevery_steps = 10\ndirectory = 'saved'\n";
    let mut tasks = ThreeTasks::new("waits_misfit", &(text + saving));
    let mut ended = |more: &[&str]| {
        let roles = [("ps", 0), ("worker", 0), ("worker", 1)];
        let ended = roles.map(|(job, index)| tasks.start_with(job, index, more)).map(Running::end);
        tasks.move_elsewhere();
        ended
    };
    assert_eq!(ended(&[]).map(|said| said.code), [0, 0, 0]);
    let began = Instant::now();
    let again = ended(&["--set", "program.hidden=[16]", "--set", "stop.steps=40"]);
    // Nobody has asked the parameter servers yet what they have.
    let says = ["is of step 20", "unless the parameter servers still have the variables"];
    assert!(says.iter().all(|says| again[1].err.contains(says)), "{}", again[1].err);
    for said in again {
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("go on with the model that was saved"), "{}", said.err);
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_parameter_server_that_is_asked_to_stop_has_the_chief_save_and_all_are_to_be_started_again() {
    let saving = "[checkpoint]\nevery = '1h'\ndirectory = 'saved'\n";
    let tasks = ThreeTasks::new("waits_stop", &(endless("10s") + saving));
    let (ps, [chief, other]) = (tasks.start("ps", 0), tasks.start_workers());
    let saved = || {
        let files = fs::read_dir(tasks.folder.join("saved/only")).into_iter().flatten().flatten();
        files.filter(|file| file.path().to_string_lossy().ends_with(".index.json")).count()
    };
    let began = Instant::now();
    while saved() == 0 {
        assert!(began.elapsed() < LIMIT, "there is no checkpoint of the first values");
        std::thread::sleep(Duration::from_millis(20));
    }
    tasks.until_both_train();
    ps.signal("TERM");
    let (ps, chief, other) = (ps.end(), chief.end(), other.end());
    let said = format!("{}{}{}", ps.err, chief.err, other.err);
    assert_eq!((ps.code, chief.code, other.code), (143, 138, 138), "{said}");
    assert!(chief.err.contains("ps:0 was asked to stop"), "{said}");
    assert_eq!(saved(), 2, "one of the beginning, one of the end");
}

#[test]
fn a_second_signal_ends_a_task_at_once() {
    let tasks = ThreeTasks::new("waits_twice", &endless("30s").replace("'1s'", "'30s'"));
    let (ps, worker) = (tasks.start("ps", 0), tasks.start("worker", 0));
    tasks.until_it_trains(0);
    worker.signal("STOP"); // the parameter server waits until it has left
    let began = Instant::now();
    ps.signal("TERM");
    std::thread::sleep(Duration::from_millis(200));
    ps.signal("TERM");
    let ps = ps.end();
    assert_eq!(ps.code, 143, "{}", ps.err);
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
}

#[test]
fn a_worker_with_other_settings_is_refused_and_the_others_go_on_with_the_right_one() {
    let right = text("sync", "epochs = 0.5"); // which the parameter server can't count
    let wrong = scenario("waits_wrong", &right.replace("batch = 8", "batch = 16"));
    let tasks = ThreeTasks::new("waits_other", &right);
    let others = [tasks.start("ps", 0), tasks.start("worker", 0)];
    let refused = run(&tasks.folder, &wrong, &tasks.config("worker", 1)).end();
    assert_eq!(refused.code, 2, "{}", refused.err);
    let says = "worker:1 has program.batch = 16, and ps:0 program.batch = 8: start both";
    assert!(refused.err.contains(says), "{}", refused.err);
    let worker = tasks.start("worker", 1);
    for task in others.into_iter().chain([worker]) {
        let said = task.end();
        assert_eq!(said.code, 0, "{}", said.err);
    }
}

#[test]
fn a_worker_whose_chief_never_comes_names_it_first_and_does_not_speak_of_slow_steps() {
    let tasks = ThreeTasks::new("waits_chief", &endless("800ms"));
    let (ps, other) = (tasks.start("ps", 0), tasks.start("worker", 1));
    let (other, ps) = (other.end(), ps.end());
    assert_eq!((other.code, ps.code), (138, 138), "{}{}", other.err, ps.err);
    let last = other.err.lines().last().unwrap_or_default();
    let says = "DeadlineExceeded: the chief, worker:0, has not given the variables their first";
    assert!(last.contains(says) && !last.contains("steps that take so long"), "{last}");
    let last = ps.err.lines().last().unwrap_or_default();
    assert!(last.contains("worker:0 never came, so look at that first"), "{last}");
}
