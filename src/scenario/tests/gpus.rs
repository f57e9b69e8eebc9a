//! `[gpus]`, `program.towers` and `program.allow_soft_placement`.

use super::*;
use crate::simulation::MemoryLink;
use crate::units::{BytesPerSecond, FlopsPerSecond};

#[test]
fn gpus_of_a_job_are_those_of_its_tasks_but_for_what_a_task_says_itself() {
    let text = "[compute]\nstop_cost = \"1ms\"\n\
                [gpus.worker]\ncount = 2\ncapacity = \"16GB\"\ncompute = { rate = \"5TFLOP/s\" }\n\
                [gpus.\"worker:1\"]\ncount = 4\nhost = { bandwidth = \"32GB/s\" }\n";
    let gpus = example(text).unwrap().hardware.gpus;
    let names = gpus.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names, ["worker:0", "worker:1"]);
    let [one, other] = [0, 1].map(|index| &gpus[&TaskName::new("worker", index)]);
    assert_eq!((one.count.get(), other.count.get()), (2, 4));
    assert_eq!((one.capacity, other.capacity), (Some(Bytes(16_000_000_000)), one.capacity));
    assert_eq!((one.compute.rate, one.compute.memory.0), (FlopsPerSecond(5e12), 700e9));
    assert_eq!(one.compute.stop_cost, Duration::from_millis(1));
    let latency = Duration::from_micros(10);
    assert_eq!(other.host, MemoryLink { latency, bandwidth: BytesPerSecond(32e9) });
    assert_eq!(one.peers, None);
}

#[test]
fn gpus_and_towers_that_can_not_be_are_told_with_their_lines() {
    for (text, said) in [
        ("[gpus.chief]\ncount = 1", "1: gpus.\"chief\": no task's name"),
        ("[gpus.worker]\ncount = 0", "gpus.\"worker\".count: 0 must be at least 1"),
        ("[gpus.worker]\ncapacity = \"0B\"", "gpus.\"worker\".capacity: 0B hold nothing"),
        ("[gpus.worker]\nhost = { bandwidth = \"0GB/s\" }", "bandwidth: must be above 0"),
        ("[program]\ntowers = 3", "can't be shared out equally to 3 towers"),
        ("[program]\ntowers = 2", "2 towers ask for 2 GPUs, and worker:0 has 0; give"),
        ("[program]\ntowers = 0", "program.towers: 0 must be at least 1"),
        ("[program]\nmodel = \"null\"\ntowers = 2", "have no towers"),
    ] {
        let all = example(text).unwrap_err().to_string();
        assert!(all.contains(said), "`{all}` does not say `{said}`");
    }
    let soft = example("[program]\ntowers = 2\nallow_soft_placement = true\n").unwrap();
    assert_eq!(soft.settings.towers, 2);
}
