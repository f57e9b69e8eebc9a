//! Mirrored variables: each tower has a copy of its own of every trainable variable (TensorFlow:
//! `MirroredStrategy`).
//!
//! The first tower's variables are the *primaries*: they have the names, are initialised, saved and
//! restored as any others, and so checkpoints don't show how a training was replicated. A mirror is
//! set to its primary whenever a session begins, and changes by the same update in each step; so it
//! needs no care of its own when tasks are lost.

use super::error::{GraphError, GraphProblem};
use super::{
    AllReduce, Gradient, Graph, IndexedSlices, OpId, Output, Target, Variable, concat,
    variable_gradients,
};
use crate::tensor::DType;

/// The bytes of gradients that are reduced as one value, at least. Smaller ones wait for others:
/// each round of an all-reduce takes a latency, whatever it carries.
const BUCKET: usize = 1 << 20;

/// The variables of towers and their gradients, which all towers have alike.
#[derive(Clone, Debug)]
pub struct MirroredGradients {
    /// By tower, in their order: each variable of the tower with the gradient of all. The first
    /// tower's variables are the primaries.
    pub(crate) towers: Vec<Vec<(Variable, Gradient)>>,
}

impl Graph {
    /// Makes `mirror` a mirror of `primary`, in tower `tower`.
    pub(super) fn add_mirror(&self, mirror: &Variable, primary: &Variable, tower: usize) {
        self.state().mirrors.insert((primary.op_id(), tower), mirror.op_id());
    }

    /// The mirror of `primary` in tower `tower`, if it has one.
    pub(super) fn mirror_of(&self, primary: OpId, tower: usize) -> Option<Variable> {
        let mirror = self.state().mirrors.get(&(primary, tower)).copied();
        mirror.map(|op| Variable::new(self.clone(), op))
    }

    /// The operations that set each mirror to its primary.
    pub(crate) fn mirror_initializers(&self) -> Vec<Target> {
        let mirrors: Vec<OpId> = self.state().mirrors.values().copied().collect();
        let of = |mirror: OpId| {
            let assign = self.initializer_of(mirror).expect("every variable has a first value");
            Target::new(self.clone(), assign)
        };
        mirrors.into_iter().map(of).collect()
    }

    /// Whether `variable` is a mirror.
    pub(crate) fn is_mirror(&self, variable: &Variable) -> bool {
        self.state().mirrors.values().any(|mirror| *mirror == variable.op_id())
    }

    /// Makes `slot`, which a mirror in tower `tower` has, a mirror of the primary's slot `of`.
    #[track_caller]
    pub(crate) fn mirror_slot(
        &self,
        slot: &Variable,
        of: &Variable,
        tower: usize,
    ) -> Result<(), GraphError> {
        if self.mirror_of(of.op_id(), tower).is_none() {
            self.replace_initial_value(slot, &of.read_again())?;
            self.add_mirror(slot, of, tower);
        }
        Ok(())
    }
}

/// The variables that the losses of mirrored towers depend on, each with the mean of its gradients
/// in all towers, which every tower has after an all-reduce.
///
/// Gradients are reduced in groups of at least a megabyte, from the last variable to the first, as
/// a backward pass computes them; a group is on its way while the next is computed. Gradients of
/// rows are not summed: each tower has the rows of all, in the order of the towers.
///
/// # Errors
/// As [`variable_gradients`]; if there is no loss, or a tower has no gradient of a variable where
/// others have one.
#[track_caller]
pub fn mirrored_gradients(
    losses: &[Output],
    way: &AllReduce,
) -> Result<MirroredGradients, GraphError> {
    let none = GraphError::new("mirrored_gradients", GraphProblem::NoGradients);
    let Some(first) = losses.first() else { return Err(none) };
    let graph = first.graph().clone();
    let primaries = graph.trainable_variables();
    let mut found: Vec<Vec<(Variable, Gradient)>> = Vec::with_capacity(losses.len());
    for (tower, loss) in losses.iter().enumerate() {
        let of_tower = |primary: &Variable| match tower {
            0 => primary.clone(),
            _ => graph.mirror_of(primary.op_id(), tower).unwrap_or_else(|| primary.clone()),
        };
        let variables: Vec<Variable> = primaries.iter().map(of_tower).collect();
        let gradients = variable_gradients(loss, &variables)?;
        let pairs = variables.into_iter().zip(gradients);
        found.push(pairs.filter_map(|(variable, gradient)| Some((variable, gradient?))).collect());
    }
    if found[0].is_empty() || found.iter().any(|own| own.len() != found[0].len()) {
        return Err(none);
    }
    let mut reduced = found.clone();
    for bucket in buckets(&found[0]) {
        let towers = found.iter().map(|own| bucket.iter().map(|at| own[*at].1.clone()).collect());
        let towers: Vec<Vec<Gradient>> = towers.collect();
        for (own, means) in reduced.iter_mut().zip(means(&graph, &towers, way)?) {
            for (at, mean) in bucket.iter().zip(means) {
                own[*at].1 = mean;
            }
        }
    }
    Ok(MirroredGradients { towers: reduced })
}

