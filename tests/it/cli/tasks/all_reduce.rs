//! All-reduce among processes: without a worker that was killed, and with one that comes back.

use std::path::{Path, PathBuf};
use std::thread;

use super::*;

/// Three workers that train by all-reduce, each a process.
struct Ring {
    folder: PathBuf,
    scenario: String,
    addresses: [String; 3],
    workers: [Option<Running>; 3],
}

impl Ring {
    /// A training of so many steps, which has begun.
    fn begin(test: &str, steps: u64) -> Self {
        let text = format!(
            "name = 'ring'\nseed = 3\n[cluster]\nworker = 3\n\
             [network]\nsilence = '3s'\nrecovery = '5s'\n\
             [program]\nmodel = 'softmax'\nbatch = 8\nall_reduce = 'ring'\n\
             optimizer = {{ rule = 'adagrad', learning_rate = 0.2 }}\n[stop]\nsteps = {steps}\n\
             [checkpoint]\nevery_steps = 20\ndirectory = 'saved'\n\
             [[run]]\nname = 'only'\nmode = 'sync'\n"
        );
        let folder = with_certificates_of(test, "worker:0,worker:1,worker:2");
        let scenario = scenario(&format!("{test}_scenario"), &text);
        let mut ring =
            Self { folder, scenario, addresses: free_addresses(), workers: [const { None }; 3] };
        (0..3).for_each(|index| ring.start(index));
        ring.wait_for_step(20);
        ring
    }

    fn start(&mut self, index: usize) {
        let task = json!({"type": "worker", "index": index});
        let config = json!({"cluster": {"worker": self.addresses}, "task": task});
        self.workers[index] = Some(run(&self.folder, &self.scenario, &config));
    }

    fn kill(&mut self, index: usize) {
        drop(self.workers[index].take());
    }

    /// Waits until the chief says something with `part`.
    fn wait_for(&mut self, part: &str) {
        self.workers[0].as_mut().unwrap().line_with(part);
    }

    /// Waits for a checkpoint of `step` or a later one.
    fn wait_for_step(&self, step: u64) {
        let began = std::time::Instant::now();
        while last_saved(&self.folder) < Some(step) {
            assert!(began.elapsed() < LIMIT, "there is no checkpoint of step {step}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self, index: usize) -> crate::support::binary::Said {
        self.workers[index].take().unwrap().end()
    }
}

/// The step of the newest checkpoint.
fn last_saved(folder: &Path) -> Option<u64> {
    let files = std::fs::read_dir(folder.join("saved/only")).ok()?;
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let step =
        |name: String| name.strip_prefix("model.ckpt-")?.strip_suffix(".index.json")?.parse().ok();
    names.filter_map(step).max()
}

#[test]
fn the_others_form_anew_without_a_worker_that_is_killed_and_take_all_steps() {
    // However fast the machine is, one of these is under way when the worker is killed.
    for steps in [600, 6_000, 60_000, 600_000] {
        let mut ring = Ring::begin("tasks_ring", steps);
        ring.kill(2);
        let [chief, other] = [0, 1].map(|index| ring.end(index));
        assert_eq!((chief.code, other.code), (0, 0), "{}{}", chief.err, other.err);
        assert_eq!(last_saved(&ring.folder), Some(steps), "{}", chief.err);
        if chief.err.contains("going on without the towers of worker:2") {
            return;
        }
    }
    panic!("no training was under way");
}

#[test]
fn a_worker_that_comes_back_when_the_others_have_formed_anew_is_taken_in() {
    let mut ring = Ring::begin("tasks_ring_back", 1_000_000_000);
    ring.kill(2);
    ring.wait_for("going on without the towers of worker:2");
    ring.start(2);
    ring.wait_for("worker:2 is back");
    ring.wait_for_step(last_saved(&ring.folder).unwrap() + 40);
    // The others miss it again: it had a part in the steps.
    ring.kill(2);
    ring.wait_for("going on without the towers of worker:2");
    ring.start(2);
    ring.wait_for("worker:2 is back");
    ring.workers[0].as_ref().unwrap().signal("TERM");
    let [chief, first, second] = [0, 1, 2].map(|index| ring.end(index));
    let said = format!("{}{}{}", chief.err, first.err, second.err);
    assert_eq!([chief.code, first.code, second.code], [143, 138, 138], "{said}");
    assert!(first.err.contains("worker:1, which helps a worker, waits for worker:0"), "{said}");
}
