//! Kernels that take long: the task that runs them lives, answers and sends meanwhile, in both
//! worlds.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trainyard::clock::{Clock, WallClock};
use trainyard::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, Known, OpDef,
    OutputTypes, Outputs, TensorType,
};
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::units::Time;

use super::over_quic::{servers, stop};
use crate::support::alone::Seen;
use crate::support::fixture::{both, impatient, impatient_quic_network, on_actix};
use crate::support::simulated::Simulated;

const SILENCE: Duration = Duration::from_secs(1);
/// The rate of a simulated device \[flop/s\].
const RATE: u64 = 50_000_000_000;

/// Adds 1 to a scalar, and takes its time: simulated by its cost, deployed by its sleep.
#[derive(Clone, Debug)]
struct Long {
    kind: &'static str,
    takes: Duration,
}

/// Takes three times as long as a peer may be silent.
const LONGER_THAN_SILENCE: Long = Long { kind: "LongerThanSilence", takes: Duration::from_secs(3) };
const EARLY: Long = Long { kind: "Early", takes: Duration::from_millis(5) };
const LATE: Long = Long { kind: "Late", takes: Duration::from_millis(400) };

impl OpDef for Long {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        let takes = given.size("takes_ms", self.takes.as_millis() as usize);
        Self { takes: Duration::from_millis(takes as u64), ..*self }.into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        Ok(inputs.iter().copied().collect())
    }

    fn cost(&self, _: &[Known], _: &[Known]) -> Cost {
        Cost::work(self.takes.as_millis() as usize * (RATE / 1000) as usize, 0)
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        BEGUN.fetch_add(u32::from(self.kind == COUNTED.kind), Ordering::Relaxed);
        thread::sleep(self.takes);
        Ok([Tensor::scalar(inputs[0].item::<f32>()? + 1.0)].into_iter().collect())
    }
}

/// The kernel that takes longer than a peer may be silent, and for how long one may. With
/// `TRAINYARD_LONG_KERNEL=20` it takes 20 s, and a peer may be silent for the usual 5 s.
fn longest() -> (Long, Duration) {
    let given = std::env::var("TRAINYARD_LONG_KERNEL").ok();
    match given.and_then(|seconds| seconds.parse().ok()) {
        Some(seconds) => {
            let takes = Duration::from_secs(seconds);
            (Long { takes, ..LONGER_THAN_SILENCE }, Duration::from_secs(5))
        }
        None => (LONGER_THAN_SILENCE, SILENCE),
    }
}

/// Gives its input, a scalar; the gradient for that is made by a kernel that takes its time.
#[derive(Clone, Debug)]
struct SlowGradient {
    kind: &'static str,
    kernel: Long,
}

const EARLY_GRADIENT: SlowGradient = SlowGradient { kind: "EarlyGradient", kernel: EARLY };
const LATE_GRADIENT: SlowGradient = SlowGradient { kind: "LateGradient", kernel: LATE };

impl OpDef for SlowGradient {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn attributes(&self, _: &mut Attributes) -> Defined {
        self.clone().into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        Ok(inputs.iter().copied().collect())
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        Ok(vec![Some(of.only_arrived()?.apply(self.kernel.clone(), &[])?)])
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Ok([inputs[0].clone()].into_iter().collect())
    }
}

/// `long` of `of`, on the worker.
fn on_worker(g: &Graph, of: &Output, long: &Long) -> Result<Output> {
    trainyard::operations::register_operation(long.clone());
    Ok(g.with_device("/job:worker/task:0", |_| of.apply(long.clone(), &[]))?)
}

