//! The gradients of conditions and loops: functions that are differentiated as graphs.

use super::{If, While, WhileGrad};
use crate::graph::{Backprop, Function, GraphError, Output, TensorType, gradients};
use crate::tensor::DType;

/// The gradients of a function by its inputs of real numbers: they take the inputs, and the
/// gradients of its outputs of real numbers. Each operation is on the device of the one that it
/// differentiates.
fn back(of: &Function) -> Result<Function, GraphError> {
    let count = of.inputs().len();
    let outputs = of.infer(of.inputs()).map_err(|problem| GraphError::new("gradients", problem))?;
    let arriving = outputs.iter().copied().filter(|x| x.dtype.is_real());
    let types: Vec<TensorType> = of.inputs().iter().copied().chain(arriving).collect();
    Function::build(&types, |all| {
        let (inputs, arrived) = all.split_at(count);
        let graph = all.first().map(|x| x.graph().clone()).unwrap_or_default();
        let values = of.add_to(&graph, inputs, |call| call.device.clone())?;
        let real = values.iter().filter(|value| value.tensor_type().dtype.is_real());
        let mut loss: Option<Output> = None;
        for (value, dy) in real.zip(arrived) {
            let term = value.mul(dy)?.sum();
            loss = Some(match loss {
                Some(loss) => sum(&loss, &term)?,
                None => term,
            });
        }
        let by: Vec<Output> =
            inputs.iter().filter(|x| x.tensor_type().dtype.is_real()).cloned().collect();
        let found = match loss {
            Some(loss) => gradients(&loss, &by)?,
            None => vec![None; by.len()],
        };
        let or_zeros = |(x, dx): (&Output, Option<Output>)| dx.unwrap_or_else(|| x.zeros_like());
        Ok(by.iter().zip(found).map(or_zeros).collect())
    })
}

/// The sum of two scalars, of f64 if their types differ: the gradients by both are 1 all the same.
fn sum(a: &Output, b: &Output) -> Result<Output, GraphError> {
    if a.tensor_type().dtype == b.tensor_type().dtype {
        return a.add(b);
    }
    a.cast(DType::F64).add(&b.cast(DType::F64))
}

/// The gradients that have arrived at the outputs of real numbers; zeros where none has.
fn arrived(of: &Backprop<'_>) -> Vec<Output> {
    let outputs = (0..of.outputs()).map(|i| (i, of.output(i)));
    let real = outputs.filter(|(_, output)| output.tensor_type().dtype.is_real());
    real.map(|(i, output)| of.arrived(i).unwrap_or_else(|| output.zeros_like())).collect()
}

/// The outputs of `first`'s operation as the gradients of the inputs from `skipped` on that are of
/// real numbers.
fn spread(of: &Backprop<'_>, first: &Output, skipped: usize) -> Vec<Option<Output>> {
    let mut next = 0;
    let gradient = |i: usize| {
        if i < skipped || !of.input(i).tensor_type().dtype.is_real() {
            return None;
        }
        next += 1;
        of.wants(i).then(|| first.sibling(next - 1))
    };
    (0..of.inputs()).map(gradient).collect()
}

/// The same condition on the gradients of the branches.
pub(super) fn of_if(op: &If, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
    let back = If { then: back(&op.then)?, otherwise: back(&op.otherwise)? };
    let inputs: Vec<Output> = (1..of.inputs()).map(|i| of.input(i)).chain(arrived(of)).collect();
    let first = of.input(0).with(&inputs.iter().collect::<Vec<_>>(), back)?;
    Ok(spread(of, &first, 1))
}

/// One iteration of a loop back, as [`WhileGrad`] has it.
fn iteration_back(of: &While) -> Result<Function, GraphError> {
    let back = back(&of.body)?;
    let is_real = |x: &&TensorType| x.dtype.is_real();
    let sums = of.body.inputs()[of.variables()..].iter().filter(is_real);
    let types: Vec<TensorType> = back.inputs().iter().chain(sums).copied().collect();
    Function::build(&types, |all| {
        let (inputs, sums) = all.split_at(back.inputs().len());
        let gradients = back.add_to(all[0].graph(), inputs, |call| call.device.clone())?;
        let (by_variables, by_constants) = gradients.split_at(gradients.len() - sums.len());
        let added = sums.iter().zip(by_constants).map(|(sum, more)| sum.add(more));
        by_variables.iter().cloned().map(Ok).chain(added).collect()
    })
}

pub(super) fn of_while(op: &While, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
    let back = WhileGrad { of: op.clone(), back: iteration_back(op)? };
    let inputs: Vec<Output> = (0..of.inputs()).map(|i| of.input(i)).chain(arrived(of)).collect();
    let first = inputs[0].with(&inputs[1..].iter().collect::<Vec<_>>(), back)?;
    Ok(spread(of, &first, 0))
}
