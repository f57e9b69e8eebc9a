//! A layer of which only the cost is known: it takes its time, and its numbers are zeros.

use smallvec::smallvec;

use crate::graph::{
    Attributes, ComputeError, Cost, Defined, GraphProblem, Known, OpDef, OutputTypes, Outputs,
    TensorType,
};
use crate::tensor::{DType, Tensor};

/// `(token)` or `(token, parameters)`: so many operations. Tokens (f32, scalar) order the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synthetic {
    /// Forward: a token.
    Forward { operations: usize },
    /// Backward: a token and, with parameters, their gradient.
    Backward { operations: usize },
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![Synthetic::Forward { operations: 0 }.into(), Synthetic::Backward { operations: 0 }.into()]
}

impl OpDef for Synthetic {
    fn kind(&self) -> &'static str {
        match self {
            Self::Forward { .. } => "SyntheticForward",
            Self::Backward { .. } => "SyntheticBackward",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        match *self {
            Self::Forward { operations } => {
                Self::Forward { operations: given.size("operations", operations) }
            }
            Self::Backward { operations } => {
                Self::Backward { operations: given.size("operations", operations) }
            }
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let is_f32 = inputs.iter().all(|input| input.dtype == DType::F32);
        match (self, inputs) {
            (Self::Forward { .. }, [token, ..]) | (Self::Backward { .. }, [token])
                if is_f32 && inputs.len() <= 2 =>
            {
                Ok(smallvec![*token])
            }
            (Self::Backward { .. }, [token, parameters]) if is_f32 => {
                Ok(smallvec![*token, *parameters])
            }
            _ => Err(GraphProblem::needs("a token and perhaps parameters, of f32", inputs)),
        }
    }

    fn cost(&self, _: &[Known], _: &[Known]) -> Cost {
        let (Self::Forward { operations } | Self::Backward { operations }) = *self;
        Cost::work(operations, 0)
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let given = match self {
            Self::Forward { .. } => &inputs[..1],
            Self::Backward { .. } => inputs,
        };
        Ok(given.iter().map(|input| Tensor::full(input.shape(), 0f32)).collect())
    }
}
