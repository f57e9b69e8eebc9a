//! Any task runs what any other asks of it: models cut over tasks, replicated over tasks, and
//! trained by many clients.

use std::cell::Cell;

use trainyard::optimizer::TrainOp;
use trainyard::prelude::*;
use trainyard::sync::Mode;

use crate::support::fixture::{all, assert_error, both, cluster, impatient, matrix, on_actix};

/// The tasks of `cluster(2, 2)`, in its order.
const TASKS: [&str; 4] =
    ["/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1"];

/// Batch `i`: four rows of two columns, and their classes.
fn batch(i: u64) -> (Tensor, Tensor) {
    let value = |k: u64| ((i * 8 + k) * 37 % 101) as f32 / 50.0 - 1.0;
    let x: Vec<f32> = (0..8).map(value).collect();
    let y: Vec<i32> = x.chunks(2).map(|row| i32::from(row[0] * row[1] > 0.0)).collect();
    (matrix(4, 2, &x), Tensor::new([4], &y).unwrap())
}

#[test]
fn every_task_sends_to_every_other_whichever_the_client_has_asked() {
    on_actix(async {
        let servers = cluster(2, 2);
        for server in &servers {
            let g = Graph::new();
            let session = Session::new(&server.target(), &g).await?;
            for (i, from) in TASKS.iter().enumerate() {
                for (k, to) in TASKS.iter().enumerate() {
                    let sent = g.with_device(from, |g| Ok(g.constant(i as f32).identity()))?;
                    let sum = g.with_device(to, |g| sent.add(&g.constant(10.0 * k as f32)))?;
                    let fetched = session.run().fetch(&sum).await?;
                    assert_eq!(
                        fetched.scalar::<f32>(0)?,
                        i as f32 + 10.0 * k as f32,
                        "{from} to {to}"
                    );
                }
            }
        }
        Ok(())
    });
}

/// Where the parts of a model go.
type Place<'a> = &'a dyn Fn(usize) -> &'a str;

/// Three layers, layer `i` on `place(i)`, trained for five steps: the losses and the weights.
async fn train_in_layers(server: &Server, place: Place<'_>) -> Result<Vec<Tensor>> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [None, Some(2)])?;
    let y = g.placeholder("y", DType::I32, [None])?;
    let hidden = g.with_device(place(0), |_| Ok(dense(&x, 8)?.relu()))?;
    let hidden = g.with_device(place(1), |_| Ok(dense(&hidden, 8)?.tanh()))?;
    let loss = g.with_device(place(2), |_| {
        Ok(sparse_softmax_cross_entropy(&dense(&hidden, 2)?, &y)?.mean())
    })?;
    let train = Adam::new(0.1).minimize(&loss, &g.global_step()?)?;
    run_training(server, &g, (&x, &y), &loss, &train).await
}

/// Five steps on one batch each; the losses, then the variables.
async fn run_training(
    server: &Server,
    g: &Graph,
    (x, y): (&Output, &Output),
    loss: &Output,
    train: impl AsRef<Target>,
) -> Result<Vec<Tensor>> {
    let session = Session::new(&server.target(), g).await?;
    session.run().target(g.initializer()).await?;
    let mut values = Vec::new();
    for i in 0..5 {
        let (images, labels) = batch(i);
        let fetched =
            session.run().feed(x, images).feed(y, labels).target(&train).fetch(loss).await?;
        values.push(fetched[0].clone());
    }
    for variable in g.variables() {
        values.push(session.run().fetch(&variable.read()).await?[0].clone());
    }
    Ok(values)
}

#[test]
fn layers_on_different_tasks_train_to_the_same_bits_as_on_one() {
    on_actix(async {
        let alone = train_in_layers(&Server::create_local(), &|_| "").await?;
        let servers = cluster(2, 2);
        let apart = train_in_layers(&servers[0], &|i| TASKS[i + 1]).await?;
        assert!(alone == apart && alone.len() > 10, "{alone:?}\n{apart:?}");
        Ok(())
    });
}

