//! Wrong dates change nothing in a simulation.

use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::{Memory, Retention, Saver, Stores};
use crate::experiment::Experiment;
use crate::simulation;
use crate::training::{SharedRecording, train};

fn hours(count: u32) -> Duration {
    Duration::from_secs(3600) * count
}

/// A simulation has no fault of clocks, for nothing in it follows from a date.
#[test]
fn wrong_dates_of_tasks_and_of_their_later_lives_change_no_event_and_no_weight() {
    let faults = r#"[{ at = "100ms", crash = "worker:0", restart_after = "10ms" },
                     { at = "200ms", crash = "ps:1", restart_after = "10ms" }]"#;
    let scenario = Experiment::parse(include_str!("../../../../sims/chaos.toml")).unwrap();
    let experiment = scenario.only("sync").set(&format!("fault={faults}")).unwrap();
    let run = |ahead: fn(usize, u32) -> Duration| {
        let mut trial = experiment.trials().unwrap().remove(0);
        trial.cluster.dates_ahead = Some(ahead);
        let store = Memory::default();
        trial.keep_all_checkpoints(Arc::new(store.clone()));
        let recording = SharedRecording::default();
        let outcome = simulation::run(&trial.cluster, |server| {
            let (kept, stores) = (trial.checkpointing.clone(), Stores::in_memory());
            let task = trial.task(server, kept, stores, recording.recorder(), None);
            async { train(task?).await }
        });
        assert!(outcome.result.is_ok(), "{:?}", outcome.result);
        let saver = Saver::new(Arc::new(store), Retention::default());
        let saved = saver.checkpoints().unwrap();
        let steps: Vec<u64> = saved.iter().map(|listed| listed.global_step).collect();
        (outcome.digest, recording.finish().ending, steps)
    };
    // Each task, and each later life of one, is further behind.
    let run_of_wrong_dates = run(|task, incarnation| hours(100 - 10 * (task as u32 + incarnation)));
    assert_eq!(run_of_wrong_dates, run(|_, _| hours(100)));
}
