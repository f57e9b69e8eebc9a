//! Clients of servers in processes of their own: several at once, connections that are lost, and
//! what becomes of the sessions.

#[path = "../../../sims/model_parallel.rs"]
mod model_parallel;

use std::env;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use trainyard::cluster::TaskName;
use trainyard::deployment::{Certificates, Client, Question, TaskStatus, ask};
use trainyard::prelude::*;
use trainyard::runtime::{ServerTarget, SessionStatus};
use trainyard::sync::Mode;
use trainyard::transport::Authority;
use trainyard::units::Time;

use crate::support::binary::{Running, folder, free_address};
use crate::support::fixture::{assert_error, both, on_actix};
use crate::support::simulated::Simulated;

const RUN: &str = "served";
/// The tasks that are served, in the order of their addresses.
const TASKS: [(&str, u32); 3] = [("ps", 0), ("ps", 1), ("worker", 0)];
/// No server needs so long for what a test waits for.
const SOON: Duration = Duration::from_secs(15);

/// The time after which a silent client is lost.
const SILENCE: Duration = Duration::from_secs(1);
/// What a busy machine adds to a limit.
const SLACK: Duration = Duration::from_secs(5);

/// A cluster of servers without programs, each a process.
struct Served {
    place: PathBuf,
    addresses: [String; 3],
    _servers: Vec<Running>,
}

