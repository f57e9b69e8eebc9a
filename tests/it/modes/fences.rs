//! A worker's fence: while it is up the variables of all parameter servers hold the same whole
//! steps.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::simulation::{FaultKind, Law, Trigger};
use trainyard::sync::Mode;
use trainyard::units::Time;

use crate::support::counting;
use crate::support::fixture::assert_error;
use crate::support::simulated::{Simulated, Trained};

const MODES: [Mode; 7] = [
    Mode::Async,
    Mode::Sync { backups: 0, cancel: false },
    Mode::Sync { backups: 1, cancel: false },
    Mode::BoundedStaleness { slack: 1 },
    Mode::KAsync { k: 2 },
    Mode::KBatchSync { k: 2, cancel: false },
    Mode::KBatchAsync { k: 2 },
];
const STEPS: u64 = 12;

fn training(mode: Mode) -> Simulated {
    Simulated::new(2, 3, mode).step_time(Law::Uniform { low: 0.01, high: 0.05 }).steps(STEPS)
}

/// A variable on each of the parameter servers, to which every update adds 1.
struct Counting {
    g: Graph,
    variables: Vec<Variable>,
    train: TrainOp,
}

impl Counting {
    fn new(task: &Task) -> Result<Self> {
        let g = Graph::new();
        let variables = counting::counters(&g)?;
        let train = counting::count(&g, task, &variables)?;
        Ok(Self { g, variables, train })
    }

    /// What each parameter server has counted.
    async fn read(&self, session: &Session) -> Result<Vec<u64>> {
        let mut counts = Vec::new();
        for variable in &self.variables {
            counts
                .push(session.run().fetch(&variable.read_again()).await?.scalar::<f32>(0)? as u64);
        }
        Ok(counts)
    }
}

/// Trains; the first worker reads all variables twice behind a fence after each of its steps, some
/// time apart.
async fn train_with_fences(
    server: Rc<Server>,
    task: Task,
    seen: Arc<Mutex<Vec<Vec<u64>>>>,
) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let counting = Counting::new(&task)?;
    let replica = task.replica().expect("it trains");
    let (fence, lift) = (counting.g.fence(replica)?, counting.g.lift_fence(replica)?);
    let stop = StopAtStep::last_step(STEPS);
    let mut session =
        MonitoredSession::builder(&task, counting.g.clone()).hook(stop).open().await?;
    while !session.should_stop() {
        session.run().target(&counting.train).await?;
        if task.index() == 0 && !session.should_stop() {
            let own = Session::new(&task.target(), &counting.g).await?;
            own.run().target(&fence).await?;
            let first = counting.read(&own).await?;
            server
                .clock()
                .sleep_until(server.clock().now().after(Duration::from_millis(200)))
                .await;
            let second = counting.read(&own).await?;
            seen.lock().unwrap().extend([first, second]);
            own.run().target(&lift).await?;
        }
    }
    session.close().await
}

fn run(training: &Simulated) -> (Trained, Vec<Vec<u64>>) {
    let seen = Arc::default();
    let trained =
        training.run_on_servers(|server, task| train_with_fences(server, task, Arc::clone(&seen)));
    let seen = seen.lock().unwrap().clone();
    (trained, seen)
}

#[test]
fn behind_a_fence_all_variables_hold_the_same_whole_steps_and_stay_as_they_are() {
    for mode in MODES {
        let (trained, seen) = run(&training(mode));
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        assert!(seen.len() >= 4, "{mode}: {seen:?}");
        for pair in seen.chunks(2) {
            assert!(pair[0] == pair[1] && pair[0][0] == pair[0][1], "{mode}: {seen:?}");
        }
        let last = seen.last().unwrap()[0];
        let told = trained.steps.iter().map(|step| step.global_step).max().unwrap();
        assert!(last < told, "{mode}: the others go on once it is lifted, from {last} to {told}");
    }
}

#[test]
fn a_fence_waits_no_longer_for_a_worker_that_dies_and_is_lifted_where_its_owner_does() {
    for (mode, dies) in MODES.into_iter().flat_map(|mode| [(mode, 0), (mode, 1)]) {
        for at in [60, 150, 300] {
            let at = Trigger::Time(Time::ZERO.after(Duration::from_millis(at)));
            let what =
                FaultKind::Crash { task: TaskName::new("worker", dies), restart_after: None };
            let (trained, seen) = run(&training(mode).fault(at, what));
            assert!(trained.outcome.result.is_ok(), "{mode}, {dies}: {:?}", trained.outcome.result);
            let last = trained.steps.iter().map(|step| step.global_step).max().unwrap();
            assert!(last >= STEPS, "{mode}, {dies}: {last}, {seen:?}");
        }
    }
}

#[test]
fn a_fence_that_can_not_go_up_says_whom_it_waits_for_and_a_lift_that_finds_none_fails() {
    let trained = training(Mode::Async).run_on_servers(|server, task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let counting = Counting::new(&task)?;
        let replica = task.replica().expect("it trains");
        let mut session = MonitoredSession::builder(&task, counting.g.clone()).open().await?;
        session.run().target(&counting.train).await?;
        if task.index() == 0 {
            server.clock().sleep_until(server.clock().now().after(Duration::from_secs(1))).await;
            let options = SessionOptions {
                operation_timeout: Some(Duration::from_secs(1)),
                ..Default::default()
            };
            let own = Session::with_options(&task.target(), &counting.g, options).await?;
            let lift = counting.g.lift_fence(replica)?;
            assert_error(
                own.run().target(&lift).await,
                Code::Aborted,
                &["fence of worker 0 is gone", "read again"],
            );
            let waiting = own.run().target(&counting.g.fence(replica)?).await;
            assert_error(waiting, Code::DeadlineExceeded, &["ps:0"]);
        }
        server.clock().sleep_until(server.clock().now().after(Duration::from_secs(5))).await;
        session.close().await
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
}
