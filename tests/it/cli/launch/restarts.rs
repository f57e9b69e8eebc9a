//! `launch --max-restarts`, `--repeat`, and what a launch that lasts says of `status`.

use std::io::{BufRead, BufReader};
use std::sync::mpsc;

use super::*;
use crate::support::schema::assert_valid;

/// The words of the command in a line such as `…: trainyard status …; also …`.
fn command_in(line: &str) -> Vec<String> {
    let command = line.split("trainyard ").nth(1).unwrap().split(';').next().unwrap();
    command.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect()
}

#[test]
fn a_killed_task_is_started_again_so_often_and_a_lasting_launch_says_how_to_ask_for_status() {
    let path = scenario("launch_restarts", &endless("'async'"));
    let mut launch = Launch::start(&path, &["--max-restarts", "1"]);
    let (sender, lines) = mpsc::channel();
    let errors = BufReader::new(launch.child.stderr.take().unwrap());
    thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|l| sender.send(l)));
    let wait_for = |words: &str| loop {
        let line = lines.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("{words}: {error}"));
        if line.contains(words) {
            return line;
        }
    };
    launch.wait_for_tasks(5);
    let victim = || tasks(&path).into_iter().find(|(_, role)| role == "worker:1");
    let (first, _) = victim().unwrap();
    send("KILL", first);
    wait_for("worker:1: it was killed by signal 9; restart 1 of at most 1");
    wait_for("worker:1 is started again");
    let asked = command_in(&wait_for("trainyard status"));
    let said = trainyard(&asked.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(said.code == 0 && said.out.contains("it trains"), "{asked:?}: {}", said.err);
    launch.wait_for_tasks(5);
    let (second, _) = victim().unwrap();
    assert_ne!(first, second);
    send("KILL", second);
    wait_for("worker:1 failed first: it was killed by signal 9");
    assert_eq!(launch.status().code(), Some(138));
    assert_nothing_stays(&path);
}

#[test]
fn a_repeated_synchronous_launch_reports_each_launch_and_that_their_weights_were_the_same() {
    let path = scenario("launch_repeated", &small("'sync'", "steps = 10"));
    let said = Launch::start(&path, &["--repeat", "3", "--quiet", "--json"]).end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("only: launched 3 times, the same weights each time; seconds: "));
    let result: Value = serde_json::from_str(&said.out).unwrap();
    assert_valid("result", &result);
    let runs = result["runs"].as_array().unwrap();
    let of = |key: &str| runs.iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("repeat"), [1, 2, 3]);
    assert_eq!(of("name"), ["only (repeat=1)", "only (repeat=2)", "only (repeat=3)"]);
    let summary = &result["summaries"][0];
    assert_eq!((&summary["runs"], &summary["seeds"]), (&3.into(), &1.into()));
    let seconds: Vec<f64> =
        runs.iter().map(|run| run["steps_per_second"].as_f64().unwrap()).collect();
    let speed = &summary["steps_per_second"];
    let mean = speed["mean"].as_f64().unwrap();
    assert!((mean - seconds.iter().sum::<f64>() / 3.0).abs() < 1e-9 * mean, "{speed}");
    assert!(speed["low"].as_f64().unwrap() < mean && mean < speed["high"].as_f64().unwrap());
}

#[test]
fn a_training_that_restarts_without_checkpoints_begins_anew_and_counts_what_that_undid_as_dropped()
{
    let text = small("'async'", "steps = 8000").replace("ps = 2", "ps = 1");
    let fault = "[[fault]]\nat = '500ms'\ncrash = 'ps:0'\nrestart_after = '10ms'\n";
    let path = scenario("launch_begun_anew", &format!("{text}{fault}"));
    let said = Launch::start(&path, &["--max-restarts", "3", "--json"]).end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("the training begins anew: its steps up to "), "{}", said.err);
    let result: Value = serde_json::from_str(&said.out).unwrap();
    let run = &result["runs"][0];
    let gradients = |key: &str| run["gradients"][key].as_u64().unwrap();
    assert_eq!(gradients("applied"), run["global_steps"].as_u64().unwrap(), "{run}");
    assert!(gradients("dropped") > 0 && run["global_steps"].as_u64().unwrap() < 8100, "{run}");
}
