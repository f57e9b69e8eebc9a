//! Mirrored variables: each tower has a copy of its own of every trainable variable (TensorFlow:
//! `MirroredStrategy`).
//!
//! The first tower's variables are the *primaries*: they have the names, are initialised, saved and
//! restored as any others, and so checkpoints don't show how a training was replicated. A mirror is
//! set to its primary whenever a session begins, and changes by the same update in each step; so it
//! needs no care of its own when tasks are lost.

use super::error::{GraphError, GraphProblem};
use super::towers::mean;
use super::{
    AllReduce, Gradient, Graph, IndexedSlices, OpId, Output, Target, Variable, concat,
    variable_gradients,
};
use crate::tensor::DType;

/// The bytes of gradients that are reduced as one value, at least. Smaller ones wait for others:
/// each round of an all-reduce takes a latency, whatever it carries.
const BUCKET: usize = 1 << 20;

/// The variables of towers and their gradients, which are reduced where they are applied.
#[derive(Clone, Debug)]
pub struct MirroredGradients {
    /// By tower, in their order: each variable of the tower with the tower's own gradient. The
    /// first tower's variables are the primaries.
    pub(crate) towers: Vec<Pairs>,
    way: AllReduce,
}

/// Variables of a tower, each with its gradient.
type Pairs = Vec<(Variable, Gradient)>;
/// Changes the gradients of a worker, before they are reduced.
type Change<'a> = &'a dyn Fn(&[(Variable, Gradient)]) -> Result<Pairs, GraphError>;

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

impl MirroredGradients {
    /// Changes the gradients of each worker by `change`, if there is one, and returns the means of
    /// all, by tower. The towers of a task are one worker: the mean of their gradients is what it
    /// would send to parameter servers, and so what is changed.
    ///
    /// # Errors
    /// If they can't be changed or reduced.
    #[track_caller]
    pub(crate) fn reduced(&self, change: Option<Change<'_>>) -> Result<Vec<Pairs>, GraphError> {
        let Some(change) = change else { return reduced(&self.towers, &self.way) };
        let (mut firsts, mut changed) = (Vec::new(), Vec::new());
        for worker in self.workers() {
            let first = &self.towers[worker[0]];
            let device = first[0].0.device().to_string();
            let graph = first[0].0.graph();
            changed.push(graph.with_device(&device, |_| change(&self.mean_of(&worker)?))?);
            firsts.push((worker[0], worker.len()));
        }
        let numbers: Vec<usize> = firsts.iter().map(|(first, _)| *first).collect();
        let means = reduced(&changed, &self.way.among(&numbers))?;
        let of_worker =
            firsts.iter().zip(means).flat_map(|((_, towers), mean)| vec![mean; *towers]);
        let of_tower = |(own, mean): (&Pairs, Pairs)| {
            own.iter()
                .zip(mean)
                .map(|((variable, _), (_, mean))| (variable.clone(), mean))
                .collect()
        };
        Ok(self.towers.iter().zip(of_worker).map(of_tower).collect())
    }

    /// The numbers of each worker's towers, which follow each other.
    fn workers(&self) -> Vec<Vec<usize>> {
        let task = |tower: &usize| self.towers[*tower][0].0.task();
        let numbers: Vec<usize> = (0..self.towers.len()).collect();
        numbers.chunk_by(|a, b| task(a) == task(b)).map(<[usize]>::to_vec).collect()
    }

    /// The means of the gradients of `towers`, with the variables of the first of these.
    #[track_caller]
    fn mean_of(&self, towers: &[usize]) -> Result<Pairs, GraphError> {
        let mean = |(at, (variable, _)): (usize, &(Variable, Gradient))| {
            let own: Vec<&Gradient> =
                towers.iter().map(|tower| &self.towers[*tower][at].1).collect();
            Ok((variable.clone(), mean(&own, own.len())?))
        };
        self.towers[towers[0]].iter().enumerate().map(mean).collect()
    }
}

/// The variables that the losses of mirrored towers depend on, each with its gradients in all
/// towers. [`Optimizer::apply_mirrored_gradients`] has every tower apply their mean, which it has
/// after an all-reduce by `way`.
///
/// Gradients are reduced in groups of at least a megabyte, from the last variable to the first, as
/// a backward pass computes them; a group is on its way while the next is computed. Gradients of
/// rows travel as rows: each tower has those of all, and sums them in the order of the towers. An
/// optimizer that clips gradients clips those of each task before they are reduced.
///
/// [`Optimizer::apply_mirrored_gradients`]: crate::optimizer::Optimizer::apply_mirrored_gradients
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
    let mut found: Vec<Pairs> = Vec::with_capacity(losses.len());
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
    Ok(MirroredGradients { towers: found, way: way.clone() })
}

/// `found`, by tower, with the means of all towers' gradients.
#[track_caller]
fn reduced(found: &[Pairs], way: &AllReduce) -> Result<Vec<Pairs>, GraphError> {
    let graph = found[0][0].0.graph();
    let mut reduced = found.to_vec();
    for bucket in buckets(&found[0]) {
        let towers = found.iter().map(|own| bucket.iter().map(|at| own[*at].1.clone()).collect());
        let towers: Vec<Vec<Gradient>> = towers.collect();
        for (own, means) in reduced.iter_mut().zip(means(graph, &towers, way)?) {
            for (at, mean) in bucket.iter().zip(means) {
                own[*at].1 = mean;
            }
        }
    }
    Ok(reduced)
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
#[track_caller]
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

/// The mean of the rows of all towers: each tower's duplicates are summed, then the sums in the
/// order of the towers, and a share of that is taken, as parameter servers do. A share of each row
/// would differ in its last bits where there are three towers or more.
#[track_caller]
fn gathered(graph: &Graph, towers: &[Vec<Gradient>]) -> Result<Vec<Vec<Gradient>>, GraphError> {
    let at = std::panic::Location::caller();
    let slices: Vec<IndexedSlices> = (towers.iter())
        .filter_map(|own| match &own[0] {
            Gradient::Slices(slices) => Some(slices),
            Gradient::Dense(_) => None,
        })
        .map(|own| graph.beside(own.values().edge().op, at, || Ok(own.sum_duplicates())))
        .collect::<Result<_, GraphError>>()?;
    let values: Vec<&Output> = slices.iter().map(|slices| slices.values()).collect();
    let indices: Vec<&Output> = slices.iter().map(|slices| slices.indices()).collect();
    let share = 1.0 / towers.len() as f32;
    let of_tower = |own: &IndexedSlices| {
        graph.beside(own.values().edge().op, at, || {
            let all = IndexedSlices::new(&concat(&values, 0)?, &concat(&indices, 0)?, own.rows())?;
            let sums = all.sum_duplicates();
            let mean = sums.values().mul(&sums.values().scalar_alike(share.into()))?;
            let rows = IndexedSlices::new(&mean, sums.indices(), own.rows())?;
            Ok(vec![Gradient::from(rows)])
        })
    };
    slices.iter().map(of_tower).collect()
}
