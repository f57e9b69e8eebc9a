//! The elements of an operand that an operation selects, by its attributes and the operand's shape.

use smallvec::SmallVec;

use crate::graph::Subscript;
use crate::kernels::pad::Padded;
use crate::kernels::strided::{Axis, View, dense};
use crate::tensor::Shape;

/// The numbers of elements before and after those that the subscripts take; `None` if they skip
/// elements in between.
pub(super) fn around(subscripts: &[Subscript], dims: &[usize]) -> Option<SmallVec<[Padded; 6]>> {
    let own = subscripts.iter().filter(|subscript| **subscript != Subscript::NewAxis);
    let along = |(dim, subscript): (&usize, Subscript)| {
        let positions = subscript.positions(*dim)?;
        let (first, count) = (positions.first, positions.count);
        (positions.stride == 1 || count == 1).then(|| Padded {
            before: first,
            len: count,
            after: dim - first - count,
        })
    };
    dims.iter().zip(own.copied().chain(std::iter::repeat(Subscript::ALL))).map(along).collect()
}

/// The first element that the subscripts take of a value with these axes, and the axes of what they
/// take.
pub(super) fn taken(subscripts: &[Subscript], axes: &[Axis]) -> (isize, SmallVec<[Axis; 6]>) {
    let (mut first, mut taken, mut left) = (0, SmallVec::new(), axes.iter());
    for subscript in subscripts {
        let axis = if *subscript == Subscript::NewAxis { None } else { left.next() };
        let Axis { len, step } = axis.copied().unwrap_or(Axis { len: 1, step: 0 });
        let positions = subscript
            .positions(len)
            .expect("shape inference lets no position outside an axis through");
        first += positions.first as isize * step;
        if !matches!(subscript, Subscript::At(_)) {
            taken.push(Axis { len: positions.count, step: positions.stride * step });
        }
    }
    taken.extend(left.copied());
    (first, taken)
}

/// A value of `dims` repeated along each axis.
pub(super) fn tiles(dims: &[usize], multiples: &[usize]) -> View {
    let pair = |(axis, times): (Axis, &usize)| [Axis { len: *times, step: 0 }, axis];
    View::new(0, dense(dims).into_iter().zip(multiples).flat_map(pair))
}

/// A value of `dims` repeated to fill `filled`.
pub(super) fn repeated(dims: &[usize], filled: &[usize]) -> View {
    let (new, own) = filled.split_at(filled.len() - dims.len());
    let outside = new.iter().map(|len| Axis { len: *len, step: 0 });
    let along = |(axis, len): (Axis, &usize)| {
        if axis.len == *len { axis } else { Axis { len: *len, step: 0 } }
    };
    View::new(0, outside.chain(dense(dims).into_iter().zip(own).map(along)))
}

pub(super) fn padded(dims: &[usize], paddings: &[(usize, usize)]) -> SmallVec<[Padded; 6]> {
    let axis = |(len, (before, after)): (&usize, &(usize, usize))| Padded {
        before: *before,
        len: *len,
        after: *after,
    };
    dims.iter().zip(paddings).map(axis).collect()
}

pub(super) fn padded_shape(axes: &[Padded]) -> Shape {
    Shape::new(
        &axes
            .iter()
            .map(|axis| axis.before + axis.len + axis.after)
            .collect::<SmallVec<[usize; 6]>>(),
    )
}
