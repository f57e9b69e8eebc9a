//! Variables in shards, and embeddings. Each shard is a variable of its own, and so can be on a
//! parameter server of its own.

use std::sync::Arc;

use super::error::{GraphError, GraphProblem};
use super::op::{Op, RandomLaw, ShardStrategy, Sharding};
use super::output::{Output, concat};
use super::variable_part::{VariablePart, first_part};
use super::{Graph, NewOperation, Partitioner, TensorType, Variable};
use crate::tensor::{DType, PartialShape, Shape};

/// A variable cut along its rows (TensorFlow: `PartitionedVariable`). The first `rows % shards`
/// shards have a row more than the others.
#[derive(Clone, Debug)]
pub struct PartitionedVariable {
    name: Arc<str>,
    shape: Shape,
    shards: Vec<Variable>,
}

/// The initial values of a partitioned variable. They do not depend on the number or the places of
/// the shards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InitialRows {
    /// One value everywhere.
    Constant(f32),
    /// The values that [`Graph::random`] gives for the variable's full name and whole shape.
    Random(RandomLaw),
}

impl Graph {
    /// A trainable f32 variable of `shape`, in as many shards as `partitioner` says: the variables
    /// `name/part_0` and so on, each placed by itself. Each shard's initial values are made on its
    /// device.
    ///
    /// # Errors
    /// If the name is taken or illegal, the shape has no rows, or the partitioner asks for no
    /// shards.
    #[track_caller]
    pub fn partitioned_variable(
        &self,
        name: &str,
        shape: impl Into<Shape>,
        initial: InitialRows,
        partitioner: Partitioner,
    ) -> Result<PartitionedVariable, GraphError> {
        let shape = shape.into();
        let Some(count) = partitioner.shards(shape) else {
            let needs =
                "at least one row, and a partitioner that asks for 1 to 10000 shards".to_owned();
            let problem =
                GraphProblem::Inputs { needs, inputs: vec![TensorType::new(DType::F32, shape)] };
            return Err(GraphError::new(format!("{name} (PartitionedVariable)"), problem));
        };
        let full_name = self.scoped_name(name);
        let (rows, row) = (shape.dims()[0], &shape.dims()[1..]);
        let (mut shards, mut begin) = (Vec::with_capacity(count), 0);
        for part in 0..count {
            let here = rows / count + usize::from(part < rows % count);
            let part_shape = Shape::new(&[&[here], row].concat());
            let offset = begin * row.iter().product::<usize>();
            let value = self.initial_rows(&full_name, initial, part_shape, offset)?;
            let shard = self.variable(&format!("{name}/part_{part}"), &value)?;
            let of = VariablePart {
                whole: full_name.clone(),
                shape,
                begin,
                first: first_part(&full_name),
            };
            self.state().parts.entry(shard.op_id()).or_insert(of);
            shards.push(shard);
            begin += here;
        }
        Ok(PartitionedVariable { name: full_name.into(), shape, shards })
    }

    /// The trainable f32 variable `name` of a layer: in shards if the partitioner in force asks for
    /// more than one, else one variable of that name.
    #[track_caller]
    pub(super) fn weights(
        &self,
        name: &str,
        shape: impl Into<Shape>,
        initial: InitialRows,
    ) -> Result<PartitionedVariable, GraphError> {
        let shape = shape.into();
        let partitioner = self.state().partitioner;
        if let Some(partitioner) = partitioner.filter(|cut| cut.shards(shape) != Some(1)) {
            return self.partitioned_variable(name, shape, initial, partitioner);
        }
        let around = self.replace_controls(Vec::new());
        let value = match initial {
            InitialRows::Constant(value) => self.fill(shape, value),
            InitialRows::Random(law) => self.random(&self.scoped_name(name), law, shape),
        };
        self.replace_controls(around);
        let whole = self.variable(name, &value)?;
        Ok(PartitionedVariable { name: self.scoped_name(name).into(), shape, shards: vec![whole] })
    }

    /// Makes `variable` the part of a whole that its `shard` is of its own, if that is one. The
    /// variable is a scalar or of the shard's shape, and named after it.
    pub(crate) fn make_part_beside(&self, shard: &Variable, variable: &Variable) {
        let Some(part) = shard.part() else { return };
        let (of, shape) = (shard.spec().shape, variable.spec().shape);
        if let Some(own) = part.beside((&shard.name(), of), &variable.name(), shape) {
            self.state().parts.insert(variable.op_id(), own);
        }
    }

    /// The initial values of a shard, built outside all device scopes so that they are made on the
    /// shard's device.
    #[track_caller]
    fn initial_rows(
        &self,
        purpose: &str,
        initial: InitialRows,
        shape: Shape,
        offset: usize,
    ) -> Result<Output, GraphError> {
        let op = match initial {
            InitialRows::Constant(value) => Op::Fill { shape, value: value.into() },
            InitialRows::Random(law) => self.random_values(purpose, law, shape, offset),
        };
        let new = NewOperation::of(op);
        self.without_device(|g| g.without_control_dependencies(|g| Ok(g.output(g.add(new)?))))
    }
}

