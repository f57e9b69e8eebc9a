//! The kernels of conditions and loops: functions are interpreted, operation by operation, in their
//! order.

use smallvec::SmallVec;

use super::{While, WhileGrad};
use crate::graph::{
    ComputeError, Cost, Function, GraphProblem, Known, Op, OpDef, Outputs, TensorType, infer,
};
use crate::operations::Binary;
use crate::operations::dispatch::{call, cost as cost_of};
use crate::tensor::Tensor;

/// The most iterations of a loop. A kernel can't be stopped, so a loop without end would keep its
/// thread for ever.
const MOST: usize = 10_000_000;

fn type_of(x: &Tensor) -> TensorType {
    TensorType::new(x.dtype(), x.shape())
}

/// Runs `function`, whose types have been inferred; each operation's inputs are checked, since
/// their shapes may differ from one iteration to the next.
///
/// # Errors
/// If an operation's inputs don't fit, or it can't work on their values: which one.
pub(super) fn run(function: &Function, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
    let mut values: Vec<Tensor> = inputs.iter().map(|x| (*x).clone()).collect();
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

/// Runs the loop; `note` sees the variables before each iteration. Returns the variables after the
/// last one, and the number of iterations.
pub(super) fn iterate(
    of: &While,
    inputs: &[&Tensor],
    mut note: impl FnMut(&[Tensor]),
) -> Result<(Vec<Tensor>, usize), ComputeError> {
    let (first, constants) = inputs.split_at(of.variables());
    let mut variables: Vec<Tensor> = first.iter().map(|x| (*x).clone()).collect();
    let mut iterations = 0;
    while of.maximum.is_none_or(|maximum| iterations < maximum) {
        let all: Vec<&Tensor> = variables.iter().chain(constants.iter().copied()).collect();
        let goes_on = run(&of.condition, &all)?;
        if !goes_on[0].slice::<bool>()[0] {
            break;
        }
        if iterations == MOST {
            return Err(ComputeError::new(format!(
                "the loop has not ended after {MOST} iterations; give it a maximum of iterations"
            )));
        }
        let next = run(&of.body, &all)?;
        note(&variables);
        variables = next.into_iter().collect();
        iterations += 1;
    }
    Ok((variables, iterations))
}

/// Runs the loop, and then its iterations back, the last one first.
pub(super) fn iterate_back(of: &WhileGrad, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
    let (given, gradients) = inputs.split_at(of.of.body.inputs().len());
    let mut states: Vec<Vec<Tensor>> = Vec::new();
    iterate(&of.of, given, |variables| states.push(variables.to_vec()))?;
    let constants = &given[of.of.variables()..];
    let zeros = |x: &&&Tensor| Tensor::zeros(x.dtype(), x.shape());
    let is_real = |x: &&&Tensor| type_of(x).is_real();
    let mut by_variables: Vec<Tensor> = gradients.iter().map(|dy| (*dy).clone()).collect();
    let mut by_constants: Vec<Tensor> =
        constants.iter().filter(is_real).map(|x| zeros(&x)).collect();
    for state in states.iter().rev() {
        let all: Vec<&Tensor> =
            state.iter().chain(constants.iter().copied()).chain(&by_variables).collect();
        let mut back = run(&of.back, &all)?.into_iter();
        by_variables = back.by_ref().take(gradients.len()).collect();
        for (sum, more) in by_constants.iter_mut().zip(back) {
            let types = [type_of(sum), type_of(&more)];
            let refused = |problem: GraphProblem| ComputeError::new(problem.to_string());
            Binary::Add.infer(&types).map_err(refused)?;
            *sum = Binary::Add.compute(&[sum, &more])?.remove(0);
        }
    }
    Ok(by_variables.into_iter().chain(by_constants).collect())
}
