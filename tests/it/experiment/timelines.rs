//! A run's timeline, as a viewer reads it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::simulation::TimelineSpec;
use trainyard::training::train;

const SCENARIO: &str = r#"
    seed = 7
    [cluster]
    ps = 2
    worker = 3
    [network]
    bandwidth = "1Gbps"
    [compute]
    numerics = "shapes"
    rate = "1GFLOP/s"
    straggler = { law = "exponential" }
    [program]
    model = "mlp"
    hidden = [64]
    [stop]
    steps = 30
    [[run]]
    name = "sync"
    mode = "sync"
"#;

/// The events of the timeline of global steps 10 to 20.
fn timeline() -> Result<Vec<Value>> {
    // The tests of one process run at once, each with a file of its own.
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("timeline-{}-{number}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut trial = Experiment::parse(SCENARIO)?.trials()?.remove(0);
    let file = Arc::new(File::create(&path).unwrap());
    trial.cluster.timeline = Some(TimelineSpec { file, first: 10, last: 20 });
    trial.simulate(&train).outcome.result?;
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let mut whole: Value = serde_json::from_str(&text).expect("it is JSON");
    match whole["traceEvents"].take() {
        Value::Array(events) => Ok(events),
        other => panic!("`traceEvents` is {other}"),
    }
}

/// The slices by process and thread: the begin and the end of each \[us\].
fn slices(events: &[Value]) -> BTreeMap<(u64, u64), Vec<(f64, f64)>> {
    let mut slices: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let number = |key: &str| event[key].as_f64().expect("a number");
        let thread = (number("pid") as u64, number("tid") as u64);
        slices.entry(thread).or_default().push((number("ts"), number("ts") + number("dur")));
    }
    slices.values_mut().for_each(|slices| slices.sort_by(|a, b| a.0.total_cmp(&b.0)));
    slices
}

/// Half a nanosecond \[us\]: times are written in nanoseconds, and read as floats.
const ROUNDING: f64 = 5e-4;
const STEPS: u64 = 0;
const WAITS: u64 = 1;

#[test]
fn the_waits_of_a_timeline_fill_its_steps_and_slices_of_a_thread_do_not_overlap() -> Result<()> {
    let events = timeline()?;
    let slices = slices(&events);
    for ((process, thread), of_thread) in &slices {
        let overlap = of_thread.windows(2).find(|pair| pair[1].0 < pair[0].1 - ROUNDING);
        assert_eq!(overlap, None, "process {process}, thread {thread}");
    }
    let mut steps = 0;
    for ((process, _), of_worker) in slices.iter().filter(|((_, thread), _)| *thread == STEPS) {
        for (from, until) in of_worker {
            let waits = slices[&(*process, WAITS)].iter();
            let is_within =
                |(begin, end): &&(f64, f64)| *begin > from - ROUNDING && *end < until + ROUNDING;
            let within = waits.filter(is_within);
            let filled: f64 = within.map(|(begin, end)| end - begin).sum();
            assert!((filled / (until - from) - 1.0).abs() < 0.01, "{filled} of {from} to {until}");
            steps += 1;
        }
    }
    assert!((20..=30).contains(&steps), "{steps} steps of three workers in ten global steps");
    Ok(())
}

#[test]
fn each_arrow_of_a_timeline_begins_and_ends_within_a_slice() -> Result<()> {
    let events = timeline()?;
    let slices = slices(&events);
    let mut ends: BTreeMap<u64, usize> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "s" || event["ph"] == "f") {
        let number = |key: &str| event[key].as_f64().expect("a number");
        let (thread, at) = ((number("pid") as u64, number("tid") as u64), number("ts"));
        let is_within = |(from, until): &(f64, f64)| *from <= at && at <= *until;
        assert!(slices[&thread].iter().any(is_within), "{event}");
        *ends.entry(number("id") as u64).or_default() += 1;
    }
    assert!(ends.len() > 30 && ends.values().all(|count| *count == 2), "{ends:?}");
    Ok(())
}

/// The keys of an event of each phase, as the Trace Event Format has them, which Perfetto reads.
fn keys(phase: &str) -> &'static [&'static str] {
    match phase {
        "M" => &["args", "name", "ph", "pid"],
        "X" => &["dur", "name", "ph", "pid", "tid", "ts"],
        "s" => &["cat", "id", "name", "ph", "pid", "tid", "ts"],
        "f" => &["bp", "cat", "id", "name", "ph", "pid", "tid", "ts"],
        other => panic!("`{other}` is no phase that a timeline has"),
    }
}

#[test]
fn each_event_of_a_timeline_has_the_keys_of_its_phase_and_a_named_process_and_thread() -> Result<()>
{
    let events = timeline()?;
    let mut named = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "M") {
        let (name, args) = (event["name"].as_str().unwrap(), &event["args"]);
        let place = (event["pid"].as_u64().unwrap(), event["tid"].as_u64());
        match name {
            "process_name" | "thread_name" => {
                assert!(args["name"].as_str().is_some_and(|name| !name.is_empty()), "{event}");
                assert_eq!(place.1.is_some(), name == "thread_name", "{event}");
                assert_eq!(named.insert(place, args["name"].clone()), None, "{event}");
            }
            "thread_sort_index" => assert!(args["sort_index"].is_u64() && place.1.is_some()),
            other => panic!("`{other}` is no metadata: {event}"),
        }
    }
    for event in &events {
        let phase = event["ph"].as_str().unwrap();
        let has: Vec<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
        let of_thread = phase == "M" && event["name"] != "process_name";
        let mut wanted = keys(phase).to_vec();
        wanted.extend(of_thread.then_some("tid"));
        assert!(has.len() == wanted.len() && has.iter().all(|key| wanted.contains(key)), "{event}");
        assert!(event["name"].as_str().is_some_and(|name| !name.is_empty()), "{event}");
        if phase == "M" {
            continue;
        }
        let (process, thread) = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        assert!(named.contains_key(&(process, None)), "its process has no name: {event}");
        assert!(named.contains_key(&(process, Some(thread))), "its thread has no name: {event}");
        let time =
            |key: &str| event[key].as_f64().is_some_and(|time| time.is_finite() && time >= 0.0);
        assert!(time("ts") && (phase != "X" || time("dur")), "{event}");
        assert!(
            phase != "f" || event["bp"] == "e",
            "an arrow ends in the slice around it: {event}"
        );
    }
    Ok(())
}
