//! Errors of importing a graph, with the node's name.

use std::fmt;

use crate::graph::GraphError;
use crate::runtime::{Code, Error};

/// Errors of importing a graph.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The bytes are not a GraphDef.
    #[error("this is no binary GraphDef: {0}")]
    Malformed(String),
    /// The graph has operations that don't exist here: all of them are listed.
    #[error("{} that do not exist here:{}", count(operations), List(operations))]
    UnknownOperations {
        /// The kinds, in the order of their names.
        operations: Vec<UnknownOperation>,
    },
    /// Two nodes have one name.
    #[error("two nodes are called `{0}`")]
    DuplicateName(String),
    /// An operation needs its own result.
    #[error(
        "the nodes {} need each other's results, and are no loop of `Enter` and `Exit`",
        .0.join(", ")
    )]
    Cycle(Vec<String>),
    /// The graph has no such node or output.
    #[error("the graph has no `{0}`; `trainyard graph import FILE` lists what it has")]
    NotFound(String),
    /// Nothing gives a variable its first value.
    #[error(
        "the variable `{0}` has no first value: an operation `{0}/Assign` gives it in TensorFlow's \
         graphs, and there is none"
    )]
    NoFirstValue(String),
    /// An operation is no training step.
    #[error("`{operation}` counts no step: {why}")]
    CountsNoStep {
        /// Its name.
        operation: String,
        /// What is found of the step counter, and what to do.
        why: String,
    },
    /// A node is wrong, or uses something that does not exist here.
    #[error("node `{node}` ({kind}): {problem}")]
    Node {
        /// Its name.
        node: String,
        /// Its operation.
        kind: String,
        /// The problem.
        problem: NodeProblem,
    },
}

/// A kind of operation that does not exist here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOperation {
    /// The kind, in TensorFlow's word.
    pub kind: String,
    /// The number of nodes of the kind.
    pub count: usize,
    /// The first of them.
    pub example: String,
}

/// A problem of a node.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeProblem {
    /// It has too few inputs.
    #[error("it has no input {0}")]
    NoInput(usize),
    /// An input names a node or output that does not exist.
    #[error("its input `{0}` does not exist")]
    NoSuchInput(String),
    /// An attribute is missing or of another type.
    #[error("its attribute `{name}` must be {needs}")]
    Attribute {
        /// The attribute.
        name: String,
        /// The type or value that it must have.
        needs: &'static str,
    },
    /// An attribute is there that nothing here knows, so that ignoring it could change numbers.
    #[error("its attribute `{0}` is not known here, and may change what it computes")]
    UnknownAttribute(String),
    /// An input must be known when the graph is built, and is not.
    #[error(
        "its input {input} must be known before a step runs, and is computed from a value that is \
         fed, or from the unknown size of one: give that size in the graph"
    )]
    NotConstant {
        /// The index of the input.
        input: usize,
    },
    /// A value is known to the importer only in part, and no operation here computes it.
    #[error(
        "its input {input} is a shape that only a step knows, and that no operation here computes"
    )]
    NoValue {
        /// The index of the input.
        input: usize,
    },
    /// An input must be a variable.
    #[error("its input {0} must be a variable")]
    NoVariable(usize),
    /// It uses something that does not exist here.
    #[error("{0}")]
    Unsupported(String),
    /// It does not fit its inputs.
    #[error(transparent)]
    Graph(Box<GraphError>),
}

fn count(operations: &[UnknownOperation]) -> String {
    let nodes: usize = operations.iter().map(|unknown| unknown.count).sum();
    format!("{nodes} operations of {} kinds", operations.len())
}

struct List<'a>(&'a [UnknownOperation]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|unknown| {
            let UnknownOperation { kind, count, example } = unknown;
            match kind.as_str() {
                "" => write!(f, "\n  {count} without an operation, such as the node `{example}`"),
                _ => write!(f, "\n  {count} of `{kind}`, such as `{example}`"),
            }
        })
    }
}

impl NodeProblem {
    pub(super) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }
}

impl From<GraphError> for NodeProblem {
    fn from(error: GraphError) -> Self {
        Self::Graph(Box::new(error))
    }
}

impl From<ImportError> for Error {
    fn from(error: ImportError) -> Self {
        Self::new(Code::InvalidArgument, error.to_string())
    }
}
