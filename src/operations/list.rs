//! Lists: values whose first axis counts their elements, as loops fill and empty them.

use smallvec::smallvec;

use super::{Array, Broadcast, Indexed};
use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, Known, OpDef,
    Output, OutputTypes, Outputs, Subscript, TensorType, bytes,
};
use crate::kernels::indexed::positions;
use crate::kernels::{by_word, filled_in};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

/// The most elements of a list that grows.
const MOST: usize = 1 << 32;

/// A change of a list. The shape of the elements of a list without values, such as \[4, 0\], is
/// open: it counts as zeros of whatever shape its first element has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// `(list, index, element)` or `(list, indices, elements)`: the list with these elements
    /// (TensorFlow `TensorListSetItem`, `TensorArrayWriteV3`, `TensorArrayScatterV3`).
    Set {
        /// Whether an index past the end makes the list longer.
        grows: bool,
    },
    /// `(gradient, index, list)`: the gradient by a list of that of the list with other elements at
    /// the index or indices.
    SetGrad,
    /// `(list, element)`: the list with one more element (TensorFlow `TensorListPushBack`,
    /// `StackPushV2`).
    Push {
        /// Whether an element without values stands for one that is never used: zeros of the shape
        /// of the others.
        or_nothing: bool,
    },
    /// `(list)`: the list without its last element, and that (TensorFlow `TensorListPopBack`,
    /// `StackPopV2`).
    Pop,
    /// `(lists…)`: their sum, element by element.
    Sum,
    /// `(list, count)`: the first `count` elements, and zeros after the last (TensorFlow
    /// `TensorListResize`).
    Resize,
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    let push = List::Push { or_nothing: false };
    [List::Set { grows: false }, List::SetGrad, push, List::Pop, List::Sum, List::Resize]
        .map(Defined::from)
        .into()
}

/// The size along an axis of a list, given that of the list before and that of its new element:
/// `None` if they contradict each other.
fn merged(list: Option<usize>, element: Option<usize>, is_empty: bool) -> Option<Option<usize>> {
    match (list, element) {
        (Some(a), Some(b)) if a != b && !is_empty => None,
        (a, b) => Some(b.or(a)),
    }
}

/// The type of a list of `count` elements, given its type before and the type of an element.
fn with_element(
    list: &TensorType,
    count: Option<usize>,
    element: &[Option<usize>],
) -> Option<TensorType> {
    let [_, axes @ ..] = list.shape.dims() else { return None };
    if axes.len() != element.len() {
        return None;
    }
    let is_empty = list.shape.dims().contains(&Some(0));
    let mut dims = vec![count];
    for (list, element) in axes.iter().zip(element) {
        dims.push(merged(*list, *element, is_empty)?);
    }
    Some(TensorType::new(list.dtype, PartialShape::checked(&dims)?))
}

impl List {
    fn result(self, inputs: &[TensorType]) -> Option<OutputTypes> {
        let first = inputs.first()?;
        let count = *first.shape.dims().first()?;
        let is_alike = |x: &TensorType| x.dtype == first.dtype;
        match (self, inputs) {
            (Self::Set { grows }, [list, at, new]) if is_alike(new) => {
                let element = match at.shape.rank() {
                    0 => new.shape.dims(),
                    1 => new.shape.dims().get(1..)?,
                    _ => return None,
                };
                let all = with_element(list, count.filter(|_| !grows), element)?;
                at.dtype.is_integer().then(|| smallvec![all])
            }
            (Self::SetGrad, [dy, at, list]) if at.dtype.is_integer() && dy.dtype == list.dtype => {
                let [count, ..] = list.shape.dims() else { return None };
                let [_, element @ ..] = dy.shape.dims() else { return None };
                Some(smallvec![with_element(list, *count, element)?])
            }
            (Self::Push { or_nothing }, [list, new]) if is_alike(new) => {
                let more = count.map(|count| count + 1);
                let (axes, element) = (list.shape.dims().get(1..)?, new.shape.dims());
                let is_nothing = or_nothing && element.contains(&Some(0));
                let element =
                    if is_nothing && axes.len() == element.len() { axes } else { element };
                Some(smallvec![with_element(list, more, element)?])
            }
            (Self::Pop, [list]) => {
                let [_, axes @ ..] = list.shape.dims() else { return None };
                let rest = with_element(list, count.map(|count| count.saturating_sub(1)), axes)?;
                let element = TensorType::new(list.dtype, PartialShape::new(axes));
                Some(smallvec![rest, element])
            }
            (Self::Resize, [list, count])
                if count.dtype == DType::I32 && count.shape.rank() == 0 =>
            {
                let [_, axes @ ..] = list.shape.dims() else { return None };
                Some(smallvec![with_element(list, None, axes)?])
            }
            (Self::Sum, [first, others @ ..])
                if first.dtype.is_number() && others.iter().all(is_alike) =>
            {
                let mut sum = *first;
                for list in others {
                    let is_empty = |x: &TensorType| x.shape.dims().contains(&Some(0));
                    let open = is_empty(&sum) || is_empty(list);
                    let fits = sum.shape.rank() == list.shape.rank();
                    let both = sum.shape.dims().iter().zip(list.shape.dims());
                    // Of two sizes the greater: 0 stands for one that is not known yet.
                    let dims: Option<Vec<Option<usize>>> = both
                        .map(|(a, b)| match (a, b) {
                            (Some(a), Some(b)) if a != b && !open => None,
                            (Some(a), Some(b)) => Some(Some(*a.max(b))),
                            (a, b) => Some(a.or(*b)),
                        })
                        .collect();
                    let dims = dims.filter(|_| fits)?;
                    sum = TensorType::new(sum.dtype, PartialShape::checked(&dims)?);
                }
                Some(smallvec![sum])
            }
            _ => None,
        }
    }

