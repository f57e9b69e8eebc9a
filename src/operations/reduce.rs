//! Reductions: one value from all elements along some axes; and their gradients.

use smallvec::{SmallVec, smallvec};

use crate::graph::{
    Attributes, Axes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind,
    Known, OpDef, Output, OutputTypes, Outputs, Reduction, TensorType, bytes, one,
};
use crate::kernels::{by_float, by_number, reduce, reduce_grad, written};
use crate::tensor::{DType, PartialShape, Tensor};

/// A reduction of `(x)` along some of its axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// The function of the elements.
    pub reduction: Reduction,
    /// The axes that are reduced.
    pub axes: Axes,
    /// Whether a reduced axis stays, as one of size 1.
    pub keep_dims: bool,
}

/// `(gradient, x)`, and `y` if the reduction is `Max` or `Min`: the gradient, spread over the shape
/// of `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceGrad(pub Reduce);

/// One of each kind. Shape inference refuses the gradients of `Any` and `All`.
pub(super) fn kinds() -> Vec<Defined> {
    use Reduction::{All, Any, Max, Mean, Min, Prod, Sum};
    let of = |reduction| Reduce::all(reduction, 0);
    let all = [Sum, Mean, Prod, Max, Min, Any, All].map(of).map(Defined::from);
    let gradients = [Sum, Mean, Prod, Max, Min].map(of).map(ReduceGrad).map(Defined::from);
    all.into_iter().chain(gradients).collect()
}

impl Reduce {
    /// The reduction of all elements of a value of `rank` dimensions to a scalar.
    pub fn all(reduction: Reduction, rank: usize) -> Self {
        Self { reduction, axes: (0..rank).collect(), keep_dims: false }
    }

    fn with_attributes(self, given: &mut Attributes) -> Self {
        Self {
            axes: given.axes("axes", self.axes),
            keep_dims: given.flag("keep_dims", self.keep_dims),
            ..self
        }
    }

    /// The shape that is left of `shape`; `None` if an axis does not exist.
    fn reduced(&self, shape: PartialShape) -> Option<PartialShape> {
        if self.axes.iter().any(|axis| axis >= shape.rank()) {
            return None;
        }
        let left = shape.dims().iter().enumerate().filter_map(|(axis, dim)| {
            match self.axes.contains(axis) {
                true => self.keep_dims.then_some(Some(1)),
                false => Some(*dim),
            }
        });
        Some(PartialShape::new(&left.collect::<SmallVec<[_; 8]>>()))
    }
}

impl OpDef for Reduce {
    fn kind(&self) -> &'static str {
        self.reduction.kind()
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        self.with_attributes(given).into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let of_truth = matches!(self.reduction, Reduction::Any | Reduction::All);
        let outputs = match inputs {
            [x] if if of_truth { x.dtype == DType::Bool } else { x.dtype.is_number() } => {
                self.reduced(x.shape).map(|shape| one(x.dtype, shape))
            }
            _ => None,
        };
        let what = if of_truth { "one bool" } else { "one f32, f64, i32 or i64" };
        let needs = || format!("{what} with the axes {}", self.axes);
        outputs.ok_or_else(|| GraphProblem::needs(&needs(), inputs))
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let (x, dy) = (of.input(0), of.only_arrived()?);
        let spread = ReduceGrad(*self);
        Ok(vec![Some(match self.reduction {
            Reduction::Sum | Reduction::Mean | Reduction::Prod => dy.with(&[&x], spread)?,
            Reduction::Max | Reduction::Min => dy.with(&[&x, &of.output(0)], spread)?,
            Reduction::Any | Reduction::All => return Err(of.no_gradient()),
        })])
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        cost(inputs, outputs)
    }

    fn kernel_kind(&self) -> KernelKind {
        KernelKind::Reduction
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let x = inputs[0];
        let (shape, axes) = (x.shape(), self.axes);
        let left = self.reduced(shape.into()).and_then(|left| left.known());
        let left = left.expect("shape inference lets only axes of the value through");
        Ok(match x.dtype() {
            DType::Bool => written(left, |out| {
                reduce::truth(self.reduction, x.slice(), shape, axes, out);
            }),
            DType::I32 if self.reduction == Reduction::Mean => written(left, |out| {
                reduce::mean_of_i32(x.slice(), shape, axes, out);
            }),
            dtype => by_number!(dtype, T => written(left, |out| {
                reduce::numbers::<T>(self.reduction, x.slice(), shape, axes, out);
            })),
        })
    }
}

