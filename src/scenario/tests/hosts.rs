//! Tests of `[hosts]` and `[calibration]`.

use super::*;
use crate::simulation::{Hosts, Lanes, MessageCost, MessageThread, Noise};
use crate::units::{FlopsPerSecond, SecondsPerByte};

fn task(name: (&str, u32)) -> TaskName {
    TaskName::new(name.0, name.1)
}

#[test]
fn a_number_of_cores_for_kernels_is_that_of_a_task_on_hosts() {
    let hosts = "[hosts]\ntasks_per_host = 3\ncores = 4\n[program]\n";
    let scenario = example(&format!("{hosts}num_cores = 2\n")).unwrap();
    assert_eq!(scenario.settings.num_cores, NonZeroU32::new(2));
    for (text, said) in [
        ("[program]\nnum_cores = 2\n".to_owned(), "give `[hosts]`, which says so"),
        (format!("{hosts}num_cores = 0\n"), "program.num_cores: 0 must be at least 1"),
        (format!("{hosts}num_cores = 5000\n"), "program.num_cores: 5000 must be at most"),
    ] {
        let all = example(&text).unwrap_err().to_string();
        assert!(all.contains(said), "`{all}` does not say `{said}`");
    }
}

#[test]
fn hosts_have_consecutive_tasks_or_those_that_are_listed() {
    let cluster = "[cluster]\nps = 1\nworker = 3\n";
    let hosts = |keys: &str| {
        example(&format!("{cluster}[hosts]\ncores = 2\n{keys}")).unwrap().hardware.hosts
    };
    let cores = NonZeroU32::new(2).unwrap();
    let expected = |groups: &[&[(&str, u32)]]| {
        let group = |members: &&[(&str, u32)]| members.iter().copied().map(task).collect();
        Some(Hosts { tasks: groups.iter().map(group).collect(), cores })
    };
    assert_eq!(
        hosts("tasks_per_host = 3"),
        expected(&[&[("ps", 0), ("worker", 0), ("worker", 1)], &[("worker", 2)]])
    );
    assert_eq!(
        hosts("tasks = [[\"worker:2\", \"ps:0\"], [\"worker:0\"]]"),
        expected(&[&[("worker", 2), ("ps", 0)], &[("worker", 0)]])
    );
}

#[test]
fn wrong_hosts_are_told_with_their_places_and_what_to_write() {
    let error = |text: &str| example(text).unwrap_err().to_string();
    let neither = error("[hosts]\ncores = 2");
    assert!(neither.contains(":1: hosts: give either `tasks_per_host`"), "{neither}");
    let cores = error("[hosts]\ntasks_per_host = 3");
    assert!(cores.contains("hosts.cores: say how many cores each host has"), "{cores}");
    let twice = error("[hosts]\ncores = 1\ntasks = [[\"worker:0\"], [\"worker:0\", \"worker:7\"]]");
    assert!(twice.contains("tasks[1][0]: `worker:0` is on a host already; remove one"), "{twice}");
    assert!(twice.contains("tasks[1][1]: the job `worker` has 2 tasks"), "{twice}");
}

#[test]
fn a_calibration_is_what_messages_cost_and_overrides_the_network_and_the_devices() {
    let scenario = example(
        "[network]\nlatency = \"1ms\"\nbandwidth = \"1Gbps\"\n[calibration]\n\
         send = { fixed = \"8us\", per_byte = \"0.7ns\" }\nreceive = { fixed = \"9us\" }\n\
         wake = \"20us\"\npatience = \"50us\"\n\
         polling = 0.5\ncrowded = 0.8\noperation = \"0.5us\"\n\
         hand_over = \"10us\"\n\
         lanes = { threads = 4, speed_up = 2.5 }\n\
         noise = [{ every = \"5ms\", span = \"80us\" }]\n\
         loopback = { latency = \"12us\" }\nnetwork = { latency = \"30us\" }\n\
         compute = { rate = \"80GFLOP/s\" }",
    )
    .unwrap();
    let us = Duration::from_micros;
    let cost = |fixed, per_byte| MessageCost { fixed, per_byte: SecondsPerByte(per_byte) };
    let expected = MessageThread {
        send: cost(us(8), 0.7e-9),
        receive: cost(us(9), 0.0),
        wake: us(20),
        patience: us(50),
        polling: 0.5,
        crowded: 0.8,
        operation: Duration::from_nanos(500),
        hand_over: us(10),
        gathers: true,
        lanes: Some(Lanes { threads: NonZeroU32::new(4).unwrap(), speed_up: 2.5 }),
    };
    assert_eq!(scenario.hardware.message_thread, Some(expected));
    assert_eq!(scenario.hardware.noise, [Noise { every: us(5_000), span: us(80) }]);
    assert_eq!(scenario.hardware.network.latency, us(30));
    assert_eq!(scenario.hardware.network.loopback.latency, us(12));
    assert_eq!(
        scenario.hardware.network.bandwidth,
        BytesPerSecond(0.125e9),
        "as the scenario says"
    );
    assert_eq!(scenario.hardware.compute.rate, FlopsPerSecond(80e9));
}

#[test]
fn noise_that_takes_a_core_for_ever_is_refused() {
    let noise = "[calibration]\nnoise = [{ every = \"1ms\", span = \"1ms\" }]";
    let error = example(noise).unwrap_err().to_string();
    assert!(error.contains("calibration.noise[0].span: must be less than `every`"), "{error}");
    let noise = "[calibration]\nnoise = [{ every = \"1ns\", span = \"0ns\" }]";
    let error = example(noise).unwrap_err().to_string();
    assert!(error.contains("calibration.noise[0].every: must be at least 1µs"), "{error}");
}

#[test]
fn a_calibration_can_be_in_a_file_beside_the_scenario() {
    let folder = std::env::temp_dir().join(format!("trainyard-{}-calibration", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let written = "[calibration]\nhand_over = \"12us\"\ncompute = { memory = \"9GB/s\" }";
    std::fs::write(folder.join("measured.toml"), written).unwrap();
    let origin = folder.join("scenario.toml").display().to_string();
    let scenario = parse("calibration = \"measured.toml\"", &origin).unwrap();
    let thread = scenario.hardware.message_thread.unwrap();
    assert_eq!((thread.hand_over, thread.wake), (Duration::from_micros(12), Duration::ZERO));
    assert_eq!(scenario.hardware.compute.memory, BytesPerSecond(9e9));
    let missing = parse("calibration = \"no_such.toml\"", &origin).unwrap_err().to_string();
    assert!(missing.contains(":1: calibration: ") && missing.contains("can't read"), "{missing}");
    std::fs::write(folder.join("measured.toml"), "[calibration]\n\ncrowded = -1").unwrap();
    let wrong = parse("calibration = \"measured.toml\"", &origin).unwrap_err().to_string();
    assert!(wrong.contains(":1: calibration: ") && wrong.contains("measured.toml:3: "), "{wrong}");
    assert!(wrong.ends_with("calibration.crowded: -1 must be at least 0.01 and at most 1"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_scenario_without_hosts_and_calibration_has_no_message_thread() {
    assert_eq!(example("").unwrap().hardware.message_thread, None);
    let hosts = "[network]\nmessage_cost = \"7us\"\n[hosts]\ncores = 1\ntasks_per_host = 2";
    let expected = MessageThread::sending_costs(Duration::from_micros(7));
    assert_eq!(example(hosts).unwrap().hardware.message_thread, Some(expected));
}
