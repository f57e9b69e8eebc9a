//! Placeholders, constants and variables, which are resources in TensorFlow.

use super::{Writer, Written, constant, number, shape};
use crate::graph::{Edge, Op, OpId, Operation, Replica};
use crate::import::wire::Value;
use crate::tensor::{PartialShape, Tensor};

impl Writer<'_> {
    /// An operation that the runtime knows.
    pub(super) fn built_in(&mut self, id: OpId, operation: &Operation) -> Written {
        let is_guarded = operation.op.guard_at().is_some_and(|at| operation.inputs.len() > at);
        if is_guarded {
            return None;
        }
        match &operation.op {
            Op::Placeholder { dtype, shape: dims } => {
                let attributes = vec![
                    ("dtype", Value::Type(number(*dtype))),
                    ("shape", Value::Shape(shape(dims))),
                ];
                self.own(operation, "Placeholder", vec![], attributes)
            }
            Op::Const(value) => self.own(operation, "Const", vec![], constant(value)),
            Op::Fill { shape, value } => {
                let dims: Vec<i64> = shape.dims().iter().map(|dim| *dim as i64).collect();
                let dims = self.ints(operation, "dims", &dims)?;
                let t = ("T", Value::Type(number(value.dtype())));
                let value = self.constant(operation, "value", value);
                self.own(operation, "Fill", vec![dims, value], vec![t])
            }
            Op::NoOp => self.own(operation, "NoOp", vec![], vec![]),
            Op::Identity => {
                let (inputs, t) = (self.inputs(operation), self.t(operation, 0));
                self.own(operation, "Identity", inputs, vec![t])
            }
            Op::Variable(spec) => {
                let attributes = vec![
                    ("dtype", Value::Type(number(spec.dtype))),
                    ("shape", Value::Shape(shape(&spec.shape.into()))),
                    ("shared_name", Value::S(spec.shared_name.as_bytes().to_vec())),
                    ("container", Value::S(spec.container.as_bytes().to_vec())),
                ];
                self.own(operation, "VarHandleOp", vec![], attributes)
            }
            Op::ReadVariable => {
                let (handle, dtype) = self.variable(operation);
                self.own(operation, "ReadVariableOp", vec![handle], vec![("dtype", dtype)])
            }
            Op::ResourceGather => {
                let (handle, dtype) = self.variable(operation);
                let indices = Value::Type(number(self.type_of(operation, 0).dtype));
                let inputs = vec![handle, self.input(operation, 0)];
                let attributes = vec![("dtype", dtype), ("Tindices", indices)];
                self.own(operation, "ResourceGather", inputs, attributes)
            }
            Op::Assign => self.store(id, operation, "AssignVariableOp"),
            Op::AssignAdd => self.store(id, operation, "AssignAddVariableOp"),
            Op::CommitStep(replica) if *replica == Replica::ALONE => {
                let one = self.constant(operation, "one", &1i64.into());
                self.update(id, operation, "AssignAddVariableOp", one)
            }
            Op::IsVariableInitialized => {
                let (handle, _) = self.variable(operation);
                self.own(operation, "VarIsInitializedOp", vec![handle], vec![])
            }
            Op::ApplyGradient { is_sparse: false, replica: None, .. } => {
                let kind = match operation.op.kind() {
                    "ApplyGradientDescent" => "ResourceApplyGradientDescent",
                    "ApplyAdagrad" => "ResourceApplyAdagrad",
                    _ => return None,
                };
                let t = self.t(operation, 1);
                let handles = operation.variables.iter();
                let handles = handles.map(|id| self.def.operation(*id).name.to_string());
                let inputs = handles.chain(self.inputs(operation)).collect();
                self.own(operation, kind, inputs, vec![t])
            }
            _ => None,
        }
    }

    /// The handle of the operation's variable, and the variable's element type.
    fn variable(&self, operation: &Operation) -> (String, Value) {
        let variable = operation.variables[0];
        let dtype = self.def.variable(variable).map_or(0, |spec| number(spec.dtype));
        (self.def.operation(variable).name.to_string(), Value::Type(dtype))
    }

    fn store(&mut self, id: OpId, operation: &Operation, kind: &str) -> Written {
        let value = self.input(operation, 0);
        self.update(id, operation, kind, value)
    }

    /// An update by a value; what it gives is read after it.
    fn update(&mut self, id: OpId, operation: &Operation, kind: &str, value: String) -> Written {
        let (handle, dtype) = self.variable(operation);
        let inputs = vec![handle.clone(), value];
        self.own(operation, kind, inputs, vec![("dtype", dtype.clone())])?;
        let after = vec![handle, format!("^{}", operation.name)];
        let read = self.helper(operation, "after", "ReadVariableOp", after, vec![("dtype", dtype)]);
        self.values.insert(Edge { op: id, output: 0 }, read);
        Some(())
    }

    /// The dimensions of `shape`, with at most one open, as the vector that `Reshape` takes.
    pub(super) fn dims(&mut self, operation: &Operation, shape: &PartialShape) -> Option<String> {
        let open = shape.dims().iter().filter(|dim| dim.is_none()).count();
        let dims = shape.dims().iter().map(|dim| dim.map_or(-1, |dim| dim as i64));
        if open > 1 { None } else { self.ints(operation, "dims", &dims.collect::<Vec<_>>()) }
    }

    /// A scalar of the type of input `i`.
    pub(super) fn scalar(
        &mut self,
        operation: &Operation,
        part: &str,
        i: usize,
        value: f64,
    ) -> String {
        let value = Tensor::scalar_of(self.type_of(operation, i).dtype, value);
        self.constant(operation, part, &value)
    }
}
