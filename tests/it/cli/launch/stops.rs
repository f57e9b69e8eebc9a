//! `launch` that is asked to stop when not all of its tasks can do so in good order.

use super::*;
use crate::support::binary::Running;

/// A launch that goes on until it is stopped, with checkpoints in `saved` of its beginning and end.
fn saving(test: &str, saved: &Path, more: &str) -> Running {
    let directory = saved.display();
    let text = endless("'async'")
        + &format!("[checkpoint]\nevery = '1h'\ndirectory = '{directory}'\n{more}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(["launch", &scenario(test, &text)]).env_remove("TF_CONFIG");
    Running::start(&mut command, LIMIT)
}

#[test]
fn a_launch_that_is_asked_to_stop_while_a_fault_has_its_chief_stand_still_saves_its_last_step() {
    let saved = folder("launch_stops_still_saved");
    let freeze = "[[fault]]\nat = '2s'\nfreeze = 'worker:0'\nfor = '10min'\n";
    let mut launch = saving("launch_stops_still", &saved, freeze);
    launch.line_with("worker:0 stands still");
    launch.signal("INT");
    let said = launch.end();
    assert_eq!(said.code, 130, "{}", said.err);
    let steps = checkpoints(&saved);
    assert!(steps.len() == 2 && steps[1] > steps[0], "{steps:?}: {}", said.err);
}
