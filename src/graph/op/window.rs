//! Attributes of windows that slide over the height and width of images
//! `[n, height, width, channels]` (NHWC).

use serde::{Deserialize, Serialize};

use super::Attributes;

/// How a window slides over an image. A [`Padding`] converts to one with strides and dilations of
/// 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sliding {
    /// The distances from place to place, down and to the right.
    pub strides: [usize; 2],
    /// The distances between its own elements, down and to the right; 1 for neighbours.
    pub dilations: [usize; 2],
    /// The padding beyond the image's edges.
    pub padding: Padding,
}

/// The number of positions beyond each edge of an image that a window may cover; they hold zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Padding {
    /// As many as it takes for one place a stride; an odd one is at the bottom and to the right.
    Same,
    /// None.
    Valid,
    /// These numbers: `[[top, bottom], [left, right]]`.
    Explicit([[usize; 2]; 2]),
}

impl From<Padding> for Sliding {
    fn from(padding: Padding) -> Self {
        Self { strides: [1, 1], dilations: [1, 1], padding }
    }
}

impl Sliding {
    /// The same with these strides.
    #[must_use]
    pub fn strides(self, strides: [usize; 2]) -> Self {
        Self { strides, ..self }
    }

    /// The same with these distances between the window's elements (TensorFlow: `dilations`, or
    /// "atrous").
    #[must_use]
    pub fn dilations(self, dilations: [usize; 2]) -> Self {
        Self { dilations, ..self }
    }

    /// Whether strides and dilations are at least 1.
    pub(crate) fn moves(&self) -> bool {
        self.strides.iter().chain(&self.dilations).all(|step| *step > 0)
    }

    /// The number of elements that a window of `size` spans along `axis`, 0 for height and 1 for
    /// width.
    pub(crate) fn span(&self, axis: usize, size: usize) -> usize {
        size.checked_sub(1)
            .map_or(0, |steps| steps.saturating_mul(self.dilations[axis]).saturating_add(1))
    }

    /// The number of places of a window of `size` along `axis` of an image that is `extent` long
    /// there; `None` if the window is larger than the padded image by more than a stride.
    pub(crate) fn places(&self, axis: usize, extent: usize, size: usize) -> Option<usize> {
        let stride = self.strides[axis];
        let padded = match self.padding {
            Padding::Same => return Some(extent.div_ceil(stride)),
            Padding::Valid => extent,
            Padding::Explicit(around) => {
                extent.saturating_add(around[axis][0]).saturating_add(around[axis][1])
            }
        };
        Some(padded.saturating_add(stride).checked_sub(self.span(axis, size))? / stride)
    }

    /// The distance of the first place before the image's edge along `axis`.
    pub(crate) fn before(&self, axis: usize, extent: usize, size: usize) -> usize {
        match self.padding {
            Padding::Same => {
                let last =
                    extent.div_ceil(self.strides[axis]).saturating_sub(1) * self.strides[axis];
                (last + self.span(axis, size)).saturating_sub(extent) / 2
            }
            Padding::Valid => 0,
            Padding::Explicit(around) => around[axis][0],
        }
    }
}

impl Sliding {
    /// The attributes of the strides, the dilations and the padding.
    pub(crate) fn attributes(self, given: &mut Attributes) -> Self {
        Self {
            strides: given.pair("strides", self.strides),
            dilations: given.pair("dilations", self.dilations),
            padding: given
                .as_ints("padding", self.padding.ints(), Padding::of_ints)
                .unwrap_or(self.padding),
        }
    }
}

impl Padding {
    /// None for `Same`, one for `Valid`, and the explicit ones.
    fn ints(self) -> Vec<i64> {
        match self {
            Self::Same => Vec::new(),
            Self::Valid => vec![0],
            Self::Explicit(around) => around.iter().flatten().map(|size| *size as i64).collect(),
        }
    }

    fn of_ints(ints: &[i64]) -> Option<Self> {
        match *ints {
            [] => Some(Self::Same),
            [0] => Some(Self::Valid),
            [top, bottom, left, right] => {
                let [top, bottom, left, right] =
                    [top, bottom, left, right].map(|size| usize::try_from(size).ok());
                Some(Self::Explicit([[top?, bottom?], [left?, right?]]))
            }
            _ => None,
        }
    }
}
