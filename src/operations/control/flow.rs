//! The order in which a condition or a loop runs its functions. Where they run is its caller's: in
//! one kernel, or over several tasks.

use super::{If, While, WhileGrad};
use crate::graph::{Call, ComputeError, Function, Op, OpDef, Outputs};
use crate::tensor::Tensor;

/// The most iterations of a loop. A kernel can't be stopped, so a loop without end would keep its
/// thread for ever.
const MOST: usize = 10_000_000;

/// The positions of a loop's functions.
const CONDITION: usize = 0;
const BODY: usize = 1;
const BACK: usize = 2;

/// A condition or a loop.
#[derive(Clone, Copy)]
pub(crate) enum Flow<'a> {
    If(&'a If),
    While(&'a While),
    WhileGrad(&'a WhileGrad),
}

/// What comes next.
pub(crate) enum Next {
    /// The function of this position is to run on these inputs.
    Run(usize, Vec<Tensor>),
    /// These are the outputs.
    Done(Outputs),
}

/// A condition or a loop that runs.
pub(crate) enum Running<'a> {
    Branch(Branch),
    Forward(Forward<'a>),
    Back(Back),
}

impl<'a> Flow<'a> {
    /// The condition or loop that `op` is, if it is one.
    pub(crate) fn of(op: &'a Op) -> Option<Self> {
        let Op::Defined(op) = op else { return None };
        let branches = op.get().map(Self::If);
        branches.or_else(|| op.get().map(Self::While)).or_else(|| op.get().map(Self::WhileGrad))
    }

    /// Its functions, by position.
    pub(crate) fn functions(self) -> Vec<&'a Function> {
        match self {
            Self::If(of) => of.functions(),
            Self::While(of) => of.functions(),
            Self::WhileGrad(grad) => grad.functions(),
        }
    }

    /// Whether one of the operations of its functions, and of those within, is `such`.
    pub(crate) fn has(self, such: &dyn Fn(&Call) -> bool) -> bool {
        let within = |call: &Call| Flow::of(&call.op).is_some_and(|flow| flow.has(such));
        let mut calls = self.functions().into_iter().flat_map(Function::calls);
        calls.any(|call| such(call) || within(call))
    }

    /// Begins to run it, on inputs that fit.
    pub(crate) fn begin(self, inputs: Vec<Tensor>) -> Running<'a> {
        match self {
            Self::If(_) => Running::Branch(Branch { inputs, is_asked: false }),
            Self::While(of) => Running::Forward(Forward::new(of, inputs, None)),
            Self::WhileGrad(grad) => {
                let mut inputs = inputs;
                let gradients = inputs.split_off(grad.of.body.inputs().len());
                Running::Forward(Forward::new(&grad.of, inputs, Some(gradients)))
            }
        }
    }
}

impl Running<'_> {
    /// What comes next, where `given` are the outputs of the function that has run, if one has.
    ///
    /// # Errors
    /// If the values do not tell whether there is another iteration, or the loop does not end.
    pub(crate) fn next(&mut self, given: Outputs) -> Result<Next, ComputeError> {
        match self {
            Self::Branch(branch) => branch.next(given),
            Self::Back(back) => Ok(back.next(Some(given))),
            Self::Forward(forward) => {
                if let Some(next) = forward.next(given)? {
                    return Ok(next);
                }
                match forward.gradients.take() {
                    None => Ok(Next::Done(std::mem::take(&mut forward.variables).into())),
                    Some(gradients) => {
                        let mut back = Back::new(forward, gradients);
                        let next = back.next(None);
                        *self = Self::Back(back);
                        Ok(next)
                    }
                }
            }
        }
    }
}

/// A condition that runs.
pub(crate) struct Branch {
    inputs: Vec<Tensor>,
    is_asked: bool,
}

impl Branch {
    fn next(&mut self, given: Outputs) -> Result<Next, ComputeError> {
        if std::mem::replace(&mut self.is_asked, true) {
            return Ok(Next::Done(given));
        }
        let inputs = self.inputs.split_off(1);
        let branch = if holds(&self.inputs[0])? { 0 } else { 1 };
        Ok(Next::Run(branch, inputs))
    }
}

