//! A model of workers that make updates together: their draws, and nothing between. A simulation
//! follows the model draw by draw for some hundred updates, so the model's mean over many updates
//! stands for the simulation's, at next to no cost.

use trainyard::random;
use trainyard::simulation::Law;
use trainyard::sync::Mode;

use crate::support::checkers::check;
use crate::support::simulated::{Simulated, Trained};

/// Who waits for whom, and whose gradient counts.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// The number of gradients that make an update.
    votes: u32,
    /// Whether a gradient counts though an update came since its step began.
    stale_count: bool,
    /// Whether a worker whose gradient counts waits for the update.
    voters_wait: bool,
    /// Whether an update has all workers begin anew.
    cancels: bool,
}

impl Rules {
    fn of(mode: Mode, workers: u32) -> Self {
        let (votes, stale_count, voters_wait, cancels) = match mode {
            Mode::Async => (1, true, false, false),
            Mode::Sync { backups, cancel } => (workers - backups, false, true, cancel),
            Mode::KBatchSync { k, cancel } => (k, false, false, cancel),
            Mode::KAsync { k } => (k, true, true, false),
            Mode::KBatchAsync { k } => (k, true, false, false),
            other => panic!("there is no model of {other}"),
        };
        Self { votes, stale_count, voters_wait, cancels }
    }
}

/// The updates that a model or a simulation makes.
#[derive(Debug, Default)]
pub(super) struct Updates {
    /// When each was made \[s\].
    at: Vec<f64>,
    /// Of each gradient that counts, how many updates came since its step began.
    pub(super) staleness: Vec<u64>,
}

impl Updates {
    /// The first `count` updates of workers that begin at `starts`, and whose steps take what
    /// `draw` gives for the index of a worker.
    fn modelled(
        rules: Rules,
        starts: &[f64],
        count: usize,
        mut draw: impl FnMut(usize) -> f64,
    ) -> Self {
        let mut updates = Self::default();
        // By worker: when its step ends, never while it waits, and how many updates it began after.
        let mut steps: Vec<(f64, u64)> =
            starts.iter().enumerate().map(|(worker, start)| (start + draw(worker), 0)).collect();
        let (mut made, mut voted) = (0, 0);
        while updates.at.len() < count {
            let first =
                (0..steps.len()).min_by(|a, b| steps[*a].0.total_cmp(&steps[*b].0)).unwrap();
            let (now, began) = std::mem::replace(&mut steps[first], (f64::INFINITY, made));
            let counts = rules.stale_count || began == made;
            if counts {
                updates.staleness.push(made - began);
                voted += 1;
            }
            let is_update = voted == rules.votes;
            if is_update {
                updates.at.push(now);
                (made, voted) = (made + 1, 0);
            } else if counts && rules.voters_wait {
                continue;
            }
            for (worker, step) in steps.iter_mut().enumerate() {
                let waits = step.0.is_infinite();
                if worker == first || is_update && (waits || rules.cancels) {
                    *step = (now + draw(worker), made);
                }
            }
        }
        updates
    }

    /// Those of a simulation.
    fn simulated(trained: &Trained, count: usize) -> Self {
        let applied = trained.applied(0, count as u64);
        Self {
            at: (1..=count as u64).map(|update| trained.reached(update)).collect(),
            staleness: applied.map(|step| step.staleness).collect(),
        }
    }

    /// The mean time of an update, after the first hundredth of them \[s\].
    pub(super) fn mean_time(&self) -> f64 {
        let (warm_up, last) = (self.at.len() / 100, self.at.len() - 1);
        (self.at[last] - self.at[warm_up]) / (last - warm_up) as f64
    }

    /// The mean staleness of a gradient.
    pub(super) fn mean_staleness(&self) -> f64 {
        self.staleness.iter().sum::<u64>() as f64 / self.staleness.len() as f64
    }
}

/// By worker: what the law gives for each of its steps \[s\]. A step's draw has a stream of its
/// own, so that it is the same in every mode.
fn draws(workers: u32, law: &Law, steps: u64) -> Vec<Vec<f64>> {
    let all = steps * u64::from(workers);
    let trained = Simulated::new(1, workers, Mode::Async).step_time(law.clone()).steps(all).run();
    let mut draws = vec![Vec::new(); workers as usize];
    for step in &trained.steps {
        let time = step.compute_time().expect("each step computes");
        draws[step.worker.index() as usize].push(time.as_secs_f64());
    }
    draws
}

/// Asserts that a simulation makes its updates when the model does, and of gradients as stale.
#[track_caller]
pub(super) fn assert_follows(mode: Mode, workers: u32, law: &Law) {
    const UPDATES: usize = 200;
    let rules = Rules::of(mode, workers);
    let training = Simulated::new(1, workers, mode).step_time(law.clone()).steps(UPDATES as u64);
    let trained = training.run();
    if !rules.cancels {
        check(&training, &trained);
    }
    let found = Updates::simulated(&trained, UPDATES);
    let mut starts = vec![0.0; workers as usize];
    for step in trained.steps.iter().filter(|step| step.local_step == 0) {
        starts[step.worker.index() as usize] = step.started.as_secs_f64();
    }
    // A worker that is stopped takes more than one step an update.
    let draws = draws(workers, law, 2 * UPDATES as u64);
    let mut next = vec![0; workers as usize];
    let expected = Updates::modelled(rules, &starts, UPDATES, |worker| {
        next[worker] += 1;
        draws[worker][next[worker] - 1]
    });
    // What messages take, of which the law knows nothing.
    let most = law.mean() * 1e-3;
    for (update, (found, expected)) in (1..).zip(found.at.iter().zip(&expected.at)) {
        let off = found - expected;
        assert!(off.abs() < most, "{mode}, {law:?}: update {update} is {off} s late");
    }
    // Steps that end with the last update may be told after it.
    for staleness in 0..=*expected.staleness.iter().max().unwrap() {
        let [found, expected] = [&found, &expected]
            .map(|updates| updates.staleness.iter().filter(|one| **one == staleness).count());
        let is_near = found.abs_diff(expected) <= workers as usize;
        assert!(is_near, "{mode}, {law:?}: {found} and {expected} gradients are {staleness} stale");
    }
}

/// The mean of so many updates in `mode`, which a simulation follows.
#[track_caller]
pub(super) fn updates(mode: Mode, workers: u32, law: &Law, count: usize) -> Updates {
    assert_follows(mode, workers, law);
    let mut stream = random::stream(11, &["updates"]);
    let starts = vec![0.0; workers as usize];
    Updates::modelled(Rules::of(mode, workers), &starts, count, |_| law.sample(&mut stream))
}
