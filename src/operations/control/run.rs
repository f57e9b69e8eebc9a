//! The kernels of conditions and loops: functions are interpreted, operation by operation, in their
//! order.

use smallvec::SmallVec;

use super::flow::{Flow, Next};
use crate::graph::{ComputeError, Cost, Function, Known, Op, Outputs, TensorType, infer};
use crate::operations::dispatch::{call, cost as cost_of};
use crate::tensor::Tensor;

fn type_of(x: &Tensor) -> TensorType {
    TensorType::new(x.dtype(), x.shape())
}

/// Runs `function`, whose types have been inferred; each operation's inputs are checked, since
/// their shapes may differ from one iteration to the next.
///
/// # Errors
/// If an operation's inputs don't fit, or it can't work on their values: which one.
fn run(function: &Function, inputs: Vec<Tensor>) -> Result<Outputs, ComputeError> {
    let mut values = inputs;
    for step in function.calls() {
        if let Op::Const(value) = &step.op {
            values.push(value.clone());
            continue;
        }
        let given: SmallVec<[&Tensor; 3]> =
            step.inputs.iter().map(|i| &values[*i as usize]).collect();
        let types: SmallVec<[TensorType; 3]> = given.iter().map(|x| type_of(x)).collect();
        let failed = |problem: String| ComputeError::new(format!("{}: {problem}", step.op.kind()));
        infer(&step.op, &types, &[]).map_err(|problem| failed(problem.to_string()))?;
        let computed = call(&step.op, &given).map_err(|error| failed(error.to_string()))?;
        drop(given);
        values.extend(computed);
    }
    Ok(function.outputs().iter().map(|i| values[*i as usize].clone()).collect())
}

/// The cost of a run with inputs of these types, as far as shapes are known.
pub(super) fn cost(function: &Function, inputs: &[Known]) -> Cost {
    let types: Vec<TensorType> =
        inputs.iter().map(|(dtype, shape)| TensorType::new(*dtype, *shape)).collect();
    let Ok(types) = function.types(&types) else { return Cost::default() };
    let known: Vec<Option<Known>> =
        types.iter().map(|of| Some((of.dtype, of.shape.known()?))).collect();
    let (mut total, mut next) = (Cost::default(), inputs.len());
    for step in function.calls() {
        let of = |i: &u32| known[*i as usize];
        let given: Option<SmallVec<[Known; 3]>> = step.inputs.iter().map(of).collect();
        let own: SmallVec<[TensorType; 3]> =
            step.inputs.iter().map(|i| types[*i as usize]).collect();
        let count = infer(&step.op, &own, &[]).map_or(0, |outputs| outputs.len());
        let made: Option<SmallVec<[Known; 2]>> =
            known[next..next + count].iter().copied().collect();
        next += count;
        if let (Some(given), Some(made)) = (given, made) {
            total = total + cost_of(&step.op, &given, &made);
        }
    }
    total
}

/// Runs a condition or a loop whole.
pub(super) fn compute(flow: Flow<'_>, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
    let functions = flow.functions();
    let mut running = flow.begin(inputs.iter().map(|x| (*x).clone()).collect());
    let mut given = Outputs::new();
    loop {
        match running.next(given)? {
            Next::Run(function, inputs) => given = run(functions[function], inputs)?,
            Next::Done(outputs) => return Ok(outputs),
        }
    }
}
