//! The defined operations by kind: the library's, and those that the program has registered.

use std::collections::BTreeMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use super::built_in;
use crate::graph::{
    Defined, Edge, Graph, GraphError, GraphProblem, NewOperation, Op, OpDef, Output, Target,
    TensorType,
};

/// The library's operations, each with any attributes; a position is the operation's number.
static BUILT_IN: LazyLock<Vec<Defined>> = LazyLock::new(built_in);

/// The operations by kind. Read when a graph is built or arrives, never in a step.
static OPERATIONS: LazyLock<RwLock<BTreeMap<&'static str, Registered>>> = LazyLock::new(|| {
    let by_kind = |(number, op): (usize, &Defined)| {
        (op.definition().kind(), Registered { op: op.clone(), number: Some(number) })
    };
    RwLock::new(BUILT_IN.iter().enumerate().map(by_kind).collect())
});

/// An operation with any attributes, and its number if it is the library's.
#[derive(Clone)]
pub(super) struct Registered {
    pub(super) op: Defined,
    pub(super) number: Option<usize>,
}

/// Registers an operation, so that graphs from other tasks may use it with any attributes.
///
/// Every task of a cluster runs the same program, so call it first thing in `main`: a task must
/// know the operation before another's graph arrives. Calling it again changes nothing.
///
/// # Panics
/// If there is another operation of that kind.
pub fn register_operation(operation: impl OpDef) {
    let op = Defined::from(operation).checked();
    let kind = op.definition().kind();
    let mut operations = OPERATIONS.write().unwrap_or_else(PoisonError::into_inner);
    let new = || Registered { op: op.clone(), number: None };
    let is_same = operations.entry(kind).or_insert_with(new).op.is_same_kind(&op);
    drop(operations);
    assert!(is_same, "there is another operation called `{kind}`: give this one another name");
}

/// The operation of that kind.
pub(super) fn of_kind(kind: &str) -> Option<Registered> {
    OPERATIONS.read().unwrap_or_else(PoisonError::into_inner).get(kind).cloned()
}

/// The library's operation of that number.
pub(super) fn of_number(number: usize) -> Option<&'static Defined> {
    BUILT_IN.get(number)
}

impl Graph {
    /// Applies `operation` to `inputs`, of which there may be none, and returns it as a target of a
    /// step. Its outputs, of which there may be none, are those of [`Target::output`].
    /// [`Output::apply`] gives the first one.
    ///
    /// # Errors
    /// If the inputs don't fit or are of another graph; if no other task could read a graph with
    /// the operation, or would read other values of its fields.
    #[track_caller]
    pub fn apply(&self, operation: impl OpDef, inputs: &[&Output]) -> Result<Target, GraphError> {
        let op = registered(operation)?;
        for input in inputs {
            self.check_own(op.definition().kind(), input)?;
        }
        let inputs: Vec<Edge> = inputs.iter().map(|input| input.edge()).collect();
        let new = NewOperation { inputs: &inputs, ..NewOperation::of(Op::Defined(op)) };
        Ok(Target::new(self.clone(), self.add(new)?))
    }
}

impl Output {
    /// Applies `operation` to this and `others`, and returns its first output. Its
    /// [`target`](Output::target) has the other outputs. [`Graph::apply`] is for operations without
    /// inputs or without outputs.
    ///
    /// # Errors
    /// If the inputs don't fit or the operation has no output; if no other task could read a graph
    /// with it, or would read other values of its fields.
    #[track_caller]
    pub fn apply(&self, operation: impl OpDef, others: &[&Self]) -> Result<Self, GraphError> {
        let op = registered(operation)?;
        let inputs: Vec<TensorType> =
            std::iter::once(self).chain(others.iter().copied()).map(Self::tensor_type).collect();
        if op.definition().infer(&inputs).is_ok_and(|outputs| outputs.is_empty()) {
            return Err(GraphError::new(op.definition().kind(), GraphProblem::NoOutput));
        }
        self.with(others, Op::Defined(op))
    }
}

/// The operation as a graph has it.
///
/// # Errors
/// If it is not registered, or has a field that it does not list.
#[track_caller]
fn registered(operation: impl OpDef) -> Result<Defined, GraphError> {
    let (kind, operation) = (operation.kind(), Defined::from(operation));
    let known = of_kind(kind).filter(|known| known.op.is_same_kind(&operation));
    let problem = match known {
        Some(known) => unlisted(&operation, &known.op),
        None => Some(GraphProblem::UnknownOperation(kind)),
    };
    match problem {
        None => Ok(operation.checked()),
        Some(problem) => Err(GraphError::new(kind, problem)),
    }
}

