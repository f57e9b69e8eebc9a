//! Conditional accumulators: check gradients as they come, and reduce them to one when taken.

use smallvec::smallvec;

use crate::graph::{Reduction, ResourceAction, ResourceKind, ResourceSpec};
use crate::kernels;
use crate::kernels::indexed::positions;
use crate::sync::{AccumulatorState, SparseSum};
use crate::tensor::{DType, Shape, Tensor, within_memory};

use super::at_once;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::parameter_server::done::Done;
use crate::runtime::state::{Served, StateValues, Taken, Ticket};

/// An accumulator of gradients: each a value or, if sparse, the numbers of rows and the rows.
#[derive(Default)]
pub(super) struct Accumulator {
    pub(super) gradients: AccumulatorState<Ticket, StateValues>,
    /// The staleness of the gradient of each training's last step: a gradient that is sent again is
    /// not added twice.
    applied: Done<i64>,
}

/// Runs an operation on an accumulator; returns the answers that follow from it.
pub(super) fn on_accumulator(
    accumulator: &mut Accumulator,
    spec: &ResourceSpec,
    ticket: Ticket,
    taken: Option<Taken>,
    action: &ResourceAction,
    mut inputs: StateValues,
) -> Result<Vec<Served>> {
    let Accumulator { gradients: accumulator, applied } = accumulator;
    Ok(match action {
        ResourceAction::ApplyGradient => {
            if let Some(staleness) = taken.and_then(|taken| applied.done(ticket, taken)) {
                return Ok(at_once(ticket, Tensor::scalar(staleness)));
            }
            let local_step = inputs.remove(0).item::<i64>()?;
            check(accumulator.gradients(), &inputs, spec)?;
            let staleness = accumulator.staleness(local_step);
            if let Some(taken) = taken {
                applied.note(ticket, taken, staleness);
            }
            let mut served = at_once(ticket, Tensor::scalar(staleness));
            served.extend(accumulator.apply(local_step, inputs).map(|taken| reduced(taken, spec)));
            served
        }
        ResourceAction::TakeGradient => {
            let number = required(inputs[0].item::<i32>()?, &spec.shared_name)?;
            accumulator.take(ticket, number).map(|taken| reduced(taken, spec)).into_iter().collect()
        }
        ResourceAction::SetGlobalStep => {
            accumulator.set_global_step(inputs[0].item::<i64>()?);
            vec![Served { ticket, outcome: Ok(StateValues::new()) }]
        }
        ResourceAction::NumAccumulated => {
            at_once(ticket, Tensor::scalar(accumulator.count() as i32))
        }
        other => panic!("{other:?} is no operation on an accumulator"),
    })
}

/// The number of gradients that an operation wants: at least one.
fn required(number: i32, name: &str) -> Result<usize> {
    usize::try_from(number).ok().filter(|number| *number > 0).ok_or_else(|| {
        let message = format!("`{name}` gives the mean of at least one gradient, not of {number}");
        Error::new(Code::InvalidArgument, message)
    })
}

/// Refuses a gradient that does not fit the accumulator's type or the gradients it holds.
fn check(held: &[StateValues], gradient: &[Tensor], spec: &ResourceSpec) -> Result<()> {
    let refused = |problem: String| Err(Error::new(Code::InvalidArgument, problem));
    let name = &spec.shared_name;
    let (ResourceKind::SparseConditionalAccumulator { whole, .. }, [indices, rows]) =
        (&spec.kind, gradient)
    else {
        let gradient = gradient[0].shape();
        return match held.first().map(|first| first[0].shape()) {
            Some(shape) if shape != gradient => refused(format!(
                "a gradient {gradient} does not fit those in `{name}`, which are {shape}"
            )),
            _ => Ok(()),
        };
    };
    let (numbers, shape) = (indices.shape().elements(), rows.shape());
    if shape.dims().first() != Some(&numbers) {
        return refused(format!(
            "a gradient for `{name}` has {numbers} indices, but its rows are {shape}"
        ));
    }
    let first = held.first().map(|first| first[1].shape());
    if let Some(first) = first.filter(|first| first.dims()[1..] != shape.dims()[1..]) {
        return refused(format!("rows {shape} do not fit those in `{name}`, which are {first}"));
    }
    let size = whole.shape.dims()[0].expect("a sparse accumulator is of a known number of rows");
    if indices.is_hollow() {
        return Ok(());
    }
    positions(indices, size)
        .map(drop)
        .or_else(|error| refused(format!("a gradient for `{name}`: {error}")))
}

