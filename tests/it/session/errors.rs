//! What a user can get wrong about a step: an error of the right class that names what and where,
//! and no more harm.

use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::tensor::Shape;

use crate::support::fixture::{assert_error, both, cluster, matrix, on_actix};

/// A classifier of two columns on the worker, its variables on the parameter server.
struct Classifier {
    g: Graph,
    x: Output,
    y: Output,
    loss: Output,
    init: Target,
}

fn classifier() -> Result<Classifier> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [None, Some(2)])?;
    let y = g.placeholder("y", DType::I32, [None])?;
    let setter = ReplicaDeviceSetter::new(&trainyard::cluster::ClusterSpec::simulated([
        ("ps", 1),
        ("worker", 1),
    ])?);
    let loss =
        g.with_device_fn(setter, |_| Ok(sparse_softmax_cross_entropy(&dense(&x, 3)?, &y)?.mean()))?;
    let init = g.initializer();
    Ok(Classifier { g, x, y, loss, init })
}

fn labels(labels: &[i32]) -> Tensor {
    Tensor::new([labels.len()], labels).unwrap()
}

#[test]
fn a_feed_of_another_type_or_shape_or_none_or_two_is_refused() {
    on_actix(async {
        let servers = cluster(1, 1);
        let Classifier { g, x, y, loss, init } = classifier()?;
        let session = Session::new(&servers[1].target(), &g).await?;
        session.run().target(&init).await?;
        let (images, wide) = (matrix(1, 2, &[0.5, 0.5]), matrix(1, 3, &[0.5; 3]));
        let step = || session.run().fetch(&loss).feed(&y, labels(&[1]));
        assert_error(step().feed(&x, wide).await, Code::InvalidArgument, &["[1,3]", "operation x"]);
        assert_error(
            step().feed(&x, labels(&[1])).await,
            Code::InvalidArgument,
            &["i32", "f32", "operation x"],
        );
        assert_error(step().await, Code::InvalidArgument, &["must feed", "operation x"]);
        let twice = step().feed(&x, images.clone()).feed(&x, images.clone()).await;
        assert_error(twice, Code::InvalidArgument, &["fed twice", "operation x"]);
        step().feed(&x, images).await?;
        Ok(())
    });
}

#[test]
fn a_label_that_names_no_class_is_reported_by_its_operation_and_task() {
    on_actix(async {
        let servers = cluster(1, 1);
        let Classifier { g, x, y, loss, init } = classifier()?;
        let session = Session::new(&servers[1].target(), &g).await?;
        session.run().target(&init).await?;
        let step = |label| {
            session
                .run()
                .feed(&x, matrix(1, 2, &[0.5, 0.5]))
                .feed(&y, labels(&[label]))
                .fetch(&loss)
        };
        let says = ["12", "SparseSoftmaxCrossEntropyWithLogits", "worker:0"];
        assert_error(step(12).await, Code::InvalidArgument, &says);
        step(2).await?;
        Ok(())
    });
}

#[test]
fn batches_of_different_sizes_are_reported_by_the_operation_that_needs_them_alike() {
    on_actix(async {
        let servers = cluster(1, 1);
        let Classifier { g, x, y, loss, init } = classifier()?;
        let session = Session::new(&servers[1].target(), &g).await?;
        session.run().target(&init).await?;
        let step = |classes: &[i32]| {
            session.run().feed(&x, matrix(2, 2, &[0.5; 4])).feed(&y, labels(classes)).fetch(&loss)
        };
        let says = ["f32[2,3]", "i32[3]", "SparseSoftmaxCrossEntropyWithLogits", "worker:0"];
        assert_error(step(&[0, 1, 2]).await, Code::InvalidArgument, &says);
        step(&[0, 1]).await?;
        Ok(())
    });
}

#[test]
fn a_variable_that_is_not_initialized_is_named_with_its_task() {
    on_actix(async {
        let servers = cluster(1, 1);
        let Classifier { g, x, y, loss, init } = classifier()?;
        let session = Session::new(&servers[1].target(), &g).await?;
        let step =
            || session.run().feed(&x, matrix(1, 2, &[0.5; 2])).feed(&y, labels(&[0])).fetch(&loss);
        assert_error(step().await, Code::FailedPrecondition, &["uninitialized", "`dense/", "ps:0"]);
        session.run().target(&init).await?;
        step().await?;
        Ok(())
    });
}

#[test]
fn a_place_that_is_not_in_the_cluster_is_named_with_those_that_are() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let lost = g.with_device("/job:ps/task:7", |g| {
            Ok(g.placeholder("lost", DType::F32, Shape::SCALAR)?.relu())
        })?;
        let found = g.constant(1.0f32);
        let session = Session::new(&servers[1].target(), &g).await?;
        let run = session
            .run()
            .feed(&g.operation("lost").unwrap().output(0).unwrap(), 1.0f32)
            .fetch(&lost);
        assert_error(
            run.await,
            Code::InvalidArgument,
            &["Relu", "/job:ps/task:7", "available devices are", "errors.rs"],
        );
        session.run().fetch(&found).await?;
        Ok(())
    });
}

