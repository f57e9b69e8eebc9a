//! The measurement of a running cluster: how fast its tasks compute, and the ways between them.
//!
//! The tasks serve sessions (`trainyard serve`), and a client runs graphs on them: products on each
//! task, and values that go to and fro between each two. What a step takes beside, the difference
//! between a long step and a short one leaves out.

use std::time::Duration;

use super::{median, time_text};
use crate::clock::{Clock, WallClock};
use crate::cluster::{ClusterSpec, TaskName};
use crate::deployment::{Certificates, Client, run_client};
use crate::experiment::ExperimentError;
use crate::graph::{Graph, GraphError, Output};
use crate::runtime::{self, Code, ServerTarget, SessionOptions};
use crate::tensor::DType;
use crate::training::Session;

/// The side of the square matrices that are multiplied, and of the one that a vector is.
const SQUARE: usize = 256;
const TALL: usize = 1500;
/// The products of a short and of a long step.
const PRODUCTS: [usize; 2] = [2, 10];
/// The values that are sent \[elements\], and how often one goes to and fro in a short and in a
/// long step.
const SMALL: usize = 1;
const LARGE: usize = 1 << 18;
const TRIPS: [usize; 2] = [1, 5];
/// The steps of each length, beside the first ones, which register the graph.
const STEPS: usize = 15;
const WARM_UP: usize = 3;
/// The time that each step may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The tasks of a cluster and the ways between them, as measured.
#[derive(Clone, Debug)]
pub struct ClusterSpeed {
    /// In the cluster's order.
    pub tasks: Vec<TaskSpeed>,
    /// One for each two tasks.
    pub links: Vec<MeasuredLink>,
}

/// The speed of a task's device.
#[derive(Clone, Debug)]
pub struct TaskSpeed {
    /// The task.
    pub task: TaskName,
    /// The rate of arithmetic \[flop/s\].
    pub rate: f64,
    /// The rate of memory traffic \[bytes/s\].
    pub memory: f64,
}

/// The way between two tasks.
#[derive(Clone, Debug)]
pub struct MeasuredLink {
    /// The tasks.
    pub between: [TaskName; 2],
    /// The time that a small value takes, with what both ends do for it \[s\].
    pub latency: f64,
    /// The rate at which a large value goes, with what both ends do for it \[bytes/s\]; none where
    /// it takes no longer than a small one.
    pub bandwidth: Option<f64>,
}

/// Measures all tasks of `cluster`, which serve sessions, and the ways between each two of them.
/// `says` is told what happens.
///
/// # Errors
/// If a certificate is missing or refused, if a task can't be reached or does not serve, or if the
/// tasks do so much else that a long step takes no longer than a short one.
pub fn calibrate_cluster(
    cluster: &ClusterSpec,
    certificates: &Certificates,
    says: impl Fn(&str),
) -> Result<ClusterSpeed, ExperimentError> {
    run_client(async {
        let client = Client::new(certificates).await?;
        let tasks: Vec<TaskName> = cluster.tasks().collect();
        let speeds = measure(&client, cluster, &tasks, says).await;
        client.close().await;
        speeds
    })
}

async fn measure(
    client: &Client,
    cluster: &ClusterSpec,
    tasks: &[TaskName],
    says: impl Fn(&str),
) -> Result<ClusterSpeed, ExperimentError> {
    let target = |task: &TaskName| {
        let address = cluster.task_address(task).expect("a cluster file gives all addresses");
        client.target(&format!("quic://{address}/job:{}/task:{}", task.job(), task.index()))
    };
    let failed = |what: String| move |error| ExperimentError::Run { run: what, error };
    let mut speeds = ClusterSpeed { tasks: Vec::new(), links: Vec::new() };
    for (index, task) in tasks.iter().enumerate() {
        says(&task.to_string());
        let server = target(task)?;
        let speed = task_speed(&server, task).await;
        speeds.tasks.push(speed.map_err(failed(format!("calibration of {task}")))?);
        for other in &tasks[index + 1..] {
            says(&format!("{task} and {other}"));
            let link = link(&server, [task, other]).await;
            let what = format!("calibration of {task} and {other}");
            speeds.links.push(link.map_err(failed(what))?);
        }
    }
    Ok(speeds)
}

async fn task_speed(server: &ServerTarget, task: &TaskName) -> runtime::Result<TaskSpeed> {
    let product = async |rows: usize, columns: usize| {
        // A matrix that leaves what it multiplies at the same size.
        let chain = |g: &Graph, x: &Output, products: usize| {
            g.with_device(&device(task), |g| {
                let matrix = g.fill([rows, rows], 1.0 / rows as f32);
                let mut value = x * &g.ones([rows, columns]);
                for _ in 0..products {
                    value = matrix.matmul(&value)?;
                }
                Ok(value.mean())
            })
        };
        above_0(difference(server, PRODUCTS, chain).await?)
    };
    let (square, tall) = (product(SQUARE, SQUARE).await?, product(TALL, 1).await?);
    let rate = 2.0 * (SQUARE as f64).powi(3) / square;
    Ok(TaskSpeed { task: task.clone(), rate, memory: 4.0 * (TALL as f64).powi(2) / tall })
}

