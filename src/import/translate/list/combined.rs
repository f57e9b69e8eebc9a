//! Lists that are handed on, added or chosen.

use std::rc::Rc;

use super::{Importer, Node, NodeProblem, listed, no_list};
use crate::graph::Op;
use crate::import::listed::{Listed, OpenList, Traits};
use crate::import::translate::condition;
use crate::import::value::Value;
use crate::operations::{Array, List};
use crate::tensor::{Shape, Tensor};

/// The gradient of a list without a value, to which nothing has been added.
pub(super) fn zeros_of(list: &OpenList) -> Value {
    let OpenList { name, dtype, size, dims, traits } = list;
    let list = OpenList {
        name: name.clone(),
        dtype: *dtype,
        size: size.clone(),
        dims: dims.clone(),
        traits: Traits { is_gradient: true, ..*traits },
    };
    Value { list: Some(Listed::Open(Rc::new(list))), ..Value::default() }
}

/// The optional with zeros for each of the values that it may have.
fn zeros_of_optional(
    importer: &Importer<'_>,
    node: &Node<'_>,
    optional: &Value,
) -> Result<Value, NodeProblem> {
    match &optional.list {
        Some(Listed::Either(parts)) => {
            let part = |i: usize| zeros_of_optional(importer, node, &parts[i]);
            Ok(Value::either([part(0)?, part(1)?]))
        }
        Some(Listed::Open(list)) => Ok(zeros_of(list)),
        _ if optional.is_static() => Ok(optional.clone()),
        list => {
            let x = importer.value(node, optional)?;
            let zeros = importer.helper(node, "zeros", Array::ZerosLike, &[&x])?;
            Ok(Value { list: list.clone(), ..zeros.into() })
        }
    }
}

/// The lists that a node makes of its lists by handing on, adding or choosing; `None` if it has
/// none.
pub(in crate::import::translate) fn handed_on(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
) -> Result<Option<Vec<Value>>, NodeProblem> {
    if node.inputs.iter().all(|input| input.list.is_none()) {
        return Ok(None);
    }
    match node.def.op.as_str() {
        "Identity" | "RefIdentity" | "StopGradient" | "PreventGradient" => {
            let value = node.value(0)?;
            if value.output.is_none() {
                return Ok(Some(vec![value.clone()]));
            }
            let values = importer.emit(node, Op::Identity, &[importer.input(node, 0)?])?;
            let with = |new| Value { list: value.list.clone(), ..new };
            Ok(Some(values.into_iter().map(with).collect()))
        }
        "Merge" | "RefMerge" => merged(importer, node),
        "ZerosLike" => match &node.value(0)?.list {
            Some(Listed::Open(list)) => Ok(Some(vec![zeros_of(list)])),
            Some(Listed::Bound(traits)) => {
                let traits = Traits { is_gradient: true, ..*traits };
                let zeros = importer.emit(node, Array::ZerosLike, &[importer.input(node, 0)?])?;
                Ok(Some(zeros.into_iter().map(|value| listed(value, traits)).collect()))
            }
            Some(Listed::Either(_) | Listed::Nothing) => {
                Ok(Some(vec![zeros_of_optional(importer, node, node.value(0)?)?]))
            }
            _ => Ok(None),
        },
        "Add" | "AddV2" | "AddN" => sum(importer, node),
        _ => Ok(None),
    }
}

/// Whether the value is a 0 where lists are added.
pub(in crate::import::translate) fn is_zero(value: &Value) -> bool {
    let is_zero = |x: &Tensor| x.shape() == Shape::SCALAR && x.item::<f32>() == Ok(0.0);
    matches!(value.list, Some(Listed::Zero)) || value.constant.as_ref().is_some_and(is_zero)
}

/// Lists of which some may be 0, or have no elements.
fn sum(importer: &mut Importer<'_>, node: &Node<'_>) -> Result<Option<Vec<Value>>, NodeProblem> {
    let is_list = |value: &Value| matches!(value.list, Some(Listed::Bound(_) | Listed::Open(_)));
    if !node.inputs.iter().any(is_list) {
        return Ok(None);
    }
    let mut filled = Vec::new();
    let (mut traits, mut open) = (Traits::default(), None);
    for (i, value) in node.inputs.iter().enumerate() {
        match &value.list {
            Some(Listed::Bound(own)) => {
                traits = *own;
                filled.push(importer.input(node, i)?);
            }
            Some(Listed::Open(_)) => open = Some(value.clone()),
            _ if is_zero(value) => {}
            _ => return Err(no_list(i)),
        }
    }
    if let (true, Some(open)) = (filled.is_empty(), open) {
        return Ok(Some(vec![open]));
    }
    let values = importer.emit(node, List::Sum, &filled)?;
    Ok(Some(values.into_iter().map(|value| listed(value, traits)).collect()))
}

/// The list of one of two branches.
fn merged(importer: &mut Importer<'_>, node: &Node<'_>) -> Result<Option<Vec<Value>>, NodeProblem> {
    let mut inputs = node.inputs.clone();
    let filled = inputs.iter().find(|value| matches!(value.list, Some(Listed::Bound(_))));
    let Some(filled) = filled.cloned() else {
        let first = inputs.swap_remove(0);
        return Ok(first.output.is_none().then(|| vec![first, Value::default()]));
    };
    let kind = filled.output.as_ref().map(|list| list.tensor_type().shape);
    let dtype = filled.output.as_ref().map(|list| list.tensor_type().dtype);
    for value in &mut inputs {
        if let (Some(Listed::Open(list)), Some(kind)) = (value.list.clone(), &kind) {
            let like = (dtype, kind.dims().get(1..).unwrap_or_default());
            let output = importer.bind(node, &list, like)?;
            *value = Value { branches: value.branches.clone(), ..Value::from(output) };
        }
    }
    let own = Node { def: node.def, inputs, ..node.with_controls(node.controls.clone()) };
    let mut values = condition::merge(importer, &own)?;
    if let Some(first) = values.first_mut() {
        first.list.clone_from(&filled.list);
    }
    Ok(Some(values))
}
