//! A fault at any message of a training, for every role: it reaches its end, or ends soon with an
//! error that names the task; and no gradient counts twice.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::simulation::{FaultKind, Law, Trigger};
use trainyard::sync::Mode;

use crate::support::counting;
use crate::support::simulated::{Simulated, Trained};
use crate::support::thorough::spread;

const MODES: [Mode; 4] = [
    Mode::Async,
    Mode::Sync { backups: 0, cancel: false },
    Mode::Sync { backups: 1, cancel: false },
    Mode::BoundedStaleness { slack: 1 },
];
/// Those that share the rounds of backup workers, or the steps of `async`: not every message of
/// theirs is tried.
const ALIKE: [Mode; 7] = [
    Mode::Sync { backups: 1, cancel: true },
    Mode::KBatchSync { k: 2, cancel: true },
    Mode::KAsync { k: 2 },
    Mode::KBatchSync { k: 2, cancel: false },
    Mode::KBatchAsync { k: 2 },
    Mode::StalenessAware,
    // A weight above 0 would make it something else than counting.
    Mode::DelayCompensated { lambda: 0.0 },
];
const STEPS: u64 = 4;
/// After everything that can come back is back.
const LATER: Duration = Duration::from_secs(10);
/// Nobody waits longer for anything \[s\]: an operation's limit, and some tries.
const SOON: f64 = 400.0;

/// A training of a few short steps, whose workers are not alike.
fn training(mode: Mode) -> Simulated {
    Simulated::new(2, 3, mode).step_time(Law::Uniform { low: 0.01, high: 0.03 }).steps(STEPS)
}

/// By parameter server: the value of its variable at the end, which is how many updates it has had.
type Counts = Arc<Mutex<BTreeMap<u32, u64>>>;

/// Adds 1 to a variable on each of the parameter servers with each update.
async fn count(server: Rc<Server>, task: Task, counts: Counts) -> Result<()> {
    let g = Graph::new();
    let variables = counting::counters(&g)?;
    if task.job() == "ps" {
        task.join().await?;
        // A worker that was lost may still be back, and take a step by itself.
        server.clock().sleep_until(server.clock().now().after(LATER)).await;
        let (session, own) =
            (Session::new(&task.target(), &g).await?, &variables[task.index() as usize]);
        // One that died when the others were through has nothing to say.
        if session.run().fetch(&own.is_initialized()).await?.scalar::<bool>(0)? {
            let value = session.run().fetch(&own.read()).await?.scalar::<f32>(0)?;
            counts.lock().unwrap().insert(task.index(), value as u64);
        }
        return Ok(());
    }
    let train = counting::count(&g, &task, &variables)?;
    let stop = StopAtStep::last_step(STEPS);
    let mut session = MonitoredSession::builder(&task, g.clone()).hook(stop).open().await?;
    while !session.should_stop() {
        if let Err(error) = session.run().target(&train).await {
            return session.close_after(Err(error)).await;
        }
    }
    session.close().await
}

/// What can happen to each of the tasks.
fn misfortunes() -> Vec<FaultKind> {
    let mut all = Vec::new();
    for (job, index) in [("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1)] {
        let task = TaskName::new(job, index);
        for restart_after in [None, Some(5), Some(3000)] {
            let restart_after = restart_after.map(Duration::from_millis);
            all.push(FaultKind::Crash { task: task.clone(), restart_after });
        }
        for lasts in [15, 3000].map(Duration::from_millis) {
            all.push(FaultKind::Freeze { task: task.clone(), lasts });
        }
    }
    for pair in [("ps", 0, 1), ("ps", 1, 0)] {
        let tasks = vec![TaskName::new(pair.0, pair.1), TaskName::new("worker", pair.2)];
        all.push(FaultKind::Partition { tasks, lasts: Duration::from_secs(3) });
    }
    all
}

/// How the runs of a matrix ended.
#[derive(Debug, Default)]
struct Tally {
    runs: usize,
    reached_the_end: usize,
}

/// Who has to be named, where a training does not reach its end.
fn victims(what: &FaultKind) -> Vec<String> {
    match what {
        FaultKind::Crash { task, .. } | FaultKind::Freeze { task, .. } => vec![task.to_string()],
        FaultKind::Partition { tasks, .. } => tasks.iter().map(ToString::to_string).collect(),
        other => unreachable!("the matrix does not try {other:?}"),
    }
}

/// Whether a training can't reach its end: variables are lost, or nobody gives them their first
/// values.
fn may_fail(what: &FaultKind, trained: &Trained) -> bool {
    let FaultKind::Crash { task, restart_after } = what else { return false };
    let has_begun = !trained.steps.is_empty();
    task.job() == "ps" || (task.index() == 0 && restart_after.is_none() && !has_begun)
}

struct Case<'a> {
    mode: Mode,
    number: u64,
    what: &'a FaultKind,
}