/// Two towers, tower `i` on `place(i)`, each on the whole batch shifted; the mean of their
/// gradients is applied.
async fn train_in_towers(server: &Server, place: Place<'_>) -> Result<Vec<Tensor>> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [None, Some(2)])?;
    let y = g.placeholder("y", DType::I32, [None])?;
    let kernel =
        g.with_device(place(2), |g| g.variable("kernel", &g.glorot_uniform("kernel", [2, 2])))?;
    let towers = (0..2).map(|i| {
        g.with_device(place(i), |g| {
            let shifted = x.add(&g.constant(i as f32))?;
            let loss = sparse_softmax_cross_entropy(&shifted.matmul(&kernel.read())?, &y)?.mean();
            let gradient = gradients(&loss, &[kernel.read()])?
                .remove(0)
                .expect("the loss depends on the kernel");
            Ok((loss, gradient))
        })
    });
    let towers = towers.collect::<Result<Vec<_>, GraphError>>()?;
    let half = g.constant(0.5f32);
    let mean = towers[0].1.add(&towers[1].1)?.mul(&half)?;
    let train = GradientDescent::new(0.5).apply_gradients(&[(kernel, mean)], &g.global_step()?)?;
    run_training(server, &g, (&x, &y), &towers[1].0, &train).await
}

#[test]
fn towers_on_different_tasks_train_to_the_same_bits_as_on_one() {
    on_actix(async {
        let alone = train_in_towers(&Server::create_local(), &|_| "").await?;
        let servers = cluster(2, 2);
        let apart = train_in_towers(&servers[3], &|i| TASKS[i]).await?;
        assert!(alone == apart && alone.len() > 5, "{alone:?}\n{apart:?}");
        Ok(())
    });
}

/// A small classifier whose variables go where the device scope says.
struct Model {
    variables: Vec<Variable>,
    step: Variable,
}

impl Model {
    fn new(g: &Graph) -> Result<Self> {
        let weights =
            |name: &str, shape: [usize; 2]| g.variable(name, &g.glorot_uniform(name, shape));
        let (kernel, kernel_2) = (weights("kernel", [2, 4])?, weights("kernel_2", [4, 2])?);
        let bias = g.variable("bias", &g.zeros([4]))?;
        Ok(Self { variables: vec![kernel, bias, kernel_2], step: g.global_step()? })
    }

    fn loss(&self, x: &Output, y: &Output) -> Result<Output> {
        let [kernel, bias, kernel_2] = &self.variables[..] else {
            panic!("a model has three variables")
        };
        let hidden = x.matmul(&kernel.read())?.bias_add(&bias.read())?.tanh();
        Ok(sparse_softmax_cross_entropy(&hidden.matmul(&kernel_2.read())?, y)?.mean())
    }

    async fn weights(&self, session: &Session) -> Result<Vec<Tensor>> {
        let run =
            self.variables.iter().fold(session.run(), |run, variable| run.fetch(&variable.read()));
        let fetched = run.await?;
        Ok((0..self.variables.len()).map(|i| fetched[i].clone()).collect())
    }
}

fn inputs(g: &Graph, i: usize) -> Result<(Output, Output)> {
    let x = g.placeholder(&format!("x{i}"), DType::F32, [None, Some(2)])?;
    Ok((x, g.placeholder(&format!("y{i}"), DType::I32, [None])?))
}

/// One client of a training, with its own graph, on its own server.
struct Client {
    session: Session,
    inputs: (Output, Output),
    model: Model,
    train: TrainOp,
    init: Target,
    /// Lets the client's gradients be computed, which wait for it after they have read the
    /// variables.
    open_gate: Target,
}

/// What a client's step told.
#[derive(Debug, PartialEq)]
struct Told {
    global_step: i64,
    staleness: i64,
    applied: bool,
}

