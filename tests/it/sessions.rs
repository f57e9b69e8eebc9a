//! Sessions on servers: sharing, isolation, resets and errors, after TensorFlow's `server_lib_test.py`.

use trainyard::prelude::*;

use crate::fixture::{both, cluster, matrix, on_actix};

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
fn a_step_that_awaits_the_initialization_ends_once_another_session_has_initialized_the_model() {
    on_actix(async {
        let cluster = cluster(1, 2);
        let g = Graph::new();
        let w = g.with_device("/job:ps", |g| g.variable("w", &g.filled([2], 3.0)))?;
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
        (waited?, initialized?);
        assert_eq!(worker.run().fetch(&w.read()).target(&ready).await?[0], Tensor::new([2], &[3.0f32, 3.0])?);
        Ok(())
    });
}
