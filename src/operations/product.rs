//! Products of matrices.

use smallvec::SmallVec;

use super::Broadcast;
use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind, Known,
    OpDef, Output, OutputTypes, Outputs, TensorType, agree, bytes, one,
};
use crate::kernels::batch_matmul::{Factor, batch_matmul};
use crate::kernels::matmul::MatMul;
use crate::kernels::{by_float, written};
use crate::tensor::{PartialShape, Shape, Tensor};

/// A product of matrices, each of which can be transposed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// `(a, b)`: the product of two matrices.
    MatMul {
        /// Multiply by `a` transposed.
        transpose_a: bool,
        /// Multiply by `b` transposed.
        transpose_b: bool,
    },
    /// `(x […, m, k], y […, k, n])`: the product of each pair of matrices; the dimensions before
    /// them are repeated by the rules of NumPy (TensorFlow `BatchMatMulV2`).
    BatchMatMul {
        /// Multiply by `x` transposed.
        adj_x: bool,
        /// Multiply by `y` transposed.
        adj_y: bool,
    },
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![
        Product::MatMul { transpose_a: false, transpose_b: false }.into(),
        Product::BatchMatMul { adj_x: false, adj_y: false }.into(),
    ]
}

impl Product {
    /// Whether the first and the second factor are transposed.
    fn transposed(self) -> [bool; 2] {
        match self {
            Self::MatMul { transpose_a, transpose_b } => [transpose_a, transpose_b],
            Self::BatchMatMul { adj_x, adj_y } => [adj_x, adj_y],
        }
    }

    /// The same with other factors transposed.
    fn with(self, [a, b]: [bool; 2]) -> Self {
        match self {
            Self::MatMul { .. } => Self::MatMul { transpose_a: a, transpose_b: b },
            Self::BatchMatMul { .. } => Self::BatchMatMul { adj_x: a, adj_y: b },
        }
    }

    /// Sums a gradient of the repeated `x` to the shape of `x`.
    fn filled(self, gradient: Output, x: &Output) -> Result<Output, GraphError> {
        let (given, own) = (gradient.tensor_type().shape, x.tensor_type().shape);
        let is_repeated = given.known().is_none() || given != own;
        if is_repeated && matches!(self, Self::BatchMatMul { .. }) {
            return gradient.with(&[x], Broadcast::SumToLike);
        }
        Ok(gradient)
    }
}

impl OpDef for Product {
    fn kind(&self) -> &'static str {
        match self {
            Self::MatMul { .. } => "MatMul",
            Self::BatchMatMul { .. } => "BatchMatMulV2",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        let [a, b] = self.transposed();
        self.with([given.flag("transpose_a", a), given.flag("transpose_b", b)]).into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let is_matrix = |x: &TensorType| x.shape.rank() == 2;
        match (self, inputs) {
            (Self::MatMul { .. }, inputs) if !inputs.iter().all(is_matrix) => None,
            (_, [a, b]) => product(*a, *b, self.transposed()),
            _ => None,
        }
        .ok_or_else(|| {
            let needs = match self {
                Self::MatMul { .. } => "f32 or f64 matrices whose inner dimensions agree",
                Self::BatchMatMul { .. } => {
                    "f32 or f64 matrices whose inner dimensions agree, and as many of each, or one"
                }
            };
            GraphProblem::needs(needs, inputs)
        })
    }

    /// `da = dy·bᵀ` and `db = aᵀ·dy`, transposed along with the factors and, for each pair of
    /// matrices, summed over the pairs that a factor was repeated for.
    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let (a, b, dy) = (of.input(0), of.input(1), of.only_arrived()?);
        let [ta, tb] = self.transposed();
        let product = |x: &Output, tx, y: &Output, ty| x.with(&[y], self.with([tx, ty]));
        let da = || if ta { product(&b, tb, &dy, true) } else { product(&dy, false, &b, !tb) };
        let db = || if tb { product(&dy, true, &a, ta) } else { product(&a, !ta, &dy, false) };
        Ok(vec![
            of.for_input(0, || self.filled(da()?, &a))?,
            of.for_input(1, || self.filled(db()?, &b))?,
        ])
    }

    /// 2mkn flops for each product; every element of each operand once.
    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let dims = dims(inputs[0].1, inputs[1].1, self.transposed());
        let products = outputs[0].1.elements().checked_div(dims.m * dims.n).unwrap_or(0);
        Cost::matmul(dims, products, bytes(inputs) + bytes(outputs))
    }

    fn kernel_kind(&self) -> KernelKind {
        KernelKind::Matmul
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (a, b) = (inputs[0], inputs[1]);
        let dims = dims(a.shape(), b.shape(), self.transposed());
        let (a_shape, b_shape) = (a.shape(), b.shape());
        let ((a_batch, _), (b_batch, _)) = (parts(&a_shape), parts(&b_shape));
        let batch = repeated(a_batch, b_batch);
        let filled: SmallVec<[usize; 6]> = batch.iter().copied().chain([dims.m, dims.n]).collect();
        Ok(by_float!(a.dtype(), T => written::<T>(Shape::new(&filled), |out| {
            if batch.is_empty() {
                return T::product(a.slice(), b.slice(), out, dims);
            }
            let pairs: Vec<_> = places(&batch, a_batch).zip(places(&batch, b_batch)).collect();
            batch_matmul::<T>(a.slice(), b.slice(), out, dims, &pairs);
        })))
    }
}