impl Client {
    /// Worker `index` of a training on all the workers of `servers`, of which the first two are no
    /// workers.
    async fn new(servers: &[Server], index: u32, mode: Mode, gated: bool) -> Result<Self> {
        let g = Graph::new();
        let gate = g.with_device("/job:ps/task:0", |g| {
            g.variable(&format!("gate_{index}"), &g.constant(0.0f32))
        })?;
        let (is_open, open_gate) = (g.await_initialization(), gate.assign(&g.constant(0.0f32))?);
        let setter = ReplicaDeviceSetter::new(&servers[0].server_def().cluster)
            .worker_device(format!("/job:worker/task:{index}").parse()?);
        let (inputs, model, loss) = g.with_device_fn(setter, |g| {
            let ((x, y), model) = (inputs(g, 0)?, Model::new(g)?);
            let controls = if gated { vec![&is_open] } else { vec![] };
            let labels = g.with_control_dependencies(&controls, |_| Ok(y.identity()))?;
            let loss = model.loss(&x, &labels)?;
            Ok(((x, y), model, loss))
        })?;
        let rule = GradientDescent::new(0.5);
        let train =
            rule.coordinated(mode, index, servers.len() as u32 - 2).minimize(&loss, &model.step)?;
        let init = g.initializer();
        let session = Session::new(&servers[2 + index as usize].target(), &g).await?;
        Ok(Self { session, inputs, model, train, init, open_gate })
    }

    /// The clients of all workers, of which `gated` waits at the gate; the model is initialised.
    async fn all(servers: &[Server], mode: Mode, gated: Option<u32>) -> Result<Vec<Self>> {
        let mut clients = Vec::new();
        for index in 0..servers.len() as u32 - 2 {
            clients.push(Self::new(servers, index, mode, gated == Some(index)).await?);
        }
        clients[0].session.run().target(&clients[0].init).await?;
        Ok(clients)
    }

    /// A training step on batch `i`.
    async fn step(&self, i: u64) -> Result<Told> {
        let (images, labels) = batch(i);
        let run = self.session.run().feed(&self.inputs.0, images).feed(&self.inputs.1, labels);
        let run = run
            .fetch(&self.train.global_step())
            .fetch(&self.train.staleness())
            .fetch(&self.train.applied());
        let fetched = run.await?;
        Ok(Told {
            global_step: fetched.scalar(0)?,
            staleness: fetched.scalar(1)?,
            applied: fetched.scalar(2)?,
        })
    }

    async fn weights(&self) -> Result<Vec<Tensor>> {
        self.model.weights(&self.session).await
    }

    /// Lets everybody else get as far as they can.
    async fn idle(&self) -> Result<()> {
        for _ in 0..20 {
            self.weights().await?;
        }
        Ok(())
    }
}

/// Trains for `steps` steps as one client that averages the gradients of `replicas` batches itself.
async fn average_alone(
    replicas: usize,
    steps: u64,
    contributes: impl Fn(usize) -> bool,
) -> Result<Vec<Tensor>> {
    let server = Server::create_local();
    let g = Graph::new();
    let model = Model::new(&g)?;
    let reads: Vec<Output> = model.variables.iter().map(Variable::read).collect();
    let mut sums: Vec<Output> = Vec::new();
    let mut fed = Vec::new();
    for i in (0..replicas).filter(|i| contributes(*i)) {
        let (x, y) = inputs(&g, i)?;
        let towers = gradients(&model.loss(&x, &y)?, &reads)?.into_iter().flatten();
        let added = towers.enumerate().map(|(k, gradient)| {
            sums.get(k).map_or(Ok(gradient.clone()), |sum| sum.add(&gradient))
        });
        sums = added.collect::<Result<_, _>>()?;
        fed.push((i as u64, x, y));
    }
    let share = g.constant(1.0 / fed.len() as f32);
    let means = sums.iter().map(|sum| sum.mul(&share)).collect::<Result<Vec<_>, _>>()?;
    let pairs: Vec<(Variable, Output)> = model.variables.iter().cloned().zip(means).collect();
    let train = GradientDescent::new(0.5).apply_gradients(&pairs, &model.step)?;
    let session = Session::new(&server.target(), &g).await?;
    session.run().target(g.initializer()).await?;
    for step in 0..steps {
        let run = fed.iter().fold(session.run().target(&train), |run, (i, x, y)| {
            let (images, labels) = batch(step * replicas as u64 + i);
            run.feed(x, images).feed(y, labels)
        });
        run.await?;
    }
    model.weights(&session).await
}