#[test]
fn a_variable_declared_with_another_shape_is_refused_with_both() {
    on_actix(async {
        let servers = cluster(1, 2);
        let declare = |columns: usize| {
            let g = Graph::new();
            let w = g.with_device("/job:ps", |g| g.variable("w", &g.zeros([columns])))?;
            Ok::<_, Error>((w, g.initializer(), g))
        };
        let ((_, init, g), (other_w, other_init, other_g)) = (declare(2)?, declare(3)?);
        Session::new(&servers[1].target(), &g).await?.run().target(&init).await?;
        let other = Session::new(&servers[2].target(), &other_g).await?;
        assert_error(
            other.run().target(&other_init).await,
            Code::InvalidArgument,
            &["`w`", "[2]", "[3]", "ps:0"],
        );
        assert_error(
            other.run().fetch(&other_w.read()).await,
            Code::InvalidArgument,
            &["`w`", "[2]", "[3]"],
        );
        Ok(())
    });
}

#[test]
fn what_belongs_to_another_graph_or_does_not_exist_is_refused() {
    on_actix(async {
        let server = Server::create_local();
        let (g, other) = (Graph::new(), Graph::new());
        let own = g.constant(1.0f32);
        let foreign = other.placeholder("foreign", DType::F32, Shape::SCALAR)?;
        let session = Session::new(&server.target(), &g).await?;
        for run in [
            session.run().fetch(&foreign),
            session.run().feed(&foreign, 1.0f32),
            session.run().target(foreign.target()),
        ] {
            assert_error(run.await, Code::InvalidArgument, &["`foreign`", "another graph"]);
        }
        let nothing = g.initializer();
        assert!(nothing.output(0).is_none());
        session.run().fetch(&own).await?;
        Ok(())
    });
}

#[test]
fn a_gradient_of_a_shape_that_only_the_step_knows_is_checked_where_it_is_applied() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let w = g.with_device("/job:ps", |g| g.variable("w", &g.zeros([2])))?;
        let gradient = g.placeholder("gradient", DType::F32, [None])?;
        let train = GradientDescent::new(1.0)
            .apply_gradients(&[(w.clone(), gradient.clone())], &g.global_step()?)?;
        let init = g.initializer();
        let session = Session::new(&servers[1].target(), &g).await?;
        session.run().target(&init).await?;
        let step = |values: &[f32]| {
            session
                .run()
                .feed(&gradient, Tensor::new([values.len()], values).unwrap())
                .target(&train)
        };
        assert_error(
            step(&[1.0; 3]).await,
            Code::InvalidArgument,
            &["f32[3]", "`w`", "update_w", "ps:0"],
        );
        step(&[1.0; 2]).await?;
        assert_eq!(session.run().fetch(&w.read()).await?[0], Tensor::new([2], &[-1.0f32, -1.0])?);
        Ok(())
    });
}

#[test]
fn a_round_without_the_value_of_a_slot_is_refused_and_applied_once_the_slot_has_one() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let w = g.variable("w", &g.constant(1f32))?;
        let sync = Mode::Sync { backups: 0, cancel: false };
        let gradient = w.read().mul(&g.constant(0.5f32))?;
        let train = Momentum::new(1.0, 0.9)
            .coordinated(sync, 0, 1)
            .apply_gradients(&[(w.clone(), gradient)], &g.global_step()?)?;
        let session = Session::new(&servers[1].target(), &g).await?;
        let is_slot = |variable: &Variable| variable.name().starts_with("w/");
        let (slots, others): (Vec<_>, Vec<_>) =
            g.initializers().into_iter().partition(|(variable, _)| is_slot(variable));
        for (_, initializer) in &others {
            session.run().target(initializer).await?;
        }
        for _ in 0..2 {
            let step = session.run().target(train.target()).await;
            assert_error(step, Code::FailedPrecondition, &["uninitialized", "`w/"]);
        }
        assert_eq!(slots.len(), 1);
        session.run().target(&slots[0].1).await?;
        session.run().target(train.target()).await?;
        assert_eq!(session.run().fetch(&w.read()).await?.scalar::<f32>(0)?, 0.5);
        Ok(())
    });
}

#[test]
fn an_error_on_one_task_ends_what_the_step_does_on_the_others() {
    on_actix(async {
        let servers = cluster(2, 1);
        let g = Graph::new();
        let w = g.with_device("/job:ps/task:0", |g| g.variable("w", &g.zeros([1])))?;
        let ready = g.await_initialization();
        let v = g.with_device("/job:ps/task:1", |g| g.variable("v", &g.zeros([1])))?;
        let init = g.initializer();
        let session = Session::new(&servers[2].target(), &g).await?;
        let failed = session.run().target(&ready).fetch(&v.read()).await;
        assert_error(failed, Code::FailedPrecondition, &["`v`", "v/read", "ps:1"]);
        let (waited, initialized) =
            both(session.run().target(&ready), session.run().target(&init)).await;
        waited?;
        initialized?;
        session.run().fetch(&w.read()).fetch(&v.read()).await?;
        Ok(())
    });
}

#[test]
fn a_mistake_of_a_method_without_result_fails_every_step_from_then_on_and_no_other_session() {
    on_actix(async {
        let server = Server::create_local();
        let (g, other) = (Graph::new(), Graph::new());
        let (one, two) = (g.constant(1.0f32), other.constant(2.0f32));
        let session = Session::new(&server.target(), &g).await?;
        session.run().fetch(&one).await?;
        let wrong = g.constant(1i32).relu();
        for _ in 0..2 {
            assert_error(
                session.run().fetch(&wrong).await,
                Code::InvalidArgument,
                &["Relu", "i32"],
            );
        }
        let fetched = Session::new(&server.target(), &other).await?.run().fetch(&two).await?;
        assert_eq!(fetched.scalar::<f32>(0)?, 2.0);
        Ok(())
    });
}
