//! The kernels of softmax and of losses.

use smallvec::smallvec;

use super::reduce::{by_float, by_position};
use super::{Cost, KernelError, Known, Outputs, bytes, one};
use crate::graph::Loss;
use crate::kernels::number::Number;
use crate::kernels::{cost, reduce, softmax};
use crate::tensor::{DType, Tensor};

/// As [`super::call()`].
pub(super) fn call(op: Loss, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
    let (_, classes) = inputs[0].shape().rows_and_columns();
    let shape = inputs[0].shape();
    Ok(by_float!(inputs[0].dtype(), T => match (op, inputs) {
        (Loss::Softmax, [x]) => one::<T>(shape, |out| softmax::softmax(x.slice(), classes, out)),
        (Loss::LogSoftmax, [x]) => {
            one::<T>(shape, |out| softmax::log_softmax(x.slice(), classes, out))
        }
        (Loss::SoftmaxGrad, [dy, y]) => {
            one::<T>(shape, |out| softmax::softmax_grad(dy.slice(), y.slice(), classes, out))
        }
        (Loss::LogSoftmaxGrad, [dy, y]) => {
            one::<T>(shape, |out| softmax::log_softmax_grad(dy.slice(), y.slice(), classes, out))
        }
        (Loss::SoftmaxCrossEntropyWithLogits, [logits, labels]) => {
            let (mut loss, mut backprop) = outputs::<T>(logits);
            softmax::softmax_cross_entropy::<T>(
                logits.slice(),
                labels.slice(),
                loss.make_mut(),
                backprop.make_mut(),
            );
            smallvec![loss, backprop]
        }
        (Loss::SparseSoftmaxCrossEntropyWithLogits, [logits, labels]) => {
            by_position!(labels.dtype(), I => {
                let (mut loss, mut backprop) = outputs::<T>(logits);
                softmax::sparse_softmax_cross_entropy::<T, I>(
                    logits.slice(),
                    labels.slice(),
                    loss.make_mut(),
                    backprop.make_mut(),
                )?;
                smallvec![loss, backprop]
            })
        }
        (Loss::SigmoidCrossEntropyWithLogits, [logits, labels]) => {
            one::<T>(shape, |out| {
                softmax::sigmoid_cross_entropy(logits.slice(), labels.slice(), out);
            })
        }
        (Loss::L2Loss, [x]) => {
            smallvec![Tensor::scalar(reduce::sum_of_squares::<T>(x.slice()).over(2))]
        }
        (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
    }))
}

/// An exponential and 4 flops an element for a softmax or its gradient, and a logarithm a row where
/// there is one; two exponentials for that of a sigmoid. Every element of each operand once.
pub(super) fn cost(op: Loss, inputs: &[Known], outputs: &[Known]) -> Cost {
    let (rows, classes) = inputs[0].1.rows_and_columns();
    let flops = match op {
        Loss::L2Loss => 2 * rows * classes,
        Loss::SoftmaxGrad => 4 * rows * classes,
        Loss::Softmax | Loss::LogSoftmaxGrad => (cost::EXP + 4) * rows * classes,
        Loss::SigmoidCrossEntropyWithLogits => (2 * cost::EXP + 8) * rows * classes,
        Loss::SoftmaxCrossEntropyWithLogits => {
            (2 * cost::EXP + 6) * rows * classes + cost::EXP * rows
        }
        Loss::LogSoftmax | Loss::SparseSoftmaxCrossEntropyWithLogits => {
            (cost::EXP + 4) * rows * classes + (cost::EXP + 2) * rows
        }
    };
    Cost { flops: flops as u64, bytes: (bytes(inputs) + bytes(outputs)) as u64 }
}

/// A loss for each row of `logits`, and their gradient, not yet written.
fn outputs<T: Number>(logits: &Tensor) -> (Tensor, Tensor) {
    let (rows, _) = logits.shape().rows_and_columns();
    (Tensor::uninitialised::<T>([rows].into()), Tensor::uninitialised::<T>(logits.shape()))
}
