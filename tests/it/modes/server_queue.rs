//! A parameter server that serves one after the other is a queue: the machine repairman's, whose
//! machines are the workers.

use trainyard::prelude::*;
use trainyard::simulation::Law;
use trainyard::sync::Mode;

use crate::support::simulated::{Simulated, assert_near};

const WORKERS: u32 = 16;
const STEPS: u64 = 30_000;
/// The mean computation of a worker \[s\]; a server's is a share of it.
const MEAN: f64 = 0.1;

/// Each step computes on the worker, then on the second parameter server; the first one has the
/// variables.
async fn train(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let (v, _) = g.with_device("/job:ps/task:0", |g| {
        Ok((g.variable("v", &g.constant(0f32))?, g.global_step()?))
    })?;
    let computed = g.with_device(&task.device().to_string(), |_| Ok(v.read().negate()))?;
    let served = g.with_device("/job:ps/task:1", |_| Ok(computed.negate()))?;
    let train = task.apply_gradients(GradientDescent::new(0.1), &[(v, served)])?;
    let stop = StopAtStep::last_step(STEPS);
    let mut session = MonitoredSession::builder(&task, g.clone()).hook(stop).open().await?;
    while !session.should_stop() {
        session.run().target(&train).await?;
    }
    session.close().await
}

/// The rate of one server with exponential service of rate `service`, for [`WORKERS`] that compute
/// exponentially at rate 1.
fn machine_repairman(service: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    for at_server in 1..=WORKERS {
        term *= f64::from(WORKERS - at_server + 1) / service;
        sum += term;
    }
    service * (1.0 - 1.0 / sum)
}

#[test]
fn workers_of_a_busy_server_are_as_fast_as_the_machine_repairman_s() {
    for service in [16.0, 4.0] {
        let training = Simulated::new(2, WORKERS, Mode::Async)
            .step_time(Law::Exponential { mean: MEAN })
            .service_time(1, Law::Exponential { mean: MEAN / service })
            .steps(STEPS);
        let trained = training.run_program(train);
        assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
        let rate = (STEPS - 100) as f64 / (trained.reached(STEPS) - trained.reached(100));
        let what = format!("service at rate {service}");
        assert_near(&what, rate * MEAN, machine_repairman(service), 0.01);
    }
}