impl OpDef for ReduceGrad {
    fn kind(&self) -> &'static str {
        match self.0.reduction {
            Reduction::Sum => "SumGrad",
            Reduction::Mean => "MeanGrad",
            Reduction::Prod => "ProdGrad",
            Reduction::Max => "MaxGrad",
            Reduction::Min => "MinGrad",
            Reduction::Any => "AnyGrad",
            Reduction::All => "AllGrad",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        Self(self.0.with_attributes(given)).into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let extreme = matches!(self.0.reduction, Reduction::Max | Reduction::Min);
        let of_truth = matches!(self.0.reduction, Reduction::Any | Reduction::All);
        let outputs = match inputs {
            _ if of_truth => None, // no gradient passes through it
            [dy, x, y @ ..] if x.dtype.is_real() && y.len() == usize::from(extreme) => {
                let left = self.0.reduced(x.shape);
                let fits = |value: &TensorType| {
                    value.dtype == x.dtype
                        && left.is_some_and(|left| left.merge(&value.shape).is_some())
                };
                (fits(dy) && y.iter().all(fits)).then(|| smallvec![*x])
            }
            _ => None,
        };
        let needs = "the gradient of a reduction, and what was reduced, f32 or f64";
        outputs.ok_or_else(|| GraphProblem::needs(needs, inputs))
    }

    /// The gradient of a sum or a mean does not depend on `x`, since these are linear; that of the
    /// greatest and the least element only by which it is.
    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let dy = of.only_arrived()?;
        match self.0.reduction {
            Reduction::Sum | Reduction::Mean => {
                Ok(vec![of.for_input(0, || dy.with(&[], self.0))?, None])
            }
            Reduction::Max | Reduction::Min => {
                let shares = || {
                    let ones = of.input(0).zeros_like() + 1.0;
                    ones.with(&[&of.input(1), &of.input(2)], *self)
                };
                let sum = Reduce { reduction: Reduction::Sum, ..self.0 };
                Ok(vec![of.for_input(0, || dy.mul(&shares()?)?.with(&[], sum))?, None, None])
            }
            _ => Err(of.no_gradient()),
        }
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        cost(inputs, outputs)
    }

    fn kernel_kind(&self) -> KernelKind {
        KernelKind::Reduction
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (dy, x, axes) = (inputs[0], inputs[1], self.0.axes);
        let shape = x.shape();
        Ok(by_float!(x.dtype(), T => written::<T>(shape, |out| match self.0.reduction {
            Reduction::Sum => reduce_grad::spread(dy.slice(), shape, axes, out),
            Reduction::Mean => reduce_grad::mean(dy.slice(), shape, axes, out),
            Reduction::Prod => reduce_grad::product(dy.slice(), x.slice(), shape, axes, out),
            _ => reduce_grad::extreme(dy.slice(), x.slice(), inputs[2].slice(), shape, axes, out),
        })))
    }
}

/// A flop for each element that is read, or written where that are more; every element of each
/// operand once.
pub(super) fn cost(inputs: &[Known], outputs: &[Known]) -> Cost {
    let most = inputs.iter().chain(outputs).map(|(_, shape)| shape.elements()).max();
    Cost::work(most.unwrap_or(0), bytes(inputs) + bytes(outputs))
}

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
                self.map(Reduce::all(Reduction::$reduction, rank))
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
        self.with(&[], Reduce { reduction, axes, keep_dims })
    }

    /// This value, whose `axes` have size 1, along these axes of `x`, in the shape of `x`.
    #[track_caller]
    pub(crate) fn spread_over(&self, x: &Self, axes: Axes) -> Result<Self, GraphError> {
        self.with(&[x], ReduceGrad(Reduce { reduction: Reduction::Sum, axes, keep_dims: true }))
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
