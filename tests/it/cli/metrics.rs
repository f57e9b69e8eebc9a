//! `--metrics` and `--dashboard`: the numbers of tasks in Prometheus's format and on a page, while
//! they run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::binary::{Running, folder, free_address, scenario, trainyard_in};

/// Nothing of these takes this long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// It goes on until it is stopped.
const ENDLESS: &str = "name = 'metrics'\nseed = 3\n[cluster]\nps = 1\nworker = 2\n\
                       [program]\nmodel = 'softmax'\nbatch = 8\n\
                       [stop]\ntime = '10min'\nsteps = 100000000\n\
                       [[run]]\nname = 'only'\nmode = 'async'\n";

fn start(args: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(args).env_remove("TF_CONFIG").env_remove("SLURM_PROCID");
    Running::start(&mut command, LIMIT)
}

/// What `running` answers at the address that it prints, once all of `parts` are in it.
fn metrics(running: &mut Running, parts: &[&str]) -> String {
    metrics_with(running, |told| parts.iter().all(|part| told.contains(part)))
}

/// The same, once they are as `wanted` says.
fn metrics_with(running: &mut Running, wanted: impl Fn(&str) -> bool) -> String {
    let line = running.line_with("metrics at http://");
    let address = line.split("http://").nth(1).unwrap().strip_suffix("/metrics").unwrap();
    let began = Instant::now();
    loop {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        if wanted(&answer) {
            return answer;
        }
        assert!(began.elapsed() < LIMIT, "it never is as it should be:\n{answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The value of the metric `name` with these `labels`.
fn value(metrics: &str, name: &str, labels: &str) -> f64 {
    let begin = format!("{name}{{run=\"only\",{labels}}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&begin));
    line.unwrap_or_else(|| panic!("no {begin}in\n{metrics}")).parse().unwrap()
}

#[test]
fn a_launch_tells_the_steps_and_the_traffic_of_all_tasks() {
    let path = scenario("metrics_launch", ENDLESS);
    let mut launch = start(&["launch", &path, "--metrics", "0"]);
    let parts = [
        "trainyard_loss{run=\"only\",task=\"worker:0\"}",
        "trainyard_loss{run=\"only\",task=\"worker:1\"}",
        "trainyard_received_bytes_total{run=\"only\",task=\"ps:0\",peer_job=\"worker\"}",
        "trainyard_sent_bytes_total{run=\"only\",task=\"worker:1\",peer_job=\"ps\"}",
    ];
    let sent = |told: &str| {
        value(told, "trainyard_sent_bytes_total", "task=\"ps:0\",peer_job=\"worker\"") > 0.0
    };
    let told = metrics_with(&mut launch, |told| {
        parts.iter().all(|part| told.contains(part)) && sent(told)
    });
    for task in ["task=\"worker:0\"", "task=\"worker:1\""] {
        let steps = value(&told, "trainyard_steps_total", task);
        assert!(steps >= 1.0);
        assert_eq!(value(&told, "trainyard_examples_total", task), 8.0 * steps);
        assert_eq!(value(&told, "trainyard_step_seconds_count", task), steps);
        let applied = value(&told, "trainyard_gradients_applied_total", task);
        assert_eq!(value(&told, "trainyard_staleness_count", task), applied);
        assert!(value(&told, "trainyard_global_step", task) >= applied);
    }
    assert!(!told.contains("trainyard_steps_total{run=\"only\",task=\"ps:0\"}"), "{told}");
    launch.signal("TERM");
    assert_eq!(launch.end().code, 143);
}

#[test]
fn a_task_that_waits_for_another_says_for_whom() {
    let folder = folder("metrics_task_in");
    let certs = folder.join("certs").display().to_string();
    let issue = ["certs", "issue", &certs, "--task", "worker:0,ps:0"];
    for args in [&["certs", "new", &certs][..], &issue] {
        assert_eq!(trainyard_in(&folder, args, &[]).code, 0);
    }
    let (ps, workers) = (free_address(), format!("{},{}", free_address(), free_address()));
    let path = scenario("metrics_task", ENDLESS);
    let role = ["--ps-hosts", &ps, "--worker-hosts", &workers, "--job-name", "worker"];
    let task = ["task", &path, "--certs", &certs, "--metrics", "127.0.0.1:0"];
    let mut task = start(&[&task[..], &role].concat());
    let told = metrics(&mut task, &["trainyard_unreached{", "trainyard_waiting{"]);
    assert_eq!(value(&told, "trainyard_unreached", "task=\"worker:0\",peer=\"ps:0\""), 1.0);
    assert!(value(&told, "trainyard_waiting", "task=\"worker:0\",for=\"ps:0\"") >= 1.0);
    assert_eq!(value(&told, "trainyard_steps_total", "task=\"worker:0\""), 0.0);
}

#[test]
fn a_server_tells_its_sessions_and_an_address_that_is_taken_is_an_error() {
    let folder = folder("metrics_serve");
    let certs = folder.join("certs").display().to_string();
    let issue = ["certs", "issue", &certs, "--task", "worker:0"];
    for args in [&["certs", "new", &certs][..], &issue] {
        assert_eq!(trainyard_in(&folder, args, &[]).code, 0);
    }
    let own = free_address();
    let role = ["--worker-hosts", &own, "--job-name", "worker", "--run-name", "only"];
    let serve = |metrics: &str| {
        start(&[&["serve", "--certs", &certs, "--metrics", metrics][..], &role].concat())
    };
    let mut first = serve("0");
    let told = metrics(&mut first, &["trainyard_sessions{"]);
    assert_eq!(value(&told, "trainyard_sessions", "task=\"worker:0\""), 0.0);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let said = serve(&taken.local_addr().unwrap().to_string()).end();
    assert!(said.code != 0 && said.err.contains("can't listen on 127.0.0.1:"), "{}", said.err);
}

/// The address of the dashboard of `running`, as it prints it.
fn dashboard(running: &mut Running) -> String {
    let line = running.line_with("dashboard at http://");
    line.split("http://").nth(1).unwrap().strip_suffix('/').unwrap().to_owned()
}

/// What asks `address` for `path`.
fn ask(address: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// The first event at `path` of which `is_wanted` is true.
fn event(address: &str, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    for line in BufReader::new(ask(address, path)).lines() {
        let line = line.unwrap();
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let state: Value = serde_json::from_str(data).unwrap();
        if is_wanted(&state) {
            return state;
        }
        assert!(began.elapsed() < LIMIT, "{state}");
    }
    panic!("the events end");
}

#[test]
fn the_dashboard_of_a_launch_is_one_page_and_its_events_have_all_tasks() {
    let path = scenario("dashboard_launch", ENDLESS);
    let mut launch = start(&["launch", &path, "--dashboard=0"]);
    let address = dashboard(&mut launch);
    let mut page = String::new();
    ask(&address, "/").read_to_string(&mut page).unwrap();
    let (head, page) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("text/html") && head.contains("default-src 'none'"), "{head}");
    assert!(page.starts_with("<!doctype html>") && page.contains("prefers-color-scheme"));
    let outside = ["src=", "href=", "@import", "https://", "url("];
    assert!(outside.iter().all(|part| !page.contains(part)), "it needs nothing else");
    let is_under_way = |state: &Value| {
        let trains = |task: &Value| task["trains"] == json!(true);
        let has_stepped = |task: &Value| !trains(task) || task["steps"].as_u64() > Some(0);
        let points = state["points"].as_array().map_or(0, Vec::len);
        points > 2 && state["tasks"].as_array().unwrap().iter().all(has_stepped)
    };
    let state = event(&address, "/events", is_under_way);
    assert_eq!((&state["run"], &state["world"]), (&json!("only"), &json!("deployment")));
    assert_eq!((&state["runs"], &state["at"]), (&json!(["only"]), &json!(0)));
    let tasks: Vec<&str> =
        state["tasks"].as_array().unwrap().iter().map(|it| it["task"].as_str().unwrap()).collect();
    assert_eq!(tasks, ["ps:0", "worker:0", "worker:1"]);
    let points = state["points"].as_array().unwrap();
    let times: Vec<f64> = points.iter().map(|point| point[0].as_f64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
    assert!(points.last().unwrap()[4].as_u64() > Some(0), "{points:?}");
    let mut metrics = String::new();
    ask(&address, "/metrics").read_to_string(&mut metrics).unwrap();
    assert!(metrics.contains("trainyard_steps_total{"), "{metrics}");
    launch.signal("TERM");
    assert_eq!(launch.end().code, 143);
}

#[test]
fn a_simulation_that_is_looked_at_is_the_same() {
    let text = ENDLESS.replace("100000000", "400").replace("only", "first");
    let path = scenario("dashboard_sim", &(text + "[[run]]\nname = 'second'\nmode = 'sync'\n"));
    let mut seen = start(&["sim", &path, "--dashboard=0"]);
    let address = dashboard(&mut seen);
    // It may be over before this comes.
    let looking = TcpStream::connect(&address).map(|mut stream| {
        let asked = format!("GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let _ = stream.write_all(asked.as_bytes());
        stream
    });
    let seen = seen.end();
    drop(looking);
    let alone = start(&["sim", &path]).end();
    let digests = |out: &str| -> Vec<String> {
        let lines = out.lines().filter(|line| line.contains("digest="));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(seen.code, alone.code, "{}", seen.err);
    assert_eq!(digests(&seen.out).len(), 2, "{}", seen.out);
    assert_eq!(digests(&seen.out), digests(&alone.out));
}
