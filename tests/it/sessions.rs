//! Sessions on servers: sharing, isolation, resets and errors, after TensorFlow's `server_lib_test.py`.

use std::future::Future;

use trainyard::prelude::*;

/// Runs a test on actix, in real time.
fn on_actix(test: impl Future<Output = Result<()>>) {
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = actix_rt::System::with_tokio_rt(runtime).block_on(test);
    outcome.unwrap();
}

fn matrix(rows: usize, columns: usize, values: &[f32]) -> Tensor {
    Tensor::new([rows, columns], values).unwrap()
}

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
