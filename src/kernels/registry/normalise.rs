//! The kernels of normalisation and dropout.

use smallvec::smallvec;
use xxhash_rust::xxh3::xxh3_64;

use super::super::normalise::{self, Moments};
use super::super::random::Key;
use super::{Cost, KernelError, Known, Outputs, one};
use crate::graph::Normalise;
use crate::tensor::{Shape, Tensor};

/// As [`super::call()`].
pub(super) fn call(op: &Normalise, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
    Ok(match (*op, inputs) {
        (Normalise::Batch { epsilon }, [x, scale, offset]) => {
            let moments = normalise::moments(x.slice(), scale.slice::<f32>().len());
            let mut y = Tensor::uninitialised::<f32>(x.shape());
            normalise::batch(x.slice(), &moments, epsilon, scale.slice(), offset.slice(), y.make_mut());
            let correction = correction(x.shape(), scale.shape());
            let of_sample: Vec<f32> = moments.variance.iter().map(|variance| variance * correction).collect();
            smallvec![y, vector(&moments.mean), vector(&of_sample)]
        }
        (Normalise::BatchGrad { epsilon }, [dy, x, scale, mean, variance]) => {
            let correction = correction(x.shape(), scale.shape());
            let variance = variance.slice::<f32>().iter().map(|variance| variance / correction).collect();
            let moments = Moments { mean: mean.slice().to_vec(), variance };
            let mut dx = Tensor::uninitialised::<f32>(x.shape());
            let (d_scale, d_offset) =
                normalise::batch_grad(dy.slice(), x.slice(), &moments, epsilon, scale.slice(), dx.make_mut());
            smallvec![dx, vector(&d_scale), vector(&d_offset)]
        }
        (Normalise::Layer { epsilon }, [x, scale, offset]) => {
            one(x.shape(), |out| normalise::layer(x.slice(), epsilon, scale.slice(), offset.slice(), out))
        }
        (Normalise::LayerGrad { epsilon }, [dy, x, scale]) => {
            let mut dx = Tensor::uninitialised::<f32>(x.shape());
            let (d_scale, d_offset) =
                normalise::layer_grad(dy.slice(), x.slice(), epsilon, scale.slice(), dx.make_mut());
            smallvec![dx, vector(&d_scale), vector(&d_offset)]
        }
        (Normalise::Dropout { rate, seeds: (seed, operation) }, [x, counter]) => {
            let (step, mut name) = (counter.slice::<i64>()[0], operation.to_le_bytes().to_vec());
            name.extend(step.to_le_bytes());
            let key = Key { seed, operation: xxh3_64(&name), offset: 0 };
            one(x.shape(), |out| normalise::dropout(x.slice(), key, rate, out))
        }
        (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
    })
}

/// From the variance of a batch to that of a sample: `n / (n - 1)`, and 1 for a batch of one.
fn correction(x: Shape, scale: Shape) -> f32 {
    let rows = x.elements() / scale.elements().max(1);
    rows as f32 / rows.saturating_sub(1).max(1) as f32
}

fn vector(values: &[f32]) -> Tensor {
    let mut vector = Tensor::uninitialised::<f32>(Shape::from([values.len()]));
    vector.make_mut().copy_from_slice(values);
    vector
}

/// As [`super::cost()`].
pub(super) fn cost(op: &Normalise, inputs: &[Known], _outputs: &[Known]) -> Cost {
    let elements = inputs.first().map_or(0, |(_, shape)| shape.elements());
    // So many operations an element, and so often an element read or written.
    let work = |flops: usize, touched: usize| Cost::work(elements * flops, elements * touched * size_of::<f32>());
    match op {
        // Read for the mean, for the variance and for the result, which is written.
        Normalise::Batch { .. } => work(6, 4),
        Normalise::Layer { .. } => work(8, 2),
        // Both read for the sums and for the result, which is written.
        Normalise::BatchGrad { .. } | Normalise::LayerGrad { .. } => work(10, 6),
        Normalise::Dropout { .. } => Cost::random(elements) + work(2, 2),
    }
}
