//! Towers: copies of a model in one graph, a device each, which share their variables (TensorFlow:
//! in-graph replication, `reuse_variables`).

use super::error::{GraphError, GraphProblem};
use super::tower_variables::TowerVariables;
use super::{
    DeviceFunction, Gradient, Graph, IndexedSlices, OperationRequest, Output, TensorType, Variable,
    concat, variable_gradients,
};
use crate::cluster::DeviceSpec;

/// The device of a tower.
struct OfTower {
    device: DeviceSpec,
    /// Whether it has variables, which are elsewhere if towers share them.
    has_variables: bool,
}

impl DeviceFunction for OfTower {
    fn device(&self, request: &OperationRequest<'_>) -> DeviceSpec {
        match request.variable() {
            Some(_) if !self.has_variables => request.device.clone(),
            _ => self.device.merged(request.device),
        }
    }
}

impl Graph {
    /// Builds a tower on each of `devices`, partial names such as `/gpu:1`; `build` is given the
    /// tower's number. The first tower makes the variables, where the scopes around say; the others
    /// have the same ones, in the order in which they ask for them. The operations of those are
    /// named below `tower_1`, `tower_2` and so on.
    ///
    /// # Errors
    /// If a name is malformed; if a tower asks for other variables than the first; the errors of
    /// `build`.
    #[track_caller]
    pub fn towers<T>(
        &self,
        devices: &[impl AsRef<str>],
        build: impl FnMut(&Self, usize) -> Result<T, GraphError>,
    ) -> Result<Vec<T>, GraphError> {
        self.build_towers(devices, TowerVariables::default(), build)
    }

    /// As [`Graph::towers`], but that each tower has its variables on its own device: the first has
    /// those that are saved and restored, the others mirrors of the trainable ones, named
    /// `<variable>/replica_1` and so on. Each tower updates its own, by gradients that
    /// [`mirrored_gradients`](super::mirrored_gradients) gives to all (TensorFlow:
    /// `MirroredStrategy`). Variables that are not trained are the first tower's alone.
    ///
    /// # Errors
    /// As [`Graph::towers`].
    #[track_caller]
    pub fn mirrored_towers<T>(
        &self,
        devices: &[impl AsRef<str>],
        build: impl FnMut(&Self, usize) -> Result<T, GraphError>,
    ) -> Result<Vec<T>, GraphError> {
        self.build_towers(devices, TowerVariables::mirrored(), build)
    }

    /// Builds a model twice, to be trained and to be evaluated: the second has the variables of the
    /// first, in the order in which it asks for them. `build` is told whether it is the first,
    /// which alone drops units out and normalises by the moments of its batch (TensorFlow: a
    /// `model_fn` called with `ModeKeys.TRAIN` and with `EVAL`, `tf.make_template`). The operations
    /// of the second are named below `evaluation`.
    ///
    /// ```
    /// # use trainyard::prelude::*;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let g = Graph::new();
    /// let x = g.placeholder("x", DType::F32, [None, Some(4)])?;
    /// let (trained, evaluated) = g.train_and_eval(|_, is_training| {
    ///     let hidden = dense(&x, 16)?.relu();
    ///     dense(&if is_training { hidden.dropout(0.5)? } else { hidden }, 3)
    /// })?;
    /// assert_eq!(g.trainable_variables().len(), 4);
    /// # let _ = (trained, evaluated);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the second asks for other variables than the first; the errors of `build`.
    #[track_caller]
    pub fn train_and_eval<T>(
        &self,
        mut build: impl FnMut(&Self, bool) -> Result<T, GraphError>,
    ) -> Result<(T, T), GraphError> {
        let is_in_tower = self.state().towers.is_some();
        let place = self.state().towers.get_or_insert_default().place();
        let built = build(self, true).and_then(|trained| {
            let mut taken = None;
            if let Some(variables) = &mut self.state().towers {
                taken = variables.take_again(place);
            }
            let evaluated = self.with_name_scope("evaluation", |g| build(g, false));
            if let Some(variables) = &mut self.state().towers {
                variables.go_on(taken);
            }
            Ok((trained, evaluated?))
        });
        if !is_in_tower {
            self.state().towers = None;
        }
        built
    }

    #[track_caller]
    fn build_towers<T>(
        &self,
        devices: &[impl AsRef<str>],
        variables: TowerVariables,
        mut build: impl FnMut(&Self, usize) -> Result<T, GraphError>,
    ) -> Result<Vec<T>, GraphError> {
        let has_variables = variables.are_mirrored();
        let outer = self.state().towers.replace(variables);
        let mut tower = |(number, device): (usize, &_)| {
            let device = AsRef::<str>::as_ref(device)
                .parse()
                .map_err(|error| GraphError::new("towers", GraphProblem::Device(error)))?;
            if let Some(shared) = &mut self.state().towers {
                shared.begin(number);
            }
            self.with_device_fn(OfTower { device, has_variables }, |g| match number {
                0 => build(g, number),
                later => g.with_name_scope(&format!("tower_{later}"), |g| build(g, number)),
            })
        };
        let built = devices.iter().enumerate().map(&mut tower).collect();
        self.state().towers = outer;
        built
    }

