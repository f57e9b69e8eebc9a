//! Training across hosts: network namespaces, each with a slow link of its own. Skipped, aloud,
//! where there are none.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{self, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::binary::{Running, Said, folder, scenario, trainyard, trainyard_in};

/// No task of these takes this long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// Which task each host runs, from host 1 on.
const TASKS: [&str; 3] = ["ps:0", "worker:0", "worker:1"];
/// What each host sends at most: 10 Mbit/s, after 16 KiB at once; longer queues than 100 ms are not
/// kept.
const BANDWIDTH: [&str; 7] = ["tbf", "rate", "10mbit", "burst", "16kb", "latency", "100ms"];
/// What the model's 9610 parameters take twice, for two workers, less the 16 KiB, at 10 Mbit/s
/// \[s\].
const LEAST_STEP: f64 = (2.0 * 9610.0 * 4.0 - 16384.0) * 8.0 / 10e6;

fn text(stop: &str) -> String {
    format!(
        "name = 'hosts'\nseed = 3\n[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'mlp'\n\
         hidden = [128]\nbatch = 8\n\
         [stop]\n{stop}\n[[run]]\nname = 'only'\nmode = 'sync'\n"
    )
}

fn address(host: usize) -> String {
    format!("10.77.0.{host}:2222")
}

/// Runs a command of the system.
///
/// # Errors
/// What it said against it, and `help`.
fn try_system(command: &str, help: &str) -> Result<(), String> {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output();
    let output = output.map_err(|error| format!("`{command}`: {error} ({help})"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("`{command}` is refused: {said} ({help})"))
    }
}

#[track_caller]
fn system(command: &str) {
    try_system(command, "it should work where the others did").unwrap();
}

/// Three hosts, numbered from 1, on a switch that is a namespace itself. They are gone when this is
/// dropped.
struct Hosts {
    /// What their names begin with.
    name: String,
    namespaces: Vec<String>,
}

impl Hosts {
    /// Hosts for `test`; none, and said so, where this process can't make any.
    fn or_skip(test: &str) -> Option<Self> {
        let skipped = |why: &String| format!("SKIPPED: hosts: {why}\n");
        // By `write`, for the test's runner keeps what `eprintln` says to itself.
        Self::new(test)
            .inspect_err(|why| io::stderr().write_all(skipped(why).as_bytes()).unwrap())
            .ok()
    }

    /// # Errors
    /// Why this process can't make any, and what would help.
    fn new(test: &str) -> Result<Self, String> {
        for tool in ["ip", "tc"] {
            try_system(&format!("{tool} -V"), "install iproute2")?;
        }
        if fs::metadata("/proc/self").map_err(|error| error.to_string())?.uid() != 0 {
            return Err("only root makes network namespaces (run the tests as root)".to_owned());
        }
        let mut hosts =
            Self { name: format!("trainyard-{}-{test}", process::id()), namespaces: Vec::new() };
        let switch = hosts.add("switch")?;
        try_system(
            &format!("ip -n {switch} link add bridge type bridge"),
            "take a kernel with bridges",
        )?;
        system(&format!("ip -n {switch} link set bridge up"));
        for host in 1..=TASKS.len() {
            let name = hosts.add(&host.to_string())?;
            let link = format!("link add port{host} type veth peer name eth0 netns {name}");
            try_system(&format!("ip -n {switch} {link}"), "take a kernel with veth")?;
            let bandwidth = BANDWIDTH.join(" ");
            let shape = format!("tc -n {name} qdisc add dev eth0 root {bandwidth}");
            try_system(&shape, "take a kernel with the scheduler sch_tbf")?;
            system(&format!("ip -n {switch} link set port{host} master bridge up"));
            system(&format!("ip -n {name} address add 10.77.0.{host}/24 dev eth0"));
            system(&format!("ip -n {name} link set eth0 up"));
            system(&format!("ip -n {name} link set lo up"));
        }
        Ok(hosts)
    }

