//! The optimizers, with TensorFlow's defaults, and the slots that each keeps beside a variable.

use super::Optimizer;
use crate::graph::{Graph, GraphError, UpdateRule, Variable};
use crate::tensor::Shape;

/// `v -= lr·g` (TensorFlow: `GradientDescentOptimizer`).
#[derive(Clone, Copy, Debug)]
pub struct GradientDescent {
    learning_rate: f32,
}

impl GradientDescent {
    /// With the given learning rate.
    pub fn new(learning_rate: f32) -> Self {
        Self { learning_rate }
    }
}

impl Optimizer for GradientDescent {
    fn rule(&self) -> UpdateRule {
        UpdateRule::GradientDescent
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }
}

/// `m = μ·m + g; v -= lr·m` (TensorFlow: `MomentumOptimizer`).
#[derive(Clone, Copy, Debug)]
pub struct Momentum {
    learning_rate: f32,
    momentum: f32,
    use_nesterov: bool,
}

impl Momentum {
    /// With the given learning rate and μ.
    pub fn new(learning_rate: f32, momentum: f32) -> Self {
        Self { learning_rate, momentum, use_nesterov: false }
    }

    /// Looks ahead: `v -= lr·g + lr·μ·m` (Nesterov).
    #[must_use]
    pub fn use_nesterov(mut self) -> Self {
        self.use_nesterov = true;
        self
    }
}

impl Optimizer for Momentum {
    fn rule(&self) -> UpdateRule {
        UpdateRule::Momentum { momentum: self.momentum, use_nesterov: self.use_nesterov }
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }
}

/// `a += g²; v -= lr·g/√a`, without ε (TensorFlow: `AdagradOptimizer`).
#[derive(Clone, Copy, Debug)]
pub struct Adagrad {
    learning_rate: f32,
    initial_accumulator_value: f32,
}

impl Adagrad {
    /// With the given learning rate, and `a` beginning at 0.1.
    pub fn new(learning_rate: f32) -> Self {
        Self { learning_rate, initial_accumulator_value: 0.1 }
    }

    /// Begins with `a` at `value`.
    ///
    /// # Panics
    /// If the value is not positive: the first update would divide by zero.
    #[must_use]
    pub fn initial_accumulator_value(mut self, value: f32) -> Self {
        assert!(value > 0.0, "Adagrad's initial accumulator value must be positive, not {value}");
        self.initial_accumulator_value = value;
        self
    }
}

impl Optimizer for Adagrad {
    fn rule(&self) -> UpdateRule {
        UpdateRule::Adagrad { initial_accumulator_value: self.initial_accumulator_value }
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }
}

/// Kingma and Ba 2015 as TensorFlow's `AdamOptimizer` has it: ε outside the root.
///
/// TensorFlow keeps one pair of β powers for all variables; here each variable has its own, beside
/// it, so that shards on different parameter servers need not ask each other. The numbers are the same.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    learning_rate: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
}

impl Adam {
    /// With the given learning rate, β1 = 0.9, β2 = 0.999, ε = 1e-8.
    pub fn new(learning_rate: f32) -> Self {
        Self { learning_rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }

    /// With other decay rates.
    #[must_use]
    pub fn betas(mut self, beta1: f32, beta2: f32) -> Self {
        (self.beta1, self.beta2) = (beta1, beta2);
        self
    }

    /// With another ε.
    #[must_use]
    pub fn epsilon(mut self, epsilon: f32) -> Self {
        self.epsilon = epsilon;
        self
    }
}

impl Default for Adam {
    /// TensorFlow's default learning rate, 0.001.
    fn default() -> Self {
        Self::new(0.001)
    }
}

impl Optimizer for Adam {
    fn rule(&self) -> UpdateRule {
        UpdateRule::Adam { beta1: self.beta1, beta2: self.beta2, epsilon: self.epsilon }
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }
}

/// A value that an optimizer keeps beside a variable.
pub(super) struct Slot {
    /// What follows `variable/` in its name.
    name: &'static str,
    initial: f32,
    /// One value, instead of one for each of the variable's.
    is_scalar: bool,
}

impl Slot {
    const fn like_variable(name: &'static str, initial: f32) -> Self {
        Self { name, initial, is_scalar: false }
    }

    const fn scalar(name: &'static str, initial: f32) -> Self {
        Self { name, initial, is_scalar: true }
    }

    /// The slot of `variable`.
    #[track_caller]
    pub(super) fn create(&self, graph: &Graph, variable: &Variable) -> Result<Variable, GraphError> {
        let name = format!("{}/{}", variable.name(), self.name);
        let shape = if self.is_scalar { Shape::SCALAR } else { variable.spec().shape };
        graph.slot_variable(&name, shape, self.initial, variable)
    }
}

/// The slots of `rule`, in the order in which its update takes them.
pub(super) fn slots(rule: UpdateRule) -> Vec<Slot> {
    match rule {
        UpdateRule::GradientDescent => vec![],
        UpdateRule::Momentum { .. } => vec![Slot::like_variable("Momentum", 0.0)],
        UpdateRule::Adagrad { initial_accumulator_value } => {
            vec![Slot::like_variable("Adagrad", initial_accumulator_value)]
        }
        UpdateRule::Adam { beta1, beta2, .. } => vec![
            Slot::like_variable("Adam", 0.0),
            Slot::like_variable("Adam_1", 0.0),
            Slot::scalar("beta1_power", beta1),
            Slot::scalar("beta2_power", beta2),
        ],
    }
}
