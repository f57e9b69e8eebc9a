//! Conditions and loops, as operations whose branches and bodies are functions.
//!
//! An operation runs whole on its device, as one kernel. If a part of its functions asks for
//! another device, each function runs as a step of its own, cut over tasks like any other; the
//! operation's worker asks its task's master for these steps (`runtime/worker/flows.rs`).
//!
//! A function reads no variable. A branch or a body takes what it needs as inputs.
//!
//! | TensorFlow | here |
//! |---|---|
//! | a branch or a body may read and change variables | refused: read variables outside, and hand the values in |
//! | several iterations may run at a time | iterations run one after the other |
//! | a loop keeps what its gradient needs of each iteration | it keeps the loop's variables, and its gradient computes an iteration again |
//! | the cost of a loop is that of its iterations | a simulation counts as many as the loop's maximum, or one if it has none: a cost comes before the run that would tell |

mod build;
mod flow;
mod gradient;
mod run;
#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, Function, GraphError, GraphProblem, Known,
    OpDef, Output, OutputTypes, Outputs, TensorType,
};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

pub(crate) use flow::{Flow, Next};
pub(crate) use run::until_given_up;

/// `(condition, inputs…)`: the outputs of one of two functions of the inputs. Only that one runs
/// (TensorFlow `StatelessIf`).
#[derive(Clone, Debug, PartialEq)]
pub struct If {
    /// Runs where the condition, a scalar, holds.
    pub then: Function,
    /// Runs where it does not.
    pub otherwise: Function,
}

/// `(variables…, constants…)`: the variables after the last iteration. While the condition holds,
/// the body computes new variables (TensorFlow `StatelessWhile`).
#[derive(Clone, Debug, PartialEq)]
pub struct While {
    /// Computes whether there is another iteration, a scalar, from variables and constants.
    pub condition: Function,
    /// Computes the next variables from variables and constants.
    pub body: Function,
    /// The loop ends after so many iterations, whatever the condition says. A simulation charges so
    /// many, or a single one if there is no maximum, however many run.
    pub maximum: Option<usize>,
}

/// `(variables…, constants…, gradients…)`: the gradients of a loop by its variables and constants
/// of real numbers, in this order; the gradients that it takes are those of its results of real
/// numbers. It runs the loop again, and then its iterations back.
#[derive(Clone, Debug, PartialEq)]
pub struct WhileGrad {
    /// The loop.
    pub of: While,
    /// One iteration back: `(variables…, constants…, gradients…, sums…)` to the gradients by the
    /// variables of real numbers, and to the sums with the gradients by the constants of real
    /// numbers added.
    pub back: Function,
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    let empty =
        || While { condition: Function::default(), body: Function::default(), maximum: None };
    vec![
        If { then: Function::default(), otherwise: Function::default() }.into(),
        empty().into(),
        WhileGrad { of: empty(), back: Function::default() }.into(),
    ]
}

fn is_truth(x: &TensorType) -> bool {
    x.dtype == DType::Bool && x.shape.merge(&Shape::SCALAR.into()).is_some()
}

impl OpDef for If {
    fn kind(&self) -> &'static str {
        "If"
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        Self {
            then: given.function("then_branch", self.then.clone()),
            otherwise: given.function("else_branch", self.otherwise.clone()),
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let [condition, inputs @ ..] = inputs else {
            return Err(GraphProblem::needs("a condition", inputs));
        };
        if !is_truth(condition) {
            return Err(GraphProblem::needs("a bool scalar as condition", &[*condition]));
        }
        let branch = |branch: &Function| lenient(branch, inputs, |inputs| branch.infer(inputs));
        let (a, b) = (branch(&self.then)?, branch(&self.otherwise)?);
        let shared = |(a, b): (&TensorType, &TensorType)| either(*a, *b);
        let types: Option<OutputTypes> = a.iter().zip(&b).map(shared).collect();
        let alike = types.filter(|_| a.len() == b.len());
        alike.ok_or_else(|| {
            let both: Vec<TensorType> = a.into_iter().chain(b).collect();
            GraphProblem::needs("two branches whose outputs have the same types", &both)
        })
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        gradient::of_if(self, of)
    }

