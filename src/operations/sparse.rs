//! Operations on rows that are found by their number, as embeddings use them. If the number of rows
//! depends on values, the dimension stays open.

mod computing;
mod types;

use smallvec::smallvec;

use super::{Change, Dynamic};
use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind, Known,
    OpDef, Output, OutputTypes, Outputs, ShardStrategy, Sharding, TensorType, bytes, one,
};
use crate::tensor::{DType, Tensor};

/// An operation on rows and their numbers. Ids are i32 or i64.
#[derive(Clone, Debug, PartialEq)]
pub enum Sparse {
    /// `(x [n])`: its distinct values, in the order in which they first occur, and for each element
    /// of `x` its index among them (i32 \[n\]).
    Unique,
    /// `(x [n], y [m])`: the elements of `x` that `y` has not, in their order, and their positions
    /// in `x` (i32; TensorFlow `tf.setdiff1d`).
    ListDiff,
    /// `(condition)`: the positions where it holds, a row each, in row-major order (i64
    /// \[count, dimensions\]).
    Where,
    /// `(x [sets, n], y [sets, m])`: of each row the distinct elements of `x` that `y` has not,
    /// ascending, as a sparse value: positions (i64 \[count, 2\]), elements, shape (i64 \[2\];
    /// TensorFlow `DenseToDenseSetOperation` with `a-b`).
    SetDifference,
    /// `(x [ids…, row…], ids […])`: row `i` of the result is the sum of the rows of `x` whose id is
    /// `i`, in their order; rows with an id below 0 are left out. The result has this many rows;
    /// with `None`, `(…, like [rows, …])`, as many as `like`, whose values are not used.
    UnsortedSegmentSum(Option<usize>),
    /// `(ids [n])`: for each shard of a table the ids of its rows, as the shard numbers them; then
    /// for each shard the positions of these in `ids` (i32). TensorFlow has it as arithmetic on ids
    /// and two `DynamicPartition`s.
    ShardIds(Sharding),
    /// `(x [n…, row…], parts [n…])`: so many lists of rows \[count, row…\]; each row is in the list
    /// that its part (i32) says, in the order of `x` (TensorFlow: `DynamicPartition`).
    Partition(usize),
    /// `(positions [n0], …, rows [n0, row…], …)`: all rows, each at its position (i32); a step
    /// fails where the positions are not all numbers from 0, each once (TensorFlow:
    /// `DynamicStitch`).
    Stitch,
    /// `(gradient, positions…)`: for each list of positions the gradient's rows at them.
    StitchGrad,
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    let strategy = ShardStrategy::Div;
    let sharding = Sharding { table: "".into(), rows: 0, shards: 0, strategy };
    vec![
        Sparse::Unique.into(),
        Sparse::ListDiff.into(),
        Sparse::Where.into(),
        Sparse::SetDifference.into(),
        Sparse::UnsortedSegmentSum(None).into(),
        Sparse::ShardIds(sharding).into(),
        Sparse::Stitch.into(),
        Sparse::StitchGrad.into(),
        Sparse::Partition(0).into(),
    ]
}

