//! A program of one's own, as a user writes it: the example in `sims/`.

#[path = "../../../sims/digits_trainer.rs"]
mod digits_trainer;

use trainyard::sync::Mode;

use crate::support::checkers::check;
use crate::support::simulated::{Simulated, mean};

#[test]
fn the_example_learns_the_digits_in_every_mode() {
    for mode in [Mode::Async, Mode::Sync { backups: 0 }, Mode::BoundedStaleness { slack: 2 }] {
        let training = Simulated::new(2, 3, mode).digits().steps(150);
        let trained = training.run_program(digits_trainer::trainer);
        assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
        check(&training, &trained);
        let loss =
            |from, to| mean(trained.applied(from, to).map(|step| f64::from(step.loss.unwrap())));
        let (before, after) = (loss(0, 10), loss(140, 150));
        assert!(before > 1.5 && after < 0.7, "{mode}: the loss went from {before} to {after}");
    }
}
