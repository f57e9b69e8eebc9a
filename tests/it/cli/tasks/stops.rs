//! Workers that are asked to stop before the end of their training: nobody takes that for its end.

use std::time::Instant;

use super::waits::endless;
use super::*;

/// A training of `text` whose workers were asked to stop, one after another: its parameter server,
/// and its tasks, which can be started again.
fn with_stopped_workers(name: &str, text: &str) -> (Running, ThreeTasks) {
    let tasks = ThreeTasks::new(name, text);
    let (ps, workers) = (tasks.start("ps", 0), tasks.start_workers());
    tasks.until_both_train();
    for worker in workers {
        worker.signal("TERM");
        assert_eq!(worker.end().code, 143);
    }
    (ps, tasks)
}

#[test]
fn a_parameter_server_whose_workers_were_stopped_one_after_another_is_to_be_started_again() {
    let (ps, _) = with_stopped_workers("stops_all", &endless("2s"));
    let ps = ps.end();
    assert_eq!(ps.code, 138, "{}", ps.err);
    assert!(ps.err.contains("waits for worker:0, worker:1: all are gone"), "{}", ps.err);
}

#[test]
fn workers_that_were_all_stopped_come_back_and_end_the_training() {
    let text = endless("20s").replace("'10min'", "'5s'");
    let (ps, tasks) = with_stopped_workers("stops_back", &text);
    let ended = [tasks.start("worker", 1), tasks.start("worker", 0), ps].map(Running::end);
    let said: String = ended.iter().map(|one| &*one.err).collect();
    assert_eq!(ended.map(|one| one.code), [0, 0, 0], "{said}");
}

#[test]
fn a_chief_that_was_stopped_comes_back_though_who_counts_the_steps_was_started_again_meanwhile() {
    let folder = with_certificates_of("stops_chief", "ps:0,ps:1,worker:0,worker:1");
    let saving = "[checkpoint]\nevery_steps = 50\ndirectory = 'saved'\n";
    let text = endless("20s").replace("ps = 1", "ps = 2").replace("'async'", "'sync'");
    let path = scenario("stops_chief_scenario", &(text.replace("'10min'", "'8s'") + saving));
    let [first, second, chief, other] = free_addresses();
    let cluster = json!({"ps": [first, second], "worker": [chief, other]});
    let start = |job: &str, index: u32| {
        run(&folder, &path, &json!({"cluster": cluster, "task": {"type": job, "index": index}}))
    };
    let (counter, shard) = (start("ps", 0), start("ps", 1));
    let (mut chief, other) = (start("worker", 0), start("worker", 1));
    chief.line_with(" steps, ");
    chief.signal("TERM");
    assert_eq!(chief.end().code, 143);
    drop(counter); // kills it
    let (counter, chief) = (start("ps", 0), start("worker", 0));
    let ended = [chief, other, counter, shard].map(Running::end);
    let said: String = ended.iter().map(|one| &*one.err).collect();
    assert_eq!(ended.map(|one| one.code), [0; 4], "{said}");
}

#[test]
fn an_evaluator_whose_chief_was_stopped_and_does_not_come_back_is_to_be_started_again() {
    let folder = with_certificates_of("stops_evaluator", "ps:0,worker:0,evaluator:0");
    let saving = "[checkpoint]\nevery_steps = 50\ndirectory = 'saved'\n";
    let text = endless("2s").replace("worker = 2", "worker = 1\nevaluator = 1") + saving;
    let path = scenario("stops_evaluator_scenario", &text);
    let [ps, chief, evaluator] = free_addresses();
    let cluster = json!({"ps": [ps], "worker": [chief], "evaluator": [evaluator]});
    let start = |job: &str| {
        run(&folder, &path, &json!({"cluster": cluster, "task": {"type": job, "index": 0}}))
    };
    let [_ps, chief, mut evaluator] = ["ps", "worker", "evaluator"].map(start);
    evaluator.line_with("accuracy 0."); // of a checkpoint of the chief
    chief.signal("TERM");
    let (chief, evaluator) = (chief.end(), evaluator.end());
    assert_eq!((chief.code, evaluator.code), (143, 138), "{}", evaluator.err);
    assert!(evaluator.err.contains("worker:0, the chief"), "{}", evaluator.err);
}

#[test]
fn a_worker_that_waits_for_first_values_obeys_at_once_when_it_is_asked_to_stop() {
    let tasks = ThreeTasks::new("stops_early", &endless("20s"));
    let (_ps, mut worker) = (tasks.start("ps", 0), tasks.start("worker", 1));
    worker.line_with("worker:1 listens on UDP port ");
    std::thread::sleep(Duration::from_secs(1)); // until it waits
    let began = Instant::now();
    worker.signal("TERM");
    let worker = worker.end();
    assert_eq!(worker.code, 143, "{}", worker.err);
    assert!(worker.err.contains("before the chief, worker:0, had given"), "{}", worker.err);
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
}

#[test]
fn a_chief_that_can_not_save_when_it_is_asked_to_stop_says_which_step_is_saved() {
    let folder = with_certificates_of("stops_unsaved", "ps:0,worker:0");
    let saving = "[checkpoint]\nevery_steps = 1000000\ndirectory = 'saved'\n";
    let text = endless("20s").replace("worker = 2", "worker = 1") + saving;
    let path = scenario("stops_unsaved_scenario", &text);
    let [ps, chief] = free_addresses();
    let cluster = json!({"ps": [ps], "worker": [chief]});
    let start = |job: &str| {
        run(&folder, &path, &json!({"cluster": cluster, "task": {"type": job, "index": 0}}))
    };
    let [ps, mut chief] = ["ps", "worker"].map(start);
    chief.line_with(" steps, ");
    ps.signal("STOP");
    std::thread::sleep(Duration::from_secs(1)); // until it waits for the parameter server
    chief.signal("TERM");
    let chief = chief.end();
    ps.signal("CONT");
    assert_eq!(chief.code, 143, "{}", chief.err);
    for said in [&chief.err, &chief.out] {
        assert!(said.contains("is the last that is saved"), "{}{}", chief.err, chief.out);
    }
}

#[test]
fn a_task_that_helps_a_worker_obeys_at_once_when_it_is_asked_to_stop() {
    let replicas = endless("20s") + "[replicas]\nworker = { tasks = 2 }\n";
    let tasks = ThreeTasks::new("stops_helper", &replicas.replace("softmax", "mlp"));
    let (_ps, [_worker, helper]) = (tasks.start("ps", 0), tasks.start_workers());
    tasks.until_it_trains(0);
    let began = Instant::now();
    helper.signal("TERM");
    let helper = helper.end();
    assert_eq!(helper.code, 143, "{}", helper.err);
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
}

#[test]
fn a_parameter_server_with_other_settings_than_its_workers_says_so_as_they_do() {
    let right = endless("500ms");
    let wrong = scenario("stops_wrong", &right.replace("batch = 8", "batch = 16"));
    let tasks = ThreeTasks::new("stops_other", &right);
    let ps = run(&tasks.folder, &wrong, &tasks.config("ps", 0));
    let worker = tasks.start("worker", 0);
    for task in [worker, ps] {
        let said = task.end();
        assert_eq!(said.code, 2, "{}", said.err);
        let says = "worker:0 has program.batch = 8, and ps:0 program.batch = 16: start both";
        assert!(said.err.contains(says), "{}", said.err);
    }
}