    /// The cost of the more expensive branch; without a bound if either has none.
    fn cost(&self, inputs: &[Known], _: &[Known]) -> Cost {
        let [a, b] = [&self.then, &self.otherwise].map(|branch| run::cost(branch, &inputs[1..]));
        let work = |cost: Cost| cost.flops.saturating_add(cost.bytes);
        let larger = if work(a) > work(b) { a } else { b };
        Cost { is_unbounded: a.is_unbounded || b.is_unbounded, ..larger }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        run::compute(Flow::If(self), inputs)
    }

    fn functions(&self) -> Vec<&Function> {
        vec![&self.then, &self.otherwise]
    }
}

/// Calls `infer` with inputs of these types. The inputs of a function that does not run (the other
/// branch, or the body of a loop without iterations) may not fit it in sizes that were open when it
/// was built; then these sizes are open.
fn lenient<T>(
    of: &Function,
    inputs: &[TensorType],
    infer: impl Fn(&[TensorType]) -> Result<T, GraphProblem>,
) -> Result<T, GraphProblem> {
    infer(inputs).or_else(|problem| {
        let opened = |(given, own): (&TensorType, &TensorType)| {
            if given.shape.rank() != own.shape.rank() {
                return *given;
            }
            let dims = given.shape.dims().iter().zip(own.shape.dims());
            let dims: SmallVec<[_; 6]> = dims.map(|(dim, own)| own.and(*dim)).collect();
            TensorType::new(given.dtype, PartialShape::new(&dims))
        };
        let rest = inputs.iter().skip(of.inputs().len()).copied();
        let opened: OutputTypes = inputs.iter().zip(of.inputs()).map(opened).chain(rest).collect();
        if *opened == *inputs {
            return Err(problem);
        }
        infer(&opened).map_err(|_| problem)
    })
}

/// The type that both values have, with a dimension open where they differ; `None` if they differ
/// in more.
fn either(a: TensorType, b: TensorType) -> Option<TensorType> {
    if a.dtype != b.dtype || a.shape.rank() != b.shape.rank() {
        return None;
    }
    let dims = a.shape.dims().iter().zip(b.shape.dims());
    let dims: SmallVec<[_; 6]> = dims.map(|(a, b)| if a == b { *a } else { None }).collect();
    Some(TensorType::new(a.dtype, PartialShape::new(&dims)))
}

impl While {
    /// The number of variables; the other inputs are constants.
    fn variables(&self) -> usize {
        self.body.outputs().len()
    }

    fn read(&self, given: &mut Attributes) -> Self {
        Self {
            condition: given.function("cond", self.condition.clone()),
            body: given.function("body", self.body.clone()),
            maximum: given.maybe_size("maximum_iterations", self.maximum),
        }
    }

    /// The inputs of an iteration, with the sizes of variables open that differ after an iteration,
    /// where the body was built for any size; and the types that the body gives for them. A step
    /// knows these sizes before the first iteration only.
    fn iteration(&self, inputs: &[TensorType]) -> Result<(OutputTypes, OutputTypes), GraphProblem> {
        let next = self.body.infer(inputs)?;
        let open = |i: usize| {
            let (given, own) = (inputs[i], self.body.inputs()[i]);
            let Some(after) = next.get(i).filter(|after| after.shape.rank() == given.shape.rank())
            else {
                return given;
            };
            let dims = given.shape.dims().iter().zip(after.shape.dims()).zip(own.shape.dims());
            let dims: SmallVec<[_; 6]> = dims
                .map(|((dim, after), own)| if own.is_none() && dim != after { None } else { *dim })
                .collect();
            TensorType::new(given.dtype, PartialShape::new(&dims))
        };
        let opened: OutputTypes = (0..inputs.len()).map(open).collect();
        // Why not always: in loops within loops, it would double the work at each level.
        let next = if *opened == *inputs { next } else { self.body.infer(&opened)? };
        Ok((opened, next))
    }

    /// The cost of the loop, where that of an iteration is `each`: of as many as it may have. If
    /// the values alone decide that, it is the cost of one, without a bound.
    fn cost_of(&self, each: Cost) -> Cost {
        match self.maximum {
            Some(maximum) => each.times(maximum as u64),
            None => each.unbounded(),
        }
    }
}

