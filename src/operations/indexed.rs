//! Operations on elements found by indices: the definition, types, cost, kernel and gradient of
//! each.

mod build;

use smallvec::smallvec;

use super::Array;
use super::types::{Dims, inserted, typed};
use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind, Known,
    OpDef, Output, OutputTypes, Outputs, TensorType, bytes, one,
};
use crate::kernels::indexed::{self, nd_positions, positions};
use crate::kernels::{by_number, by_word, filled_in};
use crate::tensor::{PartialShape, Shape, Tensor};

/// An operation at indices (i32 or i64), which count from 0.
///
/// The last dimension of `Nd` indices is a position along the first axes of the value that they
/// index; the slice at that position, over the remaining axes, is moved. Repeated indices take
/// effect in their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Indexed {
    /// `(params, indices)`: the slices at the indices along an axis, which the indices' shape
    /// replaces (TensorFlow `GatherV2`).
    Gather {
        /// The axis.
        axis: usize,
        /// The number of first axes that both have, each of whose elements is gathered from by
        /// itself.
        batch: usize,
    },
    /// `(gradient, params, indices)`: zeros of the shape of `params`, whose values are not used,
    /// and each slice of the gradient added where it was gathered.
    GatherGrad {
        /// The axis.
        axis: usize,
        /// The number of first axes that both have.
        batch: usize,
    },
    /// `(params, indices)`: the slices at the indices.
    GatherNd,
    /// `(indices, updates)`: zeros of this shape, and the updates added at the indices.
    ScatterNd(Shape),
    /// `(x, indices, updates)`: `x`, and the updates added at the indices.
    TensorScatterAdd,
    /// `(x, indices, updates)`: `x`, with the updates in its place at the indices; of several for
    /// one place the last.
    TensorScatterUpdate,
    /// `(indices)`: `on` at the index along a new axis and `off` elsewhere; `off` everywhere for an
    /// index outside the axis.
    OneHot {
        /// The size of the new axis.
        depth: usize,
        /// The position of the new axis.
        axis: usize,
        /// The value at the index, a scalar.
        on: Tensor,
        /// The value elsewhere, a scalar of the same type.
        off: Tensor,
    },
}

impl Indexed {
    /// The requirements on its inputs.
    fn needs(&self) -> String {
        match self {
            Self::Gather { axis, batch } => {
                format!("an axis {axis} and i32 or i64 indices whose first {batch} axes are alike")
            }
            Self::GatherGrad { axis, .. } => {
                let gathered = format!("the gradient of what was gathered along axis {axis}");
                format!("{gathered}, that, and i32 or i64 indices")
            }
            Self::GatherNd => format!("{ND}, and what they are gathered from"),
            Self::ScatterNd(shape) => {
                format!("{ND}, and a number for each that they find in the shape {shape}")
            }
            Self::TensorScatterAdd | Self::TensorScatterUpdate => {
                format!("{ND} after a value, and updates of its type for each that they find in it")
            }
            Self::OneHot { axis, .. } => {
                let indices =
                    format!("i32 or i64 indices with room for an axis before axis {axis}");
                format!("{indices}, and two scalars of one type")
            }
        }
    }
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![
        Indexed::Gather { axis: 0, batch: 0 }.into(),
        Indexed::GatherGrad { axis: 0, batch: 0 }.into(),
        Indexed::GatherNd.into(),
        Indexed::ScatterNd(Shape::SCALAR).into(),
        Indexed::TensorScatterAdd.into(),
        Indexed::TensorScatterUpdate.into(),
        Indexed::OneHot { depth: 1, axis: 0, on: 1f32.into(), off: 0f32.into() }.into(),
    ]
}

