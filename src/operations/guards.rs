//! Operations that hand a value on and look at it: checks, prints, the end of a gradient, and the
//! default of an input.

use smallvec::smallvec;

use super::Array;
use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, Known,
    NewOperation, OpDef, Output, OutputTypes, Outputs, Target, TensorType, bytes, one,
};
use crate::say::say;
use crate::tensor::{DType, PartialShape, Shape, Tensor};

/// A look at a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// `(x)`: the same, through which no gradient passes back.
    StopGradient,
    /// `(x)`: the same; a step with an element that is not finite fails.
    CheckNumerics {
        /// The beginning of the error.
        message: String,
    },
    /// `(condition)`: no output; a step where an element is false fails.
    Assert {
        /// The error.
        message: String,
    },
    /// `(x, data…)`: `x`; the data is written to stderr.
    Print {
        /// The beginning of the line.
        message: String,
    },
    /// `(x)`: the same, whose gradient is told by a program that made the graph, and not by the
    /// graph (TensorFlow `tf.custom_gradient`): asking for it is an error.
    CustomGradient,
    /// `(default)`: the same, unless another value of this shape is fed (TensorFlow
    /// `tf.placeholder_with_default`).
    PlaceholderWithDefault {
        /// The shape that the default and what is fed must have, as far as it is known.
        shape: PartialShape,
    },
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    let message = String::new;
    [
        Guard::StopGradient,
        Guard::CheckNumerics { message: message() },
        Guard::Assert { message: message() },
        Guard::Print { message: message() },
        Guard::CustomGradient,
        Guard::PlaceholderWithDefault { shape: Shape::SCALAR.into() },
    ]
    .map(Defined::from)
    .into()
}