impl OpDef for While {
    fn kind(&self) -> &'static str {
        "While"
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        self.read(given).into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        Ok(self.types(inputs)?.1)
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        gradient::of_while(self, of)
    }

    fn cost(&self, inputs: &[Known], _: &[Known]) -> Cost {
        let each = run::cost(&self.body, inputs) + run::cost(&self.condition, inputs);
        self.cost_of(each)
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        run::compute(Flow::While(self), inputs)
    }

    fn functions(&self) -> Vec<&Function> {
        vec![&self.condition, &self.body]
    }
}

impl While {
    /// The types of the inputs of all iterations, and those of the variables after the loop.
    fn types(&self, inputs: &[TensorType]) -> Result<(OutputTypes, OutputTypes), GraphProblem> {
        lenient(&self.body, inputs, |inputs| {
            let (opened, next) = self.iteration(inputs)?;
            let results = self.results(&opened, &next)?;
            Ok((opened, results))
        })
    }

    /// The types of the loop's variables after it, given those before it, `inputs`, and those after
    /// one iteration, `next`.
    fn results(
        &self,
        inputs: &[TensorType],
        next: &[TensorType],
    ) -> Result<OutputTypes, GraphProblem> {
        let condition = self.condition.infer(inputs)?;
        if condition.len() != 1 || !is_truth(&condition[0]) {
            return Err(GraphProblem::needs("a bool scalar as condition", &condition));
        }
        let keeps = |(before, after): (&TensorType, &TensorType)| {
            before.dtype == after.dtype && before.shape.merge(&after.shape).is_some()
        };
        if next.len() > inputs.len() || !inputs.iter().zip(next).all(keeps) {
            let needs = "variables that keep their types from one iteration to the next";
            return Err(GraphProblem::needs(needs, inputs));
        }
        // A dimension that the body does not keep as it is known is open after the loop.
        inputs
            .iter()
            .zip(next)
            .map(|(before, after)| either(*before, *after))
            .collect::<Option<_>>()
            .ok_or_else(|| GraphProblem::needs("variables that keep their types", inputs))
    }
}

impl OpDef for WhileGrad {
    fn kind(&self) -> &'static str {
        "WhileGrad"
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        let of = self.of.read(given);
        Self { of, back: given.function("back", self.back.clone()) }.into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let count = self.of.body.inputs().len();
        if count > inputs.len() {
            return Err(GraphProblem::needs("the inputs of a loop, and gradients", inputs));
        }
        let variables = inputs[..self.of.variables()].iter().filter(|x| x.dtype.is_real()).count();
        if inputs.len() != count + variables {
            return Err(GraphProblem::needs("the inputs of a loop, and gradients", inputs));
        }
        let (opened, _) = self.of.types(&inputs[..count])?;
        let mut inputs: Vec<TensorType> = opened.iter().chain(&inputs[count..]).copied().collect();
        let reals: OutputTypes = opened.iter().copied().filter(|x| x.dtype.is_real()).collect();
        for (dx, x) in inputs[count..].iter_mut().zip(&reals) {
            // A gradient has the sizes of the variable after the loop, and then of each before.
            *dx = either(*dx, *x).unwrap_or(*dx);
        }
        let inputs = inputs.as_slice();
        let with_sums: Vec<TensorType> =
            inputs.iter().chain(&reals[variables..]).copied().collect();
        let gradients = self.back.infer(&with_sums)?;
        let fits = |(x, dx): (&TensorType, &TensorType)| {
            x.dtype == dx.dtype && x.shape.merge(&dx.shape).is_some()
        };
        let fit = reals.len() == gradients.len() && reals.iter().zip(&gradients).all(fits);
        if fit { Ok(reals) } else { Err(GraphProblem::needs("the gradients of a loop", inputs)) }
    }

    fn cost(&self, inputs: &[Known], _: &[Known]) -> Cost {
        let count = self.of.body.inputs().len();
        let forward = self.of.cost(&inputs[..count], &[]);
        let constants = &inputs[self.of.variables()..count];
        let sums = constants.iter().filter(|(dtype, _)| dtype.is_real());
        let with_sums: Vec<Known> = inputs.iter().chain(sums).copied().collect();
        let back = run::cost(&self.back, &with_sums);
        forward + self.of.cost_of(back)
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        run::compute(Flow::WhileGrad(self), inputs)
    }

    fn functions(&self) -> Vec<&Function> {
        vec![&self.of.condition, &self.of.body, &self.back]
    }
}
