//! GPUs: of a simulation's tasks, with memories and links of their own; asked for by name, and
//! refused or replaced where there are none.

use std::rc::Rc;
use std::time::Duration;

use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::report::Report;
use trainyard::simulation;
use trainyard::training::{Session, train};

use crate::support::fixture::{assert_error, matrix};

/// One worker with two GPUs, on links that are easy to reckon with.
const TWO_GPUS: &str = r#"
    [cluster]
    worker = 1
    [compute]
    rate = "1GFLOP/s"
    memory = "1000GB/s"
    [gpus.worker]
    count = 2
    compute = { rate = "1GFLOP/s", memory = "1000GB/s" }
    capacity = "1MB"
    host = { latency = "1ms", bandwidth = "1GB/s" }
    [[run]]
    name = "r"
    mode = "async"
"#;

/// Simulates `program` on the only task of the cluster of `text`.
fn simulate<F>(text: &str, program: impl Fn(Rc<Server>) -> F + Sync) -> Result<F::Output>
where
    F: Future<Output = Result<Duration>> + 'static,
{
    let trial = Experiment::parse(text)?.trials()?.remove(0);
    let outcome = simulation::run(&trial.cluster, program);
    Ok(outcome.result.map(|all| all.into_values().next().expect("the task returned")))
}

/// The virtual time of a step that squares a matrix of 100 rows on each of `devices`, fed to the
/// first and fetched from the last.
async fn squares(server: Rc<Server>, devices: &[&str]) -> Result<Duration> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [Some(100), Some(100)])?;
    let mut y = x.clone();
    for device in devices {
        y = g.with_device(device, |_| y.matmul(&y))?;
    }
    let session = Session::new(&server.target(), &g).await?;
    let value = matrix(100, 100, &[0.01; 10_000]);
    let mut took = Duration::ZERO;
    for _ in 0..2 {
        let began = server.clock().now();
        let fetched = session.run().feed(&x, value.clone()).fetch(&y).await?;
        assert!((fetched.get(0).unwrap().values::<f32>()?[0] - 0.01).abs() < 1e-6);
        took = server.clock().now().since(began);
    }
    Ok(took)
}

/// A product of matrices of 100 rows at 1 GFLOP/s.
const PRODUCT: Duration = Duration::from_millis(2);
/// The copy of one over a link of 1 GB/s and 1 ms.
const COPY: Duration = Duration::from_micros(1040);

#[test]
fn what_goes_between_a_gpu_and_its_host_is_copied_over_their_link() {
    let time = |devices: &'static [&str]| {
        simulate(TWO_GPUS, |server| squares(server, devices)).unwrap().unwrap()
    };
    assert_eq!(time(&["/cpu:0"]), PRODUCT, "what stays in the host's memory is not copied");
    assert_eq!(time(&["/gpu:0"]), PRODUCT + 2 * COPY, "the feed comes in, the fetch goes out");
    assert_eq!(time(&["/gpu:0", "/gpu:0"]), 2 * PRODUCT + 2 * COPY);
    assert_eq!(time(&["/cpu:0", "/gpu:1"]), 2 * PRODUCT + 2 * COPY);
    assert_eq!(time(&["/gpu:1", "/gpu:0"]), 2 * PRODUCT + 4 * COPY, "through the host");
}

#[test]
fn gpus_with_a_link_among_themselves_leave_the_host_out() {
    let peers = "peers = { latency = \"0us\", bandwidth = \"40GB/s\" }\n[[run]]";
    let text = TWO_GPUS.replace("[[run]]", peers);
    let took = simulate(&text, |server| squares(server, &["/gpu:1", "/gpu:0"])).unwrap().unwrap();
    assert_eq!(took, 2 * PRODUCT + 2 * COPY + Duration::from_micros(1));
}

#[test]
fn the_gpus_of_a_task_compute_at_the_same_time() {
    async fn both(server: Rc<Server>) -> Result<Duration> {
        let g = Graph::new();
        let square = |g: &Graph| {
            let x = g.constant(matrix(100, 100, &[0.01; 10_000]));
            Ok(x.matmul(&x)?.mean())
        };
        let [one, other] = ["/gpu:0", "/gpu:1"].map(|device| g.with_device(device, square));
        let session = Session::new(&server.target(), &g).await?;
        let (one, other) = (one?, other?);
        session.run().fetch(&one).fetch(&other).await?;
        let began = server.clock().now();
        session.run().fetch(&one).fetch(&other).await?;
        Ok(server.clock().now().since(began))
    }
    let took = simulate(TWO_GPUS, both).unwrap().unwrap();
    assert!(took < 2 * PRODUCT && took > PRODUCT, "{took:?}");
}

