//! Elements moved along an axis, from its end to its beginning.

use smallvec::smallvec;

use super::Array;
use super::types::outputs;
use crate::graph::{
    Attributes, Backprop, ComputeError, Defined, GraphError, GraphProblem, OpDef, Output,
    OutputTypes, Outputs, TensorType,
};
use crate::tensor::Tensor;

/// `(x)`: each element this many positions further along an axis; those that leave it come in at
/// its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roll {
    /// The axis.
    pub axis: usize,
    /// The number of positions; below 0 towards the beginning.
    pub shift: i64,
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![Roll { axis: 0, shift: 0 }.into()]
}

impl OpDef for Roll {
    fn kind(&self) -> &'static str {
        "Roll"
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        Self { axis: given.size("axis", self.axis), shift: given.int("shift", self.shift) }.into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let result = match inputs {
            [x] if self.axis < x.shape.rank() => Some(*x),
            _ => None,
        };
        outputs(result, &format!("an axis {}", self.axis), inputs)
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let back = Self { shift: self.shift.saturating_neg(), ..*self };
        Ok(vec![Some(of.only_arrived()?.with(&[], back)?)])
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (x, axis) = (inputs[0], self.axis);
        let size = x.shape().dims()[axis];
        if size == 0 {
            return Ok(smallvec![x.clone()]);
        }
        let moved = self.shift.rem_euclid(size as i64) as usize;
        let parts = Array::Split { axis, sizes: vec![size - moved, moved] }.compute(inputs)?;
        Array::Concat { axis }.compute(&[&parts[1], &parts[0]])
    }
}

impl Output {
    /// Each element `shift` positions further along `axis`; those that leave it come in at its
    /// beginning (TensorFlow `tf.roll`).
    ///
    /// # Errors
    /// If there is no such axis.
    #[track_caller]
    pub fn roll(&self, shift: i64, axis: isize) -> Result<Self, GraphError> {
        let axis = self.axis(axis)?;
        self.with(&[], Roll { axis, shift })
    }
}
