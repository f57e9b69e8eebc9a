//! Softmax, and the losses that classifiers are trained by.

use smallvec::smallvec;

use super::{Rows, Unary};
use crate::graph::{
    Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind, Known, OpDef,
    Output, OutputTypes, Outputs, TensorType, agree, bytes, one,
};
use crate::kernels::cost::EXP;
use crate::kernels::number::Number;
use crate::kernels::{by_float, by_position, reduce, softmax, written};
use crate::tensor::{Shape, Tensor};

listed! {
    /// A function of logits, or a loss. Rows lie along the last axis.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LossFunction {
        /// `(logits)`: the softmax of each row.
        Softmax,
        /// `(gradient, y)`, where `y` is the softmax.
        SoftmaxGrad,
        /// `(logits)`: the logarithms of the softmax.
        LogSoftmax,
        /// `(gradient, y)`, where `y` is the logarithm of the softmax.
        LogSoftmaxGrad,
        /// `(logits [rows, classes], labels [rows, classes])`: the cross entropy of each row with
        /// its probabilities, and its gradient by the logits.
        SoftmaxCrossEntropyWithLogits,
        /// `(logits [rows, classes], labels [rows])`: the loss of each row, and its gradient by the
        /// logits.
        SparseSoftmaxCrossEntropyWithLogits,
        /// `(logits, labels)`: the cross entropy of each element's sigmoid with its probability.
        SigmoidCrossEntropyWithLogits,
        /// `(x)`: half the sum of the squares of all elements.
        L2Loss,
    }
    const ALL;
    /// The name of its kind.
    fn name;
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    LossFunction::ALL.map(Defined::from).into()
}

