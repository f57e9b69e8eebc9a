//! The kernels of conditions and loops: functions are interpreted, operation by operation, in their
//! order.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// The cost of a run with inputs of these types, as far as shapes are known; without a bound if
/// some are not.
pub(super) fn cost(function: &Function, inputs: &[Known]) -> Cost {
    let types: Vec<TensorType> =
        inputs.iter().map(|(dtype, shape)| TensorType::new(*dtype, *shape)).collect();
    let Ok(types) = function.types(&types) else { return Cost::default().unbounded() };
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
        total = match (given, made) {
            (Some(given), Some(made)) => total + cost_of(&step.op, &given, &made),
            _ => total.unbounded(),
        };
    }
    total
}

thread_local! {
    /// Whether the work of this thread has been given up, as far as anybody can tell it.
    static GIVEN_UP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Restores what another piece of work on this thread goes by: one that waits for other threads
/// can have this one begin meanwhile.
struct Restore(Option<Arc<AtomicBool>>);

impl Drop for Restore {
    fn drop(&mut self) {
        GIVEN_UP.set(self.0.take());
    }
}

/// Does `work`, whose loops end early once it `is_given_up`.
pub(crate) fn until_given_up<T>(is_given_up: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(GIVEN_UP.replace(Some(Arc::clone(is_given_up))));
    work()
}

fn is_given_up() -> bool {
    GIVEN_UP.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)))
}

/// Runs a condition or a loop whole, or until the work is given up.
pub(super) fn compute(flow: Flow<'_>, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
    let functions = flow.functions();
    let mut running = flow.begin(inputs.iter().map(|x| (*x).clone()).collect());
    let mut given = Outputs::new();
    loop {
        match running.next(given)? {
            Next::Run(..) if is_given_up() => {
                return Err(ComputeError::new("nobody waits for it any more"));
            }
            Next::Run(function, inputs) => given = run(functions[function], inputs)?,
            Next::Done(outputs) => return Ok(outputs),
        }
    }
}
