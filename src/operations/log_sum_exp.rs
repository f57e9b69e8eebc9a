//! `ln ∑ eˣ` along some axes, without leaving the range of floats (TensorFlow
//! `tf.math.reduce_logsumexp`).

use smallvec::smallvec;

use super::{Binary, Reduce, Unary};
use crate::graph::{
    Attributes, Axes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind,
    Known, OpDef, Output, OutputTypes, Outputs, Reduction, TensorType, bytes,
};
use crate::kernels::cost::EXP;
use crate::tensor::{DType, Tensor};

/// `(x)`: `m + ln ∑ e^(x−m)` along some axes, where `m` is the greatest element, or 0 if that is
/// not finite.
///
/// Elements of −∞ add nothing; if all are −∞, or there are none, the result is −∞. The gradient is
/// the softmax: 0 for an element of −∞, even if all are −∞ (TensorFlow's is NaN then).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogSumExp {
    /// The axes to sum along.
    pub axes: Axes,
    /// Whether these axes stay, with size 1.
    pub keep_dims: bool,
}

impl LogSumExp {
    fn reduce(self, reduction: Reduction, keep_dims: bool) -> Reduce {
        Reduce { reduction, axes: self.axes, keep_dims }
    }
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![LogSumExp::default().into()]
}

impl OpDef for LogSumExp {
    fn kind(&self) -> &'static str {
        "LogSumExp"
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        Self {
            axes: given.axes("axes", self.axes),
            keep_dims: given.flag("keep_dims", self.keep_dims),
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        match inputs {
            [x] if matches!(x.dtype, DType::F32 | DType::F64) => {
                self.reduce(Reduction::Sum, self.keep_dims).infer(inputs)
            }
            _ => Err(GraphProblem::needs("one f32 or f64", inputs)),
        }
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let (x, mut y, mut dy) = (of.input(0), of.output(0), of.only_arrived()?);
        if !self.keep_dims {
            for axis in self.axes.iter() {
                (y, dy) = (y.expand_dims(axis as isize)?, dy.expand_dims(axis as isize)?);
            }
        }
        // e^(−∞ − −∞) is NaN; any finite number in place of the second −∞ makes it 0.
        let dtype = x.tensor_type().dtype;
        let least = if dtype == DType::F32 { f64::from(f32::MIN) } else { f64::MIN };
        let y = y.maximum(&x.graph().constant(Tensor::scalar_of(dtype, least)))?;
        Ok(vec![Some(x.sub(&y)?.exp().mul(&dy)?)])
    }

    /// A comparison, a difference, an exponential and a sum for each element, a logarithm and a sum
    /// for each result; every element of each operand once.
    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let elements =
            |values: &[Known]| -> usize { values.iter().map(|(_, shape)| shape.elements()).sum() };
        let flops = (EXP + 3) * elements(inputs) + (EXP + 1) * elements(outputs);
        Cost::work(flops, bytes(inputs) + bytes(outputs))
    }

    fn kernel_kind(&self) -> KernelKind {
        KernelKind::Reduction
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let run = |op: &dyn OpDef, inputs: &[&Tensor]| -> Result<Tensor, ComputeError> {
            Ok(op.compute(inputs)?.remove(0))
        };
        let mut greatest = run(&self.reduce(Reduction::Max, true), inputs)?;
        match greatest.dtype() {
            DType::F32 => zero_unless_finite(greatest.make_mut(), f32::is_finite),
            _ => zero_unless_finite(greatest.make_mut(), f64::is_finite),
        }
        let below = run(&Binary::Sub, &[inputs[0], &greatest])?;
        let powers = run(&Unary::Exp, &[&below])?;
        let sum = run(&self.reduce(Reduction::Sum, true), &[&powers])?;
        let log = run(&Unary::Log, &[&sum])?;
        let result = run(&Binary::Add, &[&log, &greatest])?;
        let own_shape = run(&self.reduce(Reduction::Max, self.keep_dims), &[&result])?.shape();
        Ok(smallvec![result.reshaped(own_shape)])
    }
}

