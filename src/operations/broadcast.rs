//! Broadcasting apart from a function's own: a choice between two values, the sum back to a shape,
//! and the sum of many values.

use smallvec::{SmallVec, smallvec};

use super::types::{broadcast, matching, number, outputs, real};
use crate::graph::{
    Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind, Known,
    NewOperation, Op, OpDef, Output, OutputTypes, Outputs, TensorType, bytes,
};
use crate::kernels::number::Number;
use crate::kernels::{
    broadcast as kernel, by_float, by_number, by_word, elementwise, filled_in, written,
};
use crate::tensor::{DType, Shape, Tensor};

listed! {
    /// An operation on values that are broadcast, or on many of one shape.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Broadcast {
        /// `(condition, a, b)`, broadcast: an element of `a` where the condition holds, else of `b`
        /// (TensorFlow `SelectV2`).
        Select as "SelectV2",
        /// `(gradient, x)`: the gradient summed over the dimensions that `x` was broadcast along,
        /// to the shape of `x`.
        SumToLike,
        /// The sum of all inputs, in their order.
        AddN,
    }
    const ALL;
    /// The name of its kind.
    fn name;
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    Broadcast::ALL.map(Defined::from).into()
}

impl OpDef for Broadcast {
    without_attributes!();

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let (dtype, shape, needs) = match (self, inputs) {
            (Self::Select, [condition, a, b]) => {
                let fits = condition.dtype == DType::Bool && a.dtype == b.dtype;
                let needs = "a bool condition and two values of one type, of shapes that broadcast";
                (fits.then_some(a.dtype), broadcast(inputs), needs)
            }
            (Self::SumToLike, [dy, x]) => {
                let all = broadcast(inputs).filter(|all| all.merge(&dy.shape).is_some());
                let needs = "a gradient and a value that was broadcast to its shape";
                (real(inputs), all.map(|_| x.shape), needs)
            }
            (Self::AddN, [_, ..]) => {
                (number(inputs), matching(inputs), "numbers of one type and shape")
            }
            _ => (None, None, "another number of inputs"),
        };
        let result = dtype.zip(shape).map(|(dtype, shape)| TensorType::new(dtype, shape));
        outputs(result, needs, inputs)
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let dy = of.only_arrived()?;
        match self {
            Self::Select => {
                let (condition, a, b) = (of.input(0), of.input(1), of.input(2));
                let zero = || dy.scalar_alike(0.0);
                let by_a = || condition.select(&dy, &zero())?.summed_to(&a, &[&condition, &b]);
                let by_b = || condition.select(&zero(), &dy)?.summed_to(&b, &[&condition, &a]);
                Ok(vec![None, of.for_input(1, by_a)?, of.for_input(2, by_b)?])
            }
            Self::AddN => (0..of.inputs()).map(|i| of.for_input(i, || Ok(dy.clone()))).collect(),
            Self::SumToLike => {
                Ok(vec![of.for_input(0, || of.input(0).zeros_like().add(&dy))?, None])
            }
        }
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let elements = outputs[0].1.elements();
        let flops = match (self, inputs) {
            (Self::Select, _) => elements,
            (Self::AddN, inputs) => elements * inputs.len(),
            (_, [(_, dy), ..]) if dy.elements() == elements => return Cost::default(),
            (_, [dy, ..]) => return Cost::work(dy.1.elements(), bytes(&[*dy]) + bytes(outputs)),
            (_, []) => 0,
        };
        Cost::work(flops, bytes(inputs) + bytes(outputs))
    }

    fn kernel_kind(&self) -> KernelKind {
        match self {
            Self::Select => KernelKind::Movement,
            Self::SumToLike => KernelKind::Reduction,
            Self::AddN => KernelKind::Elementwise,
        }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Ok(match (self, inputs) {
            (Self::Select, [condition, a, b]) => smallvec![select(condition, a, b)],
            (Self::SumToLike, [dy, x]) if dy.shape().elements() == x.shape().elements() => {
                smallvec![dy.reshaped(x.shape())]
            }
            (Self::SumToLike, [dy, x]) => by_float!(dy.dtype(), T => {
                written::<T>(x.shape(), |out| {
                    kernel::sum_to((dy.slice(), dy.shape()), out, x.shape());
                })
            }),
            (_, inputs) => by_number!(inputs[0].dtype(), T => add_n::<T>(inputs)),
        })
    }
}

/// The elements are moved as words, since no arithmetic looks at them.
fn select(condition: &Tensor, a: &Tensor, b: &Tensor) -> Tensor {
    let shape = kernel::shape_of(condition.shape(), kernel::shape_of(a.shape(), b.shape()));
    by_word!(a.dtype(), W => filled_in::<W>(a.dtype(), shape, |out| {
        let [chosen, other] = [a, b].map(|x| (x.words(), x.shape()));
        kernel::select((condition.slice(), condition.shape()), chosen, other, out, shape);
    }))
}

fn add_n<T: Number>(inputs: &[&Tensor]) -> Outputs {
    let slices: SmallVec<[&[T]; 8]> = inputs.iter().map(|input| input.slice()).collect();
    written(inputs[0].shape(), |out| elementwise::add_n(&slices, T::ONE, out))
}

impl Output {
    /// The elements of `a` where these truth values hold, and those of `b` elsewhere; all three are
    /// broadcast (TensorFlow `tf.where`).
    ///
    /// # Errors
    /// If these are not truth values, the types of `a` and `b` differ, or the shapes do not
    /// broadcast.
    #[track_caller]
    pub fn select(&self, a: &Self, b: &Self) -> Result<Self, GraphError> {
        self.with(&[a, b], Broadcast::Select)
    }

    /// The sum of this value and `others`, in their order.
    #[track_caller]
    pub(crate) fn add_all(&self, others: &[&Self]) -> Result<Self, GraphError> {
        self.with(others, Broadcast::AddN)
    }

    /// A scalar of this value's element type.
    #[track_caller]
    pub(crate) fn scalar_alike(&self, value: f64) -> Self {
        let value = Tensor::scalar_of(self.tensor_type().dtype, value);
        self.graph().add_checked(NewOperation::of(Op::Fill { shape: Shape::SCALAR, value }))
    }

    /// Sums this gradient of a result to the shape of `x`, which was broadcast with `others`.
    ///
    /// Adds no operation if the shapes show that `x` has the result's shape.
    pub(super) fn summed_to(&self, x: &Self, others: &[&Self]) -> Result<Self, GraphError> {
        let own = x.tensor_type().shape;
        let keeps_its_shape = others.iter().all(|other| {
            let other = other.tensor_type().shape;
            let mut aligned = own.dims().iter().rev().zip(other.dims().iter().rev());
            let is_kept = |(own, other): (&Option<usize>, &Option<usize>)| {
                *other == Some(1) || own.is_some_and(|own| own != 1)
            };
            other.rank() <= own.rank() && aligned.all(is_kept)
        });
        if keeps_its_shape {
            return Ok(self.clone());
        }
        self.with(&[x], Broadcast::SumToLike)
    }
}