fn product(
    a: TensorType,
    b: TensorType,
    [transpose_a, transpose_b]: [bool; 2],
) -> Option<OutputTypes> {
    let ([a_batch @ .., a0, a1], [b_batch @ .., b0, b1]) = (a.shape.dims(), b.shape.dims()) else {
        return None;
    };
    if !a.dtype.is_real() || a.dtype != b.dtype {
        return None;
    }
    let (rows, inner_a) = if transpose_a { (a1, a0) } else { (a0, a1) };
    let (inner_b, columns) = if transpose_b { (b1, b0) } else { (b0, b1) };
    agree(*inner_a, *inner_b)?;
    let mut dims = broadcast(a_batch, b_batch)?;
    dims.extend([*rows, *columns]);
    Some(one(a.dtype, PartialShape::new(&dims)))
}

/// The dimensions that both broadcast to; `None` if they don't broadcast.
fn broadcast(a: &[Option<usize>], b: &[Option<usize>]) -> Option<SmallVec<[Option<usize>; 8]>> {
    let (more, fewer) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let mut dims: SmallVec<[Option<usize>; 8]> = more.into();
    let last = more.len() - fewer.len();
    for (dim, other) in dims[last..].iter_mut().zip(fewer) {
        *dim = match (*dim, *other) {
            (Some(1), other) => other,
            (dim, Some(1)) => dim,
            (None, Some(more)) | (Some(more), None) => Some(more),
            (dim, other) => agree(dim, other)?,
        };
    }
    Some(dims)
}

fn dims(a: Shape, b: Shape, [transpose_a, transpose_b]: [bool; 2]) -> MatMul {
    let ((_, [a0, a1]), (_, [b0, b1])) = (parts(&a), parts(&b));
    let (m, k) = if transpose_a { (a1, a0) } else { (a0, a1) };
    let n = if transpose_b { b0 } else { b1 };
    MatMul { m, k, n, transpose_a, transpose_b }
}

/// The dimensions before the matrices, and those of each matrix.
fn parts(shape: &Shape) -> (&[usize], [usize; 2]) {
    match shape.dims() {
        [batch @ .., rows, columns] => (batch, [*rows, *columns]),
        _ => panic!("shape inference lets only matrices through"),
    }
}

/// The dimensions that both can be repeated to fill.
fn repeated(a: &[usize], b: &[usize]) -> Vec<usize> {
    let (more, fewer) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let mut dims = more.to_vec();
    let last = more.len() - fewer.len();
    dims[last..]
        .iter_mut()
        .zip(fewer)
        .filter(|(dim, _)| **dim == 1)
        .for_each(|(dim, fewer)| *dim = *fewer);
    dims
}

/// For each position within `batch`, that of what is repeated to fill it.
fn places(batch: &[usize], own: &[usize]) -> impl Iterator<Item = usize> {
    let mut axes: Vec<(usize, usize)> = batch.iter().map(|dim| (*dim, 0)).collect();
    let mut stride = 1;
    for ((_, step), own) in axes.iter_mut().rev().zip(own.iter().rev()) {
        *step = if *own == 1 { 0 } else { stride };
        stride *= own;
    }
    (0..batch.iter().product()).map(move |mut at: usize| {
        let mut place = 0;
        for (dim, step) in axes.iter().rev() {
            place += at % dim * step;
            at /= dim;
        }
        place
    })
}

impl Output {
    /// The matrix product with `b`; with more than two dimensions, the product of each pair of
    /// matrices ([`Output::matmul_transposed`]).
    ///
    /// # Errors
    /// If they are not matrices of f32 or f64, or their inner dimensions differ.
    #[track_caller]
    pub fn matmul(&self, b: &Self) -> Result<Self, GraphError> {
        self.matmul_transposed(b, false, false)
    }

    /// The matrix product with `b`; either matrix can be transposed first.
    ///
    /// With more than two dimensions, the last two are those of matrices, and each pair of matrices
    /// is multiplied; the other dimensions are broadcast by the rules of NumPy (TensorFlow
    /// `tf.matmul`).
    ///
    /// # Errors
    /// If they are not matrices of f32 or f64, their inner dimensions differ, or the others don't
    /// fit.
    #[track_caller]
    pub fn matmul_transposed(
        &self,
        b: &Self,
        transpose_a: bool,
        transpose_b: bool,
    ) -> Result<Self, GraphError> {
        let are_matrices = [self, b].iter().all(|x| x.tensor_type().shape.rank() == 2);
        let many = Product::BatchMatMul { adj_x: transpose_a, adj_y: transpose_b };
        let one = Product::MatMul { transpose_a, transpose_b };
        self.with(&[b], if are_matrices { one } else { many })
    }
}
