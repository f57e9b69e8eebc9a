//! The user's handles of queues and accumulators.

mod accumulators;

use std::sync::Arc;

use super::error::{GraphError, GraphProblem};
use super::op::{Op, ResourceAction, ResourceKind, ResourceSpec};
use super::output::{Output, Target};
use super::variable::Variable;
use super::{Edge, Graph, Name, NewOperation, OpId, TensorType};
use crate::tensor::{DType, Shape};

pub use accumulators::{ConditionalAccumulator, SparseConditionalAccumulator};

/// A resource: a named place on the task that the placer puts it on.
#[derive(Clone, Debug)]
struct Resource {
    graph: Graph,
    op: OpId,
    spec: Arc<ResourceSpec>,
}

/// A queue of elements, each of several tensors, first in, first out (TensorFlow:
/// `tf.queue.FIFOQueue`).
///
/// It is on the device that the device scopes say. Sessions of all graphs that name it share it, as
/// they share variables. A step that enqueues into a full queue, or dequeues from an empty one,
/// waits. A closed queue stays closed until its container is reset.
#[derive(Clone, Debug)]
pub struct FifoQueue {
    resource: Resource,
    components: usize,
}

impl Resource {
    #[track_caller]
    fn new(g: &Graph, name: &str, kind: ResourceKind) -> Result<Self, GraphError> {
        let container = g.container();
        let spec =
            Arc::new(ResourceSpec { shared_name: g.scoped_name(name).into(), container, kind });
        let declared = NewOperation {
            name: Name::Exactly(name),
            ..NewOperation::of(Op::Resource(Arc::clone(&spec)))
        };
        Ok(Self { graph: g.clone(), op: g.add(declared)?, spec })
    }

    /// A resource on the device and in the container of `variable`, named from the root.
    #[track_caller]
    fn beside(variable: &Variable, name: &str, kind: ResourceKind) -> Result<Self, GraphError> {
        let (graph, container) = (variable.graph().clone(), variable.spec().container);
        let spec = Arc::new(ResourceSpec { shared_name: name.into(), container, kind });
        let op = graph.add(NewOperation {
            name: Name::Exactly(name),
            colocated_with: Some(variable.op_id()),
            is_detached: true,
            ..NewOperation::of(Op::Resource(Arc::clone(&spec)))
        })?;
        Ok(Self { graph, op, spec })
    }

    /// Adds an operation on the resource, on the resource's device.
    #[track_caller]
    fn add(&self, action: ResourceAction, inputs: &[&Output]) -> Result<Target, GraphError> {
        let op = Op::OnResource { resource: Arc::clone(&self.spec), action };
        for input in inputs {
            self.graph.check_own(op.kind(), input)?;
        }
        let inputs: Vec<Edge> = inputs.iter().map(|input| input.edge()).collect();
        let new =
            NewOperation { inputs: &inputs, colocated_with: Some(self.op), ..NewOperation::of(op) };
        Ok(Target::new(self.graph.clone(), self.graph.add(new)?))
    }

    /// Adds an operation without inputs, and returns its only output.
    #[track_caller]
    fn ask(&self, action: ResourceAction) -> Output {
        let target = self.add(action, &[]).expect("a resource can be asked about itself");
        target.output(0).expect("what asks has an answer")
    }
}

impl FifoQueue {
    /// A queue of at most `capacity` elements, or of any number if it is `None`; an element has a
    /// tensor of each of `components`.
    ///
    /// # Errors
    /// If the name is taken or illegal, there are no components, or the capacity is 0.
    #[track_caller]
    pub fn new(
        g: &Graph,
        name: &str,
        capacity: Option<usize>,
        components: &[(DType, Shape)],
    ) -> Result<Self, GraphError> {
        if components.is_empty() || capacity == Some(0) {
            let needs = "at least one component, and a capacity above 0".to_owned();
            return Err(GraphError::new(name, GraphProblem::Inputs { needs, inputs: Vec::new() }));
        }
        let types =
            components.iter().map(|(dtype, shape)| TensorType::new(*dtype, *shape)).collect();
        let resource =
            Resource::new(g, name, ResourceKind::FifoQueue { capacity, components: types })?;
        Ok(Self { resource, components: components.len() })
    }

    /// A queue of any number of elements, on the device of `variable`.
    #[track_caller]
    pub(crate) fn beside(
        variable: &Variable,
        name: &str,
        components: Vec<TensorType>,
    ) -> Result<Self, GraphError> {
        let number = components.len();
        let kind = ResourceKind::FifoQueue { capacity: None, components };
        Ok(Self { resource: Resource::beside(variable, name, kind)?, components: number })
    }

    /// Puts an element in; waits for room.
    ///
    /// # Errors
    /// If they are not the components of an element.
    #[track_caller]
    pub fn enqueue(&self, components: &[&Output]) -> Result<Target, GraphError> {
        self.resource.add(ResourceAction::Enqueue, components)
    }

    /// Puts elements in, one for each row of the components, in order; waits for room.
    ///
    /// # Errors
    /// If their rows are not the components of elements, or a component has 6 dimensions, so that
    /// it can't be stacked.
    #[track_caller]
    pub fn enqueue_many(&self, components: &[&Output]) -> Result<Target, GraphError> {
        self.resource.add(ResourceAction::EnqueueMany, components)
    }

    /// Takes an element out; waits until there is one.
    #[track_caller]
    pub fn dequeue(&self) -> Vec<Output> {
        self.take(ResourceAction::Dequeue)
    }

    /// Takes `count` elements out, each component stacked; waits until there are that many.
    ///
    /// # Panics
    /// If a component has 6 dimensions, so that it can't be stacked.
    #[track_caller]
    pub fn dequeue_many(&self, count: usize) -> Vec<Output> {
        self.take(ResourceAction::DequeueMany(count))
    }

    /// Takes `count` elements out, or those that are left if the queue is closed.
    ///
    /// # Panics
    /// If a component has 6 dimensions, so that it can't be stacked.
    #[track_caller]
    pub fn dequeue_up_to(&self, count: usize) -> Vec<Output> {
        self.take(ResourceAction::DequeueUpTo(count))
    }

    /// Closes the queue: its elements can still be taken, but none can be put in. Waits for the
    /// enqueues that wait for room, or refuses them with `cancel_pending_enqueues`.
    #[track_caller]
    pub fn close(&self, cancel_pending_enqueues: bool) -> Target {
        let action = ResourceAction::CloseQueue { cancel_pending_enqueues };
        self.resource.add(action, &[]).expect("a queue can be closed")
    }

    /// The number of elements (i32).
    #[track_caller]
    pub fn size(&self) -> Output {
        self.resource.ask(ResourceAction::QueueSize)
    }

    /// Whether it is closed (bool).
    #[track_caller]
    pub fn is_closed(&self) -> Output {
        self.resource.ask(ResourceAction::QueueIsClosed)
    }

    #[track_caller]
    fn take(&self, action: ResourceAction) -> Vec<Output> {
        let target = self.resource.add(action, &[]).expect("an element can be asked for");
        (0..self.components as u32).filter_map(|component| target.output(component)).collect()
    }
}
