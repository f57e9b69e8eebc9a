//! Numbers that TensorFlow gives to each update, and that a rule has as scalar variables here.

use crate::graph::{Name, NewOperation, Op, OpId, Output, VariableSpec};
use crate::import::translate::{Importer, Node, NodeProblem};
use crate::operations::{Binary, Cast};
use crate::tensor::{DType, Shape, Tensor};

/// A scalar beside a variable or a slot, which is set to what the graph gives before each update:
/// who else changes the graph's own number, and when, is the graph's affair.
pub(super) struct Scalar {
    /// The input of the update.
    pub(super) input: usize,
    name: &'static str,
    /// Its neighbour: 0 is the variable, 1 the first slot.
    beside: usize,
    /// Whether the input is the number of this update, counted from 1; the rule has that of the
    /// updates before it.
    is_step: bool,
}

impl Scalar {
    /// A power of β.
    pub(super) const fn power(input: usize, name: &'static str) -> Self {
        Self { input, name, beside: 1, is_step: false }
    }

    /// The number of an update.
    pub(super) const fn step(input: usize) -> Self {
        Self { input, name: "updates", beside: 0, is_step: true }
    }

    /// Sets it to what the update `node` of `variables` is `given`: the scalar variable, and the
    /// operation that sets it.
    pub(super) fn set(
        &self,
        importer: &mut Importer<'_>,
        node: &Node<'_>,
        variables: &[OpId],
        given: &Output,
    ) -> Result<(OpId, OpId), NodeProblem> {
        let value = if self.is_step {
            let step = importer.helper(node, "step", Cast(DType::I64), &[given])?;
            let one = importer.scalar(node, "one", &step, 1.0)?;
            importer.helper(node, "before", Binary::Sub, &[&step, &one])?
        } else {
            given.clone()
        };
        let neighbour = *variables.get(self.beside).ok_or(NodeProblem::NoVariable(self.beside))?;
        let kept = self.kept_beside(importer, neighbour, value.tensor_type().dtype)?;
        let name = importer.free_name(node, self.name);
        let set = assign(importer, &name, kept, &value, &node.controls)?;
        Ok((kept, set))
    }

    /// The scalar beside `neighbour`; it is made at the first update.
    fn kept_beside(
        &self,
        importer: &mut Importer<'_>,
        neighbour: OpId,
        dtype: DType,
    ) -> Result<OpId, NodeProblem> {
        let known = importer.roles.scalars.get(&neighbour).into_iter().flatten();
        if let Some((_, kept)) = known.into_iter().find(|(name, _)| *name == self.name) {
            return Ok(*kept);
        }
        let (name, spec) = importer.graph.with_operation(neighbour, |operation| {
            let spec = match &operation.op {
                Op::Variable(spec) => Some(spec.clone()),
                _ => None,
            };
            (format!("{}/{}", operation.name, self.name), spec)
        });
        let spec = spec.ok_or(NodeProblem::NoVariable(self.beside))?;
        let shared_name = format!("{}/{}", spec.shared_name, self.name).into();
        let spec =
            VariableSpec { shared_name, dtype, shape: Shape::SCALAR, trainable: false, ..spec };
        let kept = importer.graph.add(NewOperation {
            name: Name::Numbered(&name),
            colocated_with: Some(neighbour),
            ..NewOperation::of(Op::Variable(spec))
        })?;
        // It is saved before the first update, too.
        let first = importer.graph.add(NewOperation {
            name: Name::Numbered(&format!("{name}/first")),
            ..NewOperation::of(Op::Const(Tensor::zeros(dtype, Shape::SCALAR)))
        })?;
        let first = importer.graph.output(first);
        let begin = assign(importer, &format!("{name}/first_value"), kept, &first, &[])?;
        importer.graph.add_initializer(begin);
        importer.roles.scalars.entry(neighbour).or_default().push((self.name, kept));
        Ok(kept)
    }
}

/// Assigns `value` to `variable`, after `controls`.
fn assign(
    importer: &Importer<'_>,
    name: &str,
    variable: OpId,
    value: &Output,
    controls: &[OpId],
) -> Result<OpId, NodeProblem> {
    Ok(importer.graph.add(NewOperation {
        name: Name::Numbered(name),
        inputs: &[value.edge()],
        control_inputs: controls,
        variables: &[variable],
        colocated_with: Some(variable),
        ..NewOperation::of(Op::Assign)
    })?)
}
