//! `launch` that is asked to stop when not all of its tasks can do so in good order, and what one
//! that fails has written.

use super::*;
use crate::support::binary::{Running, wait_for_a_loss};

/// A scenario that goes on until it is stopped, with checkpoints in `saved` of its beginning and
/// end, and `more`.
fn saving(test: &str, saved: &Path, more: &str) -> String {
    let directory = saved.display();
    let checkpoint = format!("[checkpoint]\nevery = '1h'\ndirectory = '{directory}'\n");
    scenario(test, &(endless("'async'") + &checkpoint + more))
}

#[test]
fn a_launch_that_is_asked_to_stop_while_a_fault_has_its_chief_stand_still_saves_its_last_step() {
    let saved = folder("launch_stops_still_saved");
    let freeze = "[[fault]]\nat = '2s'\nfreeze = 'worker:0'\nfor = '10min'\n";
    let path = saving("launch_stops_still", &saved, freeze);
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(["launch", &path]).env_remove("TF_CONFIG");
    let mut launch = Running::start(&mut command, LIMIT);
    launch.line_with("worker:0 stands still");
    launch.signal("INT");
    let said = launch.end();
    assert_eq!(said.code, 130, "{}", said.err);
    let steps = checkpoints(&saved);
    assert!(steps.len() == 2 && steps[1] > steps[0], "{steps:?}: {}", said.err);
}

#[test]
fn a_launch_that_is_asked_to_stop_says_which_task_did_not_in_good_order_and_keeps_its_log() {
    let saved = folder("launch_stops_unsaved_saved");
    let mut launch = Launch::start(&saving("launch_stops_unsaved", &saved, ""), &[]);
    launch.wait_for_tasks(5);
    wait_for_a_checkpoint(&saved);
    fs::remove_dir_all(&saved).unwrap();
    fs::write(&saved, "not a folder").unwrap();
    send("INT", launch.child.id());
    let said = launch.end();
    fs::remove_file(&saved).unwrap();
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(said.err.contains("worker:0 did not stop in good order: run `only`: "), "{}", said.err);
    assert!(said.err.contains("Not a directory"), "{}", said.err);
    assert_eq!(said.err.matches("in good order").count(), 1, "{}", said.err);
    let log = said.err.split("its log: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    assert!(log.ends_with("worker-0.log") && Path::new(log).exists(), "{log}");
}

#[test]
fn a_launch_writes_events_while_it_trains_and_keeps_them_when_a_task_fails() {
    let path = scenario("launch_events", &endless("'async'"));
    let out = folder("launch_events_results");
    let mut launch = Launch::start(&path, &["--out", out.to_str().unwrap()]);
    wait_for_a_loss(&out.join("events/only"));
    let (victim, _) = tasks(&path).into_iter().find(|(_, role)| role == "worker:1").unwrap();
    send("KILL", victim);
    let said = launch.end();
    assert_eq!(said.code, 138, "{}", said.err);
    wait_for_a_loss(&out.join("events/only"));
    assert!(!out.join("steps.csv").exists(), "it has no result");
}

#[test]
fn a_launch_that_is_asked_to_stop_as_it_starts_waits_for_no_task_that_has_stopped_already() {
    let path = scenario("launch_stops_early", &endless("'async'"));
    let mut launch = Launch::start(&path, &[]);
    launch.wait_for_processes(5);
    let began = Instant::now();
    send("INT", launch.child.id());
    let said = launch.end();
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
    assert_nothing_stays(&path);
}

#[test]
fn a_launch_that_is_asked_to_stop_twice_ends_at_once_and_leaves_no_temporary_files() {
    let path = scenario("launch_stops_twice", &endless("'async'"));
    let mut launch = Launch::start(&path, &[]);
    launch.wait_for_tasks(5);
    let (victim, _) = tasks(&path).into_iter().find(|(_, role)| role == "worker:1").unwrap();
    send("STOP", victim); // so that the first request takes seconds
    send("INT", launch.child.id());
    thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    send("TERM", launch.child.id());
    let said = launch.end();
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
    assert_eq!(said.code, 143, "{}", said.err);
    let left: Vec<_> = fs::read_dir(launch.temporary.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    send("CONT", victim);
    assert_nothing_stays(&path);
}

#[test]
fn a_task_that_has_to_be_killed_after_it_was_asked_to_stop_has_a_line() {
    let path = scenario("launch_stops_overdue", &endless("'async'"));
    let mut launch = Launch::start(&path, &[]);
    launch.wait_for_tasks(5);
    let (victim, _) = tasks(&path).into_iter().find(|(_, role)| role == "worker:1").unwrap();
    send("STOP", victim);
    send("TERM", launch.child.id());
    let said = launch.end();
    assert_eq!(said.code, 143, "{}", said.err);
    let told = "worker:1 did not stop in good order: it still ran 13s after it was asked to stop";
    assert!(said.err.contains(told), "{}", said.err);
    assert_nothing_stays(&path);
}