impl OpDef for Sparse {
    fn kind(&self) -> &'static str {
        match self {
            Self::Unique => "Unique",
            Self::ListDiff => "ListDiff",
            Self::Where => "Where",
            Self::SetDifference => "SetDifference",
            Self::UnsortedSegmentSum(_) => "UnsortedSegmentSum",
            Self::ShardIds(_) => "ShardIds",
            Self::Partition(_) => "DynamicPartition",
            Self::Stitch => "DynamicStitch",
            Self::StitchGrad => "DynamicStitchGrad",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        match self {
            Self::UnsortedSegmentSum(rows) => {
                Self::UnsortedSegmentSum(given.maybe_size("num_segments", *rows))
            }
            Self::ShardIds(own) => {
                let is_mod = given.flag("mod", own.strategy == ShardStrategy::Mod);
                Self::ShardIds(Sharding {
                    table: given.text("table", own.table.to_string()).into(),
                    rows: given.size("rows", own.rows),
                    shards: given.size("shards", own.shards),
                    strategy: if is_mod { ShardStrategy::Mod } else { ShardStrategy::Div },
                })
            }
            Self::Partition(parts) => Self::Partition(given.size("num_partitions", *parts)),
            Self::Unique
            | Self::ListDiff
            | Self::Where
            | Self::SetDifference
            | Self::Stitch
            | Self::StitchGrad => self.clone(),
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let (outputs, needs) = match (self, inputs) {
            (Self::Unique, [x]) => (types::unique_types(*x), "a vector of i32 or i64"),
            (Self::ListDiff, [x, y]) => (
                types::unique_types(*x)
                    .filter(|_| y.dtype == x.dtype && types::is_vector(*y))
                    .map(|types| smallvec![types[0], TensorType::new(DType::I32, [None])]),
                "two vectors of i32 or i64",
            ),
            (Self::Where, [x]) => (
                (x.dtype == DType::Bool).then(|| one(DType::I64, [None, Some(x.shape.rank())])),
                "truth values",
            ),
            (Self::SetDifference, [x, y]) => (types::difference_types(*x, *y), "two lists of sets"),
            (Self::UnsortedSegmentSum(Some(rows)), [x, ids]) => {
                (types::segment_sum(*x, *ids, Some(*rows)), "f32 rows and an i32 or i64 for each")
            }
            (Self::UnsortedSegmentSum(None), [x, ids, like]) => (
                like.shape.dims().first().and_then(|rows| types::segment_sum(*x, *ids, *rows)),
                "f32 rows, an i32 or i64 for each, and what has a row for each sum",
            ),
            (Self::ShardIds(sharding), [ids]) => (
                types::shard_types(*ids, sharding.shards),
                "a vector of i32 or i64, and from 1 to 65536 shards",
            ),
            (Self::Partition(parts), [x, of]) => (
                types::partition(*x, *of, *parts),
                "rows and an i32 for each, and from 1 to 65536 parts",
            ),
            (Self::Stitch, inputs) => {
                (types::stitch(inputs), "as many i32 vectors of positions as lists of rows")
            }
            (Self::StitchGrad, [gradient, positions @ ..]) => {
                (types::stitch_grad(*gradient, positions), "rows and i32 vectors of positions")
            }
            _ => (None, "another number of inputs"),
        };
        outputs.ok_or_else(|| GraphProblem::needs(needs, inputs))
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        if let Self::Partition(parts) = self {
            return Ok(vec![of.for_input(0, || rejoined(of, *parts))?, None]);
        }
        let dy = of.only_arrived()?;
        let mut gradients = vec![None; of.inputs()];
        match self {
            Self::UnsortedSegmentSum(_) => {
                gradients[0] = of.for_input(0, || dy.rows_or_zeros(&of.input(1)))?;
            }
            Self::Stitch => {
                let shards = of.inputs() / 2;
                let positions: Vec<Output> = (0..shards).map(|shard| of.input(shard)).collect();
                let parts = dy.with(&positions.iter().collect::<Vec<_>>(), Self::StitchGrad)?;
                for (shard, gradient) in (0..).zip(&mut gradients[shards..]) {
                    *gradient = Some(parts.sibling(shard));
                }
            }
            Self::Unique
            | Self::ListDiff
            | Self::Where
            | Self::SetDifference
            | Self::ShardIds(_)
            | Self::Partition(_)
            | Self::StitchGrad => {
                return Err(of.no_gradient());
            }
        }
        Ok(gradients)
    }

    /// The values that are read and written, and an addition for each summed value.
    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        match self {
            // The outputs are as large as the ids at most, and are counted so: how large, the
            // values decide.
            Self::Unique
            | Self::ListDiff
            | Self::Where
            | Self::SetDifference
            | Self::ShardIds(_)
            | Self::Partition(_) => Cost::moved(2 * bytes(inputs) + 4 * inputs[0].1.elements()),
            Self::UnsortedSegmentSum(_) => {
                let elements = inputs[0].1.elements();
                let moved = Cost::moved(bytes(&inputs[..2]) + 4 * elements + bytes(outputs));
                Cost { flops: elements as u64, ..moved }
            }
            Self::Stitch => Cost::moved(bytes(inputs) + bytes(outputs)),
            Self::StitchGrad => Cost::moved(bytes(&inputs[1..]) + 2 * bytes(outputs)),
        }
    }

