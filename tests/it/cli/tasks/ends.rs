//! Tasks that come back when the training has ended: they hear of it, and are not to be started
//! again.

use std::time::Instant;

use super::*;
use crate::support::binary::Said;

/// A training that ends after 4 s, in which a lost task has `recovery` to come back.
fn short(recovery: &str) -> String {
    text("async", "time = '4s'\nsteps = 100000000")
        + &format!("[network]\nsilence = '1s'\nrecovery = '{recovery}'\n")
}

/// Longer than the training lasts from when it is known to be under way.
const PAST_THE_END: Duration = Duration::from_secs(6);

/// Runs a parameter server and two workers, of which `stopped` stands still for `time`, past the
/// end, while the others wait for it for `recovery`. Returns how the three ended.
fn with_one_that_stands_still(
    test: &str,
    stopped: usize,
    recovery: &str,
    time: Duration,
) -> [Said; 3] {
    let tasks = ThreeTasks::new(test, &short(recovery));
    let (ps, workers) = (tasks.start("ps", 0), tasks.start_workers());
    tasks.until_it_trains(1); // with the chief's first values
    workers[stopped].signal("STOP");
    std::thread::sleep(time);
    workers[stopped].signal("CONT");
    let [chief, other] = workers;
    [ps.end(), chief.end(), other.end()]
}

#[test]
fn a_worker_that_stood_still_past_the_end_hears_of_it_from_a_parameter_server_that_stayed() {
    let [ps, chief, other] = with_one_that_stands_still("ends_worker", 1, "20s", PAST_THE_END);
    let said = format!("{}{}{}", ps.err, chief.err, other.err);
    assert_eq!((ps.code, chief.code, other.code), (0, 0, 0), "{said}");
}

#[test]
fn a_worker_that_stood_still_until_all_were_gone_is_not_to_be_started_again() {
    // The others are gone 3 s after the end, and the second that it takes to miss one.
    let until_all_are_gone = Duration::from_secs(11);
    let [ps, chief, other] = with_one_that_stands_still("ends_late", 1, "3s", until_all_are_gone);
    let said = format!("{}{}{}", ps.err, chief.err, other.err);
    assert_eq!((ps.code, chief.code, other.code), (0, 0, 10), "{said}");
    assert!(other.err.contains("this task has stood still for"), "{}", other.err);
}

#[test]
fn a_chief_that_stood_still_past_the_end_finds_the_variables_and_reports_them() {
    let [ps, chief, other] = with_one_that_stands_still("ends_chief", 0, "20s", PAST_THE_END);
    let said = format!("{}{}{}", ps.err, chief.err, other.err);
    assert_eq!((ps.code, chief.code, other.code), (0, 0, 0), "{said}");
    assert!(chief.out.contains("deployment, seconds of the wall clock"), "{}", chief.out);
}

#[test]
fn tasks_that_start_after_the_end_find_it_beside_the_checkpoints() {
    let saving = "[checkpoint]\nevery = '1h'\ndirectory = 'saved'\n";
    let ending = text("async", "steps = 50") + "[network]\nrecovery = '500ms'\n" + saving;
    let tasks = ThreeTasks::new("ends_saved", &ending);
    let (ps, [chief, other]) = (tasks.start("ps", 0), tasks.start_workers());
    for task in [ps, chief, other].map(Running::end) {
        assert_eq!(task.code, 0, "{}", task.err);
    }
    for (job, index) in [("worker", 1), ("worker", 0), ("ps", 0)] {
        let late = tasks.start(job, index).end();
        assert_eq!((late.code, late.out.as_str()), (0, ""), "{}", late.err);
        assert!(late.err.contains("nothing is left to do"), "{}", late.err);
    }
    let longer = ending.replace("steps = 50", "steps = 60");
    let longer = scenario("ends_longer_scenario", &longer);
    let late = run(&tasks.folder, &longer, &tasks.config("worker", 1)).end();
    assert_eq!(late.code, 10, "a longer training is not over: {}", late.err);
    for part in ["The newest checkpoint is of step 5", ", and not the last"] {
        assert!(late.err.contains(part), "{}", late.err);
    }
    assert!(!late.err.contains("nothing is left to do"), "{}", late.err);
}