impl Case<'_> {
    fn run(&self, tally: &mut Tally) {
        let (trained, counts) = run(self.mode, Some((self.number, self.what)));
        self.check(&trained, &counts, tally);
        if (self.number + tally.runs as u64).is_multiple_of(23) {
            let (again, _) = run(self.mode, Some((self.number, self.what)));
            assert_eq!(trained.digests(), again.digests(), "{self}: a run repeats");
        }
        tally.runs += 1;
    }

    #[track_caller]
    fn check(&self, trained: &Trained, counts: &BTreeMap<u32, u64>, tally: &mut Tally) {
        let ended = trained.outcome.ended;
        assert!(ended.as_secs_f64() < SOON, "{self}: ended at {ended}");
        match &trained.outcome.result {
            Ok(_) => {
                tally.reached_the_end += 1;
                let last = trained.steps.iter().map(|step| step.global_step).max().unwrap_or(0);
                assert!(last >= STEPS, "{self}: ended at global step {last}");
                self.check_counts(trained, counts, last);
            }
            Err(error) => {
                let is_named =
                    victims(self.what).iter().any(|victim| error.to_string().contains(victim));
                assert!(is_named && may_fail(self.what, trained), "{self}: {error}");
                assert!(
                    matches!(
                        error.code,
                        Code::Unavailable | Code::DeadlineExceeded | Code::VariablesLost
                    ),
                    "{self}: {error}"
                );
            }
        }
    }

    /// Every update is in the variables once. Of a worker that died, the step that it was at may
    /// have reached some of them without anybody counting it; and a synchronous worker that is lost
    /// or comes back can find itself between a round and its count.
    #[track_caller]
    fn check_counts(&self, trained: &Trained, counts: &BTreeMap<u32, u64>, last: u64) {
        let of_steps = trained.steps.iter().filter(|step| step.applied).count() as u64;
        let once = match (self.mode, self.what) {
            (Mode::Sync { .. } | Mode::KAsync { .. }, _) => last.saturating_sub(1)..=last + 1,
            // The updates of the last gradients may be counted by nobody.
            (Mode::KBatchSync { .. } | Mode::KBatchAsync { .. }, _) => {
                last.saturating_sub(1)..=last + 2
            }
            // A stale one counts in part.
            (Mode::StalenessAware, _) => 1..=of_steps + 1,
            (_, FaultKind::Crash { .. }) => of_steps..=of_steps + 1,
            _ => of_steps..=of_steps,
        };
        for (ps, count) in counts {
            assert!(
                once.contains(count),
                "{self}: {once:?} updates are counted, but ps:{ps} has applied {count}"
            );
        }
    }
}

impl std::fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {:?} at delivery {}", self.mode, self.what, self.number)
    }
}

fn run(mode: Mode, fault: Option<(u64, &FaultKind)>) -> (Trained, BTreeMap<u32, u64>) {
    let counts = Counts::default();
    let mut training = training(mode);
    if let Some((number, what)) = fault {
        training = training.fault(Trigger::Delivery(number), what.clone());
    }
    let trained = training.run_on_servers(|server, task| count(server, task, Arc::clone(&counts)));
    let counts = counts.lock().unwrap().clone();
    (trained, counts)
}

/// Tries every `stride`-th message. Of these and the faults there, a spread: each message meets
/// three or four of the 22 faults, and each fault every seventh message.
fn matrix(mode: Mode, stride: usize) -> Tally {
    let (plain, counts) = run(mode, None);
    assert!(plain.outcome.result.is_ok(), "{:?}", plain.outcome.result);
    assert_eq!(counts.len(), 2);
    let (mut tally, misfortunes) = (Tally::default(), misfortunes());
    let messages = (0..plain.outcome.deliveries).step_by(stride);
    let cases = messages.flat_map(|number| misfortunes.iter().map(move |what| (number, what)));
    for (number, what) in spread(cases, 7) {
        Case { mode, number, what }.run(&mut tally);
    }
    tally
}

#[test]
fn a_fault_at_any_message_leaves_no_training_hanging_and_no_gradient_counts_twice() {
    let tallies = std::thread::scope(|scope| {
        let all = MODES.map(|mode| (mode, 1)).into_iter().chain(ALIKE.map(|mode| (mode, 5)));
        let running: Vec<_> =
            all.map(|(mode, stride)| scope.spawn(move || (mode, matrix(mode, stride)))).collect();
        running.into_iter().map(|running| running.join().unwrap()).collect::<Vec<_>>()
    });
    for (mode, tally) in tallies {
        assert!(2 * tally.reached_the_end > tally.runs, "{mode}: {tally:?}");
    }
}