/// The positions in `pairs` of the gradients of each group, from the last gradient to the first. A
/// gradient of rows is a group of its own.
fn buckets(pairs: &[(Variable, Gradient)]) -> Vec<Vec<usize>> {
    let (mut all, mut open, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (at, (variable, gradient)) in pairs.iter().enumerate().rev() {
        if matches!(gradient, Gradient::Slices(_)) {
            all.push(vec![at]);
            continue;
        }
        open.push(at);
        bytes += variable.spec().shape.elements() * DType::F32.size();
        if bytes >= BUCKET {
            all.push(std::mem::take(&mut open));
            bytes = 0;
        }
    }
    all.extend(Some(open).filter(|open| !open.is_empty()));
    all
}

/// The means of the gradients of a bucket, by tower: each on its tower's device.
fn means(
    graph: &Graph,
    towers: &[Vec<Gradient>],
    way: &AllReduce,
) -> Result<Vec<Vec<Gradient>>, GraphError> {
    if let [Gradient::Slices(_)] = &towers[0][..] {
        return gathered(graph, towers);
    }
    let at = std::panic::Location::caller();
    let shapes: Vec<_> = towers[0].iter().map(|it| it.to_dense().tensor_type().shape).collect();
    let sizes: Vec<usize> =
        shapes.iter().map(|shape| shape.known().map_or(0, |shape| shape.elements())).collect();
    let mut flat = Vec::with_capacity(towers.len());
    for own in towers {
        let dense: Vec<Output> = own.iter().map(Gradient::to_dense).collect();
        flat.push(match &dense[..] {
            [only] => only.clone(),
            several => graph.beside(several[0].edge().op, at, || {
                let parts: Result<Vec<Output>, _> =
                    several.iter().zip(&sizes).map(|(own, size)| own.reshape([*size])).collect();
                concat(&parts?.iter().collect::<Vec<_>>(), 0)
            })?,
        });
    }
    let mut all = Vec::with_capacity(towers.len());
    for (mean, own) in way.mean(&flat)?.into_iter().zip(&flat) {
        all.push(match &sizes[..] {
            [_] => vec![mean.into()],
            sizes => graph.beside(own.edge().op, at, || {
                let parts = mean.split(sizes, 0)?;
                let shaped = parts.iter().zip(&shapes).map(|(part, shape)| part.reshape(*shape));
                shaped.map(|part| part.map(Gradient::from)).collect::<Result<_, _>>()
            })?,
        });
    }
    Ok(all)
}

/// The rows of all towers, with a share of their values: the mean is their sum.
fn gathered(graph: &Graph, towers: &[Vec<Gradient>]) -> Result<Vec<Vec<Gradient>>, GraphError> {
    let at = std::panic::Location::caller();
    let slices: Vec<&IndexedSlices> = (towers.iter())
        .filter_map(|own| match &own[0] {
            Gradient::Slices(slices) => Some(slices),
            Gradient::Dense(_) => None,
        })
        .collect();
    let values: Vec<&Output> = slices.iter().map(|slices| slices.values()).collect();
    let indices: Vec<&Output> = slices.iter().map(|slices| slices.indices()).collect();
    let share = 1.0 / towers.len() as f32;
    let of_tower = |own: &&IndexedSlices| {
        graph.beside(own.values().edge().op, at, || {
            let values = concat(&values, 0)?;
            let values = values.mul(&values.scalar_alike(share.into()))?;
            let rows = IndexedSlices::new(&values, &concat(&indices, 0)?, own.rows())?;
            Ok(vec![Gradient::from(rows)])
        })
    };
    slices.iter().map(of_tower).collect()
}
