//! The gradients of operations on numbered rows, and those of variables that may have had rows
//! gathered.

use smallvec::{SmallVec, smallvec};

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Array, Op, Sparse};
use crate::graph::{Edge, Gradient, IndexedSlices, OpId, Operation, Output, Variable};
use crate::tensor::PartialShape;

impl Backward<'_> {
    /// As [`Backward::gradient`].
    pub(super) fn sparse(
        &self,
        id: OpId,
        operation: &Operation,
        sparse: &Sparse,
        arrived: &[Option<Edge>],
    ) -> Result<InputGradients, GraphError> {
        let inputs = operation.inputs.as_slice();
        let mut gradients: InputGradients = smallvec![None; inputs.len()];
        match (sparse, inputs, arrived) {
            (Sparse::UnsortedSegmentSum(_), [x, ids, ..], [Some(dy)]) => {
                let [dy, ids] = [dy, ids].map(|edge| Output::new(self.graph.clone(), *edge));
                let gather = || Ok(self.graph.beside(id, self.at, || dy.gather(&ids, 0))?.edge());
                gradients[0] = self.for_input(*x, gather)?;
            }
            (Sparse::Stitch, _, [Some(dy)]) => {
                let shards = inputs.len() / 2;
                let back = Op::Sparse(Sparse::StitchGrad);
                let parts = self.add(id, back, &[&[*dy], &inputs[..shards]].concat())?;
                for (output, gradient) in (0..).zip(&mut gradients[shards..]) {
                    *gradient = Some(Edge { op: parts.op, output });
                }
            }
            _ => return Err(self.no_gradient(operation)),
        }
        Ok(gradients)
    }

    /// The gradient of `variable`: of some of its rows, unless the whole variable was read.
    ///
    /// Operations on ids alone run on the variable's device. That device has the ids, so they
    /// travel once.
    pub(super) fn of_variable(
        &mut self,
        variable: &Variable,
    ) -> Result<Option<Gradient>, GraphError> {
        let (mut dense, mut slices) = (Vec::new(), Vec::new());
        for (id, operation) in reads(self.def, variable.op_id()) {
            match (self.total(Edge { op: id, output: 0 })?, operation.inputs.first()) {
                (Some(rows), Some(ids)) => slices.push(self.flat(id, rows, *ids, variable)?),
                (Some(whole), None) => dense.push(whole),
                (None, _) => {}
            }
        }
        let slices = self.joined(slices, variable)?;
        if dense.is_empty() {
            return Ok(slices.map(Gradient::Slices));
        }
        if let Some(slices) = slices {
            let sum = Op::Sparse(Sparse::UnsortedSegmentSum(Some(slices.rows())));
            dense.push(self.add(
                variable.op_id(),
                sum,
                &[slices.values().edge(), slices.indices().edge()],
            )?);
        }
        let whole = match dense.as_slice() {
            [one] => *one,
            several => self.add(variable.op_id(), Op::AddN, several)?,
        };
        Ok(Some(Gradient::Dense(Output::new(self.graph.clone(), whole))))
    }

    /// Flattens ids of any shape to a list, and their rows to a list of rows.
    fn flat(
        &self,
        gather: OpId,
        rows: Edge,
        ids: Edge,
        variable: &Variable,
    ) -> Result<(Edge, Edge), GraphError> {
        if self.graph.tensor_type(ids).shape.rank() == 1 {
            return Ok((rows, ids));
        }
        let shape = variable.spec().shape;
        let row = shape.dims()[1..].iter().map(|dim| Some(*dim));
        let list = PartialShape::new(&std::iter::once(None).chain(row).collect::<Vec<_>>());
        let reshape = |shape| Op::Array(Array::Reshape(shape));
        Ok((
            self.add(rows.op, reshape(list), &[rows])?,
            self.add(gather, reshape([None].into()), &[ids])?,
        ))
    }

    /// All slices, concatenated.
    fn joined(
        &self,
        slices: Vec<(Edge, Edge)>,
        variable: &Variable,
    ) -> Result<Option<IndexedSlices>, GraphError> {
        let (values, indices): (Vec<Edge>, Vec<Edge>) = slices.into_iter().unzip();
        let concat = || Op::Array(Array::Concat { axis: 0 });
        let (values, indices) = match (values.as_slice(), indices.as_slice()) {
            ([], _) => return Ok(None),
            (&[values], &[indices]) => (values, indices),
            (values, indices) => {
                let of_one_type = self.of_one_type(variable.op_id(), indices)?;
                let indices = self.add(variable.op_id(), concat(), &of_one_type)?;
                (self.add(values[0].op, concat(), values)?, indices)
            }
        };
        let output = |edge| Output::new(self.graph.clone(), edge);
        let rows = variable.spec().shape.dims()[0];
        IndexedSlices::new(&output(values), &output(indices), rows).map(Some)
    }

    /// The ids, cast to i64 if some are i32 and some are not.
    fn of_one_type(&self, at: OpId, ids: &[Edge]) -> Result<SmallVec<[Edge; 4]>, GraphError> {
        let dtype = |edge: &Edge| self.graph.tensor_type(*edge).dtype;
        if ids.iter().all(|edge| dtype(edge) == dtype(&ids[0])) {
            return Ok(ids.into());
        }
        ids.iter().map(|edge| self.add(at, Op::Cast(crate::tensor::DType::I64), &[*edge])).collect()
    }
}

/// The operations that read `variable`, the whole of it or some rows.
pub(super) fn reads(
    def: &crate::graph::GraphDef,
    variable: OpId,
) -> impl Iterator<Item = (OpId, &Operation)> {
    def.iter().filter(move |(_, operation)| {
        matches!(operation.op, Op::ReadVariable | Op::ResourceGather)
            && operation.variables.first() == Some(&variable)
    })
}
