//! `Output`, a value of a graph that later operations build on, and `Target`, an operation to run.

mod join;

use std::fmt;
use std::panic::Location;

use super::error::GraphError;
use super::op::Op;
use super::{Edge, Graph, NewOperation, OpId, TensorType};
pub use join::{concat, stack};

/// One value of a graph, which a step can fetch or replace by a feed.
#[derive(Clone)]
pub struct Output {
    graph: Graph,
    edge: Edge,
}

/// An operation of a graph, which a step can run.
#[derive(Clone)]
pub struct Target {
    graph: Graph,
    op: OpId,
}

impl Output {
    pub(crate) fn new(graph: Graph, edge: Edge) -> Self {
        Self { graph, edge }
    }

    /// The graph it belongs to.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The operation and the index of its output.
    pub fn edge(&self) -> Edge {
        self.edge
    }

    /// Its element type and shape, as far as they are known.
    pub fn tensor_type(&self) -> TensorType {
        self.graph.tensor_type(self.edge)
    }

    /// The operation that computes it, as a target of a step.
    pub fn target(&self) -> Target {
        Target::new(self.graph.clone(), self.edge.op)
    }

    /// Another output of the same operation.
    pub(crate) fn sibling(&self, output: u32) -> Self {
        Self { graph: self.graph.clone(), edge: Edge { op: self.edge.op, output } }
    }

    /// The operation's name, with `:1` and so on for outputs after the first.
    pub fn name(&self) -> String {
        let name = self.graph.with_operation(self.edge.op, |operation| operation.name.to_string());
        if self.edge.output == 0 { name } else { format!("{name}:{}", self.edge.output) }
    }

    /// The same value under another name, on the device of the device scope.
    #[track_caller]
    pub fn identity(&self) -> Self {
        self.map(Op::Identity)
    }

    /// The operation `op` of this and `others`.
    #[track_caller]
    pub(crate) fn with(&self, others: &[&Self], op: impl Into<Op>) -> Result<Self, GraphError> {
        let op = op.into();
        for other in others {
            self.graph.check_own(op.kind(), other)?;
        }
        let inputs: Vec<Edge> =
            std::iter::once(self.edge).chain(others.iter().map(|other| other.edge)).collect();
        Ok(self
            .graph
            .output(self.graph.add(NewOperation { inputs: &inputs, ..NewOperation::of(op) })?))
    }

    #[track_caller]
    pub(crate) fn map(&self, op: impl Into<Op>) -> Self {
        self.graph.add_checked(NewOperation { inputs: &[self.edge], ..NewOperation::of(op) })
    }
}

impl Target {
    pub(crate) fn new(graph: Graph, op: OpId) -> Self {
        Self { graph, op }
    }

    /// The graph it belongs to.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The operation.
    pub fn op_id(&self) -> OpId {
        self.op
    }

    /// Output `index` of the operation; `None` if it has no such output.
    pub fn output(&self, index: u32) -> Option<Output> {
        let outputs = self.graph.with_operation(self.op, |operation| operation.outputs.len());
        let edge = Edge { op: self.op, output: index };
        ((index as usize) < outputs).then(|| Output::new(self.graph.clone(), edge))
    }

    /// The operation's name.
    pub fn name(&self) -> String {
        self.graph.with_operation(self.op, |operation| operation.name.to_string())
    }

    /// The end of the training step that a run of this operation takes; `None` if it takes none.
    pub(crate) fn end_of_step(&self) -> Option<Self> {
        self.graph.end_of_step(&[self.op])
    }

    /// Its outputs as the end of a training step: the global step after it (i64), its staleness
    /// (i64), and whether its gradient counts (bool).
    pub(crate) fn told_of_step(&self) -> [Output; 3] {
        self.graph.told_of_step(self.op).map(|edge| Output::new(self.graph.clone(), edge))
    }

    /// Whether it ends a step that a worker takes by itself and counts in its own local variable.
    pub(crate) fn is_local_step(&self) -> bool {
        self.graph.is_local_commit(self.op)
    }

    /// The line of the user's program that built it.
    pub fn built_at(&self) -> &'static Location<'static> {
        self.graph.with_operation(self.op, |operation| operation.built_at)
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.tensor_type())
    }
}

impl AsRef<Self> for Target {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
