//! The gradients of operations that move elements: the gradient's elements move back.

use smallvec::smallvec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Array, Op, Subscript};
use crate::graph::{Edge, OpId, Operation};

impl Backward<'_> {
    /// As [`Backward::gradient`].
    pub(super) fn array(
        &self,
        id: OpId,
        operation: &Operation,
        array: &Array,
        arrived: &[Option<Edge>],
    ) -> Result<InputGradients, GraphError> {
        let add = |op, inputs: &[Edge]| self.add(id, Op::Array(op), inputs);
        Ok(match (array, operation.inputs.as_slice(), arrived) {
            (Array::Split { axis, .. } | Array::SplitLike { axis }, [_, likes @ ..], arrived) => {
                let whole = add(Array::Concat { axis: *axis }, &self.all(id, arrived)?)?;
                std::iter::once(Some(whole)).chain(likes.iter().map(|_| None)).collect()
            }
            (Array::Unstack { axis }, [_], arrived) => {
                smallvec![Some(add(Array::Stack { axis: *axis }, &self.all(id, arrived)?)?)]
            }
            (Array::Concat { axis }, inputs, &[Some(dy)]) => self.parts(id, *axis, inputs, dy)?,
            (Array::Stack { axis }, inputs, &[Some(dy)]) => {
                let of = add(Array::Unstack { axis: *axis }, &[dy])?.op;
                self.wanted(of, inputs)
            }
            (Array::ReshapeLike, &[x, _], &[Some(dy)]) => {
                smallvec![self.for_input(x, || add(Array::ReshapeLike, &[dy, x]))?, None]
            }
            (Array::StridedSliceGrad(subscripts), &[dz, _], &[Some(dy)]) => {
                smallvec![
                    self.for_input(dz, || add(Array::StridedSlice(subscripts.clone()), &[dy]))?,
                    None
                ]
            }
            (Array::ZerosLike | Array::Shape(_) | Array::Size(_) | Array::Rank, [_], _) => {
                smallvec![None]
            }
            (array, &[x], &[Some(dy)]) => match moved_back(array) {
                Some((back, true)) => smallvec![Some(add(back, &[dy, x])?)],
                Some((back, false)) => smallvec![Some(add(back, &[dy])?)],
                None => return Err(self.no_gradient(operation)),
            },
            _ => return Err(self.no_gradient(operation)),
        })
    }

    /// The gradients of all outputs of `of`; zeros for an output at which none has arrived.
    fn all(&self, of: OpId, arrived: &[Option<Edge>]) -> Result<Vec<Edge>, GraphError> {
        let zeros = |output| self.add(of, Op::Array(Array::ZerosLike), &[Edge { op: of, output }]);
        (0..).zip(arrived).map(|(output, dy)| dy.map_or_else(|| zeros(output), Ok)).collect()
    }

    /// The outputs of `of` as the gradients of those `inputs` whose gradient is wanted.
    fn wanted(&self, of: OpId, inputs: &[Edge]) -> InputGradients {
        let part = |(output, x): (u32, &Edge)| self.depends(*x).then_some(Edge { op: of, output });
        (0..).zip(inputs).map(part).collect()
    }

    /// The parts of `dy` that belong to `inputs`, which were concatenated along `axis`.
    fn parts(
        &self,
        id: OpId,
        axis: usize,
        inputs: &[Edge],
        dy: Edge,
    ) -> Result<InputGradients, GraphError> {
        let size = |x: &Edge| self.graph.tensor_type(*x).shape.dims()[axis];
        let sizes: Option<Vec<usize>> = inputs.iter().map(size).collect();
        let cut = match sizes {
            Some(sizes) => self.add(id, Op::Array(Array::Split { axis, sizes }), &[dy])?,
            None => {
                let given: Vec<Edge> = std::iter::once(dy).chain(inputs.iter().copied()).collect();
                self.add(id, Op::Array(Array::SplitLike { axis }), &given)?
            }
        };
        Ok(self.wanted(cut.op, inputs))
    }
}

/// The operation that moves the gradient of an operation of one input back, and whether it needs
/// that input's shape.
fn moved_back(array: &Array) -> Option<(Array, bool)> {
    let strided = |subscripts| Some((Array::StridedSliceGrad(subscripts), true));
    let alone = |op| Some((op, false));
    match array {
        Array::Reshape(_) | Array::ExpandDims(_) | Array::Squeeze(_) => {
            Some((Array::ReshapeLike, true))
        }
        Array::Transpose(order) => {
            let inverse = (0..order.len()).map(|axis| order.iter().position(|from| *from == axis));
            alone(Array::Transpose(inverse.collect::<Option<_>>()?))
        }
        Array::Slice { begin, size } => {
            let taken = begin.iter().zip(size).map(|(begin, size)| Subscript::Every {
                begin: Some(*begin as i64),
                end: size.map(|size| (begin + size) as i64),
                stride: 1,
            });
            strided(taken.collect())
        }
        Array::StridedSlice(subscripts) => strided(subscripts.clone()),
        Array::Pad { paddings, .. } => {
            let inner = paddings.iter().map(|(before, after)| Subscript::Every {
                begin: Some(*before as i64),
                end: (*after > 0).then_some(-(*after as i64)),
                stride: 1,
            });
            alone(Array::StridedSlice(inner.collect()))
        }
        Array::MirrorPad { paddings, mirror } => {
            alone(Array::MirrorPadGrad { paddings: paddings.clone(), mirror: *mirror })
        }
        Array::MirrorPadGrad { paddings, mirror } => {
            alone(Array::MirrorPad { paddings: paddings.clone(), mirror: *mirror })
        }
        Array::Tile(multiples) => alone(Array::TileGrad(multiples.clone())),
        Array::TileGrad(multiples) => alone(Array::Tile(multiples.clone())),
        Array::BroadcastTo(_) => Some((Array::BroadcastToGrad, true)),
        Array::Reverse(axes) => alone(Array::Reverse(axes.clone())),
        Array::Cumsum { axis, exclusive, reverse } => {
            alone(Array::Cumsum { axis: *axis, exclusive: *exclusive, reverse: !reverse })
        }
        _ => None,
    }
}
