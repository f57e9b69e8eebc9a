//! Lists: TensorFlow's TensorArrays, lists of tensors and stacks.

mod combined;
mod ends;
mod open;

use std::rc::Rc;

use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::graph::{Op, Output};
use crate::import::known::{Element, Known};
use crate::import::listed::{Dims, Listed, OpenList, Traits};
use crate::import::value::Value;
use crate::operations::{Array, Indexed, List};
use crate::tensor::{DType, PartialShape};
use combined::zeros_of;
pub(super) use combined::{handed_on, is_zero};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "TensorArrayV3" => Box::new(tensor_array),
        "TensorArrayGradV3" => Box::new(gradient),
        "TensorArrayWriteV3" => Box::new(|i, node| set(i, node, [3, 1, 2])),
        "TensorArrayScatterV3" => Box::new(|i, node| set(i, node, [3, 1, 2])),
        "TensorListSetItem" => Box::new(|i, node| set(i, node, [0, 1, 2])),
        "TensorListScatterIntoExistingList" => Box::new(|i, node| set(i, node, [0, 2, 1])),
        "TensorArrayReadV3" => Box::new(|i, node| get(i, node, 2, 1, None)),
        "TensorArrayGatherV3" => Box::new(|i, node| get(i, node, 2, 1, None)),
        "TensorListGetItem" => Box::new(|i, node| get(i, node, 0, 1, Some(2))),
        "TensorListGather" => Box::new(|i, node| get(i, node, 0, 1, Some(2))),
        "TensorArraySizeV3" => Box::new(|_, node| length(node, 1)),
        "TensorListLength" => Box::new(|_, node| length(node, 0)),
        "TensorListElementShape" => Box::new(element_shape),
        "TensorArrayConcatV3" => Box::new(concat),
        "TensorArrayCloseV3" => Box::new(|importer, node| importer.emit(node, Op::NoOp, &[])),
        "TensorListReserve" => Box::new(|importer, node| {
            let size = size(importer, node, 1)?;
            Ok(vec![open(node, dims(node, 0), Some(size), Traits::default())?])
        }),
        "EmptyTensorList" => Box::new(|_, node| {
            let traits = Traits { grows: true, ..Traits::default() };
            Ok(vec![open(node, dims(node, 0), Some(known_size(0)), traits)?])
        }),
        "StackV2" => Box::new(|_, node| {
            node.def.text("stack_name")?;
            let traits = Traits { grows: true, ..Traits::default() };
            Ok(vec![open(node, None, Some(known_size(0)), traits)?])
        }),
        "TensorListFromTensor" => Box::new(|importer, node| whole(importer, node, 0)),
        "TensorListStack" => Box::new(stack),
        "TensorListResize" => Box::new(resize),
        "StackPushV2" => Box::new(|importer, node| {
            let list = ends::push(importer, node)?;
            Ok(vec![node.value(1)?.clone(), list])
        }),
        "TensorListPushBack" => Box::new(|importer, node| Ok(vec![ends::push(importer, node)?])),
        "StackPopV2" => Box::new(|importer, node| {
            let mut both = ends::pop(importer, node)?;
            both.swap(0, 1);
            Ok(both)
        }),
        "TensorListPopBack" => Box::new(ends::pop),
        _ => return None,
    })
}

fn known_size(size: usize) -> Known {
    Known::scalar(DType::I32, Element::Known(size as i64))
}

/// The number of elements that input `i` says, which only a step may know.
fn size(importer: &Importer<'_>, node: &Node<'_>, i: usize) -> Result<Known, NodeProblem> {
    match node.known(i) {
        Ok(known) if !known.has_unknown() => Ok(known.clone()),
        _ => Ok(Known::scalar(DType::I32, Element::Value(importer.input(node, i)?))),
    }
}

/// The sizes that input `i` says; `None` where it does not even say how many there are.
fn dims(node: &Node<'_>, i: usize) -> Option<Dims> {
    let known = node.known(i).ok().filter(|known| known.dims.len() == 1)?;
    let size = |element: &Element| element.known().and_then(|dim| usize::try_from(dim).ok());
    Some(known.elements.iter().map(size).collect())
}

/// A list without a value.
fn open(
    node: &Node<'_>,
    dims: Option<Dims>,
    size: Option<Known>,
    traits: Traits,
) -> Result<Value, NodeProblem> {
    let names = ["element_dtype", "elem_type", "dtype"];
    let dtype = if names.iter().any(|name| node.def.is_variant(name)) {
        None
    } else {
        let mut dtypes = names.iter().map(|name| node.def.optional_dtype(name));
        Some(dtypes.find_map(Result::transpose).transpose()?.unwrap_or(DType::F32))
    };
    let name = node.def.name.clone();
    let list = OpenList { name, dtype, size, dims, traits };
    Ok(Value { list: Some(Listed::Open(Rc::new(list))), ..Value::default() })
}

