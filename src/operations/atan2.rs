//! The angle of a point in the plane.

use super::types::{broadcast, outputs, real};
use crate::graph::{
    Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, Known, OpDef, Output,
    OutputTypes, Outputs, TensorType, bytes,
};
use crate::kernels::broadcast::{map2_broadcast, shape_of};
use crate::kernels::cost::EXP;
use crate::kernels::written;
use crate::tensor::{DType, Tensor};

/// `(y, x)`, broadcast: the angle between the point (x, y) and the first axis, in (−π, π]; by the
/// platform's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atan2;

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![Atan2.into()]
}

impl OpDef for Atan2 {
    without_attributes!("Atan2");

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let result = if inputs.len() == 2 { real(inputs).zip(broadcast(inputs)) } else { None };
        let result = result.map(|(dtype, shape)| TensorType::new(dtype, shape));
        outputs(result, "two f32 or two f64, of shapes that broadcast", inputs)
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let (y, x, dy) = (of.input(0), of.input(1), of.only_arrived()?);
        let scaled = dy.div(&x.square().add(&y.square())?)?;
        let by_y = || scaled.mul(&x)?.summed_to(&y, &[&x]);
        let by_x = || scaled.mul(&y)?.negate().summed_to(&x, &[&y]);
        Ok(vec![of.for_input(0, by_y)?, of.for_input(1, by_x)?])
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        Cost::work(4 * EXP * outputs[0].1.elements(), bytes(inputs) + bytes(outputs))
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (y, x) = (inputs[0], inputs[1]);
        let shape = shape_of(y.shape(), x.shape());
        Ok(match y.dtype() {
            DType::F32 => written::<f32>(shape, |out| {
                let (y, x) = ((y.slice(), y.shape()), (x.slice(), x.shape()));
                map2_broadcast(y, x, out, shape, |y: f32, x: f32| {
                    f64::from(y).atan2(f64::from(x)) as f32
                });
            }),
            _ => written::<f64>(shape, |out| {
                let (y, x) = ((y.slice(), y.shape()), (x.slice(), x.shape()));
                map2_broadcast(y, x, out, shape, f64::atan2);
            }),
        })
    }
}

impl Output {
    /// The angle of the points whose second coordinates these are, and whose first ones are `x`
    /// (TensorFlow `tf.atan2`).
    ///
    /// # Errors
    /// If they are not f32 or f64 of one type, or their shapes do not broadcast.
    #[track_caller]
    pub fn atan2(&self, x: &Self) -> Result<Self, GraphError> {
        self.with(&[x], Atan2)
    }
}
