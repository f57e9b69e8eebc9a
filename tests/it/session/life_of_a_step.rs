//! The log of one training step reads like the table of hops: a span for each, in this order.

use crate::support::binary::{scenario, trainyard};

/// From the program's call to the hooks after it.
const HOPS: [&str; 10] = [
    "session",
    "run_step",
    "run_graph",
    "run_ready",
    "kernels",
    "rendezvous",
    "transport",
    "serve",
    "collect",
    "hooks",
];

/// The spans of the last training step of one worker with two parameter servers, in the order in
/// which they began.
fn spans_of_one_step() -> Vec<String> {
    let path = scenario("life_of_a_step", "[cluster]\nps = 2\nworker = 1\n[stop]\nsteps = 3\n");
    let said = trainyard(&["sim", &path, "-vvv"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let spans: Vec<String> = said.err.lines().filter_map(span).collect();
    let ends: Vec<usize> = (0..spans.len()).filter(|i| spans[*i] == "hooks").collect();
    assert_eq!(ends.len(), 3, "each training step ends with its hooks, and no other step has any");
    spans[ends[1] + 1..=ends[2]].to_vec()
}

/// The span that began with `line`: the innermost of
/// `TRACE outer{a=1}:inner{b=2}: trainyard::some::module: new`.
fn span(line: &str) -> Option<String> {
    let (spans, _) = line.strip_suffix(": new")?.split_once(": trainyard::")?;
    let (outside, _) = spans.rsplit_once('{')?;
    outside.rsplit([':', ' ']).next().map(str::to_owned)
}

#[test]
fn a_training_step_goes_through_the_ten_hops_in_their_order() {
    let spans = spans_of_one_step();
    let mut rest = spans.iter();
    for hop in HOPS {
        assert!(rest.any(|span| *span == hop), "no `{hop}` after those before it in {spans:?}");
    }
    assert_eq!((spans[0].as_str(), spans[spans.len() - 1].as_str()), ("session", "hooks"));
    let strangers: Vec<_> = spans.iter().filter(|span| !HOPS.contains(&span.as_str())).collect();
    assert!(strangers.is_empty(), "spans that are no hop: {strangers:?}");
}

#[test]
fn what_other_tasks_do_while_a_hook_waits_is_not_logged_within_it() {
    let text =
        "[cluster]\nps = 1\nworker = 2\n[stop]\nsteps = 6\naccuracy = 1.0\nevaluate_every = 1\n";
    let path = scenario("hooks_that_wait", text);
    let said = trainyard(&["sim", &path, "-vvv"]);
    let evaluates =
        said.err.lines().any(|line| line.contains("hooks{") && line.contains("session{"));
    assert!(evaluates, "a hook runs a step of its own");
    let within: Vec<&str> = said.err.lines().filter(|line| line.contains("}:hooks{")).collect();
    assert!(within.is_empty(), "a worker's hooks within those of another: {within:?}");
}
