//! Operations that compare the elements along an axis: the greatest, the least, the top `k`.

use smallvec::{SmallVec, smallvec};

use super::reduce;
use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind, Known,
    OpDef, Output, OutputTypes, Outputs, TensorType,
};
use crate::graph::{agree, one};
use crate::kernels::order;
use crate::kernels::reduce::Run;
use crate::kernels::{by_float, by_number, by_position, written};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

/// A question about the order of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `(x)`: the position of the greatest element along an axis; the first of equals, never a NaN.
    ArgMax {
        /// The axis.
        axis: usize,
        /// The type of the positions: i32 or i64.
        dtype: DType,
    },
    /// `(x)`: the position of the least element along an axis; the first of equals, never a NaN.
    ArgMin {
        /// The axis.
        axis: usize,
        /// The type of the positions: i32 or i64.
        dtype: DType,
    },
    /// `(x)`: the greatest elements along the last axis, the greatest first, and their positions
    /// (i32). Equal elements keep their order; NaNs come before numbers (TensorFlow `TopKV2`,
    /// sorted).
    TopK {
        /// The number of elements; `None` for all.
        k: Option<usize>,
    },
    /// `(gradient, positions, x)`: the gradient at these positions along the last axis, and 0
    /// elsewhere.
    TopKGrad,
    /// `(predictions [rows, classes], targets [rows])`: whether fewer than `k` predictions of a row
    /// are greater than that of its target. False if the target is not a class, or if a prediction
    /// met on the way is not finite (TensorFlow `InTopKV2`).
    InTopK {
        /// The number of predictions that the target must be among.
        k: usize,
    },
}

impl Order {
    /// The requirements on its inputs.
    fn needs(&self) -> String {
        match self {
            Self::ArgMax { axis, .. } | Self::ArgMin { axis, .. } => {
                let numbers = format!("numbers with an axis {axis} that is not empty");
                format!("{numbers}, and positions of i32 or i64")
            }
            Self::TopK { k } => {
                format!("numbers whose last axis has {} or more", k.unwrap_or_default())
            }
            Self::TopKGrad => "a gradient, the position of each and what they are in".to_owned(),
            Self::InTopK { .. } => {
                "f32 predictions [rows, classes] and i32 or i64 targets [rows]".to_owned()
            }
        }
    }
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![
        Order::ArgMax { axis: 0, dtype: DType::I64 }.into(),
        Order::ArgMin { axis: 0, dtype: DType::I64 }.into(),
        Order::TopK { k: Some(1) }.into(),
        Order::TopKGrad.into(),
        Order::InTopK { k: 1 }.into(),
    ]
}