/// The answer to an operation that takes gradients: their mean or their sum, added in the order of
/// arrival.
pub(super) fn reduced(
    (ticket, gradients): (Ticket, Vec<StateValues>),
    spec: &ResourceSpec,
) -> Served {
    let reduced = within_memory(|| match &spec.kind {
        ResourceKind::ConditionalAccumulator { reduction, .. } => {
            smallvec![dense(&gradients, *reduction)]
        }
        ResourceKind::SparseConditionalAccumulator { reduction, .. } => {
            sparse(&gradients, *reduction)
        }
        ResourceKind::FifoQueue { .. } => panic!("gradients come from an accumulator"),
    });
    Served { ticket, outcome: reduced.map_err(Error::from) }
}

fn dense(gradients: &[StateValues], reduction: Reduction) -> Tensor {
    let first = &gradients[0][0];
    if gradients.iter().any(|gradient| gradient[0].is_hollow()) {
        return Tensor::hollow(first.dtype(), first.shape());
    }
    let slices: Vec<&[f32]> = gradients.iter().map(|gradient| gradient[0].slice()).collect();
    let scale = if reduction == Reduction::Mean { 1.0 / slices.len() as f32 } else { 1.0 };
    let mut sum = Tensor::uninitialised::<f32>(first.shape());
    kernels::elementwise::add_n(&slices, scale, sum.make_mut());
    sum
}

/// The numbers of the rows present, and the rows. If the rows have no numbers, as many rows as all
/// gradients have together.
fn sparse(gradients: &[StateValues], reduction: Reduction) -> StateValues {
    let first = gradients[0][1].shape();
    let row = &first.dims()[1..];
    let shape = |rows: usize| {
        Shape::new(&std::iter::once(rows).chain(row.iter().copied()).collect::<Vec<_>>())
    };
    if gradients.iter().flatten().any(Tensor::is_hollow) {
        let rows = gradients.iter().map(|gradient| gradient[0].shape().elements()).sum();
        return smallvec![
            Tensor::hollow(DType::I64, [rows]),
            Tensor::hollow(DType::F32, shape(rows))
        ];
    }
    let mut sum =
        SparseSum::new(&gradients[0][0].integers(), gradients[0][1].slice(), row.iter().product());
    for gradient in &gradients[1..] {
        sum.add(&gradient[0].integers(), gradient[1].slice());
    }
    let (indices, values) =
        if reduction == Reduction::Mean { sum.into_mean() } else { sum.into_sum() };
    let rows = Tensor::new(shape(indices.len()), &values).expect("every number has a row");
    smallvec![Tensor::new([indices.len()], &indices).expect("a list is as long as it is"), rows]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::LocalDevice;
    use crate::graph::TensorType;
    use crate::runtime::messages::{Origin, StepId};
    use crate::transport::PeerId;

    #[test]
    fn the_gradient_of_a_step_that_is_taken_again_is_added_once() {
        let spec = ResourceSpec {
            shared_name: Arc::from("a"),
            container: Arc::from(""),
            kind: ResourceKind::ConditionalAccumulator {
                value: TensorType::new(DType::F32, Shape::SCALAR),
                reduction: Reduction::Mean,
            },
        };
        let mut accumulator = Accumulator::default();
        let mut add = |node, number| {
            let ticket = Ticket {
                step: StepId { master: 7, number: 99, trains: true },
                device: LocalDevice::cpu(0),
                node,
            };
            let origin = Origin { owner: None, training: 3, number, is_again: false };
            let taken = Taken { task: PeerId(1), origin };
            let inputs = smallvec![Tensor::scalar(0i64), Tensor::scalar(1f32)];
            let action = ResourceAction::ApplyGradient;
            on_accumulator(&mut accumulator, &spec, ticket, Some(taken), &action, inputs).unwrap();
            accumulator.gradients.count()
        };
        assert_eq!(add(0, 0), 1);
        assert_eq!(add(0, 0), 1, "the step is taken again");
        assert_eq!(add(1, 0), 2, "another operation of it");
        assert_eq!(add(0, 1), 3, "the next step");
    }
}
