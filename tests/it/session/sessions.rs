//! Sessions on servers: sharing, isolation, resets and errors, after TensorFlow's
//! `server_lib_test.py`.

use trainyard::prelude::*;
use trainyard::sync::Mode;

use crate::support::fixture::{assert_error, both, cluster, impatient, matrix, on_actix};

#[test]
fn a_product_of_constants_comes_back_from_a_local_server() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let a = g.constant(matrix(1, 2, &[2.0, 1.0]));
        let product = a.matmul(&g.constant(matrix(2, 1, &[1.0, 2.0])))?;
        let session = Session::new(&server.target(), &g).await?;
        let fetched = session.run().fetch(&product).await?;
        assert_eq!(fetched.scalar::<f32>(0)?, 4.0);
        Ok(())
    });
}

#[test]
fn a_model_trains() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [None, Some(2)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let logits = dense(&dense(&x, 8)?.relu(), 2)?;
        let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
        let train = Adagrad::new(0.3).minimize(&loss, &g.global_step()?)?;
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(g.initializer()).await?;
        let images = matrix(4, 2, &[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
        let labels = Tensor::new([4], &[0, 1, 1, 0]).unwrap();
        let mut last = f32::MAX;
        for step in 1..=200 {
            let fetched = session
                .run()
                .feed(&x, images.clone())
                .feed(&y, labels.clone())
                .target(&train)
                .fetch(&loss)
                .fetch(&train.global_step())
                .await?;
            assert_eq!(fetched.scalar::<i64>(1)?, step);
            last = fetched.scalar(0)?;
        }
        assert!(last < 0.2, "{last}");
        Ok(())
    });
}

#[test]
fn a_batch_of_no_rows_goes_through_a_model_and_a_chain_of_elementwise_operations() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [None, Some(2)])?;
        let hidden = dense(&x, 8)?.relu();
        let scaled = x.relu().mul(&g.constant(2f32))?.relu();
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(g.initializer()).await?;
        let fetched =
            session.run().feed(&x, matrix(0, 2, &[])).fetch(&hidden).fetch(&scaled).await?;
        assert_eq!(
            (fetched[0].shape().dims(), fetched[1].shape().dims()),
            (&[0, 8][..], &[0, 2][..])
        );
        Ok(())
    });
}

#[test]
fn a_step_that_awaits_the_initialization_ends_once_another_session_has_initialized_the_model() {
    on_actix(async {
        let cluster = cluster(1, 2);
        let g = Graph::new();
        let w = g.with_device("/job:ps", |g| g.variable("w", &g.fill([2], 3f32)))?;
        let (ready, init) = (g.await_initialization(), g.initializer());
        let chief = Session::new(&cluster[1].target(), &g).await?;
        let worker = Session::new(&cluster[2].target(), &g).await?;
        let initialize = async {
            // Steps that run meanwhile show that nothing but the initialisation ends the wait.
            for _ in 0..3 {
                assert!(!chief.run().fetch(&w.is_initialized()).await?.scalar::<bool>(0)?);
            }
            chief.run().target(&init).await
        };
        let (waited, initialized) = both(worker.run().target(&ready), initialize).await;
        waited?;
        initialized?;
        assert_eq!(
            worker.run().fetch(&w.read()).target(&ready).await?[0],
            Tensor::new([2], &[3.0f32, 3.0])?
        );
        Ok(())
    });
}

#[test]
fn two_sessions_use_one_server_at_the_same_time() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let product =
            g.constant(matrix(1, 2, &[2.0, 1.0])).matmul(&g.constant(matrix(2, 1, &[1.0, 2.0])))?;
        let first = Session::new(&server.target(), &g).await?;
        let second = Session::new(&server.target(), &g).await?;
        let (a, b) = both(first.run().fetch(&product), second.run().fetch(&product)).await;
        assert_eq!((a?.scalar::<f32>(0)?, b?.scalar::<f32>(0)?), (4.0, 4.0));
        first.close();
        assert_eq!(second.run().fetch(&product).await?.scalar::<f32>(0)?, 4.0);
        Ok(())
    });
}

#[test]
fn variables_initialized_through_one_server_are_read_through_another() {
    on_actix(async {
        let servers = cluster(2, 2);
        let g = Graph::new();
        let variable = |i: usize| {
            let device = format!("/job:ps/task:{}", i % 2);
            g.with_device(&device, |g| g.variable(&format!("v{i}"), &g.constant(i as f32)))
        };
        let variables = (0..4).map(variable).collect::<Result<Vec<_>, _>>()?;
        let init = g.initializer();
        let first = Session::new(&servers[2].target(), &g).await?;
        let second = Session::new(&servers[3].target(), &g).await?;
        first.run().target(&init).await?;
        let mut run = second.run();
        for variable in &variables {
            run = run.fetch(&variable.read());
        }
        let fetched = run.await?;
        for i in 0..4 {
            assert_eq!(fetched.scalar::<f32>(i)?, i as f32);
        }
        Ok(())
    });
}

