//! Many workers of one parameter server. That is a process of the binary's `task`; the workers are
//! here, on a thread each, and read and update its variables without a model.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::{Value, json};
use trainyard::checkpoint::Stores;
use trainyard::cluster::{RunConfig, TaskName};
use trainyard::deployment::{self, Member, Proof, Seat, StopRequest};
use trainyard::experiment::{Experiment, Trial};
use trainyard::prelude::*;
use trainyard::training::TaskParts;
use trainyard::transport::{Authority, RunId};

use super::FIGURES;
use super::resident::resident;

/// The scalars that a step reads and updates.
const VARIABLES: usize = 16;
/// The longest time in which all are served once.
const PATIENCE: Duration = Duration::from_secs(300);

/// What the workers have seen so far, by worker: how long each step took \[us\].
struct Seen {
    steps: Mutex<Vec<Vec<u32>>>,
    /// When all stop, once all have been served.
    until: Mutex<Option<Instant>>,
}

/// Measures `count` connections that are all served for so many seconds.
pub(super) fn run(count: u32, seconds: u64) {
    let folder = env::temp_dir().join(format!("trainyard-connections-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("there is room for files");
    let cluster = Cluster::new(folder.clone(), count);
    let mut server = ServerProcess::start(&cluster);
    thread::sleep(Duration::from_secs(1));
    let before = server.resident();
    let seen = Arc::new(Seen {
        steps: Mutex::new(vec![Vec::new(); count as usize]),
        until: Mutex::new(None),
    });
    let began = Instant::now();
    let workers: Vec<_> = (0..count).map(|index| cluster.worker(index, &seen)).collect();
    while seen.steps.lock().expect("no worker panics").iter().any(Vec::is_empty) {
        let status = server.0.try_wait().expect("it is a child of this process");
        assert!(status.is_none() && began.elapsed() < PATIENCE, "not all are served: {status:?}");
        thread::sleep(Duration::from_millis(10));
    }
    let (served, first) = (began.elapsed(), server.resident());
    seen.steps.lock().expect("no worker panics").iter_mut().for_each(Vec::clear);
    let until = Instant::now() + Duration::from_secs(seconds);
    seen.until.lock().expect("no worker panics").replace(until);
    thread::sleep(until.saturating_duration_since(Instant::now()));
    let last = server.resident();
    let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
    assert!(ended.iter().all(Result::is_ok), "a worker has failed");
    let status = server.0.wait().expect("it was started");
    assert!(status.success(), "the parameter server has failed");
    let steps = std::mem::take(&mut *seen.steps.lock().expect("no worker panics"));
    fs::remove_dir_all(folder).expect("they are this process's");
    report(steps, seconds, (served, before, first, last));
}

/// The figures of `steps`; `served` is the time until all were served once, and the rest the
/// server's memory before there was a worker, then, and at the end \[kB\].
fn report(
    steps: Vec<Vec<u32>>,
    seconds: u64,
    (served, before, first, last): (Duration, u64, u64, u64),
) {
    let mut counts: Vec<usize> = steps.iter().map(Vec::len).collect();
    counts.sort_unstable();
    let mut times: Vec<u32> = steps.into_iter().flatten().collect();
    times.sort_unstable();
    let count = counts.len();
    let millis = |share: f64| {
        let at = ((times.len() - 1) as f64 * share) as usize;
        f64::from(times[at] / 10) / 100.0
    };
    FIGURES.note(&json!({
        "case": "transport/connections",
        "connections": count,
        "seconds": seconds,
        "all_served_after_s": (served.as_secs_f64() * 10.0).round() / 10.0,
        "steps_per_s": times.len() as u64 / seconds,
        "steps_of_a_connection": {
            "least": counts[0], "median": counts[count / 2], "most": counts[count - 1],
        },
        "p50_ms": millis(0.5), "p99_ms": millis(0.99), "longest_ms": millis(1.0),
        "server_mb": [before / 1000, first / 1000, last / 1000],
        "server_kb_a_connection": last.saturating_sub(before) / count as u64,
    }));
}

/// The parameter server's process. It ends with this value, and so with a panic of this process.
struct ServerProcess(Child);

impl ServerProcess {
    fn start(cluster: &Cluster) -> Self {
        let task = TaskName::new("ps", 0);
        let identity = cluster.authority.issue(&task, &[]).expect("a certificate");
        identity.save(&cluster.folder, &task).expect("there is room for files");
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command.args(["task", "scenario.toml", "--certs", "."]).current_dir(&cluster.folder);
        command.env("TF_CONFIG", cluster.config("ps", 0).to_string()).stdout(Stdio::null());
        Self(command.spawn().expect("the binary is built"))
    }

    /// Its resident memory \[kB\].
    fn resident(&self) -> u64 {
        resident(self.0.id())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Fails where it has ended, as it should have.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A parameter server and its workers, none of which knows another.
struct Cluster {
    folder: PathBuf,
    authority: Authority,
    server: String,
    /// By worker.
    workers: Vec<String>,
    trial: Trial,
}

impl Cluster {
    fn new(folder: PathBuf, workers: u32) -> Self {
        let text = format!(
            "name = \"connections\"\n[cluster]\nps = 1\nworker = {workers}\n\
             [program]\nmodel = \"null\"\n[stop]\nsteps = 1\n\
             [[run]]\nname = \"connections\"\nmode = \"async\"\n"
        );
        fs::write(folder.join("scenario.toml"), &text).expect("there is room for files");
        let trials = Experiment::parse(text).expect("a scenario").trials().expect("one run");
        let authority = Authority::new("connections").expect("an authority");
        let mut workers = free_addresses(workers as usize + 1);
        let server = workers.pop().expect("one more than there are workers");
        let trial = trials.into_iter().next().expect("one run");
        Self { folder, authority, server, workers, trial }
    }

    /// The place of a task, which knows the parameter server and itself.
    fn config(&self, job: &str, index: u32) -> Value {
        let worker = match job {
            "ps" => BTreeMap::new(),
            _ => BTreeMap::from([(index.to_string(), &self.workers[index as usize])]),
        };
        let cluster = json!({ "ps": [self.server], "worker": worker });
        json!({ "sparseCluster": cluster, "task": { "type": job, "index": index } })
    }

    /// Starts the worker of this index on a thread.
    fn worker(&self, index: u32, seen: &Arc<Seen>) -> thread::JoinHandle<()> {
        let config = self.config("worker", index).to_string();
        let role = RunConfig::from_tf_config(Some(&config)).expect("a place in the cluster");
        let identity = self.authority.issue(role.task(), &[]).expect("a certificate");
        let (trial, seen) = (self.trial.clone(), Arc::clone(seen));
        thread::spawn(move || {
            let proof = Some(Proof::Given(identity));
            let spec = trial.cluster.spec.clone();
            let seat = Seat::new(&role, spec, proof, RunId::new("connections")).expect("a seat");
            let member = Member::new(seat);
            let ended = deployment::run(member, StopRequest::never(), |server| {
                steps(task(&trial, server, role), index as usize, seen)
            });
            ended.expect("it can take part").result.expect("it is served");
        })
    }
}

fn task(trial: &Trial, server: Rc<Server>, role: RunConfig) -> Task {
    let parts = TaskParts {
        server,
        mode: trial.mode,
        seed: trial.cluster.seed,
        run_folder: "run".to_owned(),
        settings: trial.settings.clone(),
        dataset: None,
        checkpointing: None,
        stores: Stores::in_memory(),
        recorder: Rc::new(|_| {}),
        config: Some(role),
        arguments: Vec::new(),
    };
    Task::new(parts).expect("it has no data to share")
}

/// Takes steps until all are to stop.
async fn steps(task: Task, index: usize, seen: Arc<Seen>) -> Result<()> {
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let train = g.with_device_fn(setter, |g| {
        let step = g.global_step()?;
        let mut pairs = Vec::with_capacity(VARIABLES);
        for number in 0..VARIABLES {
            let variable = g.variable(&format!("v{number}"), &g.constant(0f32))?;
            let gradient = variable.read().identity();
            pairs.push((variable, gradient));
        }
        GradientDescent::new(0.0).apply_gradients(&pairs, &step)
    })?;
    let session = MonitoredSession::builder(&task, g).open().await?;
    while seen.until.lock().expect("no worker panics").is_none_or(|until| Instant::now() < until) {
        let began = Instant::now();
        session.raw().run().target(&train).await?;
        let took = began.elapsed().as_micros() as u32;
        seen.steps.lock().expect("no worker panics")[index].push(took);
    }
    session.close().await
}

/// So many addresses that are free now. They differ, since all are taken before one is let go.
fn free_addresses(count: usize) -> Vec<String> {
    let bind = |_| UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let sockets: Vec<UdpSocket> = (0..count).map(bind).collect();
    let address = |socket: &UdpSocket| socket.local_addr().expect("it is bound").to_string();
    sockets.iter().map(address).collect()
}
