//! Rounds on cores that noise takes away now and then (Petrini et al. 2003; Hoefler et al. 2010).

use std::time::Duration;

use trainyard::simulation::{Law, Noise};
use trainyard::sync::Mode;

use crate::support::simulated::{Simulated, assert_near};

/// The time that a step computes \[s\].
const STEP: f64 = 0.1;
/// The mean number of interruptions in that.
const INTERRUPTED: f64 = 0.2;
/// For how long each lasts.
const SPAN: Duration = Duration::from_millis(50);

/// The mean time of a synchronous round \[s\].
fn round(workers: u32) -> f64 {
    const STEPS: u64 = 3000; // for a standard error of a third of a per cent
    let noise = Noise { every: Duration::from_secs_f64(STEP / INTERRUPTED), span: SPAN };
    let trained = Simulated::new(1, workers, Mode::Sync { backups: 0, cancel: false })
        .step_time(Law::Constant { value: STEP })
        .noise(vec![noise])
        .steps(STEPS)
        .run();
    trained.reached(STEPS) / STEPS as f64
}

/// The mean of the greatest of `count` Poisson numbers of mean [`INTERRUPTED`]: the sum over k of
/// 1 - F(k)^count.
fn greatest(count: u32) -> f64 {
    let mut term = (-INTERRUPTED).exp();
    let mut up_to = term;
    (1..30)
        .map(|k| {
            let above = 1.0 - up_to.powi(count as i32);
            term *= INTERRUPTED / f64::from(k);
            up_to += term;
            above
        })
        .sum()
}

#[test]
fn a_synchronous_round_waits_for_the_worker_that_is_interrupted_most() {
    for workers in [1, 16] {
        let expected = STEP + SPAN.as_secs_f64() * greatest(workers);
        assert_near(&format!("{workers} workers"), round(workers), expected, 0.01);
    }
}
