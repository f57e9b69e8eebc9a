//! Deployed workers with variables of their own, whose training goes back to a checkpoint.

use super::*;

/// Kills the parameter server of a run with these keys after its checkpoint of step 60, and starts
/// it again. The weights then are those of a simulation without the loss.
#[track_caller]
fn goes_on_after_a_loss(test: &str, run_keys: &str, steps: u64) {
    let folder = with_certificates(test);
    let training = text("sync", &format!("steps = {steps}")).replace("mode = 'sync'", run_keys);
    let checkpoints = "[checkpoint]\nevery_steps = 20\ndirectory = 'saved'\n";
    let path = scenario(test, &(training + checkpoints));
    let [ps, first, second] = addresses();
    let cluster = json!({"ps": [ps], "worker": [first, second]});
    let start = |job: &str, index: u32| {
        run(&folder, &path, &json!({"cluster": cluster, "task": {"type": job, "index": index}}))
    };
    let (killed, chief, other) = (start("ps", 0), start("worker", 0), start("worker", 1));
    let began = std::time::Instant::now();
    while !folder.join("saved/only/model.ckpt-60.index.json").exists() {
        assert!(began.elapsed() < LIMIT, "there is no checkpoint of step 60");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(killed);
    let again = start("ps", 0);
    let ended = [chief, other, again].map(Running::end);
    let said: String = ended.iter().map(|one| &*one.err).collect();
    assert_eq!(ended.each_ref().map(|one| one.code), [0, 0, 0], "{said}");
    assert!(ended[0].err.contains("restoring") && !said.contains("begins anew"), "{said}");
    let weights =
        |out: &str| out.split("weights=").nth(1).map(|rest| rest.trim().to_owned()).unwrap();
    let simulated = trainyard_in(&folder, &["sim", &path], &[]);
    assert_eq!(weights(&ended[0].out), weights(&simulated.out));
}

#[test]
fn residuals_go_back_with_the_variables_and_the_weights_are_the_same() {
    let keys = "mode = 'sync'\ncompression = { top_k = { fraction = 0.05 } }";
    goes_on_after_a_loss("tasks_residuals", keys, 600);
}

#[test]
fn workers_copies_go_back_with_the_center_and_the_weights_are_the_same() {
    goes_on_after_a_loss("tasks_copies", "mode = { local_sgd = { every = 4 } }", 300);
}