impl PartitionedVariable {
    /// Its name in the graph, with which the names of its shards begin.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shape of the whole.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The shards, in the order of their rows.
    pub fn shards(&self) -> &[Variable] {
        &self.shards
    }

    /// The whole value. It travels as a whole, so use this for small variables.
    ///
    /// # Errors
    /// If it can't be added to the graph.
    #[track_caller]
    pub fn as_tensor(&self) -> Result<Output, GraphError> {
        let reads: Vec<Output> = self.shards.iter().map(Variable::read).collect();
        match reads.as_slice() {
            [whole] => Ok(whole.clone()),
            parts => concat(&parts.iter().collect::<Vec<_>>(), 0),
        }
    }
}

/// The rows `ids` of `table` (f32 \[ids…, row…\]), in the order of the ids (TensorFlow:
/// `tf.nn.embedding_lookup`). Each shard is read once, its wanted rows alone, and gets a gradient
/// of these rows alone. A step fails if the table has no row of an id.
///
/// [`PartitionedVariable::as_tensor`] and [`InitialRows`] have the rows in [`ShardStrategy::Div`]'s
/// order; with [`ShardStrategy::Mod`] the initial values depend on the number of shards.
///
/// # Errors
/// If the ids are not integers, more than one of their dimensions is unknown, or the result would
/// have more than 6 dimensions.
#[track_caller]
pub fn embedding_lookup(
    table: &PartitionedVariable,
    ids: &Output,
    strategy: ShardStrategy,
) -> Result<Output, GraphError> {
    in_scope(table, ids, |list| lookup(table, list, strategy))
}

/// As [`embedding_lookup`], but an id that occurs more than once is read once, and the gradients of
/// its rows are summed before they travel (TensorFlow: `contrib`'s `embedding_lookup_unique`).
///
/// # Errors
/// As [`embedding_lookup`].
#[track_caller]
pub fn embedding_lookup_unique(
    table: &PartitionedVariable,
    ids: &Output,
    strategy: ShardStrategy,
) -> Result<Output, GraphError> {
    in_scope(table, ids, |list| {
        let (different, index) = list.unique()?;
        lookup(table, &different, strategy)?.gather(&index, 0)
    })
}

/// Calls `find` with the ids as a list, in a name scope, and gives its result the shape of the ids.
#[track_caller]
fn in_scope(
    table: &PartitionedVariable,
    ids: &Output,
    find: impl FnOnce(&Output) -> Result<Output, GraphError>,
) -> Result<Output, GraphError> {
    let (graph, given) = (table.shards[0].graph(), ids.tensor_type());
    graph.check_own("embedding_lookup", ids)?;
    if given.shape.dims().iter().filter(|dim| dim.is_none()).count() > 1 {
        let needs = "ids of which at most one dimension is unknown";
        return Err(GraphError::new("embedding_lookup", GraphProblem::needs(needs, &[given])));
    }
    let row = table.shape.dims()[1..].iter().map(|dim| Some(*dim));
    let dims: Vec<Option<usize>> = given.shape.dims().iter().copied().chain(row).collect();
    let Some(shape) = PartialShape::checked(&dims) else {
        let whole = TensorType::new(DType::F32, table.shape);
        let needs = "ids and rows of a table that have at most 6 dimensions together";
        let problem = GraphProblem::needs(needs, &[given, whole]);
        return Err(GraphError::new("embedding_lookup", problem));
    };
    graph.enter_name_scope("embedding_lookup")?;
    let found = shaped(ids, shape, find);
    graph.leave_name_scope();
    found
}

/// Calls `find` with the ids as a list, and gives its result the shape `shape`.
#[track_caller]
fn shaped(
    ids: &Output,
    shape: PartialShape,
    find: impl FnOnce(&Output) -> Result<Output, GraphError>,
) -> Result<Output, GraphError> {
    if ids.tensor_type().shape.rank() == 1 {
        return find(ids);
    }
    find(&ids.reshape([None])?)?.reshape(shape)
}

/// The rows of `ids`, which are a list.
#[track_caller]
fn lookup(
    table: &PartitionedVariable,
    ids: &Output,
    strategy: ShardStrategy,
) -> Result<Output, GraphError> {
    if let [whole] = table.shards.as_slice() {
        return whole.gather(ids);
    }
    let (shards, rows) = (table.shards.len(), table.shape.dims()[0]);
    let sharding = Sharding { table: Arc::clone(&table.name), rows, shards, strategy };
    let mut of_shards = ids.shard_ids(sharding)?;
    let mut inputs = of_shards.split_off(shards);
    for (ids, variable) in of_shards.iter().zip(&table.shards) {
        inputs.push(variable.gather(ids)?);
    }
    let (positions, others) = inputs.split_first().expect("there are shards");
    positions.stitch(&others.iter().collect::<Vec<_>>())
}