fn handle(is_gradient: bool) -> Value {
    Value { list: Some(Listed::Handle { is_gradient }), ..Value::default() }
}

/// `(size)`: a handle, and the elements.
fn tensor_array(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    for hint in ["clear_after_read", "identical_element_shapes"] {
        node.def.flag(hint)?;
    }
    node.def.text("tensor_array_name")?;
    let dims = node.def.shape("element_shape").ok().map(|shape| shape.dims().to_vec());
    let traits = Traits { grows: node.def.flag("dynamic_size")?, ..Traits::default() };
    let elements = open(node, dims, Some(size(importer, node, 0)?), traits)?;
    Ok(vec![handle(false), elements])
}

/// `(handle, elements)`: the handle and the elements of the gradient: zeros until something is
/// added to it.
fn gradient(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    node.def.text("source")?;
    let elements = node.value(1)?;
    let zeros = match &elements.list {
        Some(Listed::Bound(Traits { is_gradient: true, .. })) => elements.clone(),
        Some(Listed::Bound(traits)) => {
            let zeros = importer.emit(node, Array::ZerosLike, &[importer.input(node, 1)?])?;
            let traits = Traits { is_gradient: true, ..*traits };
            let bound = |value| Value { list: Some(Listed::Bound(traits)), ..value };
            zeros.into_iter().map(bound).next().ok_or(NodeProblem::NoInput(1))?
        }
        Some(Listed::Open(list)) => zeros_of(list),
        _ => return Err(no_list(1)),
    };
    Ok(vec![handle(true), zeros])
}

fn no_list(input: usize) -> NodeProblem {
    NodeProblem::unsupported(format!("its input {input} must be a list that was made here"))
}

/// Whether the node's first input names the gradient of a TensorArray.
fn is_of_gradient(node: &Node<'_>) -> bool {
    let named = node.inputs.first().and_then(|handle| handle.list.as_ref());
    matches!(named, Some(Listed::Handle { is_gradient: true }))
}

/// The list that `value` is, an input of the node, with elements of this type and these sizes as
/// far as they are known.
fn bound(
    importer: &Importer<'_>,
    node: &Node<'_>,
    value: &Value,
    (dtype, element): (Option<DType>, &[Option<usize>]),
) -> Result<(Output, Traits), NodeProblem> {
    let is_gradient = is_of_gradient(node);
    let with = |traits: Traits| Traits { is_gradient: traits.is_gradient || is_gradient, ..traits };
    match &value.list {
        Some(Listed::Open(list)) => {
            Ok((importer.bind(node, list, (dtype, element))?, with(list.traits)))
        }
        Some(Listed::Bound(traits)) if is_gradient && !traits.is_gradient => {
            let elements = importer.value(node, value)?;
            Ok((importer.helper(node, "zeros", Array::ZerosLike, &[&elements])?, with(*traits)))
        }
        Some(Listed::Bound(traits)) => Ok((importer.value(node, value)?, *traits)),
        _ => Ok((importer.value(node, value)?, Traits::default())),
    }
}

fn listed(value: Value, traits: Traits) -> Value {
    Value { list: Some(Listed::Bound(traits)), ..value }
}

/// The list, the index or indices and the elements are at these inputs.
fn set(importer: &mut Importer<'_>, node: &Node<'_>, [list, at, new]: [usize; 3]) -> Values {
    let grows_here = node.def.flag("resize_if_index_out_of_bounds")?;
    let (at_output, new_output) = (importer.input(node, at)?, importer.input(node, new)?);
    let kind = new_output.tensor_type().shape;
    let element = match at_output.tensor_type().shape.rank() {
        0 => kind.dims(),
        _ => kind.dims().get(1..).unwrap_or_default(),
    };
    if let Some(Listed::Open(open)) = &node.value(list)?.list
        && is_all(node, at, kind.dims().first().copied().flatten())
        && open.count().is_some_and(|count| Some(count) == kind.dims()[0])
    {
        return whole(importer, node, new);
    }
    let like = (Some(new_output.tensor_type().dtype), element);
    let (list, traits) = bound(importer, node, node.value(list)?, like)?;
    let grows = traits.grows || grows_here;
    let values = importer.emit(node, List::Set { grows }, &[list, at_output, new_output])?;
    Ok(values.into_iter().map(|value| listed(value, traits)).collect())
}

/// Whether input `i` is the vector of all indices of a list of `count` elements.
fn is_all(node: &Node<'_>, i: usize, count: Option<usize>) -> bool {
    let indices = node.known(i).ok().filter(|known| known.dims.len() == 1);
    indices
        .and_then(Known::ints)
        .zip(count)
        .is_some_and(|(ints, count)| ints.iter().copied().eq(0..count as i64))
}

