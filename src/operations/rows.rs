//! Rows, with a value for each of their columns or for each row.

use super::chain::elementwise;
use super::{Binary, Reduce};
use crate::graph::{
    Backprop, ComputeError, Cost, Defined, Elementwise, GraphError, GraphProblem, KernelKind,
    Known, OpDef, Output, OutputTypes, Outputs, Reduction, TensorType, agree, bytes, one,
};
use crate::kernels::broadcast::Operand;
use crate::kernels::number::Float;
use crate::kernels::{by_float, rows, written};
use crate::tensor::{PartialShape, Shape, Tensor};

listed! {
    /// An operation on rows. Rows lie along the last axis.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Rows {
        /// `(x […, columns], bias [columns])`
        BiasAdd,
        /// `(gradient […, columns])`: the sum over all dimensions but the last.
        BiasAddGrad,
        /// `(x, factor [rows])`: each row of `x` times its factor.
        ScaleRows,
    }
    const ALL;
    /// The name of its kind.
    fn name;
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    Rows::ALL.map(Defined::from).into()
}

impl OpDef for Rows {
    without_attributes!();

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let (outputs, needs) = match (self, inputs) {
            (Self::BiasAdd, [x, bias]) => (bias_add(*x, *bias), "f32 or f64 […, n] and a bias [n]"),
            (Self::BiasAddGrad, [x]) => {
                (columns(*x).map(|n| one(x.dtype, [n])), "an f32 or f64 of at least two dimensions")
            }
            (Self::ScaleRows, [x, factor]) => (
                scale_rows(*x, *factor),
                "an f32 or f64 matrix [rows, n] and a factor for each row [rows]",
            ),
            _ => (None, "another number of inputs"),
        };
        outputs.ok_or_else(|| GraphProblem::needs(needs, inputs))
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let dy = of.only_arrived()?;
        match self {
            Self::BiasAddGrad => Ok(vec![Some(of.input(0).zeros_like().bias_add(&dy)?)]),
            Self::BiasAdd => Ok(vec![
                of.for_input(0, || Ok(dy.clone()))?,
                of.for_input(1, || dy.with(&[], Self::BiasAddGrad))?,
            ]),
            Self::ScaleRows => {
                let (x, factor) = (of.input(0), of.input(1));
                let axes = [1].into_iter().collect();
                let sums = Reduce { reduction: Reduction::Sum, axes, keep_dims: false };
                Ok(vec![
                    of.for_input(0, || dy.with(&[&factor], Self::ScaleRows))?,
                    of.for_input(1, || dy.with(&[&x], Binary::Mul)?.with(&[], sums))?,
                ])
            }
        }
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        Cost::work(inputs[0].1.elements(), bytes(inputs) + bytes(outputs))
    }

    fn kernel_kind(&self) -> KernelKind {
        match self {
            Self::BiasAdd | Self::ScaleRows => KernelKind::Elementwise,
            Self::BiasAddGrad => KernelKind::Reduction,
        }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let x = inputs[0];
        let shape = x.shape();
        Ok(by_float!(x.dtype(), T => match (self, inputs) {
            (Self::BiasAdd, [_, bias]) => {
                written::<T>(shape, |out| rows::bias_add(x.slice(), bias.slice(), out))
            }
            (Self::ScaleRows, [_, factors]) => {
                written::<T>(shape, |out| rows::scale_rows(x.slice(), factors.slice(), out))
            }
            _ => {
                let (_, columns) = shape.rows_and_columns();
                written::<T>(Shape::from([columns]), |out| rows::bias_add_grad(x.slice(), out))
            }
        }))
    }

    fn elementwise(&self) -> Option<&dyn Elementwise> {
        if *self == Self::BiasAdd { Some(self) } else { None }
    }
}

impl Rows {
    /// As a link of a chain, which only [`Rows::BiasAdd`] can be.
    fn chained<T: Float>(&self, _: usize, x: &[T], bias: Option<Operand<'_, T>>, out: &mut [T]) {
        rows::bias_add(x, bias.expect("a bias is added").0, out);
    }
}

elementwise!(
    Rows,
    fn is_by_column(&self) -> bool {
        true
    }
);

/// The last dimension of `x`, if it has at least two and real numbers.
fn columns(x: TensorType) -> Option<Option<usize>> {
    let [.., _, columns] = x.shape.dims() else { return None };
    x.dtype.is_real().then_some(*columns)
}

fn bias_add(x: TensorType, bias: TensorType) -> Option<OutputTypes> {
    let (own, &[width]) = (columns(x)?, bias.shape.dims()) else { return None };
    let mut dims = x.shape.dims().to_vec();
    *dims.last_mut()? = agree(own, width)?;
    (x.dtype == bias.dtype).then(|| one(x.dtype, PartialShape::new(&dims)))
}

fn scale_rows(x: TensorType, factor: TensorType) -> Option<OutputTypes> {
    let (&[rows, columns], &[factors]) = (x.shape.dims(), factor.shape.dims()) else { return None };
    let rows = agree(rows, factors)?;
    (x.dtype.is_real() && x.dtype == factor.dtype).then(|| one(x.dtype, [rows, columns]))
}

impl Output {
    /// Adds `bias` \[n\] to each row of n elements, along the last of two or more dimensions
    /// (TensorFlow `BiasAdd`, `NHWC`).
    ///
    /// # Errors
    /// If the widths or the types differ.
    #[track_caller]
    pub fn bias_add(&self, bias: &Self) -> Result<Self, GraphError> {
        self.with(&[bias], Rows::BiasAdd)
    }

    /// Each row times its factor in `factors` \[rows\].
    ///
    /// # Errors
    /// If there is not one factor a row.
    #[track_caller]
    pub fn scale_rows(&self, factors: &Self) -> Result<Self, GraphError> {
        self.with(&[factors], Rows::ScaleRows)
    }
}