impl OpDef for LossFunction {
    without_attributes!();

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let is_real = inputs.first().is_some_and(|x| x.dtype.is_real());
        let (outputs, needs) = match (self, inputs) {
            (Self::Softmax | Self::LogSoftmax, [x]) => (
                (x.shape.rank() > 0).then(|| smallvec![*x]),
                "f32 or f64 logits [rows, classes] or of any other rank from 1",
            ),
            (
                Self::SoftmaxGrad | Self::LogSoftmaxGrad | Self::SigmoidCrossEntropyWithLogits,
                [a, b],
            ) => (alike(*a, *b).map(|x| smallvec![x]), "two f32 or two f64 of one shape"),
            (Self::SoftmaxCrossEntropyWithLogits, [logits, labels]) => (
                alike(*logits, *labels).and_then(loss_of_rows),
                "f32 or f64 logits and labels [rows, classes]",
            ),
            (Self::SparseSoftmaxCrossEntropyWithLogits, [logits, labels]) => (
                sparse(*logits, *labels),
                "f32 or f64 logits [rows, classes] and i32 or i64 labels [rows]",
            ),
            (Self::L2Loss, [x]) => (Some(one(x.dtype, Shape::SCALAR)), "one f32 or f64"),
            _ => (None, "another number of inputs"),
        };
        outputs.filter(|_| is_real).ok_or_else(|| GraphProblem::needs(needs, inputs))
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        match self {
            Self::SoftmaxCrossEntropyWithLogits => {
                let by_labels = || cross_entropy_by_labels(of);
                let by_logits = of.for_input(0, || cross_entropy_by_logits(of))?;
                return Ok(vec![by_logits, of.for_input(1, by_labels)?]);
            }
            Self::SparseSoftmaxCrossEntropyWithLogits => {
                return Ok(vec![Some(cross_entropy_by_logits(of)?), None]);
            }
            _ => {}
        }
        let dy = of.only_arrived()?;
        Ok(match self {
            Self::Softmax => vec![Some(dy.with(&[&of.output(0)], Self::SoftmaxGrad)?)],
            Self::LogSoftmax => vec![Some(dy.with(&[&of.output(0)], Self::LogSoftmaxGrad)?)],
            Self::SigmoidCrossEntropyWithLogits => {
                let (logits, labels) = (of.input(0), of.input(1));
                let by_logits = || dy.mul(&logits.sigmoid().sub(&labels)?);
                let by_labels = || Ok(dy.mul(&logits)?.negate());
                vec![of.for_input(0, by_logits)?, of.for_input(1, by_labels)?]
            }
            Self::L2Loss => vec![Some(of.input(0).mul(&dy)?)],
            Self::SoftmaxGrad => {
                let (first, y) = (of.input(0), of.input(1));
                let by_y = || {
                    let [own, other] = [&first, &dy].map(|by| (by * &y).sum_keep_dims(&[-1]));
                    Ok(&dy * (&first - own?) - &first * other?)
                };
                let by_first = of.for_input(0, || dy.with(&[&y], Self::SoftmaxGrad))?;
                vec![by_first, of.for_input(1, by_y)?]
            }
            Self::LogSoftmaxGrad => {
                let (first, softmax) = (of.input(0), of.input(1).exp());
                let by_first = || Ok(&dy - (&dy * &softmax).sum_keep_dims(&[-1])?);
                let by_y = || Ok(-(&dy * &softmax * first.sum_keep_dims(&[-1])?));
                vec![of.for_input(0, by_first)?, of.for_input(1, by_y)?]
            }
            _ => return Err(of.no_gradient()),
        })
    }

    /// An exponential and 4 flops an element for a softmax or its gradient, and a logarithm a row
    /// where there is one; two exponentials for that of a sigmoid. Every element of each operand
    /// once.
    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let (rows, classes) = inputs[0].1.rows_and_columns();
        let flops = match self {
            Self::L2Loss => 2 * rows * classes,
            Self::SoftmaxGrad => 4 * rows * classes,
            Self::Softmax | Self::LogSoftmaxGrad => (EXP + 4) * rows * classes,
            Self::SigmoidCrossEntropyWithLogits => (2 * EXP + 8) * rows * classes,
            Self::SoftmaxCrossEntropyWithLogits => (2 * EXP + 6) * rows * classes + EXP * rows,
            Self::LogSoftmax | Self::SparseSoftmaxCrossEntropyWithLogits => {
                (EXP + 4) * rows * classes + (EXP + 2) * rows
            }
        };
        Cost::work(flops, bytes(inputs) + bytes(outputs))
    }

    fn kernel_kind(&self) -> KernelKind {
        KernelKind::Reduction
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (_, classes) = inputs[0].shape().rows_and_columns();
        let shape = inputs[0].shape();
        Ok(by_float!(inputs[0].dtype(), T => match (self, inputs) {
            (Self::Softmax, [x]) => {
                written::<T>(shape, |out| softmax::softmax(x.slice(), classes, out))
            }
            (Self::LogSoftmax, [x]) => {
                written::<T>(shape, |out| softmax::log_softmax(x.slice(), classes, out))
            }
            (Self::SoftmaxGrad, [dy, y]) => {
                written::<T>(shape, |dx| softmax::softmax_grad(dy.slice(), y.slice(), classes, dx))
            }
            (Self::LogSoftmaxGrad, [dy, y]) => {
                written::<T>(shape, |dx| {
                    softmax::log_softmax_grad(dy.slice(), y.slice(), classes, dx);
                })
            }
            (Self::SoftmaxCrossEntropyWithLogits, [logits, labels]) => {
                let (mut loss, mut backprop) = outputs::<T>(logits);
                softmax::softmax_cross_entropy::<T>(
                    logits.slice(),
                    labels.slice(),
                    loss.make_mut(),
                    backprop.make_mut(),
                );
                smallvec![loss, backprop]
            }
            (Self::SparseSoftmaxCrossEntropyWithLogits, [logits, labels]) => {
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
            (Self::SigmoidCrossEntropyWithLogits, [logits, labels]) => {
                written::<T>(shape, |out| {
                    softmax::sigmoid_cross_entropy(logits.slice(), labels.slice(), out);
                })
            }
            (Self::L2Loss, [x]) => {
                smallvec![Tensor::scalar(reduce::sum_of_squares::<T>(x.slice()).over(2))]
            }
            (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
        }))
    }
}

/// The gradient of a cross entropy by its logits: of the loss, and of its own gradient, which is
/// the second output, where a second derivative is asked for.
fn cross_entropy_by_logits(of: &Backprop<'_>) -> Result<Output, GraphError> {
    let of_loss = of.arrived(0).map(|dy| of.output(1).with(&[&dy], Rows::ScaleRows)).transpose()?;
    let of_gradient = of.arrived(1).map(|dy| {
        let softmax = of.input(0).with(&[], LossFunction::Softmax)?;
        dy.with(&[&softmax], LossFunction::SoftmaxGrad)
    });
    match (of_loss, of_gradient.transpose()?) {
        (Some(of_loss), Some(of_gradient)) => of_loss.add(&of_gradient),
        (of_loss, of_gradient) => of_loss.or(of_gradient).ok_or_else(|| of.no_gradient()),
    }
}

/// The same by probabilities as labels; TensorFlow leaves out that of the second output.
fn cross_entropy_by_labels(of: &Backprop<'_>) -> Result<Output, GraphError> {
    let of_loss = of.arrived(0).map(|dy| {
        let logs = of.input(0).with(&[], LossFunction::LogSoftmax)?;
        logs.with(&[&dy], Rows::ScaleRows)?.with(&[], Unary::Neg)
    });
    match (of_loss.transpose()?, of.arrived(1)) {
        (Some(of_loss), Some(dy)) => of_loss.sub(&dy),
        (None, Some(dy)) => dy.with(&[], Unary::Neg),
        (of_loss, None) => of_loss.ok_or_else(|| of.no_gradient()),
    }
}

fn alike(a: TensorType, b: TensorType) -> Option<TensorType> {
    let shape = a.shape.merge(&b.shape)?;
    (a.dtype == b.dtype).then_some(TensorType { shape, ..a })
}

fn loss_of_rows(logits: TensorType) -> Option<OutputTypes> {
    let &[rows, _] = logits.shape.dims() else { return None };
    Some(smallvec![TensorType::new(logits.dtype, [rows]), logits])
}

fn sparse(logits: TensorType, labels: TensorType) -> Option<OutputTypes> {
    let (&[rows, classes], &[labelled]) = (logits.shape.dims(), labels.shape.dims()) else {
        return None;
    };
    let rows = agree(rows, labelled)?;
    labels
        .dtype
        .is_integer()
        .then(|| loss_of_rows(TensorType::new(logits.dtype, [rows, classes])))?
}

/// A loss for each row of `logits`, and their gradient, not yet written.
fn outputs<T: Number>(logits: &Tensor) -> (Tensor, Tensor) {
    let (rows, _) = logits.shape().rows_and_columns();
    (Tensor::uninitialised::<T>([rows].into()), Tensor::uninitialised::<T>(logits.shape()))
}

impl Output {
    /// The softmax of each row along the last axis: its elements as probabilities.
    ///
    /// # Errors
    /// If the elements are not f32 or f64, or there is no axis.
    #[track_caller]
    pub fn softmax(&self) -> Result<Self, GraphError> {
        self.with(&[], LossFunction::Softmax)
    }

    /// The logarithms of [`Output::softmax`], precise even where the softmax is rounded to 0.
    ///
    /// # Errors
    /// If the elements are not f32 or f64, or there is no axis.
    #[track_caller]
    pub fn log_softmax(&self) -> Result<Self, GraphError> {
        self.with(&[], LossFunction::LogSoftmax)
    }

    /// See [`softmax_cross_entropy`](crate::graph::softmax_cross_entropy).
    #[track_caller]
    pub(crate) fn cross_entropy(&self, labels: &Self) -> Result<Self, GraphError> {
        self.with(&[labels], LossFunction::SoftmaxCrossEntropyWithLogits)
    }

    /// See [`sparse_softmax_cross_entropy`](crate::graph::sparse_softmax_cross_entropy).
    #[track_caller]
    pub(crate) fn sparse_cross_entropy(&self, labels: &Self) -> Result<Self, GraphError> {
        self.with(&[labels], LossFunction::SparseSoftmaxCrossEntropyWithLogits)
    }

    /// See [`sigmoid_cross_entropy`](crate::graph::sigmoid_cross_entropy).
    #[track_caller]
    pub(crate) fn sigmoid_cross_entropy(&self, labels: &Self) -> Result<Self, GraphError> {
        self.with(&[labels], LossFunction::SigmoidCrossEntropyWithLogits)
    }

    /// See [`l2_loss`](crate::graph::l2_loss).
    #[track_caller]
    pub(crate) fn l2_loss(&self) -> Result<Self, GraphError> {
        self.with(&[], LossFunction::L2Loss)
    }
}