    fn needs(self) -> &'static str {
        match self {
            Self::Set { .. } => "a list, an index or a vector of indices, and elements that fit",
            Self::SetGrad => "a gradient, an index or a vector of indices, and a list",
            Self::Push { .. } => "a list and an element that fits",
            Self::Pop => "a list",
            Self::Sum => "lists of numbers whose elements have one shape",
            Self::Resize => "a list and an i32 scalar",
        }
    }
}

impl OpDef for List {
    fn kind(&self) -> &'static str {
        match self {
            Self::Set { .. } => "ListSet",
            Self::SetGrad => "ListSetGrad",
            Self::Push { .. } => "ListPush",
            Self::Pop => "ListPop",
            Self::Sum => "ListSum",
            Self::Resize => "ListResize",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        match self {
            Self::Set { grows } => Self::Set { grows: given.flag("grows", *grows) }.into(),
            Self::Push { or_nothing } => {
                Self::Push { or_nothing: given.flag("or_nothing", *or_nothing) }.into()
            }
            other => (*other).into(),
        }
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        self.result(inputs).ok_or_else(|| GraphProblem::needs(self.needs(), inputs))
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        match self {
            Self::Set { .. } => {
                let (list, at, dy) = (of.input(0), of.input(1), of.only_arrived()?);
                let by_list = || dy.with(&[&at, &list], Self::SetGrad);
                let by_new = || dy.with(&[&at], Indexed::Gather { axis: 0, batch: 0 });
                Ok(vec![of.for_input(0, by_list)?, None, of.for_input(2, by_new)?])
            }
            Self::SetGrad => Err(of.no_gradient()),
            Self::Push { .. } => {
                let both = of.only_arrived()?.with(&[], Self::Pop)?;
                let element = both.sibling(1);
                Ok(vec![of.for_input(0, || Ok(both))?, of.for_input(1, || Ok(element))?])
            }
            Self::Pop => {
                let or_zeros = |i| of.arrived(i).unwrap_or_else(|| of.output(i).zeros_like());
                let push = Self::Push { or_nothing: false };
                Ok(vec![Some(or_zeros(0).with(&[&or_zeros(1)], push)?)])
            }
            Self::Sum => {
                let dy = of.only_arrived()?;
                (0..of.inputs()).map(|i| of.for_input(i, || Ok(dy.clone()))).collect()
            }
            Self::Resize => {
                let count = of.input(0).map(Array::Shape(DType::I32));
                let count = count.map(Array::StridedSlice(vec![Subscript::At(0)]));
                let dy = of.only_arrived()?;
                Ok(vec![of.for_input(0, || dy.with(&[&count], Self::Resize))?, None])
            }
        }
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        match outputs {
            // An index or a count decides how long the list is.
            [] => Cost::moved(2 * bytes(inputs)).unbounded(),
            _ => Cost::moved(2 * bytes(outputs)),
        }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        match (self, inputs) {
            (Self::Set { grows }, [list, at, new]) => set(list, at, new, *grows),
            (Self::SetGrad, [dy, at, list]) => Ok(smallvec![unset(dy, at, list)?]),
            (Self::Push { or_nothing }, [list, new]) => {
                let count = list.shape().dims()[0];
                let is_nothing = *or_nothing && new.shape().elements() == 0;
                if is_nothing && list.shape().elements() > 0 {
                    return Ok(smallvec![resized(list, count + 1)]);
                }
                Ok(smallvec![placed(list, &[count], new, count + 1)?])
            }
            (Self::Resize, [list, count]) => {
                let count = usize::try_from(count.slice::<i32>()[0]);
                let count = count.map_err(|_| ComputeError::new("a list of fewer than 0 elements"));
                Ok(smallvec![resized(list, count?)])
            }
            (Self::Pop, [list]) => pop(list),
            (_, lists) => sum(lists),
        }
    }
}