/// The iterations of a loop.
pub(crate) struct Forward<'a> {
    of: &'a While,
    variables: Vec<Tensor>,
    constants: Vec<Tensor>,
    iterations: usize,
    /// The function whose outputs come next.
    runs: Option<usize>,
    /// The gradients by the variables after the loop, if those by the variables before it are
    /// wanted. `states` then has the variables before each iteration.
    gradients: Option<Vec<Tensor>>,
    states: Vec<Vec<Tensor>>,
}

impl<'a> Forward<'a> {
    fn new(of: &'a While, mut variables: Vec<Tensor>, gradients: Option<Vec<Tensor>>) -> Self {
        let constants = variables.split_off(of.variables());
        let (iterations, runs, states) = (0, None, Vec::new());
        Self { of, variables, constants, iterations, runs, gradients, states }
    }

    /// `None` after the last iteration.
    fn next(&mut self, given: Outputs) -> Result<Option<Next>, ComputeError> {
        match self.runs {
            Some(CONDITION) => {
                if !self.goes_on(&given[0])? {
                    return Ok(None);
                }
                return Ok(Some(self.run(BODY)));
            }
            Some(_) => {
                let before = std::mem::replace(&mut self.variables, given.into_vec());
                if self.gradients.is_some() {
                    self.states.push(before);
                }
                self.iterations += 1;
            }
            None => {}
        }
        let is_over = self.of.maximum.is_some_and(|maximum| self.iterations >= maximum);
        Ok((!is_over).then(|| self.run(CONDITION)))
    }

    /// Without numbers, a loop has as many iterations as it may.
    fn goes_on(&self, condition: &Tensor) -> Result<bool, ComputeError> {
        if condition.is_hollow() && self.of.maximum.is_some() {
            return Ok(true);
        }
        if holds(condition)? && self.iterations == MOST {
            let end = "give it a maximum of iterations";
            let message = format!("the loop has not ended after {MOST} iterations; {end}");
            return Err(ComputeError::new(message));
        }
        holds(condition)
    }

    fn run(&mut self, function: usize) -> Next {
        self.runs = Some(function);
        Next::Run(function, self.variables.iter().chain(&self.constants).cloned().collect())
    }
}

/// The iterations of a loop back, the last one first.
pub(crate) struct Back {
    states: Vec<Vec<Tensor>>,
    constants: Vec<Tensor>,
    /// The gradients of the variables after the iteration that comes next.
    by_variables: Vec<Tensor>,
    /// The sums of the gradients by the constants of real numbers.
    by_constants: Vec<Tensor>,
}

impl Back {
    fn new(forward: &mut Forward<'_>, gradients: Vec<Tensor>) -> Self {
        let constants = std::mem::take(&mut forward.constants);
        let is_real = |x: &&Tensor| x.dtype().is_real();
        let zeros = |x: &Tensor| match x.is_hollow() {
            true => Tensor::hollow(x.dtype(), x.shape()),
            false => Tensor::zeros(x.dtype(), x.shape()),
        };
        Self {
            states: std::mem::take(&mut forward.states),
            by_variables: gradients,
            by_constants: constants.iter().filter(is_real).map(zeros).collect(),
            constants,
        }
    }

    fn next(&mut self, given: Option<Outputs>) -> Next {
        if let Some(given) = given {
            self.by_constants = given.into_vec();
            let sums = self.by_constants.split_off(self.by_variables.len());
            self.by_variables = std::mem::replace(&mut self.by_constants, sums);
        }
        match self.states.pop() {
            Some(state) => {
                let all = state.into_iter().chain(self.constants.iter().cloned());
                let all = all.chain(self.by_variables.iter().cloned());
                Next::Run(BACK, all.chain(self.by_constants.iter().cloned()).collect())
            }
            None => {
                let all = self.by_variables.drain(..).chain(self.by_constants.drain(..));
                Next::Done(all.collect())
            }
        }
    }
}

/// The value of a condition.
fn holds(condition: &Tensor) -> Result<bool, ComputeError> {
    if condition.is_hollow() {
        let why = "its condition depends on numbers that numerics = \"shapes\" does not compute";
        return Err(ComputeError::new(why));
    }
    Ok(condition.slice::<bool>()[0])
}
