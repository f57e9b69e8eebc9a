//! `plan`: its answers, its parts, and the files that it writes.

use std::fs;

use serde_json::Value;

use crate::support::binary::{folder, scenario, trainyard};
use crate::support::schema::assert_valid;

/// Steps of which nothing but the parameters' transfer takes time: 1.25 MB to each of the workers
/// and back, over cards of 1 Gbit/s.
const WIRE: &str = r#"
name = "wire"
[cluster]
ps = 1
worker = 4
[network]
latency = "1us"
bandwidth = "1Gbps"
message_cost = "0s"
[compute]
rate = "1e18FLOP/s"
memory = "1e18B/s"
[program]
model = "null"
variables = 8
bytes = "1250kB"
gradient = "full"
batch = 1
[stop]
steps = 200
[price]
currency = "EUR"
per_hour = { ps = 3600, worker = 0 }
[plan]
samples = 4000
[plan.sweep]
"cluster.ps" = [1, 2, 4, 8]
[[run]]
name = "async"
mode = "async"
"#;

fn json(path: &std::path::Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_plan_in_markdown_is_a_table_with_its_answers_as_a_list() {
    let said = trainyard(&["plan", &scenario("plan_markdown", WIRE), "--markdown"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("\n| :--- | ---: | ---: | :--- |\n"), "{}", said.out);
    assert!(said.out.lines().any(|line| line.starts_with("- ")), "{}", said.out);
}

#[test]
fn a_plan_says_how_many_parameter_servers_pay_as_hand_arithmetic_does() {
    let (path, out) = (scenario("plan", WIRE), folder("plan_out"));
    let said = trainyard(&["plan", &path, "--out", out.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.err);
    let plan = json(&out.join("plan.json"));
    assert_valid("plan", &plan);
    let times: Vec<f64> = plan["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|candidate| candidate["seconds"]["mean"].as_f64().unwrap())
        .collect();
    // 4000 steps of 10 Mbit, in each direction, through the servers' cards of 1 Gbit/s together,
    // until there are as many servers as workers: then the workers' cards are as busy. The update
    // of a variable leaves while the next ones are on their way: both directions are in use.
    // With eight servers a worker has all eight variables at the same moment: it uses the two
    // directions in turn, which takes twice as long.
    let of_wire = |at: usize, cards: f64| times[at] / (4000.0 * 0.01 / cards);
    for (at, cards) in [(0, 1.0), (1, 2.0), (2, 4.0)] {
        assert!((1.0..1.6).contains(&of_wire(at, cards)), "{times:?}");
    }
    assert!((of_wire(3, 4.0) / 2.0 - 1.0).abs() < 0.01, "{times:?}");
    assert!(said.out.contains("async, cluster.ps: beyond 4 "), "{}", said.out);
    assert!(said.out.contains("cheapest: async (cluster.ps="), "{}", said.out);
    assert!(said.out.contains(" EUR"), "{}", said.out);
    let page = fs::read_to_string(out.join("plan.html")).unwrap();
    assert!(page.contains("Price over time") && page.contains("beyond 4"), "{page}");
}

#[test]
fn the_parts_of_a_plan_give_what_the_whole_gives_and_one_missing_is_named() {
    let (path, out) = (scenario("plan_parts", WIRE), folder("plan_parts_out"));
    let place = |name: &str| out.join(name).display().to_string();
    let whole = trainyard(&["plan", &path, "--json"]);
    for part in ["1/2", "2/2"] {
        let said = trainyard(&["plan", &path, "--shard", part, "--out", &place(&part[..1])]);
        assert_eq!(said.code, 0, "{}", said.err);
    }
    let merged = trainyard(&["plan", "--json", "--merge", &place("1"), &place("2")]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    // To the last digit, all but the command.
    let commands = [whole, merged].map(|said| {
        let mut plan: Value = serde_json::from_str(&said.out).unwrap();
        (plan["command"].take(), plan)
    });
    let [(_, whole), (command, merged)] = commands;
    assert_eq!(merged, whole);
    assert_eq!(command[3], "--merge", "{command}");
    let lacking = trainyard(&["plan", "--merge", &place("2")]);
    assert_eq!(lacking.code, 2);
    assert!(lacking.err.contains("2 of 4 points are missing"), "{}", lacking.err);
}

#[test]
fn a_limit_that_no_candidate_keeps_is_no_success() {
    let path = scenario("plan_limit", WIRE);
    let said = trainyard(&["plan", &path, "--set", "plan.within=1s"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(said.out.contains("cheapest within 1.00 s: none of these"), "{}", said.out);
    let limits = ["--set", "plan.within=1s", "--set", "plan.budget=1e9"];
    let said = trainyard(&[&["plan", &path, "--json"], &limits[..]].concat());
    assert_valid("plan", &serde_json::from_str(&said.out).unwrap());
}

#[test]
fn the_points_of_a_plan_are_shown_though_one_of_them_fails() {
    // By then the steps of one server alone are not over.
    let lost = "[[fault]]\nat = \"1800ms\"\ncrash = \"ps:0\"\n";
    let path = scenario("plan_failed", &format!("{WIRE}{lost}"));
    let out = folder("plan_failed_out");
    let said = trainyard(&["plan", &path, "--out", out.to_str().unwrap()]);
    assert_eq!(said.code, 12, "{}", said.err);
    assert!(said.err.contains("run `async (cluster.ps=1)`: Unavailable"), "{}", said.err);
    assert!(said.out.contains("fastest of 3 of 4 points: async (cluster.ps=4)"), "{}", said.out);
    let plan = json(&out.join("plan.json"));
    let numbers: Vec<_> =
        plan["points"].as_array().unwrap().iter().map(|point| &point["number"]).collect();
    assert_eq!(numbers, [1, 2, 3]);
}
