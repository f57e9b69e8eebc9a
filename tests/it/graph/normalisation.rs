//! Batch normalisation and dropout in sessions: moving moments, masks by the step.

use trainyard::graph::{BatchNorm, GraphError, dropout, layer_norm, moments};
use trainyard::prelude::*;

use crate::support::fixture::{matrix, on_actix};

#[test]
fn a_training_step_moves_the_moving_moments_and_inference_uses_them() {
    on_actix(async {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [None, Some(2)])?;
        let norm = BatchNorm::new(&g, 2)?.momentum(0.9).epsilon(0.001);
        let (y, update) = norm.train(&x)?;
        let served = norm.infer(&x)?;
        let loss = dense(&y, 1)?.square().mean();
        let step = g.global_step()?;
        let train = g.with_control_dependencies(&[&update], |_| {
            GradientDescent::new(0.1).minimize(&loss, &step)
        })?;
        assert!(g.trainable_variables().iter().all(|variable| !variable.name().contains("moving")));
        let server = Server::create_local();
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(g.initializer()).await?;
        let batch = matrix(2, 2, &[1.0, 2.0, 4.0, 7.0]);
        let before = session.run().feed(&x, batch.clone()).fetch(&served).await?;
        assert!(
            (before[0].values::<f32>()?[0] - 1.0 / 1.001f32.sqrt()).abs() < 1e-6,
            "moments begin as 0 and 1"
        );
        session.run().feed(&x, batch).target(&train).await?;
        let moving = |name: &str| {
            let named =
                |variable: &Variable| variable.name() == format!("batch_normalization/{name}");
            g.variables().into_iter().find(named).unwrap().read()
        };
        let (mean, variance) = (moving("moving_mean"), moving("moving_variance"));
        let found = session.run().fetch(&mean).fetch(&variance).await?;
        let close = |found: &Tensor, wanted: [f32; 2]| {
            found
                .values::<f32>()
                .unwrap()
                .iter()
                .zip(wanted)
                .all(|(found, wanted)| (found - wanted).abs() < 1e-6)
        };
        assert!(close(&found[0], [0.25, 0.45]), "{:?}", found[0]);
        assert!(
            close(&found[1], [0.9 + 0.45, 0.9 + 1.25]),
            "by the variance over one less than the count"
        );
        Ok(())
    });
}

/// A model whose hidden units are normalised and dropped, both as it is trained or evaluated, and
/// the update of its moving moments.
fn normalised_and_dropped(
    g: &Graph,
    x: &Output,
    is_training: bool,
) -> Result<(Output, Option<Target>), GraphError> {
    let hidden = dense(x, 3)?;
    let norm = BatchNorm::new(g, 3)?.momentum(0.5);
    if is_training {
        let (normalised, update) = norm.train(&hidden)?;
        return Ok((dense(&normalised.dropout(0.5)?, 1)?, Some(update)));
    }
    Ok((dense(&norm.infer(&hidden)?, 1)?, None))
}

#[test]
fn a_model_is_evaluated_with_what_was_trained_and_drops_nothing() {
    on_actix(async {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [None, Some(2)])?;
        let (trained, evaluated) =
            g.train_and_eval(|g, is_training| normalised_and_dropped(g, &x, is_training))?;
        let update = trained.1.expect("the trained one moves the moments");
        let (loss, step) = (trained.0.square().mean(), g.global_step()?);
        let train = g.with_control_dependencies(&[&update], |_| {
            GradientDescent::new(0.1).minimize(&loss, &step)
        })?;
        let names: Vec<String> = g.variables().iter().map(Variable::name).collect();
        assert_eq!(names.len(), 9, "two layers, a norm of four, the step: {names:?}");
        let server = Server::create_local();
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(g.initializer()).await?;
        let batch = matrix(2, 2, &[1.0, 2.0, 4.0, 7.0]);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let fed = || session.run().feed(&x, batch.clone());
            let first = fed().fetch(&evaluated.0).await?[0].values::<f32>()?.to_vec();
            let again = fed().fetch(&evaluated.0).await?[0].values::<f32>()?.to_vec();
            assert_eq!(first, again, "nothing is drawn");
            seen.push(first);
            fed().target(&train).await?;
        }
        seen.dedup();
        assert_eq!(seen.len(), 3, "each step moves the weights and the moments: {seen:?}");
        Ok(())
    });
}

#[test]
fn towers_that_drop_units_by_the_global_step_share_their_variables() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [None, Some(2)]).unwrap();
    let towers = g
        .mirrored_towers(&["", ""], |g, _| {
            g.train_and_eval(|g, is_training| normalised_and_dropped(g, &x, is_training))
        })
        .unwrap();
    assert_eq!(towers.len(), 2);
    let names: Vec<String> = g.variables().iter().map(Variable::name).collect();
    let (mirrors, own): (Vec<_>, Vec<_>) =
        names.iter().partition(|name| name.ends_with("/replica_1"));
    assert_eq!((own.len(), mirrors.len()), (9, 6), "{names:?}");
}

#[test]
fn dropout_has_one_mask_a_step_which_its_gradient_shares() {
    on_actix(async {
        let g = Graph::new();
        let counter = g.placeholder("counter", DType::I64, trainyard::tensor::Shape::SCALAR)?;
        let w = g.variable("w", &g.ones([400]))?;
        let dropped = dropout(&w.read(), 0.25, &counter)?;
        let gradient = gradients(&dropped.sum(), &[w.read()])?.remove(0).unwrap();
        let server = Server::create_local();
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(g.initializer()).await?;
        let at = async |step: i64| {
            session
                .run()
                .feed(&counter, Tensor::scalar(step))
                .fetch(&dropped)
                .fetch(&gradient)
                .await
        };
        let (first, again, next) = (at(1).await?, at(1).await?, at(2).await?);
        assert_eq!(first[0], first[1], "the gradient of a sum is the mask");
        assert_eq!(first[0], again[0]);
        assert_ne!(first[0], next[0]);
        Ok(())
    });
}

#[test]
fn moments_are_those_of_the_axes_and_stay_where_asked() {
    on_actix(async {
        let g = Graph::new();
        let x = g.constant(matrix(2, 3, &[1.0, 2.0, 3.0, 5.0, 6.0, 10.0]));
        let (mean, variance) = moments(&x, &[0], false)?;
        let (kept, _) = moments(&x, &[1], true)?;
        let server = Server::create_local();
        let session = Session::new(&server.target(), &g).await?;
        let found = session.run().fetch(&mean).fetch(&variance).fetch(&kept).await?;
        assert_eq!(found[0].values::<f32>()?, [3.0, 4.0, 6.5]);
        assert_eq!(found[1].values::<f32>()?, [4.0, 4.0, 12.25]);
        assert_eq!(found[2].shape().dims(), [2, 1]);
        Ok(())
    });
}

#[test]
fn a_rate_of_one_and_a_width_that_is_not_known_are_refused() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [None, None]).unwrap();
    let refused: [GraphError; 2] =
        [x.dropout(1.0).unwrap_err(), layer_norm(&x, 0.001).unwrap_err()];
    assert!(refused[0].to_string().contains("below 1, not 1"), "{}", refused[0]);
    assert!(refused[1].to_string().contains("last dimension is known"), "{}", refused[1]);
}
