//! Lists that get longer or shorter at their end.

use super::{Importer, Node, NodeProblem, Values, bound, dims, listed};
use crate::import::listed::{Listed, Traits};
use crate::import::value::Value;
use crate::operations::List;

/// `(list, element)`: the list with one more element, which may be a list or an optional.
pub(super) fn push(importer: &mut Importer<'_>, node: &Node<'_>) -> Result<Value, NodeProblem> {
    let (list, new) = (node.value(0)?, node.value(1)?);
    if let Some(Listed::Open(_)) = &new.list {
        // Another round knows its elements.
        return Ok(Value { list: Some(Listed::Nothing), ..Value::default() });
    }
    pushed(importer, node, list, new)
}

/// A list with one more element.
fn pushed(
    importer: &Importer<'_>,
    node: &Node<'_>,
    list: &Value,
    new: &Value,
) -> Result<Value, NodeProblem> {
    if let Some(Listed::Either(parts)) = &new.list {
        let [first, second] = list.parts();
        let first = pushed(importer, node, &first, &parts[0])?;
        return Ok(Value::either([first, pushed(importer, node, &second, &parts[1])?]));
    }
    let depth = match &new.list {
        Some(Listed::Bound(traits)) => traits.depth + 1,
        _ => 0,
    };
    let new = importer.value(node, new)?;
    let kind = new.tensor_type();
    let like = (Some(kind.dtype), kind.shape.dims());
    let (list, traits) = bound(importer, node, list, like)?;
    let or_nothing = node.def.is_variant("element_dtype");
    let list = importer.helper(node, "list", List::Push { or_nothing }, &[&list, &new])?;
    Ok(listed(list.into(), Traits { depth, ..traits }))
}

/// `(list)`: the list without its last element, and that.
pub(super) fn pop(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (list, element) = popped(importer, node, node.value(0)?)?;
    Ok(vec![list, element])
}

fn popped(
    importer: &Importer<'_>,
    node: &Node<'_>,
    list: &Value,
) -> Result<(Value, Value), NodeProblem> {
    if let Some(Listed::Either(parts)) = &list.list {
        let (first, of_first) = popped(importer, node, &parts[0])?;
        let (second, of_second) = popped(importer, node, &parts[1])?;
        return Ok((Value::either([first, second]), Value::either([of_first, of_second])));
    }
    let told = dims(node, 1).unwrap_or_default();
    let (list, traits) = bound(importer, node, list, (None, &told))?;
    let rest = importer.helper(node, "list", List::Pop, &[&list])?;
    let element = Value { list: traits.of_element(), ..rest.sibling(1).into() };
    Ok((listed(rest.into(), traits), element))
}