    /// The variable of the first tower that stands for the next one, of type `wanted`, of a later
    /// tower; `None` if the variable is to be made.
    ///
    /// # Errors
    /// If that one is of another type, or there is none.
    pub(super) fn variable_of_towers(
        &self,
        name: &str,
        wanted: &TensorType,
    ) -> Result<Option<Variable>, GraphError> {
        let Some((tower, next)) = self.state().towers.as_mut().and_then(TowerVariables::next)
        else {
            return Ok(None);
        };
        let variable = next.map(|op| Variable::new(self.clone(), op));
        match variable {
            Some(variable) if variable.spec().tensor_type() == *wanted => {
                self.own_of_tower(variable, tower).map(Some)
            }
            other => {
                let needs = match other {
                    Some(other) => format!(
                        "the type of the variable `{}`, {}, which the first tower made in its \
                         place",
                        other.name(),
                        other.spec().tensor_type()
                    ),
                    None => "no more variables than the first tower".to_owned(),
                };
                let problem = GraphProblem::Inputs { needs, inputs: vec![*wanted] };
                Err(GraphError::new(format!("{name} (Variable)"), problem))
            }
        }
    }
}

impl Graph {
    /// The variable of tower `tower` that stands for `variable` of the first: its mirror, if towers
    /// have any; else that one.
    #[track_caller]
    fn own_of_tower(&self, variable: Variable, tower: usize) -> Result<Variable, GraphError> {
        let mirrors = |towers: &TowerVariables| towers.are_mirrored();
        let is_mirrored = tower > 0 && self.state().towers.as_ref().is_some_and(mirrors);
        if !is_mirrored || !variable.spec().trainable {
            return Ok(variable);
        }
        // What makes a mirror asks for no variable of the first tower.
        let outer = self.state().towers.take();
        let mirror = self.mirror_variable(&variable, tower);
        self.state().towers = outer;
        mirror
    }
}

/// The trainable variables that the losses of towers depend on, each with the mean of its gradients
/// in all towers (TensorFlow: `average_gradients` of its examples for several GPUs). Each tower
/// computes its own on its device; the means are where the scopes around say.
///
/// # Errors
/// As [`variable_gradients`]; if there is no loss.
#[track_caller]
pub fn tower_gradients(losses: &[Output]) -> Result<Vec<(Variable, Gradient)>, GraphError> {
    let Some(first) = losses.first() else {
        return Err(GraphError::new("tower_gradients", GraphProblem::NoGradients));
    };
    let variables = first.graph().trainable_variables();
    let of_towers = losses.iter().map(|loss| variable_gradients(loss, &variables));
    let of_towers: Vec<Vec<Option<Gradient>>> = of_towers.collect::<Result<_, _>>()?;
    let mut pairs = Vec::new();
    for (at, variable) in variables.into_iter().enumerate() {
        let own: Vec<&Gradient> = of_towers.iter().filter_map(|of| of[at].as_ref()).collect();
        if !own.is_empty() {
            pairs.push((variable, mean(&own, losses.len())?));
        }
    }
    Ok(pairs)
}

/// The sum of `gradients` over `towers`. Of rows, all together: their sum is taken when they are
/// applied.
#[track_caller]
pub(super) fn mean(gradients: &[&Gradient], towers: usize) -> Result<Gradient, GraphError> {
    let over = |sum: &Output| sum.mul(&sum.graph().constant(1.0 / towers as f32));
    if let [only] = gradients
        && towers == 1
    {
        return Ok((*only).clone());
    }
    let slices = |gradient: &&Gradient| match gradient {
        Gradient::Slices(slices) => Some(slices.clone()),
        Gradient::Dense(_) => None,
    };
    let slices: Option<Vec<IndexedSlices>> = gradients.iter().map(slices).collect();
    if let Some(slices) = slices {
        let values: Vec<&Output> = slices.iter().map(IndexedSlices::values).collect();
        let indices: Vec<&Output> = slices.iter().map(IndexedSlices::indices).collect();
        let (values, indices) = (over(&concat(&values, 0)?)?, concat(&indices, 0)?);
        return Ok(IndexedSlices::new(&values, &indices, slices[0].rows())?.into());
    }
    let dense: Vec<Output> = gradients.iter().map(|gradient| gradient.to_dense()).collect();
    let others: Vec<&Output> = dense[1..].iter().collect();
    let sum = if others.is_empty() { dense[0].clone() } else { dense[0].add_all(&others)? };
    Ok(over(&sum)?.into())
}