impl OpDef for Guard {
    fn kind(&self) -> &'static str {
        match self {
            Self::StopGradient => "StopGradient",
            Self::CheckNumerics { .. } => "CheckNumerics",
            Self::Assert { .. } => "Assert",
            Self::Print { .. } => "Print",
            Self::CustomGradient => "CustomGradient",
            Self::PlaceholderWithDefault { .. } => "PlaceholderWithDefault",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        let mut text = |own: &String| given.text("message", own.clone());
        match self {
            Self::StopGradient => Self::StopGradient,
            Self::CheckNumerics { message } => Self::CheckNumerics { message: text(message) },
            Self::Assert { message } => Self::Assert { message: text(message) },
            Self::Print { message } => Self::Print { message: text(message) },
            Self::CustomGradient => Self::CustomGradient,
            Self::PlaceholderWithDefault { shape } => {
                Self::PlaceholderWithDefault { shape: given.dims("shape", *shape) }
            }
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        match (self, inputs) {
            (Self::StopGradient | Self::CustomGradient, [x]) | (Self::Print { .. }, [x, ..]) => {
                Ok(smallvec![*x])
            }
            (Self::CheckNumerics { .. }, [x]) if x.dtype.is_real() => Ok(smallvec![*x]),
            (Self::CheckNumerics { .. }, _) => Err(GraphProblem::needs("one f32 or f64", inputs)),
            (Self::Assert { .. }, [condition]) if condition.dtype == DType::Bool => Ok(smallvec![]),
            (Self::Assert { .. }, _) => Err(GraphProblem::needs("one bool", inputs)),
            (Self::PlaceholderWithDefault { shape }, [x]) if shape.merge(&x.shape).is_some() => {
                Ok(one(x.dtype, *shape))
            }
            (Self::PlaceholderWithDefault { shape }, _) => {
                Err(GraphProblem::needs(&format!("a default of the shape {shape}"), inputs))
            }
            _ => Err(GraphProblem::needs("another number of inputs", inputs)),
        }
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let mut gradients = vec![None; of.inputs()];
        match self {
            Self::StopGradient | Self::Assert { .. } => {}
            Self::CheckNumerics { message } => {
                let message = format!("the gradient of {message}");
                let checked = of.only_arrived()?.with(&[], Self::CheckNumerics { message })?;
                gradients[0] = Some(checked);
            }
            Self::Print { .. } => gradients[0] = Some(of.only_arrived()?),
            Self::PlaceholderWithDefault { .. } => {
                let (dy, default) = (of.only_arrived()?, of.input(0));
                gradients[0] = Some(match dy.tensor_type() == default.tensor_type() {
                    true => dy,
                    false => dy.with(&[&default], Array::ReshapeLike)?,
                });
            }
            Self::CustomGradient => return Err(of.no_gradient()),
        }
        Ok(gradients)
    }

    fn cost(&self, inputs: &[Known], _: &[Known]) -> Cost {
        match self {
            Self::StopGradient | Self::CustomGradient | Self::PlaceholderWithDefault { .. } => {
                Cost::default()
            }
            _ => Cost::moved(bytes(inputs)),
        }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let x = inputs[0];
        match self {
            Self::StopGradient | Self::CustomGradient | Self::PlaceholderWithDefault { .. } => {}
            Self::CheckNumerics { message } => check_numerics(message, x)?,
            Self::Assert { message } if !x.slice::<bool>().iter().all(|holds| *holds) => {
                return Err(ComputeError::new(format!("the assertion does not hold: {message}")));
            }
            Self::Assert { .. } => return Ok(smallvec![]),
            Self::Print { message } => {
                let data: Vec<String> = inputs[1..].iter().map(|x| format!("[{x:?}]")).collect();
                say!("{message}{}", data.concat());
            }
        }
        Ok(smallvec![x.clone()])
    }

    fn needs_values(&self) -> bool {
        !matches!(self, Self::PlaceholderWithDefault { .. })
    }
}

fn check_numerics(message: &str, x: &Tensor) -> Result<(), ComputeError> {
    let (has_nan, is_finite) = match x.dtype() {
        DType::F32 => {
            let x = x.slice::<f32>();
            (x.iter().any(|x| x.is_nan()), x.iter().all(|x| x.is_finite()))
        }
        _ => {
            let x = x.slice::<f64>();
            (x.iter().any(|x| x.is_nan()), x.iter().all(|x| x.is_finite()))
        }
    };
    let found = if has_nan { "NaN" } else { "an infinite number" };
    if is_finite { Ok(()) } else { Err(ComputeError::new(format!("{message}: there is {found}"))) }
}

/// Looks at values.
impl Output {
    /// The same value, through which no gradient passes back (TensorFlow `tf.stop_gradient`).
    #[track_caller]
    pub fn stop_gradient(&self) -> Self {
        self.map(Guard::StopGradient)
    }

    /// The same value; a step where an element is NaN or infinite fails with `message` (TensorFlow
    /// `tf.debugging.check_numerics`).
    ///
    /// # Errors
    /// If the elements are not f32 or f64.
    #[track_caller]
    pub fn check_numerics(&self, message: &str) -> Result<Self, GraphError> {
        self.with(&[], Guard::CheckNumerics { message: message.to_owned() })
    }

    /// The same value; each step writes `message` and `data` to stderr (TensorFlow `tf.Print`).
    ///
    /// # Errors
    /// If the values are of other graphs.
    #[track_caller]
    pub fn print(&self, data: &[&Self], message: &str) -> Result<Self, GraphError> {
        self.with(data, Guard::Print { message: message.to_owned() })
    }

    /// An operation that fails its step with `message` unless all of these truth values hold
    /// (TensorFlow `tf.Assert`). It runs as a target, or as a control input of others.
    ///
    /// # Errors
    /// If these are not truth values.
    #[track_caller]
    pub fn assert_all(&self, message: &str) -> Result<Target, GraphError> {
        let inputs = [self.edge()];
        let op = Guard::Assert { message: message.to_owned() };
        let new = NewOperation { inputs: &inputs, ..NewOperation::of(op) };
        Ok(Target::new(self.graph().clone(), self.graph().add(new)?))
    }
}