    fn kernel_kind(&self) -> KernelKind {
        match self {
            Self::UnsortedSegmentSum(_) => KernelKind::Reduction,
            Self::Unique
            | Self::ShardIds(_)
            | Self::Partition(_)
            | Self::Stitch
            | Self::StitchGrad => KernelKind::Movement,
            Self::ListDiff | Self::Where | Self::SetDifference => KernelKind::Elementwise,
        }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Ok(match (self, inputs) {
            (Self::Unique, [x]) => match x.dtype() {
                DType::I32 => computing::unique::<i32>(x),
                _ => computing::unique::<i64>(x),
            },
            (Self::UnsortedSegmentSum(rows), [x, ids, like @ ..]) => {
                let rows = rows.unwrap_or_else(|| like[0].shape().dims()[0]);
                let dims = x.shape();
                let row = &dims.dims()[ids.shape().rank()..];
                smallvec![computing::sum_of_segments(x, ids, rows, row)?]
            }
            (Self::ListDiff, [x, y]) => match x.dtype() {
                DType::I32 => computing::list_diff::<i32>(x, y),
                _ => computing::list_diff::<i64>(x, y),
            },
            (Self::Where, [x]) => smallvec![computing::places(x)?],
            (Self::SetDifference, [x, y]) => match x.dtype() {
                DType::I32 => computing::set_difference::<i32>(x, y)?,
                _ => computing::set_difference::<i64>(x, y)?,
            },
            (Self::ShardIds(sharding), [ids]) => match ids.dtype() {
                DType::I32 => computing::shard_ids::<i32>(ids, sharding, |row| row as i32)?,
                _ => computing::shard_ids::<i64>(ids, sharding, |row| row as i64)?,
            },
            (Self::Partition(parts), [x, of]) => computing::partition(x, of, *parts)?,
            (Self::Stitch, inputs) => {
                let (positions, rows) = inputs.split_at(inputs.len() / 2);
                smallvec![computing::stitch(positions, rows)?]
            }
            (Self::StitchGrad, [dy, lists @ ..]) => {
                let parts = lists.iter().map(|list| computing::rows_at(dy, list));
                parts.collect::<Result<_, _>>()?
            }
            (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
        })
    }
}

/// The gradient for the rows of a partition: those of all lists, each where its row came from.
fn rejoined(of: &Backprop<'_>, parts: usize) -> Result<Output, GraphError> {
    let (x, part) = (of.input(0), of.input(1).reshape([None])?);
    let count = part.size(DType::I32)?;
    let numbers = Dynamic { change: Change::Range, shape: part.tensor_type().shape };
    let numbers = count
        .scalar_alike(0.0)
        .with(&[&count, &count.scalar_alike(1.0)], numbers)?
        .with(&[&part], Sparse::Partition(parts))?;
    let positions: Vec<Output> = (1..parts as u32).map(|part| numbers.sibling(part)).collect();
    let gradients: Vec<Output> = (0..parts)
        .map(|part| of.arrived(part).unwrap_or_else(|| of.output(part).zeros_like()))
        .collect();
    numbers.stitch(&positions.iter().chain(&gradients).collect::<Vec<_>>())?.reshape_like(&x)
}

impl Output {
    /// The distinct values of a vector of i32 or i64, in the order in which they first occur, and
    /// for each element its index among them (i32 \[n\]; TensorFlow `tf.unique`).
    ///
    /// # Errors
    /// If it is not such a vector.
    #[track_caller]
    pub fn unique(&self) -> Result<(Self, Self), GraphError> {
        let values = self.with(&[], Sparse::Unique)?;
        let index = values.sibling(1);
        Ok((values, index))
    }

