//! Backup workers: how a training with them ends, and what a step costs beside a plain one.

use std::time::Duration;

use trainyard::models::{Model, Null};
use trainyard::simulation::Law;
use trainyard::sync::Mode;

use crate::support::simulated::Simulated;

const LATENCY: Duration = Duration::from_millis(1);

fn training(workers: u32, backups: u32, law: Law) -> Simulated {
    let training = Simulated::new(2, workers, Mode::Sync { backups, cancel: false });
    training.model(Model::Null(Null::scalars(4))).step_time(law).latency(LATENCY)
}

#[test]
fn a_step_with_a_vote_takes_as_many_latencies_as_a_synchronous_one_that_reads_for_itself() {
    let [plain, voting] = [0, 1].map(|backups| {
        let training = training(4, backups, Law::Constant { value: 0.1 }).steps(40);
        let trained = training.read_ahead(false).run();
        (trained.reached(40) - trained.reached(10)) / 30.0
    });
    let more = (voting - plain) / LATENCY.as_secs_f64();
    assert!(more.abs() < 0.1, "{voting} s a step, not {plain} s: {more} latencies more");
}

#[trainyard::test]
fn a_training_with_backups_ends_at_its_last_step_and_each_update_is_of_a_whole_round(seed: u64) {
    let trained = training(8, 4, Law::Exponential { mean: 0.01 }).seed(seed).steps(20).run();
    let last = trained.steps.iter().map(|step| step.global_step).max();
    assert_eq!(last, Some(20));
    for update in 1..=20 {
        assert_eq!(trained.applied(update - 1, update).count(), 4, "update {update}");
    }
}
