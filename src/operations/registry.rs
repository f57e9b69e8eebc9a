//! The defined operations by kind: the library's, and those that the program has registered.

use std::collections::BTreeMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use serde::de::{Deserialize, Deserializer, Error};

use super::built_in;
use crate::graph::{Attribute, Attributes, Defined, GraphError, GraphProblem, Op, OpDef, Output};

/// The operations by kind, each with any attributes. Read when a graph is built or arrives, never
/// in a step.
static OPERATIONS: LazyLock<RwLock<BTreeMap<&'static str, Defined>>> = LazyLock::new(|| {
    let by_kind = |op: Defined| (op.definition().kind(), op);
    RwLock::new(built_in().into_iter().map(by_kind).collect())
});

/// Registers an operation, so that graphs from other tasks may use it with any attributes.
///
/// Every task of a cluster runs the same program, so call it first thing in `main`: a task must
/// know the operation before another's graph arrives. Calling it again changes nothing.
///
/// # Panics
/// If there is another operation of that kind.
pub fn register_operation(operation: impl OpDef) {
    let operation = Defined::from(operation);
    let kind = operation.definition().kind();
    let mut operations = OPERATIONS.write().unwrap_or_else(PoisonError::into_inner);
    let is_same =
        operations.entry(kind).or_insert_with(|| operation.clone()).is_same_kind(&operation);
    drop(operations);
    assert!(is_same, "there is another operation called `{kind}`: give this one another name");
}

fn of_kind(kind: &str) -> Option<Defined> {
    OPERATIONS.read().unwrap_or_else(PoisonError::into_inner).get(kind).cloned()
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
        if of_kind(kind).is_some_and(|registered| registered.is_same_kind(&operation)) {
            return self.with(others, Op::Defined(operation));
        }
        Err(GraphError::new(kind, GraphProblem::UnknownOperation(kind)))
    }
}

impl<'de> Deserialize<'de> for Defined {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (kind, values) = <(String, Vec<Attribute>)>::deserialize(deserializer)?;
        let operation = of_kind(&kind).ok_or_else(|| {
            D::Error::custom(format!(
                "no operation `{kind}` is registered here; do all tasks run the same program?"
            ))
        })?;
        let mut attributes = Attributes::in_order(values);
        let operation = operation.definition().attributes(&mut attributes);
        if attributes.are_complete() {
            return Ok(operation);
        }
        Err(D::Error::custom(format!("these are not the attributes of an operation `{kind}`")))
    }
}