#[test]
fn nobody_is_taken_for_dead_while_a_kernel_takes_longer_than_a_peer_may_be_silent() {
    on_actix(async {
        let (kernel, silence) = longest();
        let network = impatient_quic_network(&[("ps", 1), ("worker", 1)], silence).await;
        let (servers, ends) = servers(network);
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [0usize; 0])?;
        let long = on_worker(&g, &x, &kernel)?;
        let sum = g.with_device("/job:ps/task:0", |_| long.add(&x))?;
        let small = g.with_device("/job:worker/task:0", |_| x.negate().mul(&x))?;
        let (session, other) = (
            Session::new(&servers[0].target(), &g).await?,
            Session::new(&servers[0].target(), &g).await?,
        );
        let one = Tensor::scalar(1f32);
        let began = Instant::now();
        let answer = async {
            let fetched = other.run().feed(&x, one.clone()).fetch(&small).await?;
            Ok::<_, Error>((fetched.scalar::<f32>(0)?, began.elapsed()))
        };
        let (slow, fast) = both(session.run().feed(&x, one.clone()).fetch(&sum), answer).await;
        let ((answer, after), took) = (fast?, began.elapsed());
        assert_eq!((slow?.scalar::<f32>(0)?, answer), (3.0, -1.0));
        assert!(took >= kernel.takes, "{took:?}");
        assert!(after < silence, "the worker answered another session after {after:?}");
        stop(servers, ends).await
    });
}

/// How often a kernel of [`COUNTED`] has begun.
static BEGUN: AtomicU32 = AtomicU32::new(0);
const COUNTED: Long = Long { kind: "Counted", takes: Duration::from_millis(200) };

#[test]
fn a_kernel_that_runs_when_its_step_is_given_up_ends_and_none_follows() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [0usize; 0])?;
        trainyard::operations::register_operation(COUNTED);
        let chain = (0..5).try_fold(x.clone(), |of, _| of.apply(COUNTED, &[]))?;
        let session = Session::with_options(&server.target(), &g, impatient()).await?;
        let error = session.run().feed(&x, Tensor::scalar(1f32)).fetch(&chain).await.unwrap_err();
        assert_eq!(error.code, Code::DeadlineExceeded);
        tokio::time::sleep(COUNTED.takes * 4).await;
        let begun = BEGUN.load(Ordering::Relaxed);
        assert!((1..5).contains(&begun), "{begun} of 5 kernels have run");
        Ok(())
    });
}

#[test]
fn a_server_that_stops_does_not_wait_for_its_kernels() {
    on_actix(async {
        let network = impatient_quic_network(&[("ps", 1), ("worker", 1)], SILENCE).await;
        let (servers, ends) = servers(network);
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [0usize; 0])?;
        let long = on_worker(&g, &x, &LONGER_THAN_SILENCE)?;
        let session = Session::new(&servers[0].target(), &g).await?;
        let step = session.run().feed(&x, Tensor::scalar(1f32)).fetch(&long);
        let began = Instant::now();
        let stopping = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            servers[1].stop();
        };
        let (step, ()) = both(step, stopping).await;
        assert_eq!(step.unwrap_err().code, Code::Unavailable);
        stop(servers, ends).await?;
        assert!(began.elapsed() < LONGER_THAN_SILENCE.takes, "{:?}", began.elapsed());
        Ok(())
    });
}

/// The worker's step: its early value goes to a variable of the parameter server, then it computes
/// on. Returns the time at which the step ended.
async fn step(server: &Server, clock: &dyn Clock) -> Result<Time> {
    let g = Graph::new();
    let arrived = arrived(&g)?;
    let x = g.placeholder("x", DType::F32, [0usize; 0])?;
    let early = on_worker(&g, &x, &EARLY)?;
    let late = on_worker(&g, &early, &LATE)?;
    let arrives = arrived.assign_add(&early)?;
    let session = Session::new(&server.target(), &g).await?;
    session.run().target(g.initializer()).await?;
    let run = session.run().feed(&x, Tensor::scalar(0f32));
    assert_eq!(run.target(&arrives).fetch(&late).await?.scalar::<f32>(0)?, 2.0);
    Ok(clock.now())
}