impl Served {
    /// Clients are lost after a second of silence, and their sessions end `recovery` after that.
    fn start(test: &str, recovery: &str) -> Self {
        let place = folder(test);
        let authority = Authority::new(RUN).unwrap();
        let tasks = TASKS.into_iter().chain((0..4).map(|client| ("client", client)));
        for (job, index) in tasks {
            let task = TaskName::new(job, index);
            authority.issue(&task, &[]).unwrap().save(&place, &task).unwrap();
        }
        let addresses = [(); 3].map(|()| free_address());
        let serve = |(job, index): (&str, u32)| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
            let [ps_0, ps_1, worker] = &addresses;
            command.args(["serve", "--run-name", RUN, "--silence", "1s", "--recovery", recovery]);
            command.args(["--ps-hosts", &format!("{ps_0},{ps_1}"), "--worker-hosts", worker]);
            command.args(["--job-name", job, "--task-index", &index.to_string()]);
            command.arg("--certs").arg(&place).env_remove("TF_CONFIG");
            Running::start(&mut command, Duration::from_secs(60))
        };
        let servers = TASKS.into_iter().map(serve).collect();
        Self { place, addresses, _servers: servers }
    }

    fn url(&self, task: usize) -> String {
        let (job, index) = TASKS[task];
        format!("quic://{}/job:{job}/task:{index}", self.addresses[task])
    }

    async fn client(&self, number: u32) -> Client {
        Client::new(&certificates(&self.place, number)).await.unwrap()
    }

    /// A session of `client` on a task.
    async fn session(&self, client: &Client, task: usize, g: &Graph) -> Result<Session> {
        Session::new(&client.target(&self.url(task)).unwrap(), g).await
    }

    /// What a task says of itself, as `trainyard status` asks it.
    async fn status(&self, task: usize) -> TaskStatus {
        self.status_for(task, 3).await
    }

    /// The same, asked with the certificate of a client.
    async fn status_for(&self, task: usize, client: u32) -> TaskStatus {
        let ((job, index), address) = (TASKS[task], self.addresses[task].clone());
        let place = self.place.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let (task, client) = (&TaskName::new(job, index), &TaskName::new("client", client));
            ask(&Question { task, address: &address, run: RUN, certificates: &place, client })
        });
        asked.await.unwrap().unwrap()
    }

    /// Waits until the sessions on a task are as `wanted` says.
    async fn until(&self, task: usize, wanted: impl Fn(&[SessionStatus]) -> bool) {
        let began = Instant::now();
        loop {
            let status = self.status(task).await;
            if wanted(&status.sessions) {
                return;
            }
            assert!(began.elapsed() < SOON, "{:?}", status.sessions);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn certificates(place: &Path, client: u32) -> Certificates {
    Certificates::new(place, RUN).of_client(client)
}

/// A variable on one parameter server, and a gate on the other.
struct Model {
    g: Graph,
    v: Variable,
    /// Sets `v` to 0.
    init: Target,
    add: Target,
    /// Adds 1 to `v` once the gate is open.
    add_later: Target,
    open: Target,
}

impl Model {
    fn new() -> Result<Self> {
        let g = Graph::new();
        let one = g.constant(1f32);
        let gate = g.with_device("/job:ps/task:1", |g| g.variable("gate", &one))?;
        let is_open = g.await_initialization();
        let v = g.with_device("/job:ps/task:0", |g| g.variable("v", &one))?;
        let init = v.assign(&g.constant(0f32))?;
        let add = v.assign_add(&one)?;
        let add_later = g.with_control_dependencies(&[&is_open], |_| v.assign_add(&one))?;
        let open = gate.assign(&one)?;
        Ok(Self { g, v, init, add, add_later, open })
    }

    async fn value(&self, session: &Session) -> Result<f32> {
        session.run().fetch(&self.v.read()).await?.scalar(0)
    }

    async fn until(&self, session: &Session, value: f32) -> Result<()> {
        while self.value(session).await? != value {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

fn of<'a>(sessions: &'a [SessionStatus], client: &str) -> Option<&'a SessionStatus> {
    sessions
        .iter()
        .find(|session| session.client.as_ref().is_some_and(|name| name.to_string() == client))
}

/// The variables by which the process of a client learns where it is.
const PLACE: &str = "TRAINYARD_TEST_PLACE";
const URL: &str = "TRAINYARD_TEST_URL";

#[test]
#[ignore = "the process of a client, which another test starts and kills"]
fn a_client_that_adds_and_then_waits() {
    let (place, url) = (env::var(PLACE).unwrap(), env::var(URL).unwrap());
    on_actix(async {
        let model = Model::new()?;
        let session = Session::connect(&url, &model.g, &certificates(place.as_ref(), 1)).await?;
        session.run().target(&model.add).await?;
        session.run().target(&model.add_later).await.map(drop)
    });
}

#[test]
fn two_clients_share_variables_and_the_death_of_one_ends_its_own_session_alone() {
    on_actix(async {
        let served = Served::start("two_clients", "2s");
        let (client, model) = (served.client(0).await, Model::new()?);
        let session = served.session(&client, 0, &model.g).await?;
        let elsewhere = served.session(&client, 2, &model.g).await?;
        session.run().target(&model.init).await?;
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "quic::clients::a_client_that_adds_and_then_waits", "--ignored"]);
        command.env(PLACE, &served.place).env(URL, served.url(2));
        let other = Running::start(&mut command, Duration::from_secs(60));
        model.until(&session, 1.0).await?;
        let is_in_its_step = |sessions: &[SessionStatus]| {
            of(sessions, "client:1").is_some_and(|other| (other.steps, other.running) == (2, 1))
        };
        served.until(2, is_in_its_step).await;
        drop(other); // it is killed
        let killed = Instant::now();
        for _ in 0..5 {
            session.run().target(&model.add).await?;
        }
        assert_eq!(model.value(&elsewhere).await?, 6.0);
        served.until(2, |sessions| of(sessions, "client:1").is_none()).await;
        let limit = Duration::from_secs(2);
        let within = limit..SILENCE + limit + SLACK;
        assert!(within.contains(&killed.elapsed()), "{:?}", killed.elapsed());
        let status = served.status(2).await;
        let own = of(&status.sessions, "client:0").unwrap();
        assert!(status.serves_sessions && own.operations > 5 && own.steps == 1, "{own:?}");
        elsewhere.run().target(&model.open).await?;
        assert_eq!(model.value(&session).await?, 6.0, "the step of the killed one is gone, too");
        client.close().await;
        let closed = Instant::now();
        served.until(0, |sessions| sessions.is_empty()).await;
        assert!(closed.elapsed() < limit, "it has said goodbye");
        Ok(())
    });
}

#[test]
fn who_asks_with_a_clients_certificate_ends_none_of_its_sessions() {
    on_actix(async {
        let served = Served::start("quic_asked", "1s");
        let (client, model) = (served.client(0).await, Model::new()?);
        let session = served.session(&client, 0, &model.g).await?;
        session.run().target(&model.init).await?;
        for steps in 1..4 {
            session.run().target(&model.add).await?;
            let status = served.status_for(0, 0).await;
            let own = of(&status.sessions, "client:0").unwrap();
            assert_eq!((own.steps, own.is_away), (1 + steps, false));
        }
        assert_eq!(model.value(&session).await?, 3.0);
        client.close().await;
        Ok(())
    });
}

#[test]
fn a_client_trains_a_model_with_a_layer_on_each_task_to_the_same_bits_in_both_worlds() {
    let simulated = Arc::new(Mutex::new(Vec::new()));
    let training = Simulated::new(2, 1, Mode::Async);
    let outcome = training.run_on_servers(|server, _| {
        let simulated = Arc::clone(&simulated);
        async move {
            if server.task().job() == "ps" {
                server.clock().sleep_until(Time::ZERO.after(Duration::from_secs(9))).await;
                return Ok(());
            }
            let target = server.target_of(&TaskName::new("ps", 0))?;
            *simulated.lock().unwrap() = model_parallel::train(&target, 20).await?;
            Ok(())
        }
    });
    assert!(outcome.outcome.result.is_ok(), "{:?}", outcome.outcome.result);
    on_actix(async {
        let served = Served::start("model_parallel", "60s");
        let target = served.client(0).await.target(&served.url(0)).unwrap();
        let losses = model_parallel::train(&target, 20).await?;
        assert!(losses[19] < losses[0] / 1.2, "{losses:?}");
        assert_eq!(losses, *simulated.lock().unwrap());
        Ok(())
    });
}

/// Carries packets between one client and a server, unless it is cut.
struct Relay {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Relay {
    fn to(server: &str) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").unwrap();
        back.connect(server).unwrap();
        let (address, is_cut) = (front.local_addr().unwrap(), Arc::<AtomicBool>::default());
        let client: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let (out, into) = (front.try_clone().unwrap(), back.try_clone().unwrap());
        let (from, cut) = (Arc::clone(&client), Arc::clone(&is_cut));
        thread::spawn(move || {
            let mut packet = [0; 1 << 16];
            while let Ok((length, sender)) = front.recv_from(&mut packet) {
                *from.lock().unwrap() = Some(sender);
                if !cut.load(Ordering::Relaxed) {
                    let _lost_where_nobody_listens = into.send(&packet[..length]);
                }
            }
        });
        let cut = Arc::clone(&is_cut);
        thread::spawn(move || {
            let mut packet = [0; 1 << 16];
            loop {
                let Ok(length) = back.recv(&mut packet) else { continue };
                let to = *client.lock().unwrap();
                if let Some(to) = to.filter(|_| !cut.load(Ordering::Relaxed)) {
                    out.send_to(&packet[..length], to).unwrap();
                }
            }
        });
        Self { address, is_cut }
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

#[test]
fn a_step_is_answered_once_the_lost_connection_is_back_and_has_been_carried_out_once() {
    on_actix(async {
        let served = Served::start("lost_connection", "20s");
        let (client, model) = (served.client(0).await, Model::new()?);
        let session = served.session(&client, 0, &model.g).await?;
        session.run().target(&model.init).await?;
        let (far, relay) = (served.client(1).await, Relay::to(&served.addresses[0]));
        let target = far.target(&format!("quic://{}/job:ps/task:0", relay.address)).unwrap();
        let cut_off = Session::new(&target, &model.g).await?;
        assert_eq!(model.value(&cut_off).await?, 0.0);
        let meanwhile = async {
            served.until(0, |on| of(on, "client:1").is_some_and(|it| it.running == 1)).await;
            relay.cut(true);
            served.until(0, |on| of(on, "client:1").is_some_and(|it| it.is_away)).await;
            session.run().target(&model.open).await?;
            model.until(&session, 1.0).await?;
            relay.cut(false);
            Ok::<_, Error>(())
        };
        let (added, meanwhile) = both(cut_off.run().target(&model.add_later), meanwhile).await;
        meanwhile?;
        added?;
        assert_eq!(model.value(&cut_off).await?, 1.0);
        served.until(0, |on| of(on, "client:1").is_some_and(|it| !it.is_away)).await;
        Ok(())
    });
}

/// Runs a product that no machine can hold, and then a small step of the same session. Returns the
/// error of the first, with the name of its operation.
async fn ask_for_too_much(target: &ServerTarget) -> Result<(Error, String)> {
    let g = Graph::new();
    let (column, row) = (g.zeros([1 << 20, 1]), g.zeros([1, 1 << 20]));
    let product = column.matmul(&row)?;
    let (whole, small) = (product.sum(), column.sum());
    let session = Session::new(target, &g).await?;
    let error = session.run().fetch(&whole).await.expect_err("it is 4 TiB");
    session.run().fetch(&small).await?;
    Ok((error, product.name()))
}

fn assert_refused((error, operation): &(Error, String)) {
    assert_eq!(error.code, Code::ResourceExhausted, "{error}");
    assert!(error.operation.as_ref().is_some_and(|name| operation.starts_with(name)), "{error}");
}

#[test]
fn a_graph_that_asks_for_more_memory_than_there_is_fails_in_both_worlds_and_harms_no_server() {
    let simulated = Arc::new(Mutex::new(None));
    let outcome = Simulated::new(1, 1, Mode::Async).run_on_servers(|server, _| {
        let simulated = Arc::clone(&simulated);
        async move {
            if server.task().job() == "worker" {
                *simulated.lock().unwrap() = Some(ask_for_too_much(&server.target()).await?);
            }
            Ok(())
        }
    });
    assert!(outcome.outcome.result.is_ok(), "{:?}", outcome.outcome.result);
    assert_refused(&simulated.lock().unwrap().take().unwrap());
    on_actix(async {
        let served = Served::start("too_large", "10s");
        let client = served.client(0).await;
        assert_refused(&ask_for_too_much(&client.target(&served.url(0)).unwrap()).await?);
        client.close().await;
        Ok(())
    });
}

#[test]
fn a_task_of_a_training_refuses_sessions_and_says_why() {
    on_actix(async {
        let place = folder("no_sessions");
        let authority = Authority::new(RUN).unwrap();
        for task in [TaskName::new("ps", 0), TaskName::new("client", 0)] {
            authority.issue(&task, &[]).unwrap().save(&place, &task).unwrap();
        }
        std::fs::write(place.join("null.toml"), "[program]\nmodel = 'null'\n").unwrap();
        let address = free_address();
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command.arg("task").arg(place.join("null.toml")).arg("--certs").arg(&place);
        command.args(["--ps-hosts", &address, "--worker-hosts", "127.0.0.1:9"]);
        command.args(["--job-name", "ps", "--task-index", "0", "--run-name", RUN]);
        let _task = Running::start(command.env_remove("TF_CONFIG"), Duration::from_secs(60));
        let url = format!("quic://{address}/job:ps/task:0");
        let g = Graph::new();
        let refused = Session::connect(&url, &g, &certificates(&place, 0)).await.map(drop);
        let says = ["may only ask for the status here", "ps:0"];
        assert_error(refused, Code::Unauthenticated, &says);
        let missing = Session::connect(&url, &g, &certificates(&place, 9)).await.map(drop);
        assert_error(missing, Code::Unauthenticated, &["client-9.pem", "certs issue"]);
        Ok(())
    });
}
