//! A task's queues and accumulators: found by name, made when first used, answered as soon as
//! possible.

mod accumulators;

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::smallvec;

use crate::graph::{ResourceAction, ResourceKind, ResourceSpec, TensorType};
use crate::sync::{Answer, QueueState};
use crate::tensor::{Shape, Tensor, within_memory};

use crate::runtime::error::{Code, Error, Result};
use crate::runtime::messages::{Scope, StepId};
use crate::runtime::state::{OnResource, Served, StateName, StateValues, Ticket, is_among};
use accumulators::{Accumulator, on_accumulator, reduced};

/// The most queues and accumulators that a task has.
const MAX_RESOURCES: usize = 1 << 16;

/// The queues and accumulators of a task.
#[derive(Default)]
pub(super) struct Resources {
    by_name: BTreeMap<StateName, Resource>,
}

struct Resource {
    spec: Arc<ResourceSpec>,
    state: State,
}

enum State {
    Queue(QueueState<Waiter, StateValues>),
    Accumulator(Accumulator),
}

/// An operation that waits at a queue, and whether it wants its elements stacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    ticket: Ticket,
    stacks: bool,
}

impl Resources {
    /// Runs the operation; returns the answers that follow from it.
    pub(super) fn serve(&mut self, ticket: Ticket, asked: OnResource) -> Vec<Served> {
        let OnResource { scope, spec, action, inputs, taken } = asked;
        let name: StateName = (scope, Arc::clone(&spec.container), Arc::clone(&spec.shared_name));
        if self.by_name.len() >= MAX_RESOURCES && !self.by_name.contains_key(&name) {
            let message = format!("the task has {MAX_RESOURCES} queues and accumulators already");
            let outcome = Err(Error::new(Code::FailedPrecondition, message));
            return vec![Served { ticket, outcome }];
        }
        let resource = self.by_name.entry(name).or_insert_with(|| Resource::new(Arc::clone(&spec)));
        if resource.spec.kind != spec.kind {
            let (name, is, wanted) = (&spec.shared_name, &resource.spec.kind, &spec.kind);
            let message = format!(
                "`{name}` is {is:?} here, but the graph declares it as {wanted:?}; rename one"
            );
            return vec![Served {
                ticket,
                outcome: Err(Error::new(Code::InvalidArgument, message)),
            }];
        }
        let served = match &mut resource.state {
            State::Queue(queue) => on_queue(queue, &spec, ticket, &action, inputs),
            State::Accumulator(accumulator) => {
                on_accumulator(accumulator, &spec, ticket, taken, &action, inputs)
            }
        };
        served.unwrap_or_else(|error| vec![Served { ticket, outcome: Err(error) }])
    }

    /// Drops the operations of `step` that wait; returns the answers to others that can now go on.
    pub(super) fn forget(&mut self, step: StepId) -> Vec<Served> {
        let mut served = Vec::new();
        for resource in self.by_name.values_mut() {
            let Resource { spec, state } = resource;
            match state {
                State::Queue(queue) => {
                    let answers = queue.forget(|waiter| waiter.ticket.step == step);
                    served.extend(answers.into_iter().map(|answer| answered(answer, spec)));
                }
                State::Accumulator(accumulator) => {
                    let taken = accumulator.gradients.forget(|ticket| ticket.step == step);
                    served.extend(taken.map(|taken| reduced(taken, spec)));
                }
            }
        }
        served
    }

    /// Forgets the resources in `containers`, or in the default one if none is named; returns their
    /// number, and the operations that waited.
    pub(super) fn reset(&mut self, containers: &[String]) -> (u32, Vec<Ticket>) {
        self.remove(|(_, container, _)| is_among(container, containers))
    }

    /// Forgets the resources that were a session's own; returns the operations that waited.
    pub(super) fn close_scope(&mut self, scope: Scope) -> Vec<Ticket> {
        self.remove(|(owner, ..)| *owner == Some(scope)).1
    }

    fn remove(&mut self, is_meant: impl Fn(&StateName) -> bool) -> (u32, Vec<Ticket>) {
        let (removed, kept): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.by_name).into_iter().partition(|(name, _)| is_meant(name));
        self.by_name = kept;
        (removed.len() as u32, removed.into_values().flat_map(Resource::into_waiting).collect())
    }

    /// The waiting operations, and what each waits for.
    pub(super) fn waiting(&self) -> Vec<(Ticket, String)> {
        let mut waiting = Vec::new();
        for Resource { spec, state } in self.by_name.values() {
            let name = &spec.shared_name;
            match state {
                State::Queue(queue) => {
                    let (enqueuers, dequeuers) = queue.waiting();
                    waiting.extend(
                        enqueuers.map(|who| (who.ticket, format!("room in the queue `{name}`"))),
                    );
                    waiting.extend(
                        dequeuers
                            .map(|who| (who.ticket, format!("elements of the queue `{name}`"))),
                    );
                }
                State::Accumulator(accumulator) => {
                    let what = |wanted| {
                        format!(
                            "{wanted} gradients in `{name}`, which has {}",
                            accumulator.gradients.count()
                        )
                    };
                    waiting.extend(
                        accumulator
                            .gradients
                            .waiting()
                            .map(|(ticket, wanted)| (*ticket, what(*wanted))),
                    );
                }
            }
        }
        waiting
    }
}