    fn add(&mut self, name: &str) -> Result<String, String> {
        let name = format!("{}-{name}", self.name);
        try_system(
            &format!("ip netns add {name}"),
            "run the tests where root may make network namespaces",
        )?;
        self.namespaces.push(name.clone());
        Ok(name)
    }

    /// Starts the program on a host.
    fn start(&self, host: usize, variables: &[(&str, &str)], args: &[&str]) -> Running {
        let mut command = Command::new("ip");
        command
            .args([
                "netns",
                "exec",
                &format!("{}-{host}", self.name),
                env!("CARGO_BIN_EXE_trainyard"),
            ])
            .args(args);
        command.env_remove("TF_CONFIG").env_remove("SLURM_PROCID").envs(variables.iter().copied());
        Running::start(&mut command, LIMIT)
    }

    /// Pulls the cable of a host out of the switch.
    fn cut_off(&self, host: usize) {
        system(&format!("ip -n {}-switch link set port{host} down", self.name));
    }

    /// Has what a host sends to the first one go to nobody.
    fn mute(&self, host: usize) {
        let nobody = "lladdr 02:00:00:00:00:99 dev eth0 nud permanent";
        system(&format!("ip -n {}-{host} neigh replace 10.77.0.1 {nobody}", self.name));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.namespaces {
            if let Err(why) = try_system(&format!("ip netns delete {name}"), "do it by hand") {
                eprintln!("{why}");
            }
        }
    }
}

/// A training on three hosts, each of which has its own certificate alone.
struct Training<'a> {
    hosts: &'a Hosts,
    scenario: String,
    folder: PathBuf,
}

