//! Elements taken together: sums, means, the greatest, and where it is.

use super::Output;
use crate::graph::error::{GraphError, GraphProblem};
use crate::graph::op::{Axes, Op, Order, Reduce, Reduction};
use crate::tensor::DType;

macro_rules! reduction {
    ($($all:ident $over:ident $keep:ident $reduction:ident $says:literal),* $(,)?) => {
        /// Elements taken together: all of them, or those along some axes. A negative axis counts
        /// from the innermost, which is -1; without an axis nothing is reduced. One of a type that
        /// it does not have is reported when a session takes the graph, or at once where axes are
        /// named. Floats are taken in a fixed order.
        impl Output {$(
            #[doc = concat!($says, " of all elements, a scalar.")]
            #[track_caller]
            pub fn $all(&self) -> Self {
                let rank = self.tensor_type().shape.rank();
                self.map(Op::Reduce(Reduce::all(Reduction::$reduction, rank)))
            }

            #[doc = concat!($says, " of the elements along these axes,")]
            /// which are left out of the result's shape.
            ///
            /// # Errors
            /// If an axis is not there or named twice, or the elements are of another type.
            #[track_caller]
            pub fn $over(&self, axes: &[isize]) -> Result<Self, GraphError> {
                self.reduced(Reduction::$reduction, axes, false)
            }

            #[doc = concat!($says, " of the elements along these axes, which stay with size 1.")]
            ///
            /// # Errors
            /// If an axis is not there or named twice, or the elements are of another type.
            #[track_caller]
            pub fn $keep(&self, axes: &[isize]) -> Result<Self, GraphError> {
                self.reduced(Reduction::$reduction, axes, true)
            }
        )*}
    };
}
reduction! {
    sum sum_over sum_keep_dims Sum "The sum",
    mean mean_over mean_keep_dims Mean "The mean (of integers cut towards 0)",
    prod prod_over prod_keep_dims Prod "The product",
    max max_over max_keep_dims Max "The greatest",
    min min_over min_keep_dims Min "The least",
    any any_over any_keep_dims Any "Whether one is true,",
    all all_over all_keep_dims All "Whether each is true,",
}

/// The order of elements along an axis.
impl Output {
    /// Where along the last axis the greatest element is (i64); the first of equals.
    ///
    /// # Errors
    /// If they are no numbers, or there is no axis.
    #[track_caller]
    pub fn argmax(&self) -> Result<Self, GraphError> {
        self.argmax_over(-1, DType::I64)
    }

    /// Where along `axis` the greatest element is, as i32 or i64; the first of equals. A NaN never
    /// is.
    ///
    /// # Errors
    /// If they are no numbers, there is no such axis, or it is empty.
    #[track_caller]
    pub fn argmax_over(&self, axis: isize, dtype: DType) -> Result<Self, GraphError> {
        self.with(&[], Op::Order(Order::ArgMax { axis: self.axis(axis)?, dtype }))
    }

    /// Where along `axis` the least element is, as i32 or i64; the first of equals. A NaN never is.
    ///
    /// # Errors
    /// If they are no numbers, there is no such axis, or it is empty.
    #[track_caller]
    pub fn argmin_over(&self, axis: isize, dtype: DType) -> Result<Self, GraphError> {
        self.with(&[], Op::Order(Order::ArgMin { axis: self.axis(axis)?, dtype }))
    }

    /// The `k` greatest elements along the last axis, the greatest first, and where they are (i32).
    /// Of equals the first comes first (TensorFlow `tf.math.top_k`).
    ///
    /// # Errors
    /// If they are no numbers, or fewer.
    #[track_caller]
    pub fn top_k(&self, k: usize) -> Result<(Self, Self), GraphError> {
        let values = self.with(&[], Op::Order(Order::TopK { k }))?;
        let positions = values.sibling(1);
        Ok((values, positions))
    }

    /// Whether the `targets` \[rows\], i32 or i64, are among the `k` greatest of each row of these
    /// predictions \[rows, classes\] (bool \[rows\]; TensorFlow `tf.math.in_top_k`).
    ///
    /// # Errors
    /// If it is no f32 matrix, or there is not one target a row.
    #[track_caller]
    pub fn in_top_k(&self, targets: &Self, k: usize) -> Result<Self, GraphError> {
        self.with(&[targets], Op::Order(Order::InTopK { k }))
    }

    #[track_caller]
    fn reduced(
        &self,
        reduction: Reduction,
        axes: &[isize],
        keep_dims: bool,
    ) -> Result<Self, GraphError> {
        let axes = self.axes_to_reduce(reduction.kind(), axes)?;
        self.with(&[], Op::Reduce(Reduce { reduction, axes, keep_dims }))
    }

    /// The axes that a reduction of this kind is along, counted from the outermost.
    ///
    /// # Errors
    /// If one is not there, or named twice.
    #[track_caller]
    pub(crate) fn axes_to_reduce(&self, kind: &str, axes: &[isize]) -> Result<Axes, GraphError> {
        let mut known = Axes::default();
        for axis in axes {
            let counted = self.axis(*axis)?;
            if known.contains(counted) {
                let needs = format!("each axis once, and axis {axis} is named twice");
                let problem = GraphProblem::Inputs { needs, inputs: vec![self.tensor_type()] };
                return Err(GraphError::new(kind, problem));
            }
            known = known.iter().chain([counted]).collect();
        }
        Ok(known)
    }
}
