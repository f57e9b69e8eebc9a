//! The variance of initial values, by the shape of the variable.

use crate::graph::{Fan, Graph, RandomLaw, Spread, TensorType, VarianceScaling};
use crate::tensor::DType;

/// The limit of a uniform law or the deviation of a normal one.
fn width(law: RandomLaw) -> f32 {
    match law {
        RandomLaw::Uniform { low, high } => {
            assert_eq!(low, -high);
            high
        }
        RandomLaw::Normal { mean, deviation } | RandomLaw::TruncatedNormal { mean, deviation } => {
            assert_eq!(mean, 0.0);
            deviation
        }
    }
}

fn assert_width(scaling: VarianceScaling, shape: &[usize], wanted: f32) {
    let found = width(scaling.law(shape));
    assert!(
        (found / wanted - 1.0).abs() < 1e-6,
        "{scaling:?} of {shape:?} is {found}, not {wanted}"
    );
}

#[test]
fn the_variance_is_over_the_inputs_the_outputs_or_their_mean() {
    assert_width(VarianceScaling::GLOROT_UNIFORM, &[20, 10], (6.0f32 / 30.0).sqrt());
    assert_width(VarianceScaling::HE_UNIFORM, &[20, 10], (6.0f32 / 20.0).sqrt());
    assert_width(VarianceScaling::LECUN_UNIFORM, &[20, 10], (3.0f32 / 20.0).sqrt());
    let by_outputs = VarianceScaling { scale: 3.0, fan: Fan::Out, spread: Spread::Normal };
    assert_width(by_outputs, &[20, 10], 0.3f32.sqrt());
}

#[test]
fn a_truncated_normal_is_widened_to_the_variance_asked_for() {
    assert_width(VarianceScaling::GLOROT_NORMAL, &[20, 12], 0.25 / 0.879_625_7);
    assert_width(VarianceScaling::HE_NORMAL, &[32, 10], 0.25 / 0.879_625_7);
    assert_width(VarianceScaling::LECUN_NORMAL, &[16, 10], 0.25 / 0.879_625_7);
}

#[test]
fn the_kernel_of_a_convolution_counts_its_field_for_inputs_and_outputs() {
    assert_width(VarianceScaling::GLOROT_UNIFORM, &[5, 3, 8, 16], (6.0f32 / (15.0 * 24.0)).sqrt());
    assert_width(VarianceScaling::HE_UNIFORM, &[5, 3, 8, 16], (6.0f32 / 120.0).sqrt());
    assert_width(VarianceScaling::HE_UNIFORM, &[6], 1.0);
    assert_width(VarianceScaling::HE_UNIFORM, &[0, 3], 6f32.sqrt());
}

#[test]
fn a_fill_has_the_type_of_its_value() {
    let g = Graph::new();
    assert_eq!(g.fill([2], 7i64).tensor_type(), TensorType::new(DType::I64, [2]));
    assert_eq!(g.fill([2], true).tensor_type(), TensorType::new(DType::Bool, [2]));
    assert_eq!(g.ones([2]).tensor_type(), TensorType::new(DType::F32, [2]));
}
