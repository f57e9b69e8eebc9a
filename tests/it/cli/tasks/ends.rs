//! Tasks that come back when the training has ended: they hear of it, and are not to be started
//! again.

use std::time::Instant;

use super::waits::{role, signal};
use super::*;

/// A training that ends after 4 s, in which a lost task has `recovery` to come back.
fn short(recovery: &str) -> String {
    text("async", "time = '4s'\nsteps = 100000000")
        + &format!("[network]\nsilence = '1s'\nrecovery = '{recovery}'\n")
}

/// Runs a parameter server and two workers, of which `stopped` stands still past the end, while the
/// others wait for it for `recovery`. Returns how the three ended.
fn with_one_that_stands_still(
    test: &str,
    stopped: u32,
    recovery: &str,
) -> [crate::support::binary::Said; 3] {
    let folder = with_certificates(test);
    let path = scenario(&format!("{test}_scenario"), &short(recovery));
    let at = addresses();
    let start = |job, index| run(&folder, &path, &role(&at, job, index));
    let (ps, workers) = (start("ps", 0), [start("worker", 0), start("worker", 1)]);
    std::thread::sleep(Duration::from_millis(1500));
    signal("STOP", &workers[stopped as usize]);
    std::thread::sleep(Duration::from_secs(10));
    signal("CONT", &workers[stopped as usize]);
    let [chief, other] = workers;
    [ps.end(), chief.end(), other.end()]
}

#[test]
fn a_worker_that_stood_still_past_the_end_hears_of_it_from_a_parameter_server_that_stayed() {
    let [ps, chief, other] = with_one_that_stands_still("ends_worker", 1, "20s");
    let said = format!("{}{}{}", ps.err, chief.err, other.err);
    assert_eq!((ps.code, chief.code, other.code), (0, 0, 0), "{said}");
}

#[test]
fn a_worker_that_stood_still_until_all_were_gone_is_not_to_be_started_again() {
    let [ps, chief, other] = with_one_that_stands_still("ends_late", 1, "3s");
    let said = format!("{}{}{}", ps.err, chief.err, other.err);
    assert_eq!((ps.code, chief.code, other.code), (0, 0, 10), "{said}");
    assert!(other.err.contains("this task has stood still for"), "{}", other.err);
}

#[test]
fn a_chief_that_stood_still_past_the_end_finds_the_variables_and_reports_them() {
    let [ps, chief, other] = with_one_that_stands_still("ends_chief", 0, "20s");
    let said = format!("{}{}{}", ps.err, chief.err, other.err);
    assert_eq!((ps.code, chief.code, other.code), (0, 0, 0), "{said}");
    assert!(chief.out.contains("deployment, seconds of the wall clock"), "{}", chief.out);
}

#[test]
fn tasks_that_start_after_the_end_find_it_beside_the_checkpoints() {
    let folder = with_certificates("ends_saved");
    let saving = "[checkpoint]\nevery = '1h'\ndirectory = 'saved'\n";
    let ending = text("async", "steps = 50") + "[network]\nrecovery = '500ms'\n" + saving;
    let path = scenario("ends_saved_scenario", &ending);
    let at = addresses();
    let start = |job, index| run(&folder, &path, &role(&at, job, index));
    let all = [start("ps", 0), start("worker", 0), start("worker", 1)];
    for task in all.map(Running::end) {
        assert_eq!(task.code, 0, "{}", task.err);
    }
    for (job, index) in [("worker", 1), ("worker", 0), ("ps", 0)] {
        let late = start(job, index).end();
        assert_eq!((late.code, late.out.as_str()), (0, ""), "{}", late.err);
        assert!(late.err.contains("nothing is left to do"), "{}", late.err);
    }
    let longer = ending.replace("steps = 50", "steps = 60");
    let longer = scenario("ends_longer_scenario", &longer);
    let late = run(&folder, &longer, &role(&at, "worker", 1)).end();
    assert_eq!(late.code, 10, "a longer training is not over: {}", late.err);
}

#[test]
fn a_parameter_server_that_nobody_uses_ends_at_once_when_it_is_asked_to() {
    let folder = with_certificates("ends_lone");
    let path = scenario("ends_lone_scenario", &short("20s"));
    let ps = run(&folder, &path, &role(&addresses(), "ps", 0));
    std::thread::sleep(Duration::from_secs(1));
    let began = Instant::now();
    signal("TERM", &ps);
    let ps = ps.end();
    assert_eq!(ps.code, 143, "{}", ps.err);
    assert!(began.elapsed() < Duration::from_secs(3), "it took {:?}", began.elapsed());
}