/// The worker's training step: the gradient for `arrived` is known before that for `first`, which
/// comes late. Returns the time at which the step ended.
async fn training_step(server: &Server, clock: &dyn Clock) -> Result<Time> {
    for kernel in [EARLY, LATE] {
        trainyard::operations::register_operation(kernel);
    }
    for slow in [EARLY_GRADIENT, LATE_GRADIENT] {
        trainyard::operations::register_operation(slow);
    }
    let g = Graph::new();
    let arrived = arrived(&g)?;
    let first = g.with_device("/job:ps/task:0", |g| g.variable("first", &g.constant(3f32)))?;
    let loss = g.with_device("/job:worker/task:0", |_| {
        let hidden = first.read().apply(LATE_GRADIENT, &[])?;
        // Its derivative by `arrived` is -3, and -2 as its kernel has it: the step makes 1 of 0.
        Ok(hidden.mul(&arrived.read().apply(EARLY_GRADIENT, &[])?)?.negate())
    })?;
    let train = GradientDescent::new(0.5).minimize(&loss, &g.global_step()?)?;
    let session = Session::new(&server.target(), &g).await?;
    session.run().target(g.initializer()).await?;
    session.run().target(&train).await?;
    Ok(clock.now())
}

/// Looks at the parameter server's variable until it is 1. Returns that time.
async fn watch(server: &Server, clock: &dyn Clock) -> Result<Time> {
    let g = Graph::new();
    let value = arrived(&g)?.read();
    let session = Session::new(&server.target(), &g).await?;
    loop {
        match session.run().fetch(&value).await {
            Ok(fetched) if fetched.scalar::<f32>(0)? == 1.0 => return Ok(clock.now()),
            Err(error) if error.code != Code::FailedPrecondition => return Err(error),
            _ => clock.sleep_until(clock.now().after(Duration::from_millis(5))).await,
        }
    }
}

fn arrived(g: &Graph) -> Result<Variable> {
    Ok(g.with_device("/job:ps/task:0", |g| g.variable("arrived", &g.constant(0f32)))?)
}

/// Asserts that the early value arrived while the late one was being computed.
#[track_caller]
fn assert_overlap(arrived: Time, ended: Time) {
    let before = ended.since(arrived);
    assert!(before > LATE.takes / 2, "the early value arrived {before:?} before the step ended");
}

/// Runs `step` on a worker over QUIC, and looks at the parameter server meanwhile.
#[track_caller]
fn assert_overlap_over_quic(step: impl AsyncFnOnce(&Server, &dyn Clock) -> Result<Time> + 'static) {
    on_actix(async {
        let network = impatient_quic_network(&[("ps", 1), ("worker", 1)], SILENCE).await;
        let (servers, ends) = servers(network);
        let clock = WallClock::new();
        let (arrived, ended) = both(watch(&servers[0], &clock), step(&servers[1], &clock)).await;
        assert_overlap(arrived?, ended?);
        stop(servers, ends).await
    });
}

/// The same in simulation.
#[track_caller]
fn assert_overlap_in_simulation(
    step: impl AsyncFn(&Server, &dyn Clock) -> Result<Time> + Copy + Sync + 'static,
) {
    let seen = Seen::default();
    let trained = Simulated::new(1, 1, Mode::Async).run_on_servers(|server, task| {
        let seen = seen.clone();
        async move {
            let clock = Rc::clone(server.clock());
            if task.job() == "ps" {
                seen.add(("arrived", watch(&server, &*clock).await?));
                // It serves the worker's session to its end.
                clock.sleep_until(clock.now().after(10 * LATE.takes)).await;
            } else {
                seen.add(("ended", step(&server, &*clock).await?));
            }
            Ok(())
        }
    });
    trained.outcome.result.unwrap();
    let seen = seen.all();
    assert_eq!((seen[0].0, seen[1].0), ("arrived", "ended"));
    assert_overlap(seen[0].1, seen[1].1);
}

#[test]
fn over_quic_an_early_value_arrives_while_the_worker_computes_the_late_one() {
    assert_overlap_over_quic(step);
}

#[test]
fn in_simulation_an_early_value_arrives_while_the_worker_computes_the_late_one() {
    assert_overlap_in_simulation(step);
}

#[test]
fn over_quic_the_first_gradient_is_applied_while_the_worker_computes_the_last() {
    assert_overlap_over_quic(training_step);
}

#[test]
fn in_simulation_the_first_gradient_is_applied_while_the_worker_computes_the_last() {
    assert_overlap_in_simulation(training_step);
}
