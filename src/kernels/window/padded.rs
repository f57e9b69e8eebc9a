//! Parts of an image with the zeros around it.

use crate::tensor::Tensor;

use super::scratch;

/// Images of one size, row by row, each element `depth` channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Images {
    pub(super) extent: [usize; 2],
    pub(super) depth: usize,
}

impl Images {
    /// The number of values of an image.
    pub(super) fn len(&self) -> usize {
        self.extent[0] * self.row()
    }

    /// The number of values of a row of an image.
    pub(super) fn row(&self) -> usize {
        self.extent[1] * self.depth
    }
}

/// The columns that parts of an image have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// The image's column that is the part's first; negative if that is before the image's edge.
    pub(super) first: isize,
    pub(super) count: usize,
}

impl Columns {
    /// At least `count` columns from `first`: the image's own if they suffice, so that nothing is
    /// copied.
    pub(super) fn at_least(count: usize, first: isize, images: &Images) -> Self {
        let fits = first == 0 && count <= images.extent[1];
        Self { first, count: if fits { images.extent[1] } else { count } }
    }
}

/// A part of an image: the image itself, or a copy with zeros around.
pub(super) enum ImageRows<'a> {
    Own(&'a [f32]),
    Copy(Tensor),
}

impl<'a> ImageRows<'a> {
    /// `rows` rows of `image`, of which `first` is the first and may be before its edge.
    pub(super) fn of(
        image: &'a [f32],
        images: &Images,
        first: isize,
        rows: usize,
        columns: Columns,
    ) -> Self {
        let row = images.row();
        let is_within = usize::try_from(first).is_ok_and(|first| first + rows <= images.extent[0]);
        if is_within && columns.first == 0 && columns.count == images.extent[1] {
            return Self::Own(&image[first as usize * row..][..rows * row]);
        }
        let width = columns.count * images.depth;
        let mut copy = scratch(rows * width);
        for (y, to) in (first..).zip(copy.make_mut::<f32>().chunks_exact_mut(width.max(1))) {
            match usize::try_from(y).ok().filter(|y| *y < images.extent[0]) {
                Some(y) => {
                    copy_row(&image[y * row..][..row], to, columns.first * images.depth as isize)
                }
                None => to.fill(0.0),
            }
        }
        Self::Copy(copy)
    }

    pub(super) fn values(&self) -> &[f32] {
        match self {
            Self::Own(values) => values,
            Self::Copy(copy) => copy.slice(),
        }
    }
}

/// `to` becomes `from`, from `first` on; zeros where that is not in it.
fn copy_row(from: &[f32], to: &mut [f32], first: isize) {
    let before = first.min(0).unsigned_abs().min(to.len());
    let from = &from[first.max(0).unsigned_abs().min(from.len())..];
    let (zeros, to) = to.split_at_mut(before);
    zeros.fill(0.0);
    let (copied, rest) = to.split_at_mut(from.len().min(to.len()));
    copied.copy_from_slice(&from[..copied.len()]);
    rest.fill(0.0);
}
