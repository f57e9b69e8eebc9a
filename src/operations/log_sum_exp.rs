//! `ln ∑ eˣ` along some axes, of operations that stay within the range of floats (TensorFlow
//! `tf.math.reduce_logsumexp`).

use crate::graph::{GraphError, GraphProblem, Output};
use crate::tensor::DType;

/// `ln ∑ eˣ`, of f32 or f64 (TensorFlow `tf.math.reduce_logsumexp`).
///
/// Elements of −∞ add nothing; if all are −∞, or there are none, the result is −∞. The gradient is
/// the softmax; it is NaN where all elements are −∞.
impl Output {
    /// `ln ∑ eˣ` of all elements, a scalar.
    ///
    /// # Errors
    /// If the elements are not f32 or f64.
    #[track_caller]
    pub fn log_sum_exp(&self) -> Result<Self, GraphError> {
        let axes: Vec<isize> = (0..self.tensor_type().shape.rank() as isize).collect();
        self.log_sum_exp_over(&axes)
    }

    /// `ln ∑ eˣ` of the elements along these axes, which are left out of the result's shape.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice, or the elements are not f32 or f64.
    #[track_caller]
    pub fn log_sum_exp_over(&self, axes: &[isize]) -> Result<Self, GraphError> {
        let result = self.log_sum_exp_keep_dims(axes)?;
        // Without axes, `squeeze` takes all of size 1.
        if axes.is_empty() { Ok(result) } else { result.squeeze(axes) }
    }

    /// `ln ∑ eˣ` of the elements along these axes, which stay with size 1.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice, or the elements are not f32 or f64.
    #[track_caller]
    pub fn log_sum_exp_keep_dims(&self, axes: &[isize]) -> Result<Self, GraphError> {
        let of = self.tensor_type();
        if !of.dtype.is_real() {
            let problem = GraphProblem::needs("one f32 or f64", &[of]);
            return Err(GraphError::new("LogSumExp", problem));
        }
        // e^(x − m) is at most 1 where m is the greatest element; an infinite m would give NaN.
        let most = if of.dtype == DType::F32 { f64::from(f32::MAX) } else { f64::MAX };
        let greatest = self.max_keep_dims(axes)?;
        let from = greatest
            .maximum(&greatest.scalar_alike(-most))?
            .minimum(&greatest.scalar_alike(most))?
            .stop_gradient();
        self.sub(&from)?.exp().sum_keep_dims(axes)?.log().add(&from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::{Graph, Op, gradients};
    use crate::kernels::Numerics;
    use crate::tensor::Tensor;

    const INFINITY: f64 = f64::INFINITY;

    fn log_sum_exp(x: &Output, axes: &[isize], keep_dims: bool) -> Output {
        let of = if keep_dims { Output::log_sum_exp_keep_dims } else { Output::log_sum_exp_over };
        of(x, axes).unwrap()
    }

    fn computed(axes: &[isize], keep_dims: bool, x: &Tensor) -> Tensor {
        evaluated(&log_sum_exp(&Graph::new().constant(x.clone()), axes, keep_dims))
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
        let y = log_sum_exp(&x, axes, keep_dims);
        let dx = gradients(&y.square().sum(), &[x]).unwrap().remove(0);
        evaluated(&dx.expect("the loss depends on it"))
    }

    proptest! {
        #[test]
        fn each_result_is_that_of_the_definition_along_any_axes(
            values in prop::collection::vec(-300f64..300.0, 24),
            axes in prop::collection::btree_set(0isize..3, 0..=3),
            keep_dims: bool,
        ) {
            let axes: Vec<isize> = axes.into_iter().collect();
            let x = Tensor::new([2, 3, 4], &values).unwrap();
            let found = computed(&axes, keep_dims, &x);
            let is_left = |axis: &usize| !axes.contains(&(*axis as isize));
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
                let y = computed(&[axis], keep_dims, &x);
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
    fn the_gradient_of_an_element_of_minus_infinity_is_0_beside_a_finite_one_and_nan_alone() {
        let x = Tensor::new([2, 2], &[-INFINITY, 2.0, -INFINITY, -INFINITY]).unwrap();
        let g = Graph::new();
        let x = g.constant(x);
        let y = x.log_sum_exp_over(&[1]).unwrap();
        let dx = evaluated(&gradients(&y.sum(), &[x]).unwrap().remove(0).unwrap());
        let dx = dx.values::<f64>().unwrap();
        assert_eq!(dx[..2], [0.0, 1.0]);
        assert!(dx[2].is_nan() && dx[3].is_nan(), "{dx:?}");
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