/// A graph with one vector `w` on the parameter server, and its initializer.
fn model(values: &[f32]) -> Result<(Graph, Variable, Target)> {
    let g = Graph::new();
    let w = g.with_device("/job:ps", |g| {
        g.variable("w", &g.constant(Tensor::new([values.len()], values).unwrap()))
    })?;
    let init = g.initializer();
    Ok((g, w, init))
}

fn isolated() -> SessionOptions {
    SessionOptions { isolate_session_state: true, ..SessionOptions::default() }
}

#[test]
fn another_graph_on_another_server_shares_a_variable_by_its_name() {
    on_actix(async {
        let servers = cluster(1, 2);
        let ((g, w, init), (other_g, other_w, _)) =
            (model(&[1.0, 2.0, 3.0])?, model(&[0.0, 0.0, 0.0])?);
        let add = w.assign_add(&g.constant(Tensor::new([3], &[10.0f32; 3])?))?;
        let first = Session::new(&servers[1].target(), &g).await?;
        let other = Session::new(&servers[2].target(), &other_g).await?;
        first.run().target(&init).await?;
        first.run().target(&add).await?;
        first.close();
        let seen = other.run().fetch(&other_w.read()).await?;
        assert_eq!(seen[0], Tensor::new([3], &[11.0f32, 12.0, 13.0])?);
        Ok(())
    });
}

#[test]
fn an_isolated_session_has_variables_of_its_own_that_end_with_it() {
    on_actix(async {
        let servers = cluster(1, 1);
        let target = servers[1].target();
        let ((g, w, init), (shared_g, shared_w, shared_init)) = (model(&[37.0])?, model(&[86.0])?);
        let shared = Session::new(&target, &shared_g).await?;
        shared.run().target(&shared_init).await?;
        let own = Session::with_options(&target, &g, isolated()).await?;
        assert_error(own.run().fetch(&w.read()).await, Code::FailedPrecondition, &["`w`"]);
        own.run().target(&init).await?;
        assert_eq!(own.run().fetch(&w.read()).await?.scalar::<f32>(0)?, 37.0);
        assert_eq!(shared.run().fetch(&shared_w.read()).await?.scalar::<f32>(0)?, 86.0);
        let sibling = Session::with_options(&target, &g, isolated()).await?;
        assert_error(sibling.run().fetch(&w.read()).await, Code::FailedPrecondition, &["`w`"]);
        own.close();
        assert_eq!(shared.run().fetch(&shared_w.read()).await?.scalar::<f32>(0)?, 86.0);
        Ok(())
    });
}

#[test]
fn a_reset_clears_its_containers_and_no_others_and_ends_the_sessions_of_its_server() {
    on_actix(async {
        let servers = cluster(2, 2);
        let g = Graph::new();
        let in_container = |name: &str, task: u32| {
            let on_ps = |g: &Graph| {
                g.with_device(&format!("/job:ps/task:{task}"), |g| g.variable(name, &g.zeros([1])))
            };
            g.with_container(&format!("of {name}"), on_ps)
        };
        let (a, b) = (in_container("a", 0)?, in_container("b", 1)?);
        let init = g.initializer();
        let old = Session::new(&servers[2].target(), &g).await?;
        let elsewhere = Session::new(&servers[3].target(), &g).await?;
        old.run().target(&init).await?;
        Session::reset(&servers[2].target(), &["of a"]).await?;
        assert_error(
            old.run().fetch(&b.read()).await,
            Code::Aborted,
            &["session is closed", "make a new one"],
        );
        let new = Session::new(&servers[2].target(), &g).await?;
        for session in [&new, &elsewhere] {
            assert_eq!(session.run().fetch(&b.read()).await?.scalar::<f32>(0)?, 0.0);
            assert_error(
                session.run().fetch(&a.read()).await,
                Code::FailedPrecondition,
                &["`a`", "on ps:0"],
            );
        }
        let unknown = Session::reset(&servers[2].target(), &["nonexistent"]).await;
        assert_error(unknown, Code::NotFound, &["nonexistent"]);
        Ok(())
    });
}

#[test]
fn a_reset_ends_what_waits_in_the_trainings_of_its_variables() {
    on_actix(async {
        let servers = cluster(1, 2);
        let (g, w, _) = model(&[1.0])?;
        let step = g.with_device("/job:ps", |g| g.global_step())?;
        let sync =
            GradientDescent::new(0.1).coordinated(Mode::Sync { backups: 0, cancel: false }, 0, 2);
        let train = sync.minimize(&w.read().square().mean(), &step)?;
        let init = g.initializer();
        let trainer = Session::new(&servers[1].target(), &g).await?;
        trainer.run().target(&init).await?;
        let reset = async {
            trainer.run().fetch(&w.read()).await?;
            Session::reset(&servers[2].target(), &[]).await
        };
        let (trained, reset) = both(trainer.run().target(&train), reset).await;
        reset?;
        assert_error(trained, Code::Aborted, &["reset"]);
        assert_error(
            trainer.run().fetch(&w.read()).await,
            Code::FailedPrecondition,
            &["uninitialized", "`w`"],
        );
        Ok(())
    });
}

