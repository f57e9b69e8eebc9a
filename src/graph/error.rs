//! Errors of building a graph; each names the operation, the shapes and the line that built it.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::{Replica, TensorType};
use crate::cluster::DeviceNameError;
use crate::sync::Mode;
use crate::tensor::{DType, TensorError};

/// A mistake in building a graph.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{operation}, built at {built_at}: {problem}")]
pub struct GraphError {
    /// The operation's kind and, if it has one, its name.
    pub operation: String,
    /// The line of the user's program that built it.
    pub built_at: &'static Location<'static>,
    /// The mistake.
    pub problem: GraphProblem,
}

/// A mistake in an operation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphProblem {
    /// The inputs' element types or shapes don't fit the operation.
    #[error("it needs {needs}, but its inputs are {}", Types(inputs))]
    Inputs {
        /// The inputs that would fit, in words.
        needs: String,
        /// The inputs that it was given.
        inputs: Vec<TensorType>,
    },
    /// A value's type differs from that of its variable.
    #[error("the variable `{variable}` holds {holds}, which is not {given}")]
    Variable {
        /// The variable.
        variable: String,
        /// Its element type and shape.
        holds: Box<TensorType>,
        /// The type of the value.
        given: Box<TensorType>,
    },
    /// The name has characters that no operation's name may have.
    #[error(
        "illegal name: it must be of letters, digits and `_`, `.`, `-`, `/`, and begin with a \
         letter, digit or `.`"
    )]
    IllegalName,
    /// Another operation has that name.
    #[error("the name is taken by the operation built at {0}")]
    NameTaken(&'static Location<'static>),
    /// An input belongs to another graph.
    #[error("`{0}` belongs to another graph")]
    OtherGraph(String),
    /// A variable that must be local to each worker is shared.
    #[error("all workers share the variable `{0}`; build it within `Graph::with_local_variables`")]
    NotLocal(String),
    /// A training step was built for another training than that of the run.
    #[error(
        "it was built for {built_for}, but it is run by {run}; build it with \
         `task.minimize(optimizer, &loss)` or `task.apply_gradients(optimizer, &pairs)`, which \
         train as the run does"
    )]
    OtherTraining {
        /// The replica it was built for.
        built_for: Replica,
        /// The replica that is about to run it.
        run: Replica,
    },
    /// Workers would wait for ever for the first update of a training in TensorFlow's synchronous
    /// mode.
    #[error(
        "too few tokens to finish the first step: {given} given, {needed} needed; a worker takes \
         one with each of its gradients"
    )]
    TooFewTokens {
        /// The number of tokens that there would be.
        given: u32,
        /// The number of gradients that an update takes, besides one of each worker.
        needed: u32,
    },
    /// A number was to be combined with values of a type that does not have it.
    #[error("{value} is no {dtype}: write a whole number, or cast the values to f32")]
    NoSuchNumber {
        /// The number.
        value: f64,
        /// The type of the values.
        dtype: DType,
    },
    /// The device's name is malformed.
    #[error(transparent)]
    Device(#[from] DeviceNameError),
    /// The learning rate has no value at some step.
    #[error("its schedule makes no sense: {0}")]
    Schedule(&'static str),
    /// The loss depends on a value that it is differentiated by through an operation without a
    /// gradient.
    #[error(
        "no gradient is defined for {operation}, built at {built_at}, and the loss is computed \
         through it"
    )]
    NoGradient {
        /// The operation's name and kind.
        operation: String,
        /// The line of the user's program that built it.
        built_at: &'static Location<'static>,
    },
    /// An operation of the program gives gradients that don't fit its inputs.
    #[error("`OpDef::gradient` of {operation}, built at {built_at}, {what}")]
    WrongGradient {
        /// The operation's name and kind.
        operation: String,
        /// The line of the user's program that built it.
        built_at: &'static Location<'static>,
        /// What it gives, and what it should.
        what: String,
    },
    /// No other task could read a graph with this update rule.
    #[error(
        "no update rule `{0}` is registered; call `optimizer::register_rule` at the beginning of \
         `main`, so that all tasks know it"
    )]
    UnknownRule(&'static str),
    /// A parameter of an update rule is out of its range, or its slots are in an order that updates
    /// can't have.
    #[error("{0}")]
    RuleParameter(String),
    /// The run's mode changes the learning rate as the update rule can't have it.
    #[error("{0}")]
    RuleInMode(String),
    /// No other task could read a graph with this operation.
    #[error(
        "no operation `{0}` is registered; call `operations::register_operation` at the beginning \
         of `main`, so that all tasks know it"
    )]
    UnknownOperation(&'static str),
    /// An operation or an update rule has a field that other tasks would have with another value.
    #[error(
        "`{name}` has `{here}`, but another task would run it with `{there}`, as it is registered: \
         ask `given` for each of its fields in `{asked_in}`, for no message has the others"
    )]
    Unlisted {
        /// The operation's kind, or the rule's name.
        name: &'static str,
        /// The method that lists its fields.
        asked_in: &'static str,
        /// The field here.
        here: String,
        /// The field as another task would have it.
        there: String,
    },
    /// An operation without outputs was asked for its first one.
    #[error("it has no output: build it with `Graph::apply`, whose target a step runs")]
    NoOutput,
    /// A branch or a loop has an operation with state, or a placeholder.
    #[error(
        "a branch or a loop can't contain it; build it outside, and hand its value in as an input"
    )]
    NotInFunction,
    /// The loss does not depend on any of the variables.
    #[error("no gradient for any variable: the loss does not depend on one that is trainable")]
    NoGradients,
    /// Two optimizers of a training operation are to update one variable.
    #[error("two optimizers are to update the variable `{0}`; leave it in one of the lists")]
    TwoOptimizers(String),
    /// The run's mode allows no such training operation beside the graph's first one.
    #[error(
        "the mode {mode} does not allow this training operation beside `{first}`, built at \
         {built_at}: {why}; train all variables by one operation (`task.apply_gradients_by` takes \
         an optimizer for each list of them), or in the mode `sync` or `async`"
    )]
    SecondTraining {
        /// The run's mode.
        mode: Mode,
        /// The name of the first training operation.
        first: String,
        /// The line of the user's program that built it.
        built_at: &'static Location<'static>,
        /// The mode's reason.
        why: &'static str,
    },
    /// Another error that the program met while it built the graph.
    #[error(transparent)]
    Other(#[from] OtherError),
}