fn zero_unless_finite<T: Copy + Default>(values: &mut [T], is_finite: impl Fn(T) -> bool) {
    for value in values.iter_mut() {
        if !is_finite(*value) {
            *value = T::default();
        }
    }
}

/// `ln ∑ eˣ`, of f32 or f64 (TensorFlow `tf.math.reduce_logsumexp`).
impl Output {
    /// `ln ∑ eˣ` of all elements, a scalar.
    ///
    /// # Errors
    /// If the elements are not f32 or f64.
    #[track_caller]
    pub fn log_sum_exp(&self) -> Result<Self, GraphError> {
        let axes = (0..self.tensor_type().shape.rank()).collect();
        self.with(&[], LogSumExp { axes, keep_dims: false })
    }

    /// `ln ∑ eˣ` of the elements along these axes, which are left out of the result's shape.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice, or the elements are not f32 or f64.
    #[track_caller]
    pub fn log_sum_exp_over(&self, axes: &[isize]) -> Result<Self, GraphError> {
        let axes = self.axes_to_reduce("LogSumExp", axes)?;
        self.with(&[], LogSumExp { axes, keep_dims: false })
    }

    /// `ln ∑ eˣ` of the elements along these axes, which stay with size 1.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice, or the elements are not f32 or f64.
    #[track_caller]
    pub fn log_sum_exp_keep_dims(&self, axes: &[isize]) -> Result<Self, GraphError> {
        let axes = self.axes_to_reduce("LogSumExp", axes)?;
        self.with(&[], LogSumExp { axes, keep_dims: true })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::{Graph, Op, gradients};
    use crate::kernels::Numerics;

    const INFINITY: f64 = f64::INFINITY;

    fn computed(axes: &[usize], keep_dims: bool, x: &Tensor) -> Tensor {
        let op = LogSumExp { axes: axes.iter().copied().collect(), keep_dims };
        op.compute(&[x]).unwrap().remove(0)
    }

    /// The definition, of one list of numbers.
    fn reference(values: &[f64]) -> f64 {
        let greatest = values.iter().copied().fold(-INFINITY, f64::max);
        let from = if greatest.is_finite() { greatest } else { 0.0 };
        values.iter().map(|x| (x - from).exp()).sum::<f64>().ln() + from
    }

    /// The value of `output`, computed kernel by kernel in the order of the graph.
    fn evaluated(output: &Output) -> Tensor {
        let def = output.graph().snapshot().unwrap();
        let mut values: Vec<Vec<Tensor>> = Vec::new();
        for operation in &def.operations {
            let input =
                |edge: &crate::graph::Edge| &values[edge.op.0 as usize][edge.output as usize];
            let inputs: Vec<&Tensor> = operation.inputs.iter().map(input).collect();
            let outputs = match &operation.op {
                Op::Const(value) => vec![value.clone()],
                op => Numerics::Real.call(op, &inputs).unwrap().into_vec(),
            };
            values.push(outputs);
        }
        values[output.edge().op.0 as usize][output.edge().output as usize].clone()
    }

    /// The gradient of the sum of squares of `ln ∑ eˣ` along `axes`.
    fn gradient(x: &Tensor, axes: &[isize], keep_dims: bool) -> Tensor {
        let g = Graph::new();
        let x = g.constant(x.clone());
        let y = match keep_dims {
            true => x.log_sum_exp_keep_dims(axes).unwrap(),
            false => x.log_sum_exp_over(axes).unwrap(),
        };
        let dx = gradients(&y.square().sum(), &[x]).unwrap().remove(0);
        evaluated(&dx.expect("the loss depends on it"))
    }

    proptest! {
        #[test]
        fn each_result_is_that_of_the_definition_along_any_axes(
            values in prop::collection::vec(-300f64..300.0, 24),
            axes in prop::collection::btree_set(0usize..3, 0..=3),
            keep_dims: bool,
        ) {
            let axes: Vec<usize> = axes.into_iter().collect();
            let x = Tensor::new([2, 3, 4], &values).unwrap();
            let found = computed(&axes, keep_dims, &x);
            let is_left = |axis: &usize| !axes.contains(axis);
            let dims = [2usize, 3, 4];
            let own: Vec<usize> = match keep_dims {
                true => (0..3).map(|axis| if is_left(&axis) { dims[axis] } else { 1 }).collect(),
                false => (0..3).filter(is_left).map(|axis| dims[axis]).collect(),
            };
            let shape = found.shape();
            prop_assert_eq!(shape.dims(), &own[..]);
            let mut groups = std::collections::BTreeMap::<Vec<usize>, Vec<f64>>::new();
            for (i, value) in values.iter().enumerate() {
                let at = [i / 12, i / 4 % 3, i % 4];
                let key = (0..3).filter(is_left).map(|axis| at[axis]).collect();
                groups.entry(key).or_default().push(*value);
            }
            for (found, group) in found.values::<f64>().unwrap().iter().zip(groups.values()) {
                let wanted = reference(group);
                prop_assert!((found - wanted).abs() <= 1e-12 * wanted.abs().max(1.0));
            }
        }

        #[test]
        fn the_gradient_is_that_of_finite_differences(
            values in prop::collection::vec(-3f64..3.0, 6), keep_dims: bool, over_rows: bool,
        ) {
            let axis = isize::from(!over_rows);
            let loss = |values: &[f64]| -> f64 {
                let x = Tensor::new([2, 3], values).unwrap();
                let y = computed(&[axis as usize], keep_dims, &x);
                y.values::<f64>().unwrap().iter().map(|y| y * y).sum()
            };
            let dx = gradient(&Tensor::new([2, 3], &values).unwrap(), &[axis], keep_dims);
            for (i, dx) in dx.values::<f64>().unwrap().iter().enumerate() {
                let moved = |by: f64| {
                    let mut values = values.clone();
                    values[i] += by;
                    loss(&values)
                };
                let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                prop_assert!((dx - difference).abs() < 1e-6, "{dx}, not {difference}");
            }
        }
    }

    #[test]
    fn large_numbers_do_not_overflow_and_small_ones_do_not_vanish() {
        let of = |values: &[f32]| {
            let x = Tensor::new([values.len()], values).unwrap();
            computed(&[0], false, &x).item::<f32>().unwrap()
        };
        assert_eq!(of(&[1000.0, 1000.0]), 1000.0 + 2f32.ln());
        assert_eq!(of(&[-1000.0, -1000.0]), -1000.0 + 2f32.ln());
        assert_eq!(of(&[f32::MAX, 0.0]), f32::MAX);
        assert_eq!(of(&[f32::NEG_INFINITY, 3.0]), 3.0);
        assert_eq!(of(&[f32::NEG_INFINITY, f32::NEG_INFINITY]), f32::NEG_INFINITY);
        assert_eq!(of(&[f32::INFINITY, 3.0]), f32::INFINITY);
        assert_eq!(of(&[]), f32::NEG_INFINITY);
        assert!(of(&[f32::NAN, 3.0]).is_nan());
    }

    #[test]
    fn the_gradient_of_elements_of_minus_infinity_is_0() {
        let some = Tensor::new([2, 2], &[-INFINITY, 2.0, -INFINITY, -INFINITY]).unwrap();
        let g = Graph::new();
        let x = g.constant(some);
        let y = x.log_sum_exp_over(&[1]).unwrap();
        let dx = evaluated(&gradients(&y.sum(), &[x]).unwrap().remove(0).unwrap());
        assert_eq!(dx.values::<f64>().unwrap(), [0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn integers_and_axes_that_are_not_there_are_refused() {
        let g = Graph::new();
        assert!(g.constant(1i32).log_sum_exp().is_err());
        assert!(g.constant(1f32).log_sum_exp_over(&[0]).is_err());
        let x = g.placeholder("x", DType::F32, [None, Some(3)]).unwrap();
        let shape = |y: Output| y.tensor_type().to_string();
        assert_eq!(shape(x.log_sum_exp().unwrap()), "f32[]");
        assert_eq!(shape(x.log_sum_exp_over(&[-1]).unwrap()), "f32[?]");
        assert_eq!(shape(x.log_sum_exp_keep_dims(&[0]).unwrap()), "f32[1,3]");
    }
}
