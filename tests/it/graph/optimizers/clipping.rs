//! Gradients that are clipped before they are applied: dense ones, and rows that come more than
//! once.

use trainyard::graph::{Gradient, GraphError, IndexedSlices};
use trainyard::optimizer::TrainOp;
use trainyard::prelude::*;

use super::Trained;
use crate::support::fixture::{matrix, on_actix};

/// What a step of gradient descent of rate 1 takes from variables whose gradients are `[3, -4]` and
/// `[0, 12]`.
fn assert_applied(clip: ClipGradients, expected: [[f32; 2]; 2]) {
    on_actix(async {
        let optimizer = GradientDescent::new(1.0).clip(clip);
        let apply = |pairs: &[_], step: &_| Ok(vec![optimizer.apply_gradients(pairs, step)?]);
        let (trained, ops) =
            Trained::new([([0.0; 2], [3.0, -4.0]), ([0.0; 2], [0.0, 12.0])], apply).await?;
        trained.session.run().target(&ops[0]).await?;
        trained.assert_values(&expected.map(|of_one| of_one.map(|value| -value))).await
    });
}

#[test]
fn by_value_each_element_is_bounded() {
    assert_applied(ClipGradients::ByValue(3.5), [[3.0, -3.5], [0.0, 3.5]]);
}

#[test]
fn by_norm_each_gradient_is_shortened_where_it_is_too_long() {
    assert_applied(ClipGradients::ByNorm(6.0), [[3.0, -4.0], [0.0, 6.0]]);
    assert_applied(ClipGradients::ByNorm(2.5), [[1.5, -2.0], [0.0, 2.5]]);
}

#[test]
fn by_global_norm_all_gradients_are_shortened_alike() {
    assert_applied(ClipGradients::ByGlobalNorm(6.5), [[1.5, -2.0], [0.0, 6.0]]);
    assert_applied(ClipGradients::ByGlobalNorm(13.5), [[3.0, -4.0], [0.0, 12.0]]);
}

/// A table of 4 rows of 2 after two steps, by slices or by what they are as a dense gradient; rows
/// 1 and 3 come twice.
fn table_after(optimizer: &Optimizer, is_dense: bool) -> Vec<f32> {
    let values = std::cell::RefCell::new(Vec::new());
    on_actix(async {
        let g = Graph::new();
        let table = g.variable("table", &g.constant(matrix(4, 2, &[1.0; 8])))?;
        let rows = g.constant(matrix(4, 2, &[3.0, 1.0, 0.5, 0.5, 3.0, 1.0, -2.0, 0.5]));
        let slices =
            IndexedSlices::new(&rows, &g.constant(Tensor::new([4], &[1i64, 3, 1, 3]).unwrap()), 4)?;
        let other = g.variable("other", &g.zeros([2]))?;
        let gradient = if is_dense { slices.to_dense().into() } else { Gradient::from(slices) };
        let pairs = [
            (table.clone(), gradient),
            (other, g.constant(Tensor::new([2], &[1f32, 2.0]).unwrap()).into()),
        ];
        let train_op: Result<TrainOp, GraphError> =
            optimizer_apply(optimizer, &pairs, &g.global_step()?);
        let train_op = train_op?;
        let server = Server::create_local();
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(g.initializer()).await?;
        for _ in 0..2 {
            session.run().target(&train_op).await?;
        }
        values.replace(session.run().fetch(&table.read()).await?[0].values::<f32>()?.to_vec());
        Ok(())
    });
    values.into_inner()
}

fn optimizer_apply(
    optimizer: &Optimizer,
    pairs: &[(Variable, Gradient)],
    step: &Variable,
) -> Result<TrainOp, GraphError> {
    optimizer.apply_gradients(pairs, step)
}

#[test]
fn rows_are_clipped_to_what_the_dense_gradient_would_be_though_they_come_more_than_once() {
    for clip in
        [ClipGradients::ByValue(1.25), ClipGradients::ByNorm(2.0), ClipGradients::ByGlobalNorm(2.0)]
    {
        let optimizer = Adagrad::new(0.5).clip(clip);
        let (sparse, dense) = (table_after(&optimizer, false), table_after(&optimizer, true));
        let far = sparse.iter().zip(&dense).any(|(sparse, dense)| (sparse - dense).abs() > 1e-6);
        assert!(!far, "{clip:?}: {sparse:?}, not {dense:?}");
        assert_ne!(
            sparse,
            table_after(&Adagrad::new(0.5).into(), false),
            "{clip:?} changes something"
        );
    }
}

#[test]
#[should_panic(expected = "gradients can't be clipped to 0; it must be above 0")]
fn a_bound_of_0_is_refused() {
    let _ = GradientDescent::new(1.0).clip(ClipGradients::ByNorm(0.0));
}
