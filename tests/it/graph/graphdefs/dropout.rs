//! Dropout and other random values of imported graphs, whose shape is that of a batch of unknown
//! size. TensorFlow draws other numbers, so that the tests ask for shape, law and gradient.

use std::fs;

use trainyard::import;
use trainyard::prelude::*;
use trainyard::tensor::Shape;

use super::file;
use crate::support::fixture::on_actix;

const COLUMNS: usize = 50;

/// What the outputs `names` of `dropout.pb` are in the steps 0 and 1, for a batch of `rows`: `x` is
/// 2 everywhere.
async fn drawn(names: &[&str], rows: usize, is_training: bool) -> Result<Vec<Vec<Tensor>>> {
    let g = Graph::new();
    g.set_random_seed(7);
    let imported = import::graph_def(&g, &fs::read(file("dropout.pb")).unwrap())?;
    let server = Server::create_local();
    let session = Session::new(&server.target(), &g).await?;
    let step = g.global_step()?;
    let mut told = Vec::new();
    for now in 0..2i64 {
        session.run().target(&step.assign(&g.constant(now))?).await?;
        let fed = [
            ("x", Tensor::full([rows, COLUMNS], 2f32)),
            ("sizes", Tensor::new([2], &[rows as i32, 3])?),
            ("is_training", Tensor::scalar(is_training)),
        ];
        let mut run = session.run();
        for (name, value) in fed {
            run = run.feed(&imported.output(name)?, value);
        }
        for name in names {
            run = run.fetch(&imported.output(name)?);
        }
        let values = run.await?;
        told.push((0..names.len()).map(|i| values[i].clone()).collect());
    }
    Ok(told)
}

/// The share of values that are not 0.
fn share(values: &[f32]) -> f64 {
    values.iter().filter(|value| **value != 0.0).count() as f64 / values.len() as f64
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.values::<f32>().unwrap().to_vec()
}

#[test]
fn dropout_of_a_batch_keeps_its_share_scales_it_and_its_gradient_has_the_same_mask() {
    on_actix(async {
        for (name, kept) in
            [("dropped", 0.75), ("kept", 0.25), ("rows", 0.5), ("called", 0.75), ("trained", 0.75)]
        {
            let names = [name, &format!("{name}_by_x")];
            let rows = 400;
            let steps = drawn(&names, rows, true).await?;
            for step in &steps {
                assert_eq!(step[0].shape(), Shape::new(&[rows, COLUMNS]), "{name}");
                let (values, by) = (numbers(&step[0]), numbers(&step[1]));
                let factor = 1.0 / kept as f32;
                let fits = |value: &f32| *value == 0.0 || (value - 2.0 * factor).abs() < 1e-5;
                assert!(values.iter().all(fits), "{name}");
                let allowed = if name == "rows" { 0.1 } else { 0.02 };
                assert!((share(&values) - kept).abs() < allowed, "{name}: {}", share(&values));
                let mask: Vec<f32> = values.iter().map(|value| value / 2.0).collect();
                assert_eq!(by, mask, "{name}: the gradient of the sum is the mask");
            }
            assert_ne!(steps[0], steps[1], "{name}: each step draws anew");
            assert_eq!(steps, drawn(&names, rows, true).await?, "{name}: a run repeats");
            let fewer = numbers(&drawn(&names, 3, true).await?[0][0]);
            assert_eq!(
                fewer,
                numbers(&steps[0][0])[..3 * COLUMNS],
                "{name}: rows are drawn in turn"
            );
        }
        Ok(())
    });
}

#[test]
fn dropout_with_one_number_a_row_keeps_or_drops_whole_rows() {
    on_actix(async {
        let values = numbers(&drawn(&["rows"], 40, true).await?[0][0]);
        for row in values.chunks_exact(COLUMNS) {
            assert!(row.iter().all(|value| *value == row[0]), "{row:?}");
        }
        Ok(())
    });
}

#[test]
fn dropout_in_the_branch_of_a_condition_is_left_out_where_the_condition_does_not_hold() {
    on_actix(async {
        let step = drawn(&["trained", "trained_by_x"], 3, false).await?.remove(0);
        assert_eq!(step[0], Tensor::full([3, COLUMNS], 2f32));
        assert_eq!(step[1], Tensor::full([3, COLUMNS], 1f32));
        Ok(())
    });
}

/// The mean and the standard deviation.
fn moments(values: &[f32]) -> (f64, f64) {
    let mean = |of: &mut dyn Iterator<Item = f64>| of.sum::<f64>() / values.len() as f64;
    let center = mean(&mut values.iter().map(|value| f64::from(*value)));
    let square = |value: &f32| (f64::from(*value) - center).powi(2);
    (center, mean(&mut values.iter().map(square)).sqrt())
}

#[test]
fn noise_of_a_batch_has_its_law_and_leaves_the_gradient_as_it_is() {
    on_actix(async {
        for (name, center, deviation) in [("noisy", 3.0, 0.5), ("cut", 2.0, 0.8796)] {
            let step = drawn(&[name, &format!("{name}_by_x")], 400, true).await?.remove(0);
            let found = moments(&numbers(&step[0]));
            let is_near = (found.0 - center).abs() < 0.02 && (found.1 - deviation).abs() < 0.02;
            assert!(is_near, "{name}: {found:?}");
            assert_eq!(step[1], Tensor::full([400, COLUMNS], 1f32), "{name}");
        }
        Ok(())
    });
}

#[test]
fn sizes_that_a_step_computes_or_is_fed_are_the_shape_of_what_is_drawn() {
    on_actix(async {
        let step = drawn(&["uneven", "asked"], 200, true).await?.remove(0);
        assert_eq!(step[0].shape(), Shape::new(&[400, 3]));
        assert!(numbers(&step[0]).iter().all(|value| (2.0..4.0).contains(value)));
        assert_eq!(step[1].shape(), Shape::new(&[200, 3]));
        let (mean, _) = moments(&numbers(&step[1]));
        assert!((mean - 0.5).abs() < 0.05, "{mean}");
        Ok(())
    });
}