impl Resource {
    fn new(spec: Arc<ResourceSpec>) -> Self {
        let state = match &spec.kind {
            ResourceKind::FifoQueue { capacity, .. } => State::Queue(QueueState::new(*capacity)),
            ResourceKind::ConditionalAccumulator { .. }
            | ResourceKind::SparseConditionalAccumulator { .. } => {
                State::Accumulator(Accumulator::default())
            }
        };
        Self { spec, state }
    }

    fn into_waiting(self) -> Vec<Ticket> {
        match self.state {
            State::Queue(mut queue) => {
                queue.clear().into_iter().map(|waiter| waiter.ticket).collect()
            }
            State::Accumulator(mut accumulator) => accumulator.gradients.clear(),
        }
    }
}

fn on_queue(
    queue: &mut QueueState<Waiter, StateValues>,
    spec: &ResourceSpec,
    ticket: Ticket,
    action: &ResourceAction,
    inputs: StateValues,
) -> Result<Vec<Served>> {
    let stacks = matches!(action, ResourceAction::DequeueMany(_) | ResourceAction::DequeueUpTo(_));
    let who = Waiter { ticket, stacks };
    let answers = match action {
        ResourceAction::Enqueue => queue.enqueue(who, vec![inputs]),
        ResourceAction::EnqueueMany => queue.enqueue(who, elements(&inputs)?),
        ResourceAction::Dequeue => queue.dequeue(who, 1, false),
        ResourceAction::DequeueMany(count) => queue.dequeue(who, *count, false),
        ResourceAction::DequeueUpTo(count) => queue.dequeue(who, *count, true),
        ResourceAction::CloseQueue { cancel_pending_enqueues } => {
            queue.close(who, *cancel_pending_enqueues)
        }
        ResourceAction::QueueSize => {
            return Ok(at_once(ticket, Tensor::scalar(queue.size() as i32)));
        }
        ResourceAction::QueueIsClosed => {
            return Ok(at_once(ticket, Tensor::scalar(queue.is_closed())));
        }
        other => panic!("{other:?} is no operation on a queue"),
    };
    Ok(answers.into_iter().map(|answer| answered(answer, spec)).collect())
}

fn at_once(ticket: Ticket, value: Tensor) -> Vec<Served> {
    vec![Served { ticket, outcome: Ok(smallvec![value]) }]
}

/// The elements whose components are the rows of `components`.
fn elements(components: &[Tensor]) -> Result<Vec<StateValues>> {
    let rows = components[0].shape().dims()[0];
    if components.iter().any(|component| component.shape().dims()[0] != rows) {
        let shapes: Vec<String> =
            components.iter().map(|component| component.shape().to_string()).collect();
        let message =
            format!("the components have different numbers of rows: {}", shapes.join(", "));
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let element = |row| components.iter().map(|component| component.row(row)).collect();
    Ok(within_memory(|| (0..rows).map(element).collect())?)
}

fn answered(answer: Answer<Waiter, StateValues>, spec: &ResourceSpec) -> Served {
    let name = &spec.shared_name;
    match answer {
        Answer::Done(who) => Served { ticket: who.ticket, outcome: Ok(StateValues::new()) },
        Answer::Taken(who, elements) => {
            let outcome = if who.stacks {
                within_memory(|| stacked(&elements, spec)).map_err(Error::from)
            } else {
                Ok(elements.into_iter().next().unwrap_or_default())
            };
            Served { ticket: who.ticket, outcome }
        }
        Answer::Closed(who) => {
            let message =
                format!("the queue `{name}` is closed; reset its container to use it again");
            Served { ticket: who.ticket, outcome: Err(Error::new(Code::Cancelled, message)) }
        }
        Answer::Exhausted { who, wanted, size } => {
            let message =
                format!("the queue `{name}` is closed and has {size} elements, not {wanted}");
            Served { ticket: who.ticket, outcome: Err(Error::new(Code::OutOfRange, message)) }
        }
    }
}

/// The elements stacked: one tensor for each component, whose rows are the elements.
fn stacked(elements: &[StateValues], spec: &ResourceSpec) -> StateValues {
    let Some(first) = elements.first() else { return without_rows(spec) };
    let component =
        |index: usize| elements.iter().map(|element| &element[index]).collect::<Vec<_>>();
    (0..first.len()).map(|index| Tensor::of_rows(&component(index))).collect()
}

/// What a dequeue of no elements gives. No element says what its components are; the queue does.
fn without_rows(spec: &ResourceSpec) -> StateValues {
    let ResourceKind::FifoQueue { components, .. } = &spec.kind else {
        panic!("elements come from a queue")
    };
    let empty = |component: &TensorType| {
        let row = component.shape.dims().iter().map(|dim| dim.unwrap_or(0));
        let dims: Vec<usize> = std::iter::once(0).chain(row).collect();
        Tensor::zeros(component.dtype, Shape::new(&dims))
    };
    components.iter().map(empty).collect()
}
