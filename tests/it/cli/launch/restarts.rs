//! `launch --max-restarts`, `--repeat`, and what a launch that lasts says of `status`.

use std::io::{BufRead, BufReader};
use std::sync::mpsc;

use super::*;

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
    std::thread::spawn(move || {
        errors.lines().map_while(Result::ok).try_for_each(|l| sender.send(l))
    });
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
fn a_repeated_synchronous_launch_says_that_its_weights_were_the_same() {
    let path = scenario("launch_repeated", &small("'sync'", "steps = 10"));
    let said = Launch::start(&path, &["--repeat", "2", "--quiet"]).end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("only: launched 2 times, the same weights each time; seconds: "));
    assert_eq!(said.out.matches("weights=").count(), 1, "one run is reported: {}", said.out);
}
