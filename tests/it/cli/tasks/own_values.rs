//! Deployed workers with variables of their own, whose training goes back to a checkpoint.

use super::*;

#[test]
fn residuals_go_back_with_the_variables_and_the_weights_are_the_same() {
    let keys = "mode = 'sync'\ncompression = { top_k = { fraction = 0.05 } }";
    goes_on_after_a_loss("tasks_residuals", keys, 400);
}

#[test]
fn workers_copies_go_back_with_the_center_and_the_weights_are_the_same() {
    goes_on_after_a_loss("tasks_copies", "mode = { local_sgd = { every = 4 } }", 300);
}
