//! Operations that another process has built: checked, and added to a graph.

use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

use super::state::is_legal;
use super::{Edge, GraphDef, Op, OpId, Operation, TensorType, infer};
use crate::cluster::DeviceSpec;

/// The most operations of a graph from another process.
pub(crate) const MAX_OPERATIONS: usize = 1 << 20;

/// An operation that another process has built. Its ids are positions in that process's graph.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedOperation {
    pub(crate) name: Arc<str>,
    pub(crate) op: Op,
    pub(crate) inputs: SmallVec<[Edge; 3]>,
    pub(crate) control_inputs: SmallVec<[OpId; 2]>,
    pub(crate) variables: SmallVec<[OpId; 2]>,
    pub(crate) device: DeviceSpec,
    pub(crate) colocated_with: Option<OpId>,
    /// The line of that process's program, as text.
    pub(crate) built_at: Arc<str>,
}

/// The names of the operations of a graph that another process builds. They are kept beside it,
/// since it comes in many parts.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeSet<Arc<str>>);

/// The reason why an operation from another process is refused, and the operation's name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) operation: String,
    pub(crate) why: String,
}

impl GraphDef {
    /// Adds operations of another process, whose graph up to here is this one, with these names.
    ///
    /// # Errors
    /// The first operation that is named like another, depends on one that does not come before it,
    /// or has inputs that don't fit. The graph is then as it was.
    pub(crate) fn receive(
        &mut self,
        more: Vec<ReceivedOperation>,
        names: &mut Names,
    ) -> Result<(), Refused> {
        let before = self.operations.len();
        for received in more {
            let operation = received.name.to_string();
            if let Err(why) = self.receive_one(received, names) {
                for added in self.operations.drain(before..) {
                    names.0.remove(&added.name);
                }
                self.built_elsewhere.truncate(before);
                return Err(Refused { operation, why });
            }
        }
        Ok(())
    }

    fn receive_one(
        &mut self,
        received: ReceivedOperation,
        names: &mut Names,
    ) -> Result<(), String> {
        let ReceivedOperation { name, op, inputs, control_inputs, variables, .. } = received;
        if self.operations.len() == MAX_OPERATIONS {
            return Err(format!("a graph has at most {MAX_OPERATIONS} operations"));
        }
        if !is_legal(&name) {
            return Err("this is not the name of an operation".to_owned());
        }
        if names.0.contains(&name) {
            return Err("the graph has another operation of this name".to_owned());
        }
        let befores = control_inputs.iter().chain(&received.colocated_with);
        if let Some(id) = befores.into_iter().find(|id| !self.has(**id)) {
            return Err(format!("it depends on operation {}, which is not before it", id.0));
        }
        let types = inputs.iter().map(|edge| self.checked_type(*edge));
        let types: SmallVec<[TensorType; 3]> = types.collect::<Result<_, _>>()?;
        let touched = variables.iter().map(|id| self.checked_variable(*id));
        let touched: SmallVec<[TensorType; 2]> = touched.collect::<Result<_, _>>()?;
        let outputs = infer(&op, &types, &touched).map_err(|problem| problem.to_string())?;
        let ReceivedOperation { device, colocated_with, built_at, .. } = received;
        let built_here = Location::caller();
        names.0.insert(Arc::clone(&name));
        self.built_elsewhere.push(built_at);
        self.operations.push(Operation {
            name,
            op,
            inputs,
            control_inputs,
            variables,
            outputs,
            device,
            colocated_with,
            built_at: built_here,
        });
        Ok(())
    }

    /// The line of the program that built operation `id`, here or in another process.
    pub(crate) fn built_at(&self, id: OpId) -> String {
        match self.built_elsewhere.get(id.0 as usize) {
            Some(line) => line.to_string(),
            None => self.operation(id).built_at.to_string(),
        }
    }

    /// Whether the graph has an operation `id`.
    pub(crate) fn has(&self, id: OpId) -> bool {
        (id.0 as usize) < self.operations.len()
    }

