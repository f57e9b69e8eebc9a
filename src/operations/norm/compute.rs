//! The kernels of normalisation and dropout, for tensors.

use smallvec::smallvec;

use super::Norm;
use crate::graph::Outputs;
use crate::kernels::norm::{self, ColumnsGrad, RowsGrad};
use crate::kernels::number::{Float, Number};
use crate::kernels::{by_float, dropout, random, written};
use crate::tensor::{Shape, Tensor};

/// The outputs of `op`.
pub(super) fn call(op: Norm, inputs: &[&Tensor]) -> Outputs {
    match (op, inputs) {
        (Norm::Batch { epsilon }, [x, scale, offset]) => batch(x, scale, offset, epsilon),
        (Norm::BatchInference { epsilon }, [x, scale, offset, mean, variance]) => {
            written(x.shape(), |y| {
                let (affine, moments) =
                    ([scale.slice(), offset.slice()], [mean.slice(), variance.slice()]);
                norm::normalise_columns(x.slice(), affine, moments, epsilon, y);
            })
        }
        (Norm::BatchGrad { epsilon, is_training }, [dy, x, scale, mean, variance]) => {
            let (dy, x, scale) = (dy.slice(), x, scale);
            let (mean, variance) = (mean.slice(), variance.slice());
            let of = ColumnsGrad {
                dy,
                x: x.slice(),
                scale: scale.slice(),
                mean,
                variance,
                epsilon,
                is_training,
            };
            gradients(x, scale, |dx, by_scale, by_offset| of.write(dx, by_scale, by_offset))
        }
        (Norm::Layer { epsilon }, [x, scale, offset]) => layer(x, scale, offset, epsilon),
        (Norm::LayerGrad, [dy, x, scale, mean, inverse]) => {
            let (mean, inverse) = (mean.slice(), inverse.slice());
            let of = RowsGrad { dy: dy.slice(), x: x.slice(), scale: scale.slice(), mean, inverse };
            gradients(x, scale, |dx, by_scale, by_offset| of.write(dx, by_scale, by_offset))
        }
        (Norm::Dropout { rate, seeds: (seed, operation) }, [x, counter]) => {
            by_float!(x.dtype(), T => {
                let key = random::Key { seed, operation, offset: 0 };
                let counter = counter.slice::<i64>()[0];
                let factor = T::ONE.quotient(T::of(f64::from(1.0 - rate)));
                written::<T>(x.shape(), |out| {
                    dropout::dropout(x.slice(), key, counter, rate, factor, out);
                })
            })
        }
        (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
    }
}

fn batch(x: &Tensor, scale: &Tensor, offset: &Tensor, epsilon: f32) -> Outputs {
    let shape = scale.shape();
    let (rows, columns) = x.shape().rows_and_columns();
    let mut y = Tensor::uninitialised::<f32>(x.shape());
    let new = || Tensor::uninitialised::<f32>(shape);
    let (mut mean, mut variance, mut unbiased) = (new(), new(), new());
    if rows * columns == 0 {
        [&mut mean, &mut variance, &mut unbiased]
            .into_iter()
            .for_each(|moment| moment.make_mut().fill(f32::NAN));
        return smallvec![y, mean, unbiased, variance];
    }
    norm::column_moments(x.slice(), mean.make_mut(), variance.make_mut(), y.make_mut());
    let affine = [scale.slice(), offset.slice()];
    norm::normalise_columns(
        x.slice(),
        affine,
        [mean.slice(), variance.slice()],
        epsilon,
        y.make_mut(),
    );
    let correction = rows as f32 / rows.saturating_sub(1).max(1) as f32;
    let corrected = variance.slice::<f32>().iter().map(|variance| variance * correction);
    unbiased.make_mut().iter_mut().zip(corrected).for_each(|(to, from)| *to = from);
    smallvec![y, mean, unbiased, variance]
}

fn layer(x: &Tensor, scale: &Tensor, offset: &Tensor, epsilon: f32) -> Outputs {
    let dims = x.shape();
    let rows = Shape::new(&dims.dims()[..dims.rank() - 1]);
    let mut y = Tensor::uninitialised::<f32>(dims);
    let (mut mean, mut inverse) =
        (Tensor::uninitialised::<f32>(rows), Tensor::uninitialised::<f32>(rows));
    let affine = [scale.slice(), offset.slice()];
    norm::normalise_rows(
        x.slice(),
        affine,
        epsilon,
        y.make_mut(),
        [mean.make_mut(), inverse.make_mut()],
    );
    smallvec![y, mean, inverse]
}

fn gradients(
    x: &Tensor,
    scale: &Tensor,
    write: impl FnOnce(&mut [f32], &mut [f32], &mut [f32]),
) -> Outputs {
    let mut dx = Tensor::uninitialised::<f32>(x.shape());
    let channel = || Tensor::uninitialised::<f32>(scale.shape());
    let (mut by_scale, mut by_offset) = (channel(), channel());
    write(dx.make_mut(), by_scale.make_mut(), by_offset.make_mut());
    smallvec![dx, by_scale, by_offset]
}
