//! Values as they would be if a graph read other variables.

use std::collections::{BTreeMap, BTreeSet};

use super::error::GraphError;
use super::op::Op;
use super::output::Output;
use super::prune::prune;
use super::state::{Name, NewOperation};
use super::{Edge, Graph, OpId, Operation, Variable};

/// By operation: the one in its place.
type Instead = BTreeMap<OpId, OpId>;

impl Graph {
    /// `outputs` as they would be if, of each of `pairs`, the second variable were read in place of
    /// the first. What depends on these reads is built a second time, on the same devices.
    ///
    /// # Errors
    /// If an output belongs to another graph, or the variables of a pair are of different types.
    #[track_caller]
    pub(crate) fn read_instead<const N: usize>(
        &self,
        pairs: &[(Variable, Variable)],
        outputs: [&Output; N],
    ) -> Result<[Output; N], GraphError> {
        for output in outputs {
            self.check_own("evaluation", output)?;
        }
        let def = self.snapshot()?;
        let mut instead: Instead =
            pairs.iter().map(|(first, second)| (first.op_id(), second.op_id())).collect();
        for id in prune(&def, &BTreeSet::new(), &outputs.map(Output::edge), &[]) {
            let operation = def.operation(id);
            if depends(operation, &instead) {
                instead.insert(id, self.add_again(operation, &instead)?);
            }
        }
        Ok(outputs.map(|output| Output::new(self.clone(), of(&instead, output.edge()))))
    }

    /// Adds `operation` again, on other inputs and variables.
    fn add_again(&self, operation: &Operation, instead: &Instead) -> Result<OpId, GraphError> {
        let other = |id: &OpId| instead.get(id).copied().unwrap_or(*id);
        let others = |ids: &[OpId]| ids.iter().map(other).collect::<Vec<_>>();
        let inputs: Vec<Edge> = operation.inputs.iter().map(|edge| of(instead, *edge)).collect();
        let new = NewOperation {
            name: Name::Numbered(&operation.name),
            op: operation.op.clone(),
            inputs: &inputs,
            control_inputs: &others(&operation.control_inputs),
            variables: &others(&operation.variables),
            colocated_with: operation.colocated_with.as_ref().map(other),
            is_detached: true,
            built_at: operation.built_at,
        };
        self.with_device_spec(operation.device.clone(), |graph| graph.add(new))
    }
}

/// Whether `operation` depends on one of those in whose place others are. One that changes state
/// stays as it is: the change would be made twice.
fn depends(operation: &Operation, instead: &Instead) -> bool {
    let reads = matches!(operation.op, Op::ReadVariable | Op::ResourceGather);
    let before = operation.inputs.iter().map(|edge| &edge.op);
    let mut all = before.chain(&operation.control_inputs).chain(&operation.variables);
    (reads || !operation.op.is_stateful()) && all.any(|id| instead.contains_key(id))
}

fn of(instead: &Instead, edge: Edge) -> Edge {
    Edge { op: instead.get(&edge.op).copied().unwrap_or(edge.op), ..edge }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DType, Tensor};

    /// The operations that compute `output`.
    fn behind(output: &Output) -> Vec<OpId> {
        let def = output.graph().snapshot().unwrap();
        prune(&def, &BTreeSet::new(), &[output.edge()], &[])
    }

    /// Two tables of four rows.
    fn tables(g: &Graph) -> [Variable; 2] {
        ["own", "center"].map(|name| g.variable(name, &g.zeros([4, 2])).unwrap())
    }

    #[test]
    fn what_is_read_or_gathered_of_the_first_variable_is_that_of_the_second() {
        let g = Graph::new();
        let [own, center] = tables(&g);
        let fed = g.placeholder("x", DType::F32, [None]).unwrap().square().sum();
        let ids = g.constant(Tensor::new([2], &[1i64, 3]).unwrap());
        let rows = own.gather(&ids).unwrap().sum();
        let loss = rows.add(&own.read().sum()).unwrap().add(&fed).unwrap();
        let pairs = [(own.clone(), center.clone())];
        let [other, same] = g.read_instead(&pairs, [&loss, &fed]).unwrap();
        let has = |output: &Output, op: OpId| behind(output).contains(&op);
        assert!(has(&other, center.op_id()) && !has(&other, own.op_id()));
        assert!(has(&loss, own.op_id()) && !has(&loss, center.op_id()), "it stays as it was");
        assert_eq!(behind(&other).len(), behind(&loss).len());
        assert!(has(&other, fed.edge().op), "what depends on neither is shared");
        assert_eq!(same.edge(), fed.edge());
    }

    #[test]
    fn a_change_of_a_variable_is_not_made_again() {
        let g = Graph::new();
        let [own, center] = tables(&g);
        let set = own.assign(&own.read().square()).unwrap();
        let after = g.with_control_dependencies(&[&set], |_| Ok(own.read_again())).unwrap();
        let [other] = g.read_instead(&[(own.clone(), center)], [&after]).unwrap();
        let def = g.snapshot().unwrap();
        let changes = behind(&other).into_iter().filter(|id| def.operation(*id).op == Op::Assign);
        assert_eq!(changes.collect::<Vec<_>>(), [set.op_id()]);
    }
}