    /// The elements of a vector of i32 or i64 that `others` has not, in their order, and their
    /// positions (i32; TensorFlow `tf.setdiff1d`).
    ///
    /// # Errors
    /// If they are not two such vectors of one type.
    #[track_caller]
    pub fn list_diff(&self, others: &Self) -> Result<(Self, Self), GraphError> {
        let values = self.with(&[others], Sparse::ListDiff)?;
        let positions = values.sibling(1);
        Ok((values, positions))
    }

    /// The rows here by their parts, i32 from 0 to `parts` - 1: so many lists \[count, row…\], each
    /// in the order of the rows (TensorFlow `tf.dynamic_partition`). The shape of the parts is that
    /// of the first dimensions here. A step fails if a part is none of these.
    ///
    /// # Errors
    /// If there is not one i32 for each row, or if there are no parts or more than 65,536.
    #[track_caller]
    pub fn dynamic_partition(&self, part: &Self, parts: usize) -> Result<Vec<Self>, GraphError> {
        let first = self.with(&[part], Sparse::Partition(parts))?;
        Ok((0..parts as u32).map(|part| first.sibling(part)).collect())
    }

    /// Sums rows by id: row `i` of the result (f32 \[rows, row…\]) is the sum of the rows here that
    /// have the id `i`, in their order; rows with an id below 0 are left out (TensorFlow
    /// `tf.math.unsorted_segment_sum`). The shape of the ids is that of the first dimensions here.
    /// A step fails if an id is `rows` or above.
    ///
    /// # Errors
    /// If there is not one id, i32 or i64, for each row of f32.
    #[track_caller]
    pub fn unsorted_segment_sum(&self, ids: &Self, rows: usize) -> Result<Self, GraphError> {
        self.with(&[ids], Sparse::UnsortedSegmentSum(Some(rows)))
    }

    /// The rows with these ids, and zeros for an id below 0.
    fn rows_or_zeros(&self, ids: &Self) -> Result<Self, GraphError> {
        let zero = ids.scalar_alike(0.0);
        let rows = self.gather(&ids.maximum(&zero)?, 0)?;
        let mut is_row = ids.greater_equal(&zero)?;
        for _ in 1..self.tensor_type().shape.rank() {
            is_row = is_row.expand_dims(-1)?;
        }
        is_row.select(&rows, &rows.scalar_alike(0.0))
    }

    /// The sums of the rows that have the same id, as many as there are `rows_like`.
    #[track_caller]
    pub(crate) fn segment_sum_like(
        &self,
        ids: &Self,
        rows_like: &Self,
    ) -> Result<Self, GraphError> {
        self.with(&[ids, rows_like], Sparse::UnsortedSegmentSum(None))
    }

    /// For each shard of a table the ids of its rows, as the shard numbers them; then for each
    /// shard the positions of these among all ids.
    #[track_caller]
    pub(crate) fn shard_ids(&self, sharding: Sharding) -> Result<Vec<Self>, GraphError> {
        let outputs = 2 * sharding.shards as u32;
        let first = self.with(&[], Sparse::ShardIds(sharding))?;
        Ok((0..outputs).map(|output| first.sibling(output)).collect())
    }

    /// All rows at their positions; this is the first list of positions, before the others and as
    /// many lists of rows.
    #[track_caller]
    pub(crate) fn stitch(&self, others: &[&Self]) -> Result<Self, GraphError> {
        self.with(others, Sparse::Stitch)
    }
}