/// The shape of a list of `count` elements of the shape `element`.
fn shape_of(count: usize, element: &[usize]) -> Shape {
    Shape::new(&[&[count], element].concat())
}

fn set(list: &Tensor, at: &Tensor, new: &Tensor, grows: bool) -> Result<Outputs, ComputeError> {
    let count = list.shape().dims()[0];
    let places = positions(at, if grows { MOST } else { count })?;
    let elements = if at.shape().rank() == 0 { 1 } else { new.shape().dims()[0] };
    if elements != places.len() {
        let message = format!("{} indices for {elements} elements of a list", places.len());
        return Err(ComputeError::new(message));
    }
    let last = places.iter().max().map_or(0, |last| last + 1);
    Ok(smallvec![placed(list, &places, new, count.max(last))?])
}

/// The list, made `count` elements long, with the elements `new` at `places`.
fn placed(
    list: &Tensor,
    places: &[usize],
    new: &Tensor,
    count: usize,
) -> Result<Tensor, ComputeError> {
    let (old, given) = (list.shape(), new.shape());
    let element = match given.rank() + 1 == old.rank() {
        true => given.dims(),
        false => &given.dims()[1..],
    };
    let shape = shape_of(count, element);
    let is_open = old.elements() == 0;
    if !is_open && old.dims()[1..] != *element {
        let message = format!("an element of the shape {given} in a list of the shape {old}");
        return Err(ComputeError::new(message));
    }
    let size: usize = element.iter().product();
    Ok(by_word!(list.dtype(), W => {
        filled_in::<W>(list.dtype(), shape, |out: &mut [W]| {
            let before = if is_open { &[][..] } else { list.words::<W>() };
            out[..before.len()].copy_from_slice(before);
            out[before.len()..].fill(bytemuck::Zeroable::zeroed());
            let elements = new.words::<W>().chunks_exact(size.max(1));
            for (place, element) in places.iter().zip(elements) {
                out[place * size..(place + 1) * size].copy_from_slice(element);
            }
        })
    }))
}

/// The first elements of `dy`, as many as `list` has, with zeros at `at`.
fn unset(dy: &Tensor, at: &Tensor, list: &Tensor) -> Result<Tensor, ComputeError> {
    let (shape, count) = (dy.shape(), list.shape().dims()[0]);
    let places = positions(at, shape.dims()[0])?;
    let size: usize = shape.dims()[1..].iter().product();
    let result = shape_of(count, &shape.dims()[1..]);
    Ok(by_word!(dy.dtype(), W => {
        filled_in::<W>(dy.dtype(), result, |out: &mut [W]| {
            let first = &dy.words::<W>()[..out.len()];
            out.copy_from_slice(first);
            for place in places.iter().filter(|place| **place < count) {
                out[place * size..(place + 1) * size].fill(bytemuck::Zeroable::zeroed());
            }
        })
    }))
}

/// The first `count` elements of the list, and zeros after its last.
fn resized(list: &Tensor, count: usize) -> Tensor {
    let shape = shape_of(count, &list.shape().dims()[1..]);
    by_word!(list.dtype(), W => {
        filled_in::<W>(list.dtype(), shape, |out: &mut [W]| {
            let kept = &list.words::<W>()[..out.len().min(list.shape().elements())];
            out[..kept.len()].copy_from_slice(kept);
            out[kept.len()..].fill(bytemuck::Zeroable::zeroed());
        })
    })
}

fn pop(list: &Tensor) -> Result<Outputs, ComputeError> {
    let shape = list.shape();
    let (count, element) = (shape.dims()[0], &shape.dims()[1..]);
    if count == 0 {
        return Err(ComputeError::new("the last element of a list that has none"));
    }
    let size: usize = element.iter().product();
    let part = |shape: Shape, from: usize| {
        by_word!(list.dtype(), W => {
            filled_in::<W>(list.dtype(), shape, |out: &mut [W]| {
                out.copy_from_slice(&list.words::<W>()[from..from + out.len()]);
            })
        })
    };
    let rest = part(shape_of(count - 1, element), 0);
    Ok(smallvec![rest, part(Shape::new(element), (count - 1) * size)])
}

fn sum(lists: &[&Tensor]) -> Result<Outputs, ComputeError> {
    let filled: Vec<&Tensor> =
        lists.iter().copied().filter(|list| list.shape().elements() > 0).collect();
    match filled.as_slice() {
        [] => Ok(smallvec![lists[0].clone()]),
        [one] => Ok(smallvec![(*one).clone()]),
        several => Broadcast::AddN.compute(several),
    }
}