#[test]
fn too_large_a_value_or_variable_for_a_gpu_is_told_with_its_operation_and_what_there_is() {
    async fn large(server: Rc<Server>, of_a_variable: bool) -> Result<Duration> {
        let g = Graph::new();
        let built = g.with_device("/gpu:1", |g| {
            let wide = g.zeros([300, 600]);
            Ok(match of_a_variable {
                true => g.variable("weights", &g.zeros([600, 600]))?.read().mean(),
                false => wide.matmul(&g.zeros([600, 300]))?.mean(),
            })
        })?;
        let session = Session::new(&server.target(), &g).await?;
        session.run().fetch(&built).await.map(|_| Duration::ZERO)
    }
    let gpu = "/job:worker/replica:0/task:0/device:GPU:1";
    // Two inputs of 720 kB: the second has no room in 1 MB.
    let value = simulate(TWO_GPUS, |server| large(server, false)).unwrap();
    assert_error(value, Code::ResourceExhausted, &["`Fill_1`", gpu, "720kB", "280kB left of 1MB"]);
    let variable = simulate(TWO_GPUS, |server| large(server, true)).unwrap();
    assert_error(variable, Code::ResourceExhausted, &["`weights`", gpu, "1.44MB", "1MB left"]);
}

#[test]
fn an_isolated_session_whose_plan_was_never_ready_leaves_nothing_behind() {
    async fn two_sessions(server: Rc<Server>) -> Result<Duration> {
        let g = Graph::new();
        let variable = |device: &str, name: &str, rows| {
            g.with_device(device, |g| g.variable(name, &g.zeros([rows, 600])))
        };
        let (fits, too_large) = (variable("/gpu:0", "a", 400)?, variable("/gpu:1", "b", 600)?);
        let isolated = || SessionOptions { isolate_session_state: true, ..Default::default() };
        let first = Session::with_options(&server.target(), &g, isolated()).await?;
        let refused = first.run().fetch(&fits.read()).fetch(&too_large.read()).await;
        assert_error(refused, Code::ResourceExhausted, &["`b`"]);
        first.close();
        let second = Session::with_options(&server.target(), &g, isolated()).await?;
        let empty = second.run().fetch(&fits.read()).await;
        assert_error(empty, Code::FailedPrecondition, &["uninitialized value `a`"]);
        Ok(Duration::ZERO)
    }
    simulate(TWO_GPUS, two_sessions).unwrap().unwrap();
}

#[test]
fn a_variable_that_was_reset_and_declared_anew_takes_its_memory_once() {
    async fn two_shapes(server: Rc<Server>) -> Result<Duration> {
        for shape in [[400, 600], [600, 400]] {
            let g = Graph::new();
            let v = g.with_device("/gpu:0", |g| g.variable("v", &g.zeros(shape)))?;
            let session = Session::new(&server.target(), &g).await?;
            let empty = session.run().fetch(&v.read()).await;
            assert_error(empty, Code::FailedPrecondition, &["uninitialized value `v`"]);
            Session::reset(&server.target(), &[]).await?;
        }
        Ok(Duration::ZERO)
    }
    simulate(TWO_GPUS, two_shapes).unwrap().unwrap();
}

#[test]
fn memory_is_given_back_at_a_values_last_use_and_after_each_step() {
    async fn chain(server: Rc<Server>) -> Result<Duration> {
        let g = Graph::new();
        let y = g.with_device("/gpu:0", |g| {
            let mut y = g.zeros([300, 300]);
            for _ in 0..10 {
                y = y.matmul(&y)?.tanh(); // 360 kB each; the second takes the first one's place
            }
            Ok(y.mean())
        })?;
        let session = Session::new(&server.target(), &g).await?;
        for _ in 0..5 {
            session.run().fetch(&y).await?;
        }
        Ok(Duration::ZERO)
    }
    simulate(TWO_GPUS, chain).unwrap().unwrap();
}

const TOWERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/towers.toml");

fn towers() -> Result<Experiment> {
    Ok(Experiment::load(TOWERS)?.set("stop.steps=20")?)
}

fn weights(report: &Report, run: &str) -> Result<String> {
    Ok(report.run(run)?.weights_digest.clone().expect("numbers are computed"))
}

const IN_GRAPH: &str = "in-graph: 4 towers in one worker";

#[test]
fn towers_learn_the_same_softly_placed_on_one_gpu_and_a_link_among_gpus_makes_them_faster()
-> Result<()> {
    let on_gpus = towers()?.simulate(train)?;
    let (direct, by_host) = (on_gpus.run(IN_GRAPH)?, on_gpus.run("in-graph, through the host")?);
    assert_eq!(direct.weights_digest, by_host.weights_digest);
    assert!(direct.seconds < by_host.seconds, "{} and {}", direct.seconds, by_host.seconds);
    let softly = towers()?.only(IN_GRAPH).set("gpus.worker.count=1")?.simulate(train)?;
    assert_eq!(weights(&on_gpus, IN_GRAPH)?, weights(&softly, IN_GRAPH)?);
    Ok(())
}

#[test]
fn deployed_towers_run_on_cpus_if_that_is_allowed_and_learn_what_the_simulation_says() -> Result<()>
{
    let only = || Ok::<_, Error>(towers()?.only(IN_GRAPH));
    let deployed = only()?.launch(env!("CARGO_BIN_EXE_trainyard"))?;
    let simulated = only()?.simulate(train)?;
    assert_eq!(weights(&deployed, IN_GRAPH)?, weights(&simulated, IN_GRAPH)?);
    let hard = only()?.set("program.allow_soft_placement=false")?;
    let refused = hard.launch(env!("CARGO_BIN_EXE_trainyard")).unwrap_err().to_string();
    for part in ["gives worker:0 GPUs", "CPU:0 alone", "allow_soft_placement"] {
        assert!(refused.contains(part), "`{refused}` does not say `{part}`");
    }
    Ok(())
}