    /// Whether the graph has an output `edge`.
    pub(crate) fn has_edge(&self, edge: Edge) -> bool {
        let operation = self.operations.get(edge.op.0 as usize);
        operation.is_some_and(|operation| (edge.output as usize) < operation.outputs.len())
    }

    fn checked_type(&self, edge: Edge) -> Result<TensorType, String> {
        if self.has_edge(edge) {
            return Ok(self.edge_type(edge));
        }
        let Edge { op, output } = edge;
        Err(format!("it needs output {output} of operation {}, which is not before it", op.0))
    }

    fn checked_variable(&self, id: OpId) -> Result<TensorType, String> {
        let spec = self.has(id).then(|| self.variable(id)).flatten();
        let none = || format!("operation {} before it, which it touches, is no variable", id.0);
        spec.map(|spec| spec.tensor_type()).ok_or_else(none)
    }
}

impl ReceivedOperation {
    /// Operation `id` of `graph`, for another process.
    pub(crate) fn of(graph: &GraphDef, id: OpId) -> Self {
        let operation = graph.operation(id).clone();
        Self {
            name: operation.name,
            op: operation.op,
            inputs: operation.inputs,
            control_inputs: operation.control_inputs,
            variables: operation.variables,
            device: operation.device,
            colocated_with: operation.colocated_with,
            built_at: graph.built_at(id).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, dense};
    use crate::tensor::DType;

    /// The operations of a graph of a training step.
    fn sent() -> (Arc<GraphDef>, Vec<ReceivedOperation>) {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [None, Some(2)]).unwrap();
        dense(&x, 3).unwrap().square().mean();
        g.initializer();
        let def = g.snapshot().unwrap();
        let all = def.iter().map(|(id, _)| ReceivedOperation::of(&def, id)).collect();
        (def, all)
    }

    #[test]
    fn a_graph_that_another_process_built_is_the_same_here_with_its_lines() {
        let (def, all) = sent();
        let mut received = GraphDef::default();
        let (first, later) = all.split_at(all.len() / 2);
        let mut names = Names::default();
        received.receive(first.to_vec(), &mut names).unwrap();
        received.receive(later.to_vec(), &mut names).unwrap();
        let text = |def: &GraphDef| {
            let of = |(id, one): (OpId, &Operation)| {
                let Operation { name, op, inputs, outputs, .. } = one;
                format!("{name} {op:?} {inputs:?} {outputs:?} {}", def.built_at(id))
            };
            def.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(text(&received), text(&def));
    }

    #[test]
    fn operations_that_do_not_fit_the_graph_are_refused_and_leave_it_as_it_was() {
        type Spoil<'a> = &'a dyn Fn(&mut ReceivedOperation);
        let (_, all) = sent();
        let refused = |at: usize, spoil: Spoil<'_>| {
            let mut spoilt = all.clone();
            spoil(&mut spoilt[at]);
            let mut graph = GraphDef::default();
            let mut names = Names::default();
            let error = graph.receive(spoilt, &mut names).unwrap_err();
            assert!(names.0.is_empty(), "the refused names are free again");
            assert_eq!((graph.operations.len(), graph.built_elsewhere.len()), (0, 0));
            error.why
        };
        let position = |kind: &str| all.iter().position(|one| one.op.kind() == kind).unwrap();
        let later = OpId(all.len() as u32);
        let (product, read) = (position("MatMul"), position("ReadVariable"));
        let first = all[0].name.clone();
        let cases: [(usize, Spoil<'_>, &str); 7] = [
            (product, &|one| one.name = first.clone(), "another operation of this name"),
            (product, &|one| one.name = "^x:1".into(), "not the name"),
            (product, &|one| one.inputs[0].op = later, "which is not before it"),
            (product, &|one| one.inputs[0].output = 9, "output 9"),
            (product, &|one| one.inputs.truncate(1), "needs"),
            (product, &|one| one.control_inputs.push(later), "which is not before it"),
            (read, &|one| one.variables[0] = OpId(0), "is no variable"),
        ];
        for (at, spoil, says) in cases {
            let why = refused(at, spoil);
            assert!(why.contains(says), "`{why}` does not say `{says}`");
        }
    }
}