#[test]
fn closing_a_session_cancels_its_steps() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        g.variable("w", &g.zeros([2]))?;
        let ready = g.await_initialization();
        let session = Session::new(&server.target(), &g).await?;
        let (waited, ()) = both(session.run().target(&ready), async { session.close() }).await;
        assert_error(waited, Code::Cancelled, &["Session::close"]);
        assert_error(session.run().target(&ready).await, Code::Aborted, &["session is closed"]);
        Ok(())
    });
}

#[test]
fn a_step_that_takes_too_long_says_who_has_not_answered_and_leaves_the_session_usable() {
    on_actix(async {
        let servers = cluster(2, 1);
        let g = Graph::new();
        let w = g.with_device("/job:ps/task:1", |g| g.variable("w", &g.fill([1], 5f32)))?;
        let (ready, init) = (g.await_initialization(), g.initializer());
        let session = Session::with_options(&servers[2].target(), &g, impatient()).await?;
        assert_error(session.run().target(&ready).await, Code::DeadlineExceeded, &["ps:1"]);
        session.run().target(&init).await?;
        assert_eq!(session.run().fetch(&w.read()).target(&ready).await?.scalar::<f32>(0)?, 5.0);
        Ok(())
    });
}

#[test]
fn device_filters_hide_devices_but_never_those_of_the_session_s_own_task() {
    on_actix(async {
        let servers = cluster(2, 2);
        let g = Graph::new();
        let on = |device: &str| g.with_device(device, |g| Ok(g.constant(1.0f32).identity()));
        let (ps, own, other) =
            (on("/job:ps")?, on("/job:worker/task:0")?, on("/job:worker/task:1")?);
        let options = SessionOptions {
            device_filters: vec!["/job:ps".parse()?],
            ..SessionOptions::default()
        };
        let session = Session::with_options(&servers[2].target(), &g, options).await?;
        session.run().fetch(&ps).fetch(&own).await?;
        let hidden = session.run().fetch(&other).await;
        assert_error(
            hidden,
            Code::InvalidArgument,
            &["/job:worker/task:1", "available devices are", "Const"],
        );
        Ok(())
    });
}

#[test]
fn fetches_come_in_the_order_in_which_they_were_asked_for() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let on =
            |device: &str, value: f32| g.with_device(device, |g| Ok(g.constant(value).identity()));
        let (a, b, c) = (on("/job:ps", 1.0)?, on("/job:worker", 2.0)?, on("/job:ps", 3.0)?);
        let session = Session::new(&servers[1].target(), &g).await?;
        let fetched = session.run().fetch(&c).fetch(&b).fetch(&a).fetch(&c).await?;
        let values = (0..4).map(|i| fetched.scalar::<f32>(i)).collect::<Result<Vec<_>>>()?;
        assert_eq!(values, [3.0, 2.0, 1.0, 3.0]);
        assert_error(
            fetched.scalar::<f32>(4),
            Code::InvalidArgument,
            &["fetch 4 is none of the 4 values"],
        );
        Ok(())
    });
}

#[test]
fn a_fed_value_takes_the_place_of_what_would_be_computed() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let w = g.with_device("/job:ps", |g| g.variable("w", &g.zeros([1])))?;
        let (read, doubled) = (w.read(), w.read().add(&w.read())?);
        let session = Session::new(&servers[1].target(), &g).await?;
        let four = Tensor::new([1], &[4.0f32])?;
        let only_fed = session.run().feed(&read, four.clone()).fetch(&read).await?;
        assert_eq!(only_fed[0], four);
        let used = session.run().feed(&read, four.clone()).fetch(&read).fetch(&doubled).await?;
        assert_eq!((used[0].item::<f32>()?, used[1].item::<f32>()?), (4.0, 8.0));
        Ok(())
    });
}

#[test]
fn a_step_that_asks_for_nothing_is_done_at_once() {
    on_actix(async {
        let server = Server::create_local();
        let session = Session::new(&server.target(), &Graph::new()).await?;
        session.run().await.map(drop)
    });
}

#[test]
fn large_values_are_fed_moved_between_tasks_and_fetched_intact() {
    on_actix(async {
        let servers = cluster(1, 1);
        let large: Vec<f32> = (0..10_000 * 3_000).map(|i| (i % 8_191) as f32).collect();
        let large = Tensor::new([10_000, 3_000], &large)?;
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [Some(10_000), Some(3_000)])?;
        let constant = g.with_device("/job:worker", |g| Ok(g.constant(large.clone())))?;
        let (fed, constant) =
            g.with_device("/job:ps", |_| Ok((x.identity(), constant.identity())))?;
        let session = Session::new(&servers[1].target(), &g).await?;
        let fetched = session.run().feed(&x, large.clone()).fetch(&fed).fetch(&constant).await?;
        assert!(fetched[0] == large && fetched[1] == large);
        Ok(())
    });
}
