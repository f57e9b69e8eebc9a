//! Work that threads share: a queue of items, and trials that are simulated as many at once as
//! cores and memory allow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, mpsc};
use std::thread;

use super::{Trial, memory};
use crate::deployment::cores;

/// What a thread that has `ended` gives; if it has panicked, this thread panics as it did.
pub(super) fn joined<T>(ended: thread::Result<T>) -> T {
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Has so many `threads` do the `work` on all `items`: each takes the next one, until there is none
/// or `work` gives `None`. A panic of one is passed on once all have ended.
pub(super) fn share<T>(
    threads: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Option<()> + Sync,
) {
    let items = Mutex::new(items);
    let next = || items.lock().expect("nothing panics while it holds this").next();
    let work_on_some = || while next().and_then(&work).is_some() {};
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work_on_some)).collect();
        threads.into_iter().for_each(|thread| joined(thread.join()));
    });
}

/// Has `simulate` simulate each of `trials`, on threads of their own, and gives what comes of them
/// to `done`, in the order of the trials. A simulation is one thread, beside its kernels.
///
/// # Errors
/// The first error of `done`; simulations that have begun go on to their end then.
pub(crate) fn simulate_all<T: Send, E>(
    trials: &[Trial],
    simulate: impl Fn(&Trial) -> T + Sync,
    mut done: impl FnMut(&Trial, T) -> Result<(), E>,
) -> Result<(), E> {
    let simulate = &simulate;
    thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        let simulating = scope.spawn(move || {
            share(at_once(trials), trials.iter().enumerate(), |(at, trial)| {
                // Nobody receives after an error, so that no thread begins another simulation.
                send.send((at, simulate(trial))).ok()
            });
        });
        let mut early = BTreeMap::new();
        for (at, trial) in trials.iter().enumerate() {
            while !early.contains_key(&at) {
                let Ok((at, result)) = receive.recv() else {
                    joined(simulating.join());
                    unreachable!("all threads have ended well, before their trials were done");
                };
                early.insert(at, result);
            }
            done(trial, early.remove(&at).expect("it has come"))?;
        }
        Ok(())
    })
}

/// The number of simulations at a time: one a core, but no more than fit the limit of memory
/// together, if each needs as much as the largest. Those of different limits run one by one, since
/// a limit is the process's.
fn at_once(trials: &[Trial]) -> usize {
    let limits: BTreeSet<_> = trials.iter().map(|trial| trial.memory_limit).collect();
    if limits.len() > 1 {
        return 1;
    }
    let fit = trials.iter().map(memory::how_many_fit).min().unwrap_or(1);
    cores().get().min(fit).clamp(1, trials.len().max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::experiment::Experiment;

    /// A trial of each name.
    fn trials(names: &[&str]) -> Vec<Trial> {
        let run = |name: &&str| format!("[[run]]\nmode = \"async\"\nname = \"{name}\"\n");
        let runs: String = names.iter().map(run).collect();
        Experiment::parse(format!("[program]\nmodel = \"null\"\n{runs}")).unwrap().trials().unwrap()
    }

    fn work(rounds: u64) {
        for round in 0..rounds {
            std::hint::black_box(round);
        }
    }

    #[test]
    fn results_come_in_the_order_of_the_trials_however_long_each_takes() {
        let trials = trials(&["slow", "b", "c"]);
        let simulate = |trial: &Trial| {
            work(if trial.name == "slow" { 5_000_000 } else { 1 });
            trial.name.clone()
        };
        let mut names = Vec::new();
        let done = |_: &Trial, name| {
            names.push(name);
            Ok::<_, ()>(())
        };
        simulate_all(&trials, simulate, done).unwrap();
        assert_eq!(names, ["slow", "b", "c"]);
    }

    #[test]
    #[should_panic(expected = "the second panics")]
    fn a_panic_is_passed_on_as_it_is() {
        let simulate = |trial: &Trial| assert_ne!(trial.name, "b", "the second panics");
        let done = |_: &Trial, ()| Ok::<_, ()>(());
        simulate_all(&trials(&["a", "b", "c"]), simulate, done).unwrap();
    }

    #[test]
    fn an_error_ends_it_before_all_have_begun() {
        // More than the threads have begun by the time that all know of the error.
        let count = 50 + 2 * cores().get();
        let names: Vec<String> = (0..count).map(|number| format!("run {number}")).collect();
        let trials = trials(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let (begun, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let simulate = |trial: &Trial| {
            begun.fetch_add(1, Ordering::Relaxed);
            // All others are under way when the first one is done.
            while trial.name != "run 0" && !has_failed.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            work(5_000_000);
        };
        let done = |_: &Trial, ()| {
            has_failed.store(true, Ordering::Relaxed);
            Err::<(), &str>("the first fails")
        };
        assert_eq!(simulate_all(&trials, simulate, done), Err("the first fails"));
        assert!(begun.into_inner() < trials.len());
    }
}