#[test]
fn asynchronous_clients_train_one_model_each_at_its_own_pace() {
    on_actix(async {
        let servers = cluster(2, 2);
        let clients = Client::all(&servers, Mode::Async, None).await?;
        let before = clients[0].weights().await?;
        let run = |client: usize, steps: u64| {
            let client = &clients[client];
            async move {
                for i in 0..steps {
                    assert!(client.step(i).await?.applied);
                }
                Ok::<_, Error>(())
            }
        };
        let (fast, slow) = both(run(0, 8), run(1, 3)).await;
        fast?;
        slow?;
        assert_eq!(
            clients[1].step(0).await?,
            Told { global_step: 12, staleness: 0, applied: true }
        );
        let (one, other) = (clients[0].weights().await?, clients[1].weights().await?);
        assert!(one == other && one != before);
        Ok(())
    });
}

#[test]
fn synchronous_clients_get_bit_for_bit_what_one_client_gets_that_averages_their_gradients() {
    on_actix(async {
        const STEPS: u64 = 6;
        let servers = cluster(2, 3);
        let clients = Client::all(&servers, Mode::Sync { backups: 0, cancel: false }, None).await?;
        all((0..3).map(|k| {
            let client = &clients[k as usize];
            async move {
                for i in 0..STEPS {
                    let told = client.step(3 * i + k).await?;
                    assert_eq!(
                        told,
                        Told { global_step: i as i64 + 1, staleness: 0, applied: true }
                    );
                }
                Ok(())
            }
        }))
        .await?;
        assert_eq!(clients[2].weights().await?, average_alone(3, STEPS, |_| true).await?);
        Ok(())
    });
}

#[test]
fn a_synchronous_step_waits_for_the_last_client_and_no_longer() {
    on_actix(async {
        let servers = cluster(2, 2);
        let clients = Client::all(&servers, Mode::Sync { backups: 0, cancel: false }, None).await?;
        let done = Cell::new(false);
        let first = async {
            let told = clients[0].step(0).await;
            done.set(true);
            told
        };
        let second = async {
            clients[1].idle().await?;
            assert!(!done.get(), "it has not waited");
            clients[1].step(1).await
        };
        let (first, second) = both(first, second).await;
        assert_eq!((first?.global_step, second?.global_step), (1, 1));
        Ok(())
    });
}

#[test]
fn with_a_backup_the_gradient_that_comes_last_is_dropped_and_its_client_told_so() {
    on_actix(async {
        let servers = cluster(2, 3);
        let clients =
            Client::all(&servers, Mode::Sync { backups: 1, cancel: false }, Some(1)).await?;
        let in_time = async {
            clients[0].idle().await?;
            let (a, b) = both(clients[0].step(0), clients[2].step(2)).await;
            assert_eq!(a?, Told { global_step: 1, staleness: 0, applied: true });
            assert_eq!(b?, Told { global_step: 1, staleness: 0, applied: true });
            clients[1].session.run().target(&clients[1].open_gate).await
        };
        let (late, in_time) = both(clients[1].step(1), in_time).await;
        in_time?;
        assert_eq!(late?, Told { global_step: 1, staleness: 1, applied: false });
        assert_eq!(clients[0].weights().await?, average_alone(3, 1, |i| i != 1).await?);
        let (late, other) = both(clients[1].step(3), clients[0].step(4)).await;
        assert!(late?.applied && other?.applied, "the next round takes it in");
        Ok(())
    });
}

