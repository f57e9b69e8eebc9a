//! Softmax, and the losses that classifiers are trained by. Rows lie along the last axis.

use serde::{Deserialize, Serialize};

/// A function of logits, or a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// `(logits)`: the softmax of each row.
    Softmax,
    /// `(gradient, y)`, where `y` is the softmax.
    SoftmaxGrad,
    /// `(logits)`: the logarithms of the softmax.
    LogSoftmax,
    /// `(gradient, y)`, where `y` is the logarithm of the softmax.
    LogSoftmaxGrad,
    /// `(logits [rows, classes], labels [rows, classes])`: the cross entropy of each row with its
    /// probabilities, and its gradient by the logits.
    SoftmaxCrossEntropyWithLogits,
    /// `(logits [rows, classes], labels [rows])`: the loss of each row, and its gradient by the
    /// logits.
    SparseSoftmaxCrossEntropyWithLogits,
    /// `(logits, labels)`: the cross entropy of each element's sigmoid with its probability.
    SigmoidCrossEntropyWithLogits,
    /// `(x)`: half the sum of the squares of all elements.
    L2Loss,
}

impl Loss {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Softmax => "Softmax",
            Self::SoftmaxGrad => "SoftmaxGrad",
            Self::LogSoftmax => "LogSoftmax",
            Self::LogSoftmaxGrad => "LogSoftmaxGrad",
            Self::SoftmaxCrossEntropyWithLogits => "SoftmaxCrossEntropyWithLogits",
            Self::SparseSoftmaxCrossEntropyWithLogits => "SparseSoftmaxCrossEntropyWithLogits",
            Self::SigmoidCrossEntropyWithLogits => "SigmoidCrossEntropyWithLogits",
            Self::L2Loss => "L2Loss",
        }
    }
}