/// An error of another kind, within a [`GraphError`].
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct OtherError(Arc<dyn std::error::Error + Send + Sync>);

impl OtherError {
    /// The error, if it is a `T`.
    pub fn downcast_ref<T: std::error::Error + 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl PartialEq for OtherError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl GraphError {
    /// `error`, met while a graph was being built.
    #[track_caller]
    pub fn other(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::new("building the graph", GraphProblem::Other(OtherError(Arc::new(error))))
    }

    /// A mistake of the caller in building `operation`.
    #[track_caller]
    pub(crate) fn new(operation: impl Into<String>, problem: GraphProblem) -> Self {
        Self { operation: operation.into(), built_at: Location::caller(), problem }
    }
}

impl GraphProblem {
    /// The problem of an operation or a rule that is as `here`, and that another task would read as
    /// `there`; none if the two are alike. It is called `name`, and asks for its fields in the
    /// method `asked_in`.
    pub(crate) fn unlisted(
        name: &'static str,
        asked_in: &'static str,
        here: &impl fmt::Debug,
        there: &impl fmt::Debug,
    ) -> Option<Self> {
        if format!("{here:?}") == format!("{there:?}") {
            return None;
        }
        // One field a line: it takes far longer, and only an error shows it.
        let (here, there) = (format!("{here:#?}"), format!("{there:#?}"));
        let differ = here.lines().zip(there.lines()).find(|(here, there)| here != there);
        let (here, there) = differ.unwrap_or((here.as_str(), there.as_str()));
        let field = |line: &str| line.trim().trim_end_matches(',').to_owned();
        Some(Self::Unlisted { name, asked_in, here: field(here), there: field(there) })
    }
}

impl From<TensorError> for GraphError {
    #[track_caller]
    fn from(error: TensorError) -> Self {
        Self::other(error)
    }
}

/// A list of types as an error shows it.
struct Types<'a>(&'a [TensorType]);

impl fmt::Display for Types<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (i, input) in self.0.iter().enumerate() {
            write!(f, "{}{input}", if i == 0 { "" } else { " and " })?;
        }
        Ok(())
    }
}