/// The problem that another task would not read `operation` as it is, but with a field of the
/// `registered` one.
pub(super) fn unlisted(operation: &Defined, registered: &Defined) -> Option<GraphProblem> {
    let values = operation.listed().into_iter().map(|(_, value)| value).collect();
    let read = registered.with(values).unwrap_or_else(|| registered.clone());
    let kind = operation.definition().kind();
    GraphProblem::unlisted(kind, "OpDef::attributes", operation, &read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Attributes, ComputeError, OutputTypes, Outputs};
    use crate::tensor::{DType, Shape};

    /// An operation of a program that takes anything, with as many scalars as outputs.
    #[derive(Debug)]
    struct Scalars(usize);

    impl OpDef for Scalars {
        fn kind(&self) -> &'static str {
            "Scalars"
        }

        fn attributes(&self, given: &mut Attributes) -> Defined {
            Self(given.size("count", self.0)).into()
        }

        fn infer(&self, _: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
            Ok((0..self.0).map(|_| TensorType::new(DType::F32, Shape::SCALAR)).collect())
        }

        fn compute(&self, _: &[&crate::tensor::Tensor]) -> Result<Outputs, ComputeError> {
            Ok((0..self.0).map(|_| 1f32.into()).collect())
        }
    }

    #[test]
    fn an_operation_of_a_program_may_have_no_inputs_and_no_outputs() {
        register_operation(Scalars(0));
        let g = Graph::new();
        let two = g.apply(Scalars(2), &[]).unwrap();
        let names = (0..3).map(|i| two.output(i).map(|output| output.name()));
        let expected = [Some("Scalars".to_owned()), Some("Scalars:1".to_owned()), None];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        let x = two.output(0).unwrap();
        let sink = g.apply(Scalars(0), &[&x]).unwrap();
        assert!(sink.output(0).is_none());
        let error = x.apply(Scalars(0), &[]).unwrap_err();
        assert_eq!(error.problem, GraphProblem::NoOutput);
        assert!(error.built_at.file().ends_with("registry.rs"), "{error}");
        let foreign = Graph::new().apply(Scalars(1), &[&x]).unwrap_err();
        assert_eq!(foreign.problem, GraphProblem::OtherGraph("Scalars".to_owned()));
    }

    /// An operation that asks for one of its two fields.
    #[derive(Debug)]
    struct Forgetful {
        listed: usize,
        forgotten: f32,
    }

    impl OpDef for Forgetful {
        fn kind(&self) -> &'static str {
            "Forgetful"
        }

        fn attributes(&self, given: &mut Attributes) -> Defined {
            Self { listed: given.size("listed", self.listed), ..*self }.into()
        }

        fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
            Ok(inputs.iter().copied().collect())
        }

        fn compute(&self, _: &[&crate::tensor::Tensor]) -> Result<Outputs, ComputeError> {
            Ok([self.forgotten.into()].into_iter().collect())
        }
    }

    #[test]
    fn an_operation_with_a_field_that_other_tasks_would_not_get_is_refused_by_the_fields_name() {
        register_operation(Forgetful { listed: 0, forgotten: 1.0 });
        let x = Graph::new().constant(1f32);
        let applied = |listed, forgotten| x.apply(Forgetful { listed, forgotten }, &[]);
        assert!(applied(2, 1.0).is_ok(), "the other field is as it is registered");
        let error = applied(0, 3.0).unwrap_err();
        assert!(error.built_at.file().ends_with("registry.rs"), "{error}");
        let text = error.to_string();
        assert!(text.contains("`Forgetful` has `forgotten: 3.0`"), "{text}");
        assert!(text.contains("with `forgotten: 1.0`"), "{text}");
        assert!(text.contains("in `OpDef::attributes`"), "{text}");
    }

    /// An operation that is too long to be written one field a line.
    struct Long;

    impl std::fmt::Debug for Long {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            assert!(!f.alternate(), "it takes too long");
            f.write_str("Long")
        }
    }

    #[test]
    fn an_operation_that_is_as_it_is_registered_is_not_written_one_field_a_line() {
        assert_eq!(GraphProblem::unlisted("Long", "OpDef::attributes", &Long, &Long), None);
    }

    #[test]
    fn no_two_operations_of_the_library_are_of_one_kind() {
        let kinds: std::collections::BTreeSet<_> =
            BUILT_IN.iter().map(|op| op.definition().kind()).collect();
        assert_eq!(kinds.len(), BUILT_IN.len());
    }
}
