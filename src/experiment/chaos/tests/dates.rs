//! Wrong dates change nothing in a simulation.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::checkpoint::{Memory, Retention, Saver, Stores};
use crate::clock::{Clock, Sleep};
use crate::experiment::Experiment;
use crate::simulation::{self, Host};
use crate::training::{SharedRecording, train};
use crate::units::Time;

/// The clock of a task whose date is wrong.
struct Skewed {
    clock: Rc<dyn Clock>,
    ahead: Duration,
}

impl Clock for Skewed {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn sleep_until(&self, time: Time) -> Sleep {
        self.clock.sleep_until(time)
    }

    fn date(&self) -> Duration {
        self.clock.date() + self.ahead
    }

    fn is_virtual(&self) -> bool {
        self.clock.is_virtual()
    }

    fn sees_stalls(&self) -> bool {
        self.clock.sees_stalls()
    }
}

/// A simulation has no fault of clocks, for nothing in it follows from a date.
#[test]
fn wrong_dates_of_tasks_and_of_their_later_lives_change_no_event_and_no_weight() {
    let faults = r#"[{ at = "100ms", crash = "worker:0", restart_after = "10ms" },
                     { at = "200ms", crash = "ps:1", restart_after = "10ms" }]"#;
    let scenario = Experiment::parse(include_str!("../../../../sims/chaos.toml")).unwrap();
    let experiment = scenario.only("sync").set(&format!("fault={faults}")).unwrap();
    let run = |hours_behind: u64| {
        let mut trial = experiment.trials().unwrap().remove(0);
        let store = Memory::default();
        trial.keep_all_checkpoints(Arc::new(store.clone()));
        let (recording, lives) = (SharedRecording::default(), AtomicU64::new(0));
        let outcome = simulation::run(&trial.cluster, |host| {
            let life = lives.fetch_add(1, Ordering::Relaxed);
            let ahead = Duration::from_secs(3600) * (100 - hours_behind * life) as u32;
            let host = Host { clock: Rc::new(Skewed { clock: host.clock, ahead }), ..host };
            let (kept, stores) = (trial.checkpointing.clone(), Stores::in_memory());
            let task = trial.task(host, kept, stores, &recording, None);
            async { train(task?).await }
        });
        assert!(outcome.result.is_ok(), "{:?}", outcome.result);
        let saver = Saver::new(Arc::new(store), Retention::default());
        let saved = saver.checkpoints().unwrap();
        let steps: Vec<u64> = saved.iter().map(|listed| listed.global_step).collect();
        (outcome.digest, recording.finish().ending, steps)
    };
    assert_eq!(run(10), run(0));
}
