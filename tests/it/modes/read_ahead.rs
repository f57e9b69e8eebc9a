//! The answer to a synchronous step brings the variables that the next one reads: the step takes
//! one round trip, and trains the same weights.

use std::time::Duration;

use trainyard::checkpoint::Memory;
use trainyard::prelude::*;
use trainyard::sync::Mode;

use crate::support::simulated::{Simulated, Trained, assert_near, mean};

const SYNC: Mode = Mode::Sync { backups: 0, cancel: false };
const LATENCY: Duration = Duration::from_millis(10);

fn step_seconds(trained: &Trained) -> f64 {
    mean(trained.applied(5, 40).map(|step| step.ended.since(step.started).as_secs_f64()))
}

#[test]
fn a_synchronous_step_takes_one_round_trip_and_any_other_two() {
    for (mode, latencies) in [(SYNC, 2.0), (Mode::Async, 4.0)] {
        let training = Simulated::new(1, 3, mode).latency(LATENCY).steps(40);
        let one = latencies * LATENCY.as_secs_f64();
        assert_near(&mode.to_string(), step_seconds(&training.run()), one, 1e-3);
        let two = 4.0 * LATENCY.as_secs_f64();
        let apart = training.read_ahead(false).run();
        assert_near(&format!("{mode}, not ahead"), step_seconds(&apart), two, 1e-3);
    }
}

/// The envelopes of a synchronous step that the guide to the architecture lists.
fn listed() -> u64 {
    let guide = include_str!("../../../docs/architecture.md");
    let (_, rows) = guide.split_once("| envelope | content |\n|---|---|\n").unwrap();
    rows.lines().take_while(|line| line.starts_with('|')).count() as u64
}

#[test]
fn a_synchronous_step_sends_the_listed_envelopes_and_one_more_where_it_reads_for_itself() {
    let of_steps = |read_ahead, steps| {
        Simulated::new(1, 1, SYNC).read_ahead(read_ahead).steps(steps).run().outcome.deliveries
    };
    for (read_ahead, envelopes) in [(true, listed()), (false, listed() + 1)] {
        let of_ten = of_steps(read_ahead, 50) - of_steps(read_ahead, 40);
        assert_eq!(of_ten, 10 * envelopes, "ten steps, read ahead: {read_ahead}");
    }
}

#[test]
fn reading_ahead_changes_no_weight_whatever_the_chief_does_between_its_steps() {
    let digits = || Simulated::new(2, 3, SYNC).digits().steps(60);
    let trained = |training: Simulated| {
        let trained = training.checkpoints(&Memory::default(), 7).run();
        (trained.digests().1, trained.outcome.ended)
    };
    let (ahead, apart) = (trained(digits()), trained(digits().read_ahead(false)));
    assert_eq!(ahead.0, apart.0);
    assert!(ahead.1 < apart.1, "{} against {}", ahead.1, apart.1);
}

/// A worker by itself that adds 1 to `v` in each step, after which every third step sets `v` to 0:
/// the values that its steps have read.
fn values_read(mode: Mode) -> Vec<f32> {
    let read = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let training = Simulated::new(1, 1, mode).latency(LATENCY);
    let trained = training.run_program(|task| {
        let read = std::sync::Arc::clone(&read);
        async move {
            if task.job() == "ps" {
                return task.join().await;
            }
            let g = Graph::new();
            let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
            let (v, step, reset) = g.with_device_fn(setter, |g| {
                let v = g.variable("v", &g.constant(0f32))?;
                let pairs = [(v.clone(), v.read().zeros_like() - g.constant(1f32))];
                let step = task.apply_gradients(GradientDescent::new(1.0), &pairs)?;
                Ok((v.read(), step, v.assign(&g.constant(0f32))?))
            })?;
            let mut session = MonitoredSession::builder(&task, g).open().await?;
            for number in 1..=9 {
                let fetched = session.run().fetch(&v).target(&step).await?;
                read.lock().unwrap().push(fetched.scalar::<f32>(&v)?);
                if number % 3 == 0 {
                    session.run().target(&reset).await?;
                }
            }
            task.finish_training();
            session.close().await
        }
    });
    trained.outcome.result.unwrap();
    let read = read.lock().unwrap();
    read.clone()
}

#[test]
fn a_step_reads_what_its_program_has_assigned_since_the_last_one() {
    for mode in [SYNC, Mode::Async] {
        assert_eq!(values_read(mode), [0.0, 1.0, 2.0].repeat(3), "{mode}");
    }
}
