//! Element types, shapes and tensors from the wire, with limits because the bytes may come from
//! anybody.

use std::cell::Cell;

use half::bf16;

use super::error::NodeProblem;
use super::wire::{TensorProto, TensorShapeProto};
use crate::tensor::{
    DType, Element, MAX_ELEMENTS, MAX_RANK, PartialShape, Shape, Tensor, TensorError, within_memory,
};

/// The most elements by which the constants of a graph are expanded, all together: a constant of a
/// few bytes repeats its last value as often as it likes.
pub(super) const MOST_REPEATED: usize = 1 << 26;
/// The number that TensorFlow adds to an element type's number for a reference to it.
const REFERENCE: i32 = 100;

/// TensorFlow's number of the type of texts.
pub(super) const TEXT: i32 = 7;
/// The element type of lists and optionals.
pub(super) const VARIANT: i32 = 21;

/// The element type of TensorFlow's number `dtype`; `None` if it does not exist here.
pub(super) fn dtype(dtype: i32) -> Option<DType> {
    match dtype % REFERENCE {
        1 => Some(DType::F32),
        2 => Some(DType::F64),
        3 => Some(DType::I32),
        6 => Some(DType::I8),
        9 => Some(DType::I64),
        10 => Some(DType::Bool),
        14 => Some(DType::BF16),
        _ => None,
    }
}

/// The shape, with `None` for unknown dimensions.
pub(super) fn shape(proto: &TensorShapeProto) -> Result<PartialShape, NodeProblem> {
    if proto.unknown_rank {
        return Err(NodeProblem::unsupported("a shape of unknown rank is not supported"));
    }
    let dims: Vec<i64> = proto.dim.iter().map(|dim| dim.size).collect();
    partial_shape(&dims)
}

/// The shape of `dims`, with -1 for an unknown one.
pub(super) fn partial_shape(dims: &[i64]) -> Result<PartialShape, NodeProblem> {
    let wrong = |what: &str| NodeProblem::unsupported(format!("{what} in the shape {dims:?}"));
    if dims.len() > MAX_RANK {
        return Err(wrong(&format!("more than {MAX_RANK} dimensions")));
    }
    let dim = |dim: &i64| match *dim {
        -1 => Ok(None),
        dim => usize::try_from(dim).map(Some).map_err(|_| wrong("a negative size")),
    };
    let dims = dims.iter().map(dim).collect::<Result<Vec<_>, _>>()?;
    let product =
        dims.iter().flatten().try_fold(1usize, |product, dim| product.checked_mul((*dim).max(1)));
    if product.is_none_or(|product| product > MAX_ELEMENTS) {
        return Err(wrong("too many elements"));
    }
    Ok(PartialShape::new(&dims))
}

/// A shape of `dims`, all known.
pub(super) fn known_shape(dims: &[i64]) -> Result<Shape, NodeProblem> {
    let known = partial_shape(dims)?.known();
    known.ok_or_else(|| {
        NodeProblem::unsupported(format!("the shape {dims:?} must be known in full"))
    })
}

/// The tensor that `proto` describes. The elements that it repeats are taken off `repeats_left`.
pub(super) fn tensor(
    proto: &TensorProto,
    repeats_left: &Cell<usize>,
) -> Result<Tensor, NodeProblem> {
    let dims =
        proto.tensor_shape.as_ref().map(shape).transpose()?.unwrap_or(PartialShape::new(&[]));
    let shape = dims
        .known()
        .ok_or_else(|| NodeProblem::unsupported("a constant's shape must be known in full"))?;
    match dtype(proto.dtype) {
        Some(DType::F32) => values(proto, shape, &proto.float_val, repeats_left),
        Some(DType::I32) => values(proto, shape, &proto.int_val, repeats_left),
        Some(DType::I64) => values(proto, shape, &proto.int64_val, repeats_left),
        Some(DType::I8) => {
            let listed: Vec<i8> = proto.int_val.iter().map(|value| *value as i8).collect();
            values(proto, shape, &listed, repeats_left)
        }
        Some(DType::Bool) => values(proto, shape, &proto.bool_val, repeats_left),
        Some(DType::F64) => values(proto, shape, &proto.double_val, repeats_left),
        Some(DType::BF16) => {
            let listed: Vec<bf16> =
                proto.half_val.iter().map(|bits| bf16::from_bits(*bits as u16)).collect();
            values(proto, shape, &listed, repeats_left)
        }
        None => Err(no_such_type(proto.dtype)),
    }
}

/// The error that TensorFlow's element type of this number does not exist here.
pub(super) fn no_such_type(dtype: i32) -> NodeProblem {
    let name = match dtype % REFERENCE {
        4 => "uint8",
        5 => "int16",
        TEXT => "string",
        8 => "complex64",
        17 => "uint16",
        18 => "complex128",
        19 => "float16",
        20 => "resource",
        VARIANT => "variant",
        22 => "uint32",
        23 => "uint64",
        _ => {
            let what = format!("TensorFlow's element type {dtype} does not exist here");
            return NodeProblem::unsupported(what);
        }
    };
    NodeProblem::unsupported(format!("the element type {name} does not exist here"))
}

/// The elements, from the raw bytes or from a list whose last value is repeated.
fn values<T: Element>(
    proto: &TensorProto,
    shape: Shape,
    listed: &[T],
    repeats_left: &Cell<usize>,
) -> Result<Tensor, NodeProblem> {
    let elements = shape.elements();
    let wrong = |given: usize| {
        NodeProblem::unsupported(format!("{given} values for a constant of shape {shape}"))
    };
    // There are as many values as the shape has: what is refused is memory.
    let refused = |error: &TensorError| NodeProblem::unsupported(error.to_string());
    let content = &proto.tensor_content;
    if !content.is_empty() {
        if content.len() != elements * size_of::<T>() {
            return Err(wrong(content.len() / size_of::<T>()));
        }
        let read = |bytes: &[u8]| bytemuck::checked::try_pod_read_unaligned::<T>(bytes);
        let values = content.chunks_exact(size_of::<T>()).map(read).collect::<Result<Vec<T>, _>>();
        let values = values.map_err(|_| {
            NodeProblem::unsupported("a constant's bytes are no values of its type")
        })?;
        return Tensor::new(shape, &values).map_err(|error| refused(&error));
    }
    let repeats = elements.checked_sub(listed.len()).ok_or_else(|| wrong(listed.len()))?;
    let left = repeats_left.get().checked_sub(repeats).ok_or_else(|| {
        NodeProblem::unsupported(format!(
            "the graph's constants repeat more than {MOST_REPEATED} values in all; let a `Fill` \
             make the large ones"
        ))
    })?;
    repeats_left.set(left);
    let expanded = within_memory(|| match listed.last() {
        Some(last) => {
            let mut tensor = Tensor::full(shape, *last);
            tensor.make_mut::<T>()[..listed.len()].copy_from_slice(listed);
            tensor
        }
        None => Tensor::zeros(T::DTYPE, shape),
    });
    expanded.map_err(|error| refused(&error.into()))
}