impl OpDef for Order {
    fn kind(&self) -> &'static str {
        match self {
            Self::ArgMax { .. } => "ArgMax",
            Self::ArgMin { .. } => "ArgMin",
            Self::TopK { .. } => "TopKV2",
            Self::TopKGrad => "TopKGrad",
            Self::InTopK { .. } => "InTopKV2",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        match *self {
            Self::ArgMax { axis, dtype } => Self::ArgMax {
                axis: given.size("axis", axis),
                dtype: given.dtype("output_type", dtype),
            },
            Self::ArgMin { axis, dtype } => Self::ArgMin {
                axis: given.size("axis", axis),
                dtype: given.dtype("output_type", dtype),
            },
            Self::TopK { k } => Self::TopK { k: given.maybe_size("k", k) },
            Self::TopKGrad => Self::TopKGrad,
            Self::InTopK { k } => Self::InTopK { k: given.size("k", k) },
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let outputs = match (self, inputs) {
            (Self::ArgMax { axis, dtype } | Self::ArgMin { axis, dtype }, [x]) => {
                position(*x, *axis).filter(|_| dtype.is_integer()).map(|shape| one(*dtype, shape))
            }
            (Self::TopK { k }, [x]) => top(*x, *k),
            (Self::TopKGrad, [dy, positions, x]) => {
                let fits =
                    x.dtype.is_real() && dy.dtype == x.dtype && positions.dtype == DType::I32;
                let shapes =
                    dy.shape.merge(&positions.shape).is_some() && dy.shape.rank() == x.shape.rank();
                (fits && shapes).then(|| smallvec![*x])
            }
            (Self::InTopK { .. }, [predictions, targets]) => in_top(*predictions, *targets),
            _ => None,
        };
        outputs.ok_or_else(|| GraphProblem::needs(&self.needs(), inputs))
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let dy = of.only_arrived()?;
        match self {
            Self::TopK { .. } => {
                Ok(vec![Some(dy.with(&[&of.output(1), &of.input(0)], Self::TopKGrad)?)])
            }
            _ => Err(of.no_gradient()),
        }
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        reduce::cost(inputs, outputs)
    }

    fn kernel_kind(&self) -> KernelKind {
        match self {
            Self::ArgMax { .. } | Self::ArgMin { .. } => KernelKind::Reduction,
            Self::TopK { .. } | Self::TopKGrad | Self::InTopK { .. } => KernelKind::Elementwise,
        }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Ok(match (*self, inputs) {
            (Self::ArgMax { axis, dtype }, [x]) => {
                by_number!(x.dtype(), T => by_position!(dtype, I => {
                    let (run, left) = along(x.shape(), axis);
                    written::<I>(left, |out| order::argmax(x.slice::<T>(), run, out))
                }))
            }
            (Self::ArgMin { axis, dtype }, [x]) => {
                by_number!(x.dtype(), T => by_position!(dtype, I => {
                    let (run, left) = along(x.shape(), axis);
                    written::<I>(left, |out| order::argmin(x.slice::<T>(), run, out))
                }))
            }
            (Self::TopK { k }, [x]) => by_number!(x.dtype(), T => {
                let (dims, (_, columns)) = (x.shape(), x.shape().rows_and_columns());
                let (mut dims, k) = (dims.dims().to_vec(), k.unwrap_or(columns));
                dims.pop();
                dims.push(k);
                let mut values = Tensor::uninitialised::<T>(Shape::new(&dims));
                let mut positions = Tensor::uninitialised::<i32>(Shape::new(&dims));
                order::top_k(x.slice::<T>(), columns, values.make_mut(), positions.make_mut(), k);
                smallvec![values, positions]
            }),
            (Self::TopKGrad, [dy, positions, x]) => by_float!(x.dtype(), T => {
                let (_, k) = dy.shape().rows_and_columns();
                let (_, columns) = x.shape().rows_and_columns();
                written::<T>(x.shape(), |out| {
                    order::top_k_grad(dy.slice(), positions.slice(), k, columns, out);
                })
            }),
            (Self::InTopK { k }, [predictions, targets]) => by_position!(targets.dtype(), I => {
                written(targets.shape(), |out| {
                    order::in_top_k::<I>(predictions.slice(), targets.slice(), k, out);
                })
            }),
            (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
        })
    }
}

fn position(x: TensorType, axis: usize) -> Option<PartialShape> {
    let mut dims: SmallVec<[_; 8]> = x.shape.dims().into();
    if axis >= dims.len() || dims[axis] == Some(0) || !x.dtype.is_number() {
        return None;
    }
    dims.remove(axis);
    Some(PartialShape::new(&dims))
}

fn top(x: TensorType, k: Option<usize>) -> Option<OutputTypes> {
    let mut dims: SmallVec<[_; 8]> = x.shape.dims().into();
    let last = dims.last_mut()?;
    if last.is_some_and(|last| k.is_some_and(|k| last < k)) || !x.dtype.is_number() {
        return None;
    }
    *last = k.or(*last);
    let shape = PartialShape::new(&dims);
    Some(smallvec![TensorType::new(x.dtype, shape), TensorType::new(DType::I32, shape)])
}

fn in_top(predictions: TensorType, targets: TensorType) -> Option<OutputTypes> {
    let (&[rows, _], &[targeted]) = (predictions.float_dims()?, targets.shape.dims()) else {
        return None;
    };
    let rows = agree(rows, targeted)?;
    targets.dtype.is_integer().then(|| one(DType::Bool, [rows]))
}

/// An axis as a run, and the shape without it.
fn along(shape: Shape, axis: usize) -> (Run, Shape) {
    let (before, behind) = (&shape.dims()[..axis], &shape.dims()[axis + 1..]);
    let run = Run {
        outer: before.iter().product(),
        reduced: shape.dims()[axis],
        inner: behind.iter().product(),
    };
    (run, Shape::new(&[before, behind].concat()))
}

/// The order of elements along an axis.
impl Output {
    /// The position of the greatest element along the last axis (i64); the first of equals.
    ///
    /// # Errors
    /// If the elements are not numbers, or there is no axis.
    #[track_caller]
    pub fn argmax(&self) -> Result<Self, GraphError> {
        self.argmax_over(-1, DType::I64)
    }

    /// The position of the greatest element along `axis`, as i32 or i64; the first of equals, never
    /// a NaN.
    ///
    /// # Errors
    /// If the elements are not numbers, there is no such axis, or it is empty.
    #[track_caller]
    pub fn argmax_over(&self, axis: isize, dtype: DType) -> Result<Self, GraphError> {
        self.with(&[], Order::ArgMax { axis: self.axis(axis)?, dtype })
    }

    /// The `k` greatest elements along the last axis, the greatest first, and their positions
    /// (i32). Equal elements keep their order (TensorFlow `tf.math.top_k`).
    ///
    /// # Errors
    /// If the elements are not numbers, or there are fewer than `k`.
    #[track_caller]
    pub fn top_k(&self, k: usize) -> Result<(Self, Self), GraphError> {
        let values = self.with(&[], Order::TopK { k: Some(k) })?;
        let positions = values.sibling(1);
        Ok((values, positions))
    }

    /// Whether the `targets` \[rows\], i32 or i64, are among the `k` greatest of each row of these
    /// predictions \[rows, classes\] (bool \[rows\]; TensorFlow `tf.math.in_top_k`).
    ///
    /// # Errors
    /// If this is not an f32 matrix, or there is not one target a row.
    #[track_caller]
    pub fn in_top_k(&self, targets: &Self, k: usize) -> Result<Self, GraphError> {
        self.with(&[targets], Order::InTopK { k })
    }
}