#[test]
fn a_client_that_is_too_late_is_told_so_while_it_computes_and_has_a_part_in_the_next_round() {
    on_actix(async {
        let servers = cluster(2, 3);
        let mode = Mode::Sync { backups: 1, cancel: true };
        let clients = Client::all(&servers, mode, Some(1)).await?;
        let in_time = async {
            clients[0].idle().await?;
            let (a, b) = both(clients[0].step(0), clients[2].step(2)).await;
            a.and(b)
        };
        let (late, in_time) = both(clients[1].step(1), in_time).await;
        assert!(in_time?.applied);
        let late = late.unwrap_err();
        assert_eq!(late.code, Code::Late, "its gate is still shut: {late}");
        assert_eq!(clients[0].weights().await?, average_alone(3, 1, |i| i != 1).await?);
        clients[1].session.run().target(&clients[1].open_gate).await?;
        let (again, other) = both(clients[1].step(3), clients[0].step(4)).await;
        assert!(again?.applied && other?.applied);
        Ok(())
    });
}

#[test]
fn bounded_staleness_holds_a_client_that_is_too_far_ahead_until_the_slowest_has_stepped() {
    on_actix(async {
        let servers = cluster(2, 2);
        let clients = Client::all(&servers, Mode::BoundedStaleness { slack: 1 }, None).await?;
        assert_eq!(clients[0].step(0).await?.global_step, 1);
        let done = Cell::new(false);
        let ahead = async {
            let told = clients[0].step(1).await;
            done.set(true);
            told
        };
        let slowest = async {
            clients[1].idle().await?;
            assert!(!done.get(), "it has not waited");
            clients[1].step(0).await
        };
        let (ahead, slowest) = both(ahead, slowest).await;
        assert_eq!((ahead?.global_step, slowest?.global_step), (2, 3));
        Ok(())
    });
}

#[test]
fn a_worker_whose_step_timed_out_tries_again_and_takes_the_place_of_its_first_try() {
    on_actix(async {
        let servers = cluster(2, 2);
        let mode = Mode::Sync { backups: 0, cancel: false };
        let clients = Client::all(&servers, mode, None).await?;
        let hasty =
            Session::with_options(&servers[2].target(), clients[0].session.graph(), impatient())
                .await?;
        let (images, labels) = batch(9);
        let (x, y) = &clients[0].inputs;
        let timed_out = hasty.run().feed(x, images).feed(y, labels).target(&clients[0].train).await;
        assert_error(timed_out, Code::DeadlineExceeded, &["ps:"]);
        let (first, second) = both(clients[0].step(0), clients[1].step(1)).await;
        assert_eq!((first?.global_step, second?.global_step), (1, 1));
        assert_eq!(clients[0].weights().await?, average_alone(2, 1, |_| true).await?);
        Ok(())
    });
}

#[test]
fn clients_that_disagree_about_their_training_are_told_so() {
    on_actix(async {
        let servers = cluster(2, 2);
        let clients = Client::all(&servers, Mode::Async, None).await?;
        clients[0].step(0).await?;
        let other = Client::new(&servers, 1, Mode::BoundedStaleness { slack: 1 }, false).await?;
        let says =
            ["worker 1 of 2 (bounded staleness, slack 1)", "2 workers (async)", "train", "ps:"];
        assert_error(other.step(0).await, Code::InvalidArgument, &says);
        let late =
            Client::new(&servers, 1, Mode::Sync { backups: 1, cancel: false }, false).await?;
        assert_error(
            late.step(0).await,
            Code::InvalidArgument,
            &["worker 1 of 2 (sync, 1 backup)", "ps:"],
        );
        clients[1].step(0).await?;
        Ok(())
    });
}
