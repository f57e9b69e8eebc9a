//! `ExponentialMovingAverage`: averages of variables, which follow them slowly and are better to
//! evaluate with.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, GraphError, NewOperation, Op, Output, Target, Variable};
use crate::operations::Binary;
use crate::tensor::DType;

/// Averages of variables over their steps: `a -= (1 − decay)·(a − v)` (TensorFlow:
/// `tf.train.ExponentialMovingAverage`; Polyak and Juditsky 1992).
///
/// The average of `v` is the variable `v/ExponentialMovingAverage` beside it. It begins with the
/// first value of `v`, so it has no bias towards 0 to correct.
///
/// ```
/// # use trainyard::prelude::*;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let g = Graph::new();
/// let w = g.variable("w", &g.zeros([4]))?;
/// let step = g.global_step()?;
/// let train_op = GradientDescent::new(0.1).minimize(&w.read().square().sum(), &step)?;
/// let averages = ExponentialMovingAverage::new(0.99).num_updates(&train_op.global_step());
/// let train_op = averages.apply(&[w.clone()], train_op.target())?;
/// assert_eq!(averages.average(&w).unwrap().name(), "w/ExponentialMovingAverage");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ExponentialMovingAverage {
    decay: f32,
    num_updates: Option<Output>,
}

/// The last part of an average's name, after `variable/`.
const NAME: &str = "ExponentialMovingAverage";

impl ExponentialMovingAverage {
    /// Creates averages with the given decay: near 1, such as 0.999.
    ///
    /// # Panics
    /// If the decay is not at least 0 and at most 1.
    #[track_caller]
    pub fn new(decay: f32) -> Self {
        assert!(
            (0.0..=1.0).contains(&decay),
            "the decay of an average must be at least 0 and at most 1, not {decay}"
        );
        Self { decay, num_updates: None }
    }

    /// Follows faster in the beginning: with the decay `(1 + n) / (10 + n)` if that is less, where
    /// `n` is the value of `count`, a number such as the global step.
    #[must_use]
    pub fn num_updates(mut self, count: &Output) -> Self {
        self.num_updates = Some(count.clone());
        self
    }

    /// Creates an operation that runs after `train` and then moves the averages of `variables`,
    /// each on its variable's task. Averages that do not exist yet are created.
    ///
    /// In a synchronous training without backups the first worker's operation alone moves the
    /// averages of variables that all share: once a step, as TensorFlow's
    /// `SyncReplicasOptimizer(variable_averages=…)` does. In any other mode each worker's operation
    /// moves them.
    ///
    /// # Errors
    /// If there are no variables, one is not of f32, or they are of another graph than `train`.
    #[track_caller]
    pub fn apply(&self, variables: &[Variable], train: &Target) -> Result<Target, GraphError> {
        let graph = train.graph();
        for variable in variables {
            graph.check_own_variable(NAME, variable)?;
        }
        let taken = self.taken(graph)?;
        let is_by_another = graph
            .shared_replica()
            .is_some_and(|own| own.worker > 0 && own.mode.needs().is_barrier());
        let moved = graph.with_control_dependencies(&[train], |g| {
            let mut moved = vec![train.clone()];
            for variable in variables {
                let average = g.shadow_variable(&self.average_name(variable), variable)?;
                if !is_by_another || variable.spec().is_local {
                    moved.push(follow(&average, variable, &taken)?);
                }
            }
            Ok::<_, GraphError>(moved)
        })?;
        graph.group("train_and_average", &moved.iter().collect::<Vec<_>>())
    }

    /// The share of its difference from the variable that an average takes over: `1 − decay`.
    #[track_caller]
    fn taken(&self, graph: &Graph) -> Result<Output, GraphError> {
        let number = |number: f32| graph.constant(number);
        let Some(count) = &self.num_updates else { return Ok(number(1.0 - self.decay)) };
        let count = count.cast(DType::F32);
        let decay = count
            .add(&number(1.0))?
            .div(&count.add(&number(10.0))?)?
            .minimum(&number(self.decay))?;
        number(1.0).sub(&decay)
    }

    /// The average of `variable`, if [`ExponentialMovingAverage::apply`] has created it.
    pub fn average(&self, variable: &Variable) -> Option<Variable> {
        let name = self.average_name(variable);
        variable.graph().variables().into_iter().find(|other| other.name() == name)
    }

    /// The name of the average of `variable`, whether or not it exists.
    pub fn average_name(&self, variable: &Variable) -> String {
        format!("{}/{NAME}", variable.name())
    }

    /// Whether `name` is that of an average.
    pub(crate) fn is_average(name: &str) -> bool {
        name.rsplit_once('/').is_some_and(|(_, last)| last == NAME)
    }

    /// Maps each name in a checkpoint to the variable of `graph` that takes its value when a model
    /// is evaluated: a variable that is trainable, or that has an average in `graph`, takes its
    /// average, any other its own value. [`EstimatorSpec::scaffold`] takes it, by a
    /// [`Scaffold::saver`].
    ///
    /// [`EstimatorSpec::scaffold`]: crate::training::EstimatorSpec::scaffold
    /// [`Scaffold::saver`]: crate::training::Scaffold::saver
    pub fn variables_to_restore(&self, graph: &Graph) -> BTreeMap<String, Variable> {
        let variables = graph.variables();
        let names: BTreeSet<String> = variables.iter().map(Variable::name).collect();
        let (averaged, others): (Vec<_>, Vec<_>) = variables.into_iter().partition(|variable| {
            variable.spec().trainable || names.contains(&self.average_name(variable))
        });
        let mut restored: BTreeMap<_, _> =
            others.into_iter().map(|variable| (variable.name(), variable)).collect();
        restored
            .extend(averaged.into_iter().map(|variable| (self.average_name(&variable), variable)));
        restored
    }
}

/// Moves `average` towards `variable`, on its task, by the share `taken` of their difference.
#[track_caller]
fn follow(average: &Variable, variable: &Variable, taken: &Output) -> Result<Target, GraphError> {
    let graph = variable.graph();
    let beside = |op: Op, inputs: [&Output; 2]| {
        let inputs = &inputs.map(Output::edge);
        let colocated_with = Some(variable.op_id());
        let added = graph.add(NewOperation { inputs, colocated_with, ..NewOperation::of(op) });
        added.map(|op| graph.output(op))
    };
    let difference = beside(Binary::Sub.into(), [&variable.read_again(), &average.read_again()])?;
    average.assign_add(&beside(Binary::Mul.into(), [&difference, taken])?)
}
