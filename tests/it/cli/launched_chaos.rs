//! `launch --chaos`: drawn timelines of faults on real processes.

use serde_json::Value;

use crate::support::binary::{scenario, trainyard};

#[test]
fn drawn_faults_on_real_processes_break_no_promise_and_what_can_not_be_drawn_is_said() {
    let text = "name = 'chaos'\nseed = 3\n[cluster]\nps = 2\nworker = 2\n\
                [network]\nsilence = '4s'\nrecovery = '10s'\n[program]\nmodel = 'count'\n\
                [checkpoint]\nevery_steps = 50\n[stop]\nsteps = 300\n[[run]]\nmode = 'sync'\n";
    let path = scenario("launched_chaos", text);
    let said = trainyard(&["launch", &path, "--chaos", "3", "--jobs", "3", "--json"]);
    assert_eq!(said.code, 0, "{}\n{}", said.err, said.out);
    assert!(said.err.contains("left out") && said.err.contains("a full disk"), "{}", said.err);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let run = &report["runs"][0];
    let ended = run["reached_the_end"].as_u64().unwrap()
        + run["failed"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!((run["tried"].as_u64(), ended), (Some(3), 3), "{report}");
}
