//! The gradients of elementwise operations.

use smallvec::smallvec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Binary, Comparison, Op, Seen, Unary};
use crate::graph::{Edge, OpId, Operation};
use crate::tensor::{Shape, Tensor};

impl Backward<'_> {
    /// The gradients for the inputs of an elementwise operation, given the gradient `dy` of its
    /// result.
    pub(super) fn elementwise(
        &self,
        id: OpId,
        operation: &Operation,
        dy: Edge,
    ) -> Result<InputGradients, GraphError> {
        Ok(match (&operation.op, operation.inputs.as_slice()) {
            (Op::Unary(Unary::Neg), [_]) => smallvec![Some(self.negated(id, dy)?)],
            (Op::Unary(unary), &[x]) => {
                let seen = unary.gradient_sees().map(|seen| match seen {
                    Seen::Input => x,
                    Seen::Output => Edge { op: id, output: 0 },
                });
                smallvec![
                    seen.map(|seen| self.add(id, Op::UnaryGrad(*unary), &[dy, seen]))
                        .transpose()?
                ]
            }
            (Op::Binary(Binary::FloorDiv), _) => smallvec![None, None],
            (Op::Binary(binary), &[a, b]) => {
                let by_a = || self.summed(id, self.by_left(id, *binary, dy, (a, b))?, (a, &[b]));
                let by_b = || self.summed(id, self.by_right(id, *binary, dy, (a, b))?, (b, &[a]));
                smallvec![self.for_input(a, by_a)?, self.for_input(b, by_b)?]
            }
            (Op::Select, &[condition, a, b]) => {
                let zero = || self.scalar(id, dy, 0.0);
                let chosen = |a, b| self.add(id, Op::Select, &[condition, a, b]);
                let by_a = || self.summed(id, chosen(dy, zero()?)?, (a, &[condition, b]));
                let by_b = || self.summed(id, chosen(zero()?, dy)?, (b, &[condition, a]));
                smallvec![None, self.for_input(a, by_a)?, self.for_input(b, by_b)?]
            }
            _ => return Err(self.no_gradient(operation)),
        })
    }

    /// The gradient by the first operand, of the shape of the result.
    fn by_left(
        &self,
        id: OpId,
        binary: Binary,
        dy: Edge,
        (a, b): (Edge, Edge),
    ) -> Result<Edge, GraphError> {
        let of = |binary, a, b| self.add(id, Op::Binary(binary), &[a, b]);
        match binary {
            Binary::Add | Binary::Sub | Binary::FloorDiv | Binary::FloorMod => Ok(dy),
            Binary::Mul => of(Binary::Mul, dy, b),
            Binary::Div => of(Binary::Div, dy, b),
            Binary::Pow => {
                let below = of(Binary::Pow, a, of(Binary::Sub, b, self.scalar(id, b, 1.0)?)?)?;
                of(Binary::Mul, dy, of(Binary::Mul, b, below)?)
            }
            Binary::Maximum | Binary::Minimum => {
                let won = self.add(id, Op::Compare(wins(binary)), &[a, b])?;
                self.add(id, Op::Select, &[won, dy, self.scalar(id, dy, 0.0)?])
            }
            Binary::SquaredDifference => {
                let doubled = of(Binary::Mul, dy, self.scalar(id, dy, 2.0)?)?;
                of(Binary::Mul, doubled, of(Binary::Sub, a, b)?)
            }
        }
    }

    /// The gradient by the second operand, of the shape of the result.
    fn by_right(
        &self,
        id: OpId,
        binary: Binary,
        dy: Edge,
        (a, b): (Edge, Edge),
    ) -> Result<Edge, GraphError> {
        let y = Edge { op: id, output: 0 };
        let of = |binary, a, b| self.add(id, Op::Binary(binary), &[a, b]);
        match binary {
            Binary::Add => Ok(dy),
            Binary::Sub => self.negated(id, dy),
            Binary::Mul => of(Binary::Mul, dy, a),
            Binary::Div => self.negated(id, of(Binary::Mul, of(Binary::Div, dy, b)?, y)?),
            Binary::FloorDiv | Binary::FloorMod => {
                of(Binary::Mul, dy, self.negated(id, of(Binary::FloorDiv, a, b)?)?)
            }
            // Where the base is not above 0, its logarithm is not a number; the gradient is 0
            // there.
            Binary::Pow => {
                let (zero, one) = (self.scalar(id, a, 0.0)?, self.scalar(id, a, 1.0)?);
                let positive = self.add(id, Op::Compare(Comparison::Greater), &[a, zero])?;
                let base = self.add(id, Op::Select, &[positive, a, one])?;
                of(
                    Binary::Mul,
                    dy,
                    of(Binary::Mul, y, self.add(id, Op::Unary(Unary::Log), &[base])?)?,
                )
            }
            Binary::Maximum | Binary::Minimum => {
                let won = self.add(id, Op::Compare(wins(binary)), &[a, b])?;
                self.add(id, Op::Select, &[won, self.scalar(id, dy, 0.0)?, dy])
            }
            Binary::SquaredDifference => self.negated(id, self.by_left(id, binary, dy, (a, b))?),
        }
    }

    fn negated(&self, id: OpId, x: Edge) -> Result<Edge, GraphError> {
        self.add(id, Op::Unary(Unary::Neg), &[x])
    }

    /// A scalar of the element type of `like`.
    fn scalar(&self, id: OpId, like: Edge, value: f64) -> Result<Edge, GraphError> {
        let value = Tensor::scalar_of(self.graph.tensor_type(like).dtype, value);
        self.add(id, Op::Fill { shape: Shape::SCALAR, value }, &[])
    }

    /// Sums a gradient of the result's shape to the shape of `x`, which was broadcast with
    /// `others`.
    ///
    /// Adds no operation if the shapes show that `x` has the result's shape.
    fn summed(
        &self,
        id: OpId,
        gradient: Edge,
        (x, others): (Edge, &[Edge]),
    ) -> Result<Edge, GraphError> {
        let own = self.graph.tensor_type(x).shape;
        let keeps_its_shape = others.iter().all(|other| {
            let other = self.graph.tensor_type(*other).shape;
            let mut aligned = own.dims().iter().rev().zip(other.dims().iter().rev());
            let is_kept = |(own, other): (&Option<usize>, &Option<usize>)| {
                *other == Some(1) || own.is_some_and(|own| own != 1)
            };
            other.rank() <= own.rank() && aligned.all(is_kept)
        });
        if keeps_its_shape { Ok(gradient) } else { self.add(id, Op::SumToLike, &[gradient, x]) }
    }
}

/// The comparison of the first operand with the second that holds where the first gets the
/// gradient; on a tie it does.
fn wins(extreme: Binary) -> Comparison {
    if extreme == Binary::Maximum { Comparison::GreaterEqual } else { Comparison::LessEqual }
}
