//! The defined operations by kind: the library's, and those that the program has registered.

use std::collections::BTreeMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use super::built_in;
use crate::graph::{Defined, GraphError, GraphProblem, Op, OpDef, Output};

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

impl Output {
    /// Applies `operation` to this and `others`, and returns its first output. Its
    /// [`target`](Output::target) has the other outputs.
    ///
    /// # Errors
    /// If the inputs don't fit, or no other task could read a graph with the operation.
    #[track_caller]
    pub fn apply(&self, operation: impl OpDef, others: &[&Self]) -> Result<Self, GraphError> {
        let (kind, operation) = (operation.kind(), Defined::from(operation));
        if of_kind(kind).is_some_and(|registered| registered.op.is_same_kind(&operation)) {
            return self.with(others, Op::Defined(operation.checked()));
        }
        Err(GraphError::new(kind, GraphProblem::UnknownOperation(kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_operations_of_the_library_are_of_one_kind() {
        let kinds: std::collections::BTreeSet<_> =
            BUILT_IN.iter().map(|op| op.definition().kind()).collect();
        assert_eq!(kinds.len(), BUILT_IN.len());
    }
}
