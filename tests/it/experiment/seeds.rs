//! The attribute of tests over seeds, as a test of a program uses it.

use trainyard::experiment::Experiment;
use trainyard::training::train;

#[trainyard::test(seeds = 3)]
fn a_test_over_seeds_may_give_an_error(seed: u64) -> Result<(), Box<dyn std::error::Error>> {
    let experiment = Experiment::parse("stop.steps = 5\nrun = [{ mode = \"sync\" }]")?;
    let report = experiment.seed(seed).simulate(train)?;
    assert_eq!((report.seed, report.run("sync")?.global_steps), (seed, 5));
    Ok(())
}

#[trainyard::test(seeds = 3)]
#[should_panic(expected = "seeds: 1, 2; the first alone: TRAINYARD_TEST_SEED=1 cargo test")]
fn a_test_over_seeds_says_which_of_them_fail(seed: u64) {
    assert!(seed != 1 && seed != 2);
}
