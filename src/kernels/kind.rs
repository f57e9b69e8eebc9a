//! The kinds of kernels, and the costs of several kernels by kind.

use serde::Deserialize;

use super::Cost;
use crate::graph::Op;

listed! {
    /// The kind of a kernel. A device can reach a different share of its peak rates with each.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum KernelKind {
        /// Matrix products.
        Matmul,
        /// Convolutions and their gradients.
        Convolution,
        /// Functions of single elements, and all kernels that are of no other kind, such as those
        /// of operations that a program defines.
        Elementwise,
        /// Reductions, pools, normalisation and losses.
        Reduction,
        /// Kernels that only move data, and random values.
        Movement,
        /// Updates of variables, on the task that holds them.
        Update,
    }
    const ALL;
}

impl KernelKind {
    /// The kind of the kernel of `op`.
    pub(crate) fn of(op: &Op) -> Self {
        match op.kind() {
            "MatMul" | "BatchMatMulV2" => Self::Matmul,
            kind if kind.starts_with("Conv2D") || kind.starts_with("DepthwiseConv2d") => {
                Self::Convolution
            }
            kind if REDUCTIONS.contains(&kind) => Self::Reduction,
            kind if MOVEMENTS.contains(&kind) => Self::Movement,
            _ => Self::Elementwise,
        }
    }
}

/// The operations that reduce.
const REDUCTIONS: [&str; 36] = [
    "All",
    "AllGrad",
    "Any",
    "AnyGrad",
    "ArgMax",
    "ArgMin",
    "AvgPool",
    "AvgPoolGrad",
    "BiasAddGrad",
    "FusedBatchNormGradV3",
    "FusedBatchNormV3",
    "L2Loss",
    "LayerNorm",
    "LayerNormGrad",
    "LogSoftmax",
    "LogSoftmaxGrad",
    "LogSumExp",
    "Max",
    "MaxGrad",
    "MaxPool",
    "MaxPoolGrad",
    "Mean",
    "MeanGrad",
    "Min",
    "MinGrad",
    "Prod",
    "ProdGrad",
    "SigmoidCrossEntropyWithLogits",
    "Softmax",
    "SoftmaxCrossEntropyWithLogits",
    "SoftmaxGrad",
    "SparseSoftmaxCrossEntropyWithLogits",
    "Sum",
    "SumGrad",
    "SumToLike",
    "UnsortedSegmentSum",
];
/// The operations that only move data, and those that draw it.
const MOVEMENTS: [&str; 33] = [
    "BroadcastTo",
    "Cast",
    "ConcatV2",
    "DynamicStitch",
    "DynamicStitchGrad",
    "Fill",
    "GatherGrad",
    "GatherNd",
    "GatherV2",
    "OneHot",
    "Pack",
    "PadV2",
    "RandomStandardNormal",
    "RandomUniform",
    "Reshape",
    "ReshapeLike",
    "ReverseV2",
    "ScatterNd",
    "SelectV2",
    "ShardIds",
    "Slice",
    "SplitLike",
    "SplitV",
    "StridedSlice",
    "StridedSliceGrad",
    "TensorScatterAdd",
    "TensorScatterUpdate",
    "Tile",
    "Transpose",
    "TruncatedNormal",
    "Unique",
    "Unpack",
    "ZerosLike",
];

/// The costs of several kernels, added up by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs([Cost; KernelKind::ALL.len()]);

impl Costs {
    /// The cost of kernels of one kind.
    pub fn of(kind: KernelKind, cost: Cost) -> Self {
        let mut costs = Self::default();
        costs.add(kind, cost);
        costs
    }

    /// Adds the cost of a kernel.
    pub fn add(&mut self, kind: KernelKind, cost: Cost) {
        let sum = &mut self.0[kind as usize];
        *sum = *sum + cost;
    }

    /// Takes back `bytes` of the memory traffic that was added for kernels of `kind`.
    pub(crate) fn save(&mut self, kind: KernelKind, bytes: u64) {
        self.0[kind as usize].bytes -= bytes;
    }

    /// The cost of all kernels together.
    pub fn total(&self) -> Cost {
        self.0.iter().copied().sum()
    }

    /// The cost of the kernels of each kind.
    pub fn by_kind(&self) -> impl Iterator<Item = (KernelKind, Cost)> {
        KernelKind::ALL.into_iter().zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_add_up_by_kind_and_in_all() {
        let mut costs = Costs::of(KernelKind::Update, Cost::work(3, 4));
        costs.add(KernelKind::Matmul, Cost::work(10, 20));
        costs.add(KernelKind::Matmul, Cost::work(1, 2));
        assert_eq!(costs.total(), Cost::work(14, 26));
        let given: Vec<_> = costs.by_kind().filter(|(_, cost)| *cost != Cost::default()).collect();
        let expected =
            [(KernelKind::Matmul, Cost::work(11, 22)), (KernelKind::Update, Cost::work(3, 4))];
        assert_eq!(given, expected);
        assert!(KernelKind::ALL.iter().enumerate().all(|(index, kind)| *kind as usize == index));
    }
}
