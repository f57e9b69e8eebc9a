//! The gradients of variables that may have had rows gathered.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::Backward;
use crate::graph::error::GraphError;
use crate::graph::op::Op;
use crate::graph::{Edge, Gradient, GraphDef, IndexedSlices, OpId, Output, Variable};
use crate::tensor::{DType, PartialShape};

impl Backward<'_> {
    /// The gradient of `variable`, which `reads` read: of some of its rows, unless the whole
    /// variable was read.
    ///
    /// Operations on ids alone run on the variable's device. That device has the ids, so they
    /// travel once.
    pub(super) fn of_variable(
        &mut self,
        variable: &Variable,
        reads: &[OpId],
    ) -> Result<Option<Gradient>, GraphError> {
        let (mut dense, mut slices) = (Vec::new(), Vec::new());
        for id in reads {
            let inputs = &self.def.operation(*id).inputs;
            match (self.total(Edge { op: *id, output: 0 })?, inputs.first()) {
                (Some(rows), Some(ids)) => slices.push(self.flat(*id, rows, *ids, variable)?),
                (Some(whole), None) => dense.push(whole),
                (None, _) => {}
            }
        }
        let slices = self.concatenated(slices, variable)?;
        if dense.is_empty() {
            return Ok(slices.map(Gradient::Slices));
        }
        if let Some(slices) = slices {
            dense.push(self.beside(variable.op_id(), || Ok(slices.to_dense()))?);
        }
        let whole = match dense.as_slice() {
            [one] => *one,
            several => self.sum(variable.op_id(), several)?,
        };
        Ok(Some(Gradient::Dense(self.output(whole))))
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
        let (flat_rows, flat_ids) = (self.output(rows), self.output(ids));
        Ok((
            self.beside(rows.op, || flat_rows.reshape(list))?,
            self.beside(gather, || flat_ids.reshape([None]))?,
        ))
    }

    /// All slices, concatenated.
    fn concatenated(
        &self,
        slices: Vec<(Edge, Edge)>,
        variable: &Variable,
    ) -> Result<Option<IndexedSlices>, GraphError> {
        let (values, indices): (Vec<Edge>, Vec<Edge>) = slices.into_iter().unzip();
        let concat = |first: &Output, others: &[&Output]| first.concat_with(others, 0);
        let (values, indices) = match (values.as_slice(), indices.as_slice()) {
            ([], _) => return Ok(None),
            (&[values], &[indices]) => (values, indices),
            (values, indices) => {
                let of_one_type = self.of_one_type(variable.op_id(), indices)?;
                let indices = self.joined(variable.op_id(), &of_one_type, concat)?;
                (self.joined(values[0].op, values, concat)?, indices)
            }
        };
        let rows = variable.spec().shape.dims()[0];
        IndexedSlices::new(&self.output(values), &self.output(indices), rows).map(Some)
    }

    /// The ids, cast to i64 if some are i32 and some are not.
    fn of_one_type(&self, at: OpId, ids: &[Edge]) -> Result<SmallVec<[Edge; 4]>, GraphError> {
        let dtype = |edge: &Edge| self.graph.tensor_type(*edge).dtype;
        if ids.iter().all(|edge| dtype(edge) == dtype(&ids[0])) {
            return Ok(ids.into());
        }
        let cast = |edge: &Edge| self.beside(at, || Ok(self.output(*edge).cast(DType::I64)));
        ids.iter().map(cast).collect()
    }
}

/// By variable: the operations that read it, the whole of it or some rows, in order.
pub(super) fn reads(def: &GraphDef, variables: &[Variable]) -> BTreeMap<OpId, Vec<OpId>> {
    let mut reads: BTreeMap<OpId, Vec<OpId>> =
        variables.iter().map(|variable| (variable.op_id(), Vec::new())).collect();
    for (id, operation) in def.iter() {
        if matches!(operation.op, Op::ReadVariable | Op::ResourceGather)
            && let Some(variable) = operation.variables.first()
            && let Some(of_variable) = reads.get_mut(variable)
        {
            of_variable.push(id);
        }
    }
    reads
}
