//! Reductions of elements: sums, means, maxima.

use super::Output;
use crate::graph::error::{GraphError, GraphProblem};
use crate::graph::op::{Axes, Op, Reduce, Reduction};

macro_rules! reduction {
    ($($all:ident $over:ident $keep:ident $reduction:ident $says:literal),* $(,)?) => {
        /// Reductions of all elements, or of those along some axes. A negative axis counts from the
        /// innermost, which is -1; with an empty list of axes nothing is reduced. An element type
        /// that the reduction does not take is reported when a session takes the graph, or at once
        /// where axes are named. Floats are reduced in a fixed order.
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
            /// If an axis does not exist or is named twice, or the elements are of another type.
            #[track_caller]
            pub fn $over(&self, axes: &[isize]) -> Result<Self, GraphError> {
                self.reduced(Reduction::$reduction, axes, false)
            }

            #[doc = concat!($says, " of the elements along these axes, which stay with size 1.")]
            ///
            /// # Errors
            /// If an axis does not exist or is named twice, or the elements are of another type.
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

impl Output {
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

    /// The axes of a reduction of this kind, counted from the outermost.
    ///
    /// # Errors
    /// If one does not exist, or is named twice.
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
