//! The built-in convolutional network, as a scenario trains it.

use trainyard::models::Model;
use trainyard::sync::Mode;

use crate::support::simulated::Simulated;

#[test]
fn a_convolutional_network_learns_the_digits_with_workers_that_wait_and_with_workers_that_dont() {
    for mode in [Mode::Sync { backups: 0, cancel: false }, Mode::Async] {
        let trained = Simulated::new(1, 2, mode)
            .digits()
            .model(Model::Convnet)
            .adam(0.005)
            .batch(32)
            .steps(150)
            .run();
        let accuracy =
            trained.evaluation.expect("the chief looks at the test split in the end").accuracy;
        assert!(accuracy >= 0.9, "{mode}: {accuracy}");
    }
}

#[test]
fn a_convolutional_network_is_the_same_to_the_last_bit_each_time() {
    let training = Simulated::new(2, 2, Mode::Async).digits().model(Model::Convnet).steps(6);
    assert_eq!(training.run().digests(), training.run().digests());
}