impl<'a> Training<'a> {
    fn new(hosts: &'a Hosts, test: &str, stop: &str) -> Self {
        let folder = folder(&format!("{test}_in"));
        let certs = |args: &[&str]| {
            let said = trainyard_in(&folder, &[&["certs"], args].concat(), &[]);
            assert_eq!(said.code, 0, "{}", said.err);
        };
        certs(&["new", "authority"]);
        for (host, task) in (1..).zip(TASKS) {
            let (name, to) = (format!("10.77.0.{host}"), format!("host-{host}"));
            certs(&["issue", "authority", "--task", task, "--host", &name, "--out", &to]);
        }
        certs(&["issue", "authority", "--task", "client:0", "--out", "client"]);
        fs::write(folder.join("cluster.json"), cluster().to_string()).unwrap();
        Self { hosts, scenario: scenario(test, &text(stop)), folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    /// Starts the task of a host. The last host has its role from a variable, the others from a
    /// file and flags.
    fn start(&self, host: usize) -> Running {
        let (certs, out, file) =
            (self.path(&format!("host-{host}")), self.path("out"), self.path("cluster.json"));
        let args = ["task", &self.scenario, "--certs", &certs, "--out", &out];
        let (job, index) = TASKS[host - 1].split_once(':').unwrap();
        if host == TASKS.len() {
            let config = json!({
                "cluster": cluster(),
                "task": {"type": job, "index": index.parse::<u32>().unwrap()},
            });
            return self.hosts.start(host, &[("TF_CONFIG", &config.to_string())], &args);
        }
        let role = ["--cluster", &file, "--job-name", job, "--task-index", index];
        self.hosts.start(host, &[], &[&args[..], &role].concat())
    }

    /// Waits until the task of `host` has taken some steps, as it tells the first host.
    fn wait_for_steps(&self, host: usize) {
        let (began, address, certs) = (Instant::now(), address(host), self.path("client"));
        let args = [
            "status",
            &address,
            "--task",
            TASKS[host - 1],
            "--run-name",
            "hosts",
            "--certs",
            &certs,
            "--json",
        ];
        loop {
            let said = self.hosts.start(1, &[], &args).end();
            let standing: Value = serde_json::from_str(&said.out).unwrap_or_default();
            if standing["bytes_sent"].as_u64() > Some(200_000) {
                return;
            }
            assert!(
                began.elapsed() < LIMIT,
                "{} does not train: {}{}",
                TASKS[host - 1],
                said.out,
                said.err
            );
        }
    }

    /// What the chief reports.
    fn run(&self) -> Value {
        let result: Value =
            serde_json::from_slice(&fs::read(self.path("out/result.json")).unwrap()).unwrap();
        assert_eq!(result["world"], "deployment");
        result["runs"][0].clone()
    }
}

fn cluster() -> Value {
    json!({"ps": [address(1)], "worker": [address(2), address(3)]})
}

#[test]
fn three_hosts_train_over_slow_links_to_the_weights_of_the_simulation() {
    let Some(hosts) = Hosts::or_skip("train") else { return };
    let training = Training::new(&hosts, "hosts_train", "steps = 30");
    let tasks = [1, 2, 3].map(|host| training.start(host));
    let [ps, chief, other] = tasks.map(Running::end);
    assert_eq!(
        (ps.code, chief.code, other.code),
        (0, 0, 0),
        "{}{}{}",
        ps.err,
        chief.err,
        other.err
    );
    let simulated = trainyard(&["sim", &training.scenario]);
    let weights =
        |said: &Said| said.out.split("weights=").nth(1).map(|rest| rest.trim().to_owned()).unwrap();
    assert_eq!(weights(&chief), weights(&simulated));
    let run = training.run();
    assert_eq!(
        (&run["global_steps"], &run["weights_digest"]),
        (&Value::from(30), &Value::from(weights(&simulated)))
    );
    let median = run["step_seconds"]["p50"].as_f64().unwrap();
    assert!(median > 0.9 * LEAST_STEP, "a step took {median} s: the links are not slow");
}

/// What the README says of a lost worker and, for the worker, of a parameter server that does not
/// come back.
#[test]
fn a_worker_whose_cable_is_cut_ends_and_says_whom_it_lost_and_the_others_train_on() {
    let Some(hosts) = Hosts::or_skip("cut") else { return };
    // The cut is found after 3 s, and the worker given up after 3 s more: 9 s remain for what is
    // before, so that the last 5 s are the chief's alone. The worker gives up after 13 s.
    let stop = "steps = 100000000\ntime = '20s'\n[network]\nsilence = '3s'\nrecovery = '10s'";
    let training = Training::new(&hosts, "hosts_cut", stop);
    let tasks = [1, 2, 3].map(|host| training.start(host));
    training.wait_for_steps(3);
    hosts.cut_off(3);
    let [ps, chief, other] = tasks.map(Running::end);
    assert_eq!((ps.code, chief.code), (0, 0), "{}{}", ps.err, chief.err);
    let steps = fs::read_to_string(training.path("out/steps.csv")).unwrap();
    let ended =
        steps.lines().skip(1).map(|row| row.split(',').nth(5).unwrap().parse::<f64>().unwrap());
    let late = ended.filter(|second| *second > 15.0).count();
    assert!(late > 20, "of its 20 s, the chief took {late} steps in the last 5");
    assert_eq!(other.code, 138, "{}", other.err);
    assert!(other.err.contains("ps:0 was lost, it has fallen silent"), "{}", other.err);
}

#[test]
fn where_packets_are_lost_in_one_direction_both_ends_say_who_has_heard_nothing_from_whom() {
    let Some(hosts) = Hosts::or_skip("mute") else { return };
    let stop = "steps = 100000000\ntime = '20s'\n[network]\nsilence = '2s'\nrecovery = '4s'";
    let training = Training::new(&hosts, "hosts_mute", stop);
    let tasks = [1, 2, 3].map(|host| training.start(host));
    training.wait_for_steps(3);
    hosts.mute(3);
    let [ps, chief, muted] = tasks.map(Running::end);
    assert_eq!((ps.code, chief.code, muted.code), (0, 0, 138), "{}{}", ps.err, muted.err);
    let heard = "ps:0 has heard nothing from worker:1 for 2s";
    assert!(ps.err.contains(&format!("{heard}, and gives the connection up")), "{}", ps.err);
    let why = "the network loses what goes from worker:1 to ps:0, or worker:1 stood still";
    assert!(muted.err.contains(&format!("{heard}: {why}")), "{}", muted.err);
}
