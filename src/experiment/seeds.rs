//! A test's body over many seeds: which they are, on how many threads, and which of them fail.

use std::process::{ExitCode, Termination};
use std::sync::Mutex;
use std::{env, thread};

use super::parallel::share;
use crate::deployment::cores;

/// The environment variable with the one seed of all tests over seeds.
const ONE: &str = "TRAINYARD_TEST_SEED";

/// The environment variable with the number of seeds of all tests over seeds.
const HOW_MANY: &str = "TRAINYARD_TEST_SEEDS";

/// Runs `body`, the test called `name`, with each seed from 0 up to `seeds`, as many at once as
/// there are cores. [`trainyard::test`](crate::test) calls it, and says which environment variables
/// choose other seeds.
///
/// # Panics
/// If `body` panics or gives an error with any of the seeds; the message has them all. If an
/// environment variable is not a number.
pub fn over_seeds<R: Termination>(name: &str, seeds: u64, body: impl Fn(u64) -> R + Sync) {
    let name = name.split_once("::").map_or(name, |(_, in_crate)| in_crate);
    let variable = |key| env::var(key).ok();
    let chosen = match chosen(variable(ONE), variable(HOW_MANY), seeds) {
        Ok(chosen) => chosen,
        Err(mistake) => panic!("{mistake}"),
    };
    if let Some(failure) = failure(name, chosen.len(), &failing(name, &chosen, body)) {
        panic!("{failure}");
    }
}

/// The seeds that the variables ask for; the first `seeds` without them.
fn chosen(one: Option<String>, how_many: Option<String>, seeds: u64) -> Result<Vec<u64>, String> {
    let number = |key, text: &str| {
        text.parse::<u64>().map_err(|_| format!("{key} is a number, not `{text}`"))
    };
    if let Some(one) = one {
        return Ok(vec![number(ONE, &one)?]);
    }
    let seeds = how_many.map_or(Ok(seeds), |text| number(HOW_MANY, &text))?;
    match seeds {
        0 => Err(format!("{HOW_MANY} is at least 1")),
        _ => Ok((0..seeds).collect()),
    }
}

/// The seeds with which `body` panics or gives an error, in order. A panic's message has the name
/// of its thread, and with it the seed.
fn failing<R: Termination>(name: &str, seeds: &[u64], body: impl Fn(u64) -> R + Sync) -> Vec<u64> {
    let failing = Mutex::new(Vec::new());
    share(cores().get().min(seeds.len()), seeds.iter(), |&seed| {
        let holds = thread::scope(|scope| {
            let builder = thread::Builder::new().name(format!("{name}, seed {seed}"));
            let run = builder.spawn_scoped(scope, || body(seed).report() == ExitCode::SUCCESS);
            run.expect("a thread can be started").join().unwrap_or(false)
        });
        if !holds {
            failing.lock().expect("nothing panics while it holds this").push(seed);
        }
        Some(())
    });
    let mut failing = failing.into_inner().expect("nothing panics while it holds this");
    failing.sort_unstable();
    failing
}

/// The failure of the test called `name`, with the command that runs its first failing seed alone;
/// none if no seed is `failing`.
fn failure(name: &str, seeds: usize, failing: &[u64]) -> Option<String> {
    let first = failing.first()?;
    let all: Vec<String> = failing.iter().map(u64::to_string).collect();
    let (count, all) = (failing.len(), all.join(", "));
    let alone = format!("{ONE}={first} cargo test {name}");
    Some(format!("{name} fails with {count} of {seeds} seeds: {all}; the first alone: {alone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_that_panic_or_give_an_error_are_named_in_order() {
        let body = |seed: u64| {
            assert_ne!(seed, 30, "a panic");
            if seed % 40 == 7 { Err("an error") } else { Ok(()) }
        };
        let seeds: Vec<u64> = (0..100).collect();
        assert_eq!(failing("holds", &seeds, body), [7, 30, 47, 87]);
    }

    #[test]
    fn each_seed_runs_once_on_a_thread_that_names_it() {
        let ran = Mutex::new(Vec::new());
        let body = |seed: u64| {
            let thread = thread::current();
            assert_eq!(thread.name(), Some(&*format!("holds, seed {seed}")));
            ran.lock().unwrap().push(seed);
        };
        assert!(failing("holds", &[3, 1, 2], body).is_empty());
        let mut ran = ran.into_inner().unwrap();
        ran.sort_unstable();
        assert_eq!(ran, [1, 2, 3]);
    }

    #[test]
    fn the_environment_chooses_one_seed_or_how_many() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(chosen(None, None, 3), Ok(vec![0, 1, 2]));
        assert_eq!(chosen(None, text("2"), 3), Ok(vec![0, 1]));
        assert_eq!(chosen(text("17"), text("2"), 3), Ok(vec![17]));
        let refused = |one, how_many| chosen(one, how_many, 3).unwrap_err();
        assert_eq!(refused(text("x"), None), "TRAINYARD_TEST_SEED is a number, not `x`");
        assert_eq!(refused(None, text("-1")), "TRAINYARD_TEST_SEEDS is a number, not `-1`");
        assert_eq!(refused(None, text("0")), "TRAINYARD_TEST_SEEDS is at least 1");
    }

    #[test]
    fn a_failure_says_which_seeds_and_how_to_run_the_first_alone() {
        assert_eq!(failure("it::holds", 100, &[]), None);
        let expected = "modes::holds fails with 2 of 100 seeds: 17, 63; \
                        the first alone: TRAINYARD_TEST_SEED=17 cargo test modes::holds";
        assert_eq!(failure("modes::holds", 100, &[17, 63]).as_deref(), Some(expected));
    }
}