/// Input `i` as a list.
fn whole(importer: &mut Importer<'_>, node: &Node<'_>, i: usize) -> Values {
    let x = importer.input(node, i)?;
    let values = importer.emit(node, Op::Identity, &[x])?;
    let traits = Traits { is_gradient: is_of_gradient(node), ..Traits::default() };
    Ok(values.into_iter().map(|value| listed(value, traits)).collect())
}

/// The list and the index or indices are at these inputs; the sizes of an element, for a list that
/// nothing has been set in, at the third.
fn get(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    list: usize,
    at: usize,
    sizes: Option<usize>,
) -> Values {
    let told = sizes.and_then(|i| dims(node, i));
    let told = told.or_else(|| Some(node.def.shape("element_shape").ok()?.dims().to_vec()));
    let (list, _) = bound(importer, node, node.value(list)?, (None, &told.unwrap_or_default()))?;
    let at_output = importer.input(node, at)?;
    if is_all(node, at, list.tensor_type().shape.dims().first().copied().flatten()) {
        return importer.emit(node, Op::Identity, &[list]);
    }
    importer.emit(node, Indexed::Gather { axis: 0, batch: 0 }, &[list, at_output])
}

/// The number of elements of the list at input `i`.
fn length(node: &Node<'_>, i: usize) -> Values {
    let value = node.value(i)?;
    if let Some(Listed::Open(list)) = &value.list {
        return Ok(vec![list.size.clone().map(Value::from).ok_or_else(|| no_list(i))?]);
    }
    let list = value.output.as_ref().ok_or_else(|| no_list(i))?;
    let shape = Known::shape_of(list, DType::I32);
    let first = shape.elements.first().cloned().ok_or_else(|| no_list(i))?;
    Ok(vec![Known::scalar(DType::I32, first).into()])
}

/// The shape of the elements of the list; the scalar −1 where even their rank is not known.
fn element_shape(_: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let dtype = node.def.optional_dtype("shape_type")?.unwrap_or(DType::I32);
    let value = node.value(0)?;
    let element = |dim: &Option<usize>| Element::Known(dim.map_or(-1, |dim| dim as i64));
    Ok(vec![match (&value.list, &value.output) {
        (Some(Listed::Open(list)), _) => match &list.dims {
            Some(dims) => Known::vector(dtype, dims.iter().map(element).collect()).into(),
            None => Known::scalar(dtype, Element::Known(-1)).into(),
        },
        (_, Some(list)) => {
            let shape = Known::shape_of(list, dtype);
            Known::vector(dtype, shape.elements.into_iter().skip(1).collect()).into()
        }
        _ => return Err(no_list(0)),
    }])
}

/// `(list, size)`: a list without a value gets so many elements.
fn resize(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let value = node.value(0)?;
    if let Some(Listed::Open(list)) = &value.list {
        let size = Some(size(importer, node, 1)?);
        let list = OpenList { size, ..list.as_ref().clone() };
        return Ok(vec![Value { list: Some(Listed::Open(Rc::new(list))), ..Value::default() }]);
    }
    let (list, traits) = bound(importer, node, value, (None, &[]))?;
    let values = importer.emit(node, List::Resize, &[list, importer.input(node, 1)?])?;
    Ok(values.into_iter().map(|value| listed(value, traits)).collect())
}

/// `(list, sizes)`: the elements as one value.
fn stack(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    node.def.int("num_elements", -1)?;
    let told = dims(node, 1).unwrap_or_default();
    let (list, _) = bound(importer, node, node.value(0)?, (None, &told))?;
    importer.emit(node, Op::Identity, &[list])
}

/// `(handle, elements)`: the elements one after the other, and the length of each, which nothing
/// here uses.
fn concat(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let told = node.def.shape("element_shape_except0").ok().map(|shape| shape.dims().to_vec());
    let told = told.map(|rest| [vec![None], rest].concat());
    let (list, _) = bound(importer, node, node.value(1)?, (None, &told.unwrap_or_default()))?;
    let shape = list.tensor_type().shape;
    let [count, each, rest @ ..] = shape.dims() else {
        return Err(NodeProblem::unsupported("its elements are scalars"));
    };
    let first = count.zip(*each).map(|(count, each)| count * each);
    let dims: Dims = std::iter::once(first).chain(rest.iter().copied()).collect();
    if dims.iter().filter(|dim| dim.is_none()).count() > 1 {
        return Err(NodeProblem::unsupported("the sizes of its elements must be known"));
    }
    let mut values = importer.emit(node, Array::Reshape(PartialShape::new(&dims)), &[list])?;
    values.push(Value::default());
    Ok(values)
}