#[test]
fn tasks_whose_chief_does_not_come_back_to_save_the_training_are_to_be_started_again() {
    let saving = "[checkpoint]\nevery = '1h'\ndirectory = 'saved'\n";
    let waiting = "[network]\nsilence = '1s'\nrecovery = '5s'\n";
    let text = text("async", "steps = 10000") + waiting + saving;
    let tasks = ThreeTasks::new("ends_unsaved", &text);
    let (ps, [chief, other]) = (tasks.start("ps", 0), tasks.start_workers());
    tasks.until_both_train();
    chief.signal("TERM");
    assert_eq!(chief.end().code, 143);
    let missing = "no checkpoint is written until the chief, worker:0, is back\n";
    tasks.until_the_server_says(missing);
    tasks.until_the_other_says(missing);
    for task in [other, ps].map(Running::end) {
        assert_eq!(task.code, 138, "{}", task.err);
        let says = "the training is over, but worker:0, the chief, never came back to save it";
        assert!(task.err.lines().last().unwrap_or_default().contains(says), "{}", task.err);
        let warning = "the chief has stopped: no checkpoint is written until it is back";
        assert!(task.err.contains(warning), "{}", task.err);
    }
    let again = [("ps", 0), ("worker", 0), ("worker", 1)].map(|(job, at)| tasks.start(job, at));
    for task in again.map(Running::end) {
        assert_eq!(task.code, 0, "from the checkpoint of the stop: {}", task.err);
    }
}

#[test]
fn a_worker_at_the_end_waits_until_it_is_known_whether_the_chief_has_saved_the_training() {
    let saving = "[checkpoint]\nevery = '1h'\ndirectory = 'saved'\n";
    // The training ends before the loss of the chief is known.
    let waiting = "[network]\nsilence = '6s'\nrecovery = '1s'\n";
    let tasks = ThreeTasks::new("ends_killed", &(text("async", "steps = 5000") + waiting + saving));
    let (ps, [chief, other]) = (tasks.start("ps", 0), tasks.start_workers());
    tasks.until_both_train();
    drop(chief); // kills it
    for task in [other, ps].map(Running::end) {
        assert_eq!(task.code, 138, "{}", task.err);
        let says = "the training is over, but worker:0, the chief, never came back to save it";
        assert!(task.err.lines().last().unwrap_or_default().contains(says), "{}", task.err);
    }
}

#[test]
fn tasks_whose_chief_comes_back_at_the_end_hear_that_it_saves_the_training() {
    let saving = "[checkpoint]\nevery = '1h'\ndirectory = 'saved'\n";
    let waiting = "[network]\nsilence = '1s'\nrecovery = '30s'\n";
    let text = text("async", "steps = 10000") + waiting + saving;
    let tasks = ThreeTasks::new("ends_saved_late", &text);
    let (ps, [chief, mut other]) = (tasks.start("ps", 0), tasks.start_workers());
    tasks.until_both_train();
    chief.signal("TERM");
    assert_eq!(chief.end().code, 143);
    other.line_with("worker:1 waits for worker:0, which is to save it");
    for task in [tasks.start("worker", 0), other, ps].map(Running::end) {
        assert_eq!(task.code, 0, "{}", task.err);
    }
}

#[test]
fn a_parameter_server_that_nobody_uses_ends_at_once_when_it_is_asked_to() {
    let tasks = ThreeTasks::new("ends_lone", &short("20s"));
    let ps = tasks.start("ps", 0);
    tasks.until_the_server_says("of which worker:0, worker:1 never came");
    let began = Instant::now();
    ps.signal("TERM");
    let ps = ps.end();
    assert_eq!(ps.code, 143, "{}", ps.err);
    assert!(began.elapsed() < Duration::from_secs(3), "it took {:?}", began.elapsed());
}

#[test]
fn a_parameter_server_does_not_wait_for_a_worker_that_never_came_when_it_is_asked_to_stop() {
    let tasks = ThreeTasks::new("ends_unmet", &short("20s"));
    let (ps, mut worker) = (tasks.start("ps", 0), tasks.start("worker", 1));
    worker.line_with("worker:1 listens on UDP port ");
    tasks.until_the_server_says("of which worker:0 never came");
    worker.signal("TERM");
    assert_eq!(worker.end().code, 143);
    let began = Instant::now();
    ps.signal("TERM");
    let ps = ps.end();
    assert_eq!(ps.code, 143, "{}", ps.err);
    assert!(began.elapsed() < Duration::from_secs(3), "it took {:?}", began.elapsed());
}