async fn link(server: &ServerTarget, between: [&TaskName; 2]) -> runtime::Result<MeasuredLink> {
    let trip = async |elements: usize, on: [&TaskName; 2]| {
        let chain = |g: &Graph, x: &Output, trips: usize| {
            let [here, there] = on.map(device);
            let mut value = g.with_device(&here, |g| Ok(x * &g.ones([elements])))?;
            for _ in 0..trips {
                // Not elementwise kernels, which would run as one where both are on one task.
                value = g.with_device(&there, |_| value.roll(1, 0))?;
                value = g.with_device(&here, |_| value.roll(-1, 0))?;
            }
            g.with_device(&here, |_| Ok(value.mean()))
        };
        Ok::<_, runtime::Error>(difference(server, TRIPS, chain).await? / 2.0)
    };
    let [one, _] = between;
    let latency = above_0(trip(SMALL, between).await?)?;
    let large = trip(LARGE, between).await? - latency - trip(LARGE, [one, one]).await?.max(0.0);
    let bandwidth = (large > 0.0).then(|| 4.0 * LARGE as f64 / large);
    Ok(MeasuredLink { between: between.map(Clone::clone), latency, bandwidth })
}

/// A time that can be a time.
fn above_0(seconds: f64) -> runtime::Result<f64> {
    if seconds > 0.0 {
        return Ok(seconds);
    }
    let message = "a long step took no longer than a short one: the tasks do much else; measure \
                   again while nobody uses the cluster";
    Err(runtime::Error::new(Code::Unavailable, message))
}

fn device(task: &TaskName) -> String {
    format!("/job:{}/task:{}", task.job(), task.index())
}

/// The time of a unit of `chain` \[s\]: the difference between the median steps with the two
/// numbers of units, divided by the difference of these.
async fn difference(
    server: &ServerTarget,
    units: [usize; 2],
    chain: impl Fn(&Graph, &Output, usize) -> Result<Output, GraphError>,
) -> runtime::Result<f64> {
    let g = Graph::new();
    // Fed, so that no value is known beforehand.
    let x = g.placeholder("x", DType::F32, [0usize; 0])?;
    let [few, many] = [chain(&g, &x, units[0])?, chain(&g, &x, units[1])?];
    let options = SessionOptions { operation_timeout: Some(PATIENCE), ..SessionOptions::default() };
    let session = Session::with_options(server, &g, options).await?;
    let (clock, mut times) = (WallClock::new(), [Vec::new(), Vec::new()]);
    for step in 0..WARM_UP + STEPS {
        for (fetch, times) in [&few, &many].into_iter().zip(&mut times) {
            let began = clock.now();
            session.run().feed(&x, 1f32).fetch(fetch).await?;
            if step >= WARM_UP {
                times.push(clock.now().since(began).as_secs_f64());
            }
        }
    }
    session.close();
    let [few, many] =
        times.map(|mut times| median(&mut times).expect("some steps follow the warm-up"));
    Ok((many - few) / (units[1] - units[0]) as f64)
}

impl ClusterSpeed {
    /// The sections `[compute]` and `[network]` of a scenario: what each task computes, what its
    /// card carries, which is what the fastest of its ways does, and how long each way is.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("# measured by `trainyard calibrate --cluster`\n");
        let mut line = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        for TaskSpeed { task, rate, memory } in &self.tasks {
            line(format!("[compute.tasks.\"{task}\"]"));
            line(format!("rate = \"{:.3}GFLOP/s\"", rate / 1e9));
            line(format!("memory = \"{:.3}GB/s\"", memory / 1e9));
        }
        line("[network]\nmessage_cost = \"0us\"   # the latencies have it".to_owned());
        for TaskSpeed { task, .. } in &self.tasks {
            let links = self.links.iter().filter(|link| link.between.contains(task));
            let fastest = links.filter_map(|link| link.bandwidth).fold(0.0, f64::max);
            if fastest > 0.0 {
                line(format!("[network.tasks.\"{task}\"]"));
                line(format!("bandwidth = \"{:.3}Gbps\"", fastest * 8e-9));
            }
        }
        for MeasuredLink { between: [one, other], latency, bandwidth } in &self.links {
            line(format!("[[network.link]]\nbetween = [\"{one}\", \"{other}\"]"));
            line(format!("latency = {}", time_text(*latency)));
            if let Some(bandwidth) = bandwidth {
                line(format!("bandwidth = \"{:.3}Gbps\"", bandwidth * 8e-9));
            }
        }
        text
    }
}
