//! Three tasks of one training, each a process: a parameter server and two workers.

use std::path::PathBuf;
use std::time::Instant;

use super::*;
use crate::support::binary::Said;

/// What a worker has sent that has taken some steps \[bytes\]: they are of 2.6 kB and more.
const OF_STEPS: u64 = 100_000;

/// The tasks `ps:0`, `worker:0` and `worker:1` of a training, which can be started.
pub(super) struct ThreeTasks {
    /// Where they run, with their certificates.
    pub(super) folder: PathBuf,
    /// The path of their scenario.
    pub(super) scenario: String,
    addresses: [String; 3],
}

impl ThreeTasks {
    /// Those of a training that `text` describes, for `test`.
    pub(super) fn new(test: &str, text: &str) -> Self {
        let (folder, scenario) = (with_certificates(test), scenario(test, text));
        Self { folder, scenario, addresses: free_addresses() }
    }

    /// What the task is told.
    pub(super) fn config(&self, job: &str, index: u32) -> Value {
        let [ps, first, second] = &self.addresses;
        let cluster = json!({"ps": [ps], "worker": [first, second]});
        json!({"cluster": cluster, "task": {"type": job, "index": index}})
    }

    /// The address of the task.
    pub(super) fn address(&self, job: &str, index: usize) -> &str {
        &self.addresses[index + usize::from(job == "worker")]
    }

    pub(super) fn start(&self, job: &str, index: u32) -> Running {
        self.start_with(job, index, &[])
    }

    /// Starts the task with `more` arguments.
    pub(super) fn start_with(&self, job: &str, index: u32, more: &[&str]) -> Running {
        run_with(&self.folder, &self.scenario, &self.config(job, index), more)
    }

    pub(super) fn start_workers(&self) -> [Running; 2] {
        [self.start("worker", 0), self.start("worker", 1)]
    }

    /// Gives the tasks other addresses, for another training in the same folder.
    pub(super) fn move_elsewhere(&mut self) {
        self.addresses = free_addresses();
    }

    /// What `status` says of the task; an error while it does not answer.
    pub(super) fn status(&self, job: &str, index: usize, more: &[&str]) -> Said {
        let (task, address) = (format!("{job}:{index}"), self.address(job, index));
        let run = ["--run-name", "tasks", "--certs", "certs"];
        let args = [&["status", address, "--task", &task][..], &run, more].concat();
        trainyard_in(&self.folder, &args, &[])
    }

    /// Waits until `is_so` of what `status` says of the task.
    #[track_caller]
    fn until(&self, job: &str, index: usize, more: &[&str], is_so: impl Fn(&str) -> bool) {
        let began = Instant::now();
        loop {
            let said = self.status(job, index, more);
            if said.code == 0 && is_so(&said.out) {
                return;
            }
            assert!(began.elapsed() < LIMIT, "{job}:{index}: {}{}", said.out, said.err);
            std::thread::sleep(Duration::from_millis(50)); // the tasks need the cores
        }
    }

    /// Waits until the worker has taken some steps, however busy the machine is.
    #[track_caller]
    pub(super) fn until_it_trains(&self, worker: usize) {
        self.until("worker", worker, &["--json"], |out| {
            let standing: Value = serde_json::from_str(out).unwrap();
            standing["bytes_sent"].as_u64() > Some(OF_STEPS)
        });
    }

    /// The same of both workers.
    #[track_caller]
    pub(super) fn until_both_train(&self) {
        (0..2).for_each(|worker| self.until_it_trains(worker));
    }

    /// Waits until `status` says `part` of the chief.
    #[track_caller]
    pub(super) fn until_the_chief_says(&self, part: &str) {
        self.until("worker", 0, &[], |out| out.contains(part));
    }

    /// Waits until `status` says `part` of the worker that is not the chief.
    #[track_caller]
    pub(super) fn until_the_other_says(&self, part: &str) {
        self.until("worker", 1, &[], |out| out.contains(part));
    }

    /// Waits until `status` says `part` of the parameter server.
    #[track_caller]
    pub(super) fn until_the_server_says(&self, part: &str) {
        self.until("ps", 0, &[], |out| out.contains(part));
    }
}