impl OpDef for Indexed {
    fn kind(&self) -> &'static str {
        match self {
            Self::Gather { .. } => "GatherV2",
            Self::GatherGrad { .. } => "GatherGrad",
            Self::GatherNd => "GatherNd",
            Self::ScatterNd(_) => "ScatterNd",
            Self::TensorScatterAdd => "TensorScatterAdd",
            Self::TensorScatterUpdate => "TensorScatterUpdate",
            Self::OneHot { .. } => "OneHot",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        match self {
            Self::Gather { axis, batch } => Self::Gather {
                axis: given.size("axis", *axis),
                batch: given.size("batch_dims", *batch),
            },
            Self::GatherGrad { axis, batch } => Self::GatherGrad {
                axis: given.size("axis", *axis),
                batch: given.size("batch_dims", *batch),
            },
            Self::ScatterNd(shape) => Self::ScatterNd(given.shape("shape", *shape)),
            Self::OneHot { depth, axis, on, off } => Self::OneHot {
                depth: given.size("depth", *depth),
                axis: given.size("axis", *axis),
                on: given.tensor("on", on.clone()),
                off: given.tensor("off", off.clone()),
            },
            Self::GatherNd | Self::TensorScatterAdd | Self::TensorScatterUpdate => self.clone(),
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let outputs = match (self, inputs) {
            (Self::Gather { axis, batch }, [params, indices]) => {
                gather([*axis, *batch], *params, *indices)
            }
            (Self::GatherGrad { axis, batch }, [dy, params, indices]) => {
                gather_grad([*axis, *batch], *dy, *params, *indices)
            }
            (Self::GatherNd, [params, indices]) => {
                slices_at(params.shape, *indices).and_then(|dims| typed(params.dtype, &dims))
            }
            (Self::ScatterNd(shape), [indices, updates]) => {
                scattered(*updates, (*shape).into(), *indices).filter(|_| updates.dtype.is_number())
            }
            (Self::TensorScatterAdd | Self::TensorScatterUpdate, [x, indices, updates]) => {
                let can_add = *self == Self::TensorScatterUpdate || x.dtype.is_number();
                scattered(*updates, x.shape, *indices)
                    .filter(|_| can_add && x.dtype == updates.dtype)
            }
            (Self::OneHot { depth, axis, on, off }, [indices]) => {
                let are_scalars =
                    on.dtype() == off.dtype() && on.shape().rank() + off.shape().rank() == 0;
                let dims = indices.shape.dims();
                let fits = are_scalars && indices.dtype.is_integer() && *axis <= dims.len();
                fits.then(|| inserted(dims, *axis, Some(*depth)))
                    .and_then(|dims| typed(on.dtype(), &dims))
            }
            _ => None,
        };
        outputs.ok_or_else(|| GraphProblem::needs(&self.needs(), inputs))
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let dy = of.only_arrived()?;
        Ok(match self {
            Self::Gather { axis, batch } => {
                let (params, indices) = (of.input(0), of.input(1));
                let back = Self::GatherGrad { axis: *axis, batch: *batch };
                vec![of.for_input(0, || dy.with(&[&params, &indices], back))?, None]
            }
            Self::GatherGrad { axis, batch } => {
                let again = Self::Gather { axis: *axis, batch: *batch };
                vec![of.for_input(0, || dy.with(&[&of.input(2)], again))?, None, None]
            }
            Self::GatherNd => {
                let zeros = || zeros_like(&of.input(0));
                vec![of.for_input(0, || zeros()?.tensor_scatter_add(&of.input(1), &dy))?, None]
            }
            Self::ScatterNd(_) => vec![None, of.for_input(1, || dy.gather_nd(&of.input(0)))?],
            Self::TensorScatterAdd => {
                let of_updates = of.for_input(2, || dy.gather_nd(&of.input(1)))?;
                vec![of.for_input(0, || Ok(dy.clone()))?, None, of_updates]
            }
            Self::TensorScatterUpdate => {
                let zeros = || zeros_like(&of.input(2));
                let of_updates = of.for_input(2, || dy.gather_nd(&of.input(1)))?;
                let kept = || dy.tensor_scatter_update(&of.input(1), &zeros()?);
                vec![of.for_input(0, kept)?, None, of_updates]
            }
            Self::OneHot { .. } => vec![None],
        })
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let written = bytes(outputs);
        let bytes_of = |value: &Known| bytes(&[*value]);
        match (self, inputs) {
            (Self::Gather { .. } | Self::GatherNd, [_, indices]) => {
                Cost::moved(bytes_of(indices) + 2 * written)
            }
            (Self::GatherGrad { .. }, [updates, _, indices])
            | (Self::ScatterNd(_), [indices, updates])
            | (Self::TensorScatterAdd, [_, indices, updates]) => {
                let (_, shape) = updates;
                // Each update is read, and the element that it is added to is read and written.
                let moved = bytes_of(indices) + 3 * bytes_of(updates) + written;
                Cost { flops: shape.elements() as u64, ..Cost::moved(moved) }
            }
            (Self::TensorScatterUpdate, [_, indices, updates]) => {
                Cost::moved(bytes_of(indices) + 2 * bytes_of(updates) + 2 * written)
            }
            _ => Cost::moved(bytes(inputs) + written),
        }
    }

    fn kernel_kind(&self) -> KernelKind {
        KernelKind::Movement
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Ok(match (self, inputs) {
            (Self::Gather { axis, batch }, [params, indices]) => {
                let (size, width, positions) = gather_places([*axis, *batch], params, indices)?;
                let mut dims = params.shape().dims().to_vec();
                dims.splice(axis..=axis, indices.shape().dims()[*batch..].iter().copied());
                let shape = Shape::new(&dims);
                smallvec![gathered(params, size, &positions, width, shape)]
            }
            (Self::GatherGrad { axis, batch }, [dy, params, indices]) => {
                let (size, width, positions) = gather_places([*axis, *batch], params, indices)?;
                let mut out = Tensor::zeros(dy.dtype(), params.shape());
                by_number!(dy.dtype(), N => {
                    indexed::scatter_add(dy.slice::<N>(), size, &positions, width, out.make_mut());
                });
                smallvec![out]
            }
            (Self::GatherNd, [params, indices]) => {
                let slices = Slices::of(params.shape(), indices)?;
                let mut dims = indices.shape().dims().to_vec();
                dims.pop();
                dims.extend_from_slice(&params.shape().dims()[slices.depth..]);
                let shape = Shape::new(&dims);
                smallvec![gathered(params, slices.count, &slices.positions, slices.width, shape)]
            }
            (Self::ScatterNd(shape), [indices, updates]) => {
                smallvec![added(Tensor::zeros(updates.dtype(), *shape), indices, updates)?]
            }
            (Self::TensorScatterAdd, [x, indices, updates]) => {
                smallvec![added((*x).clone(), indices, updates)?]
            }
            (Self::TensorScatterUpdate, [x, indices, updates]) => {
                let Slices { positions, width, .. } = Slices::of(x.shape(), indices)?;
                let mut out = (*x).clone();
                by_word!(x.dtype(), W => {
                    let updates = updates.words::<W>();
                    indexed::scatter_update(updates, &positions, width, out.words_mut());
                });
                smallvec![out]
            }
            (Self::OneHot { depth, axis, on, off }, [indices]) => {
                let inner = indices.shape().dims()[*axis..].iter().product();
                let mut dims = indices.shape().dims().to_vec();
                dims.insert(*axis, *depth);
                let shape = Shape::new(&dims);
                smallvec![by_word!(on.dtype(), W => filled_in::<W>(on.dtype(), shape, |out| {
                    let on_off = (on.words::<W>()[0], off.words::<W>()[0]);
                    indexed::one_hot(indices, *depth, inner, on_off, out);
                }))]
            }
            (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
        })
    }
}

fn zeros_like(x: &Output) -> Result<Output, GraphError> {
    x.with(&[], Array::ZerosLike)
}

const ND: &str =
    "i32 or i64 indices whose last dimension, of known size, is a position along the first axes";

fn gather(
    [axis, batch]: [usize; 2],
    params: TensorType,
    indices: TensorType,
) -> Option<OutputTypes> {
    let dims = params.shape.dims();
    let (before, after) = (dims.get(..axis)?, dims.get(axis + 1..)?);
    let of_batch = |shape: &PartialShape| shape.dims().get(..batch).map(PartialShape::new);
    of_batch(&params.shape)?.merge(&of_batch(&indices.shape)?)?;
    let dims: Dims = [before, &indices.shape.dims()[batch..], after].concat().into();
    (indices.dtype.is_integer() && batch <= axis).then(|| typed(params.dtype, &dims))?
}

/// The size and the width of what is gathered from, and the positions of the slices in it. With
/// batch axes, all axes up to the gathered one are as one.
fn gather_places(
    [axis, batch]: [usize; 2],
    params: &Tensor,
    indices: &Tensor,
) -> Result<(usize, usize, Vec<usize>), ComputeError> {
    let (size, width) = along(params.shape(), axis);
    let positions = positions(indices, size)?;
    if batch == 0 {
        return Ok((size, width, positions));
    }
    let shape = params.shape();
    let dims = shape.dims();
    let (batches, outer): (usize, usize) =
        (dims[..batch].iter().product(), dims[batch..axis].iter().product());
    let each = positions.len().checked_div(batches).unwrap_or(0);
    let place = |i: usize| {
        let (slice, at) = (i / each, i % each);
        slice * size + positions[slice / outer * each + at]
    };
    Ok((batches * outer * size, width, (0..batches * outer * each).map(place).collect()))
}

fn gather_grad(
    axis: [usize; 2],
    dy: TensorType,
    params: TensorType,
    indices: TensorType,
) -> Option<OutputTypes> {
    let gathered = gather(axis, params, indices)?;
    let fits = dy.dtype.is_real()
        && dy.dtype == params.dtype
        && gathered[0].shape.merge(&dy.shape).is_some();
    fits.then(|| smallvec![params])
}

/// The dimensions of all slices of `shape` at `indices`.
fn slices_at(shape: PartialShape, indices: TensorType) -> Option<Dims> {
    let (Some(depth), positions) = indices.shape.dims().split_last()? else { return None };
    let slice = shape.dims().get(*depth..)?;
    indices.dtype.is_integer().then(|| [positions, slice].concat().into())
}

/// The type of the result of putting `updates` into `shape`.
fn scattered(updates: TensorType, shape: PartialShape, indices: TensorType) -> Option<OutputTypes> {
    let slices = PartialShape::checked(&slices_at(shape, indices)?)?;
    slices.merge(&updates.shape).map(|_| one(updates.dtype, shape))
}

/// The size of an axis, and the number of elements at each of its positions.
fn along(shape: Shape, axis: usize) -> (usize, usize) {
    (shape.dims()[axis], shape.dims()[axis + 1..].iter().product())
}

/// The slices at indices whose last dimension is a position along the first axes.
struct Slices {
    /// The number of axes that the indices are positions along.
    depth: usize,
    /// The number of slices that can be found.
    count: usize,
    positions: Vec<usize>,
    /// The number of elements of each slice.
    width: usize,
}

impl Slices {
    fn of(shape: Shape, indices: &Tensor) -> Result<Self, ComputeError> {
        let (rows, depth) = indices.shape().rows_and_columns();
        let (dims, rest) = shape.dims().split_at(depth);
        let (count, width) = (dims.iter().product(), rest.iter().product());
        let positions = if rows == 0 { Vec::new() } else { nd_positions(indices, dims)? };
        Ok(Self { depth, count, positions, width })
    }
}

pub(super) fn gathered(
    params: &Tensor,
    size: usize,
    positions: &[usize],
    width: usize,
    shape: Shape,
) -> Tensor {
    by_word!(params.dtype(), W => filled_in::<W>(params.dtype(), shape, |out| {
        indexed::gather(params.words(), size, positions, width, out);
    }))
}

/// Adds the updates to `x` at the indices.
fn added(mut x: Tensor, indices: &Tensor, updates: &Tensor) -> Result<Tensor, ComputeError> {
    let Slices { count, positions, width, .. } = Slices::of(x.shape(), indices)?;
    by_number!(x.dtype(), N => {
        indexed::scatter_add(updates.slice::<N>(), count, &positions, width, x.make_mut());
    });
    Ok(x)
}
