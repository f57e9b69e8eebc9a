//! Operations that slide a window over the height and width of images
//! `[n, height, width, channels]` (NHWC).

use serde::{Deserialize, Serialize};

/// What is made of the elements that a window covers.
///
/// An image is `x`; what comes of it, `y`, has an element for each place of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Window {
    /// `(x, filter)`: the sum of the window's elements, each times the filter's.
    Convolution(Convolution),
    /// `(dy, filter)`: the gradient of a convolution by `x`, whose height and width are given; or,
    /// without them, `(dy, filter, x)`, where the values of `x` are not used. A transposed
    /// convolution is the same.
    InputGradient(Convolution, Option<[usize; 2]>),
    /// `(x, dy, filter)`: the gradient of a convolution by its filter, whose values are not used.
    FilterGradient(Convolution),
    /// `(x)`: the greatest of the window's elements, a channel apart; of equal ones the first
    /// counts. A NaN is never greatest, unless it is first.
    MaxPool(Pool),
    /// `(x, y, dy)`: the gradient of [`Window::MaxPool`], which goes to the greatest element.
    MaxPoolGrad(Pool),
    /// `(x)`: the mean of the window's elements, a channel apart; what is padding does not count.
    AvgPool(Pool),
    /// `(dy, x)`: the gradient of [`Window::AvgPool`]; the values of `x` are not used.
    AvgPoolGrad(Pool),
}

/// A convolution: strictly a cross-correlation, as in TensorFlow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Convolution {
    /// How the filter slides.
    pub sliding: Sliding,
    /// Which channels meet.
    pub channels: Channels,
}

/// Which channels of an image make a channel of a convolution's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Channels {
    /// All of them; the filter is `[height, width, in, out]` (TensorFlow `Conv2D`).
    All,
    /// One alone, from which come as many as the filter `[height, width, in, multiplier]` says:
    /// channel `i` makes `i * multiplier` and those that follow (TensorFlow
    /// `DepthwiseConv2dNative`).
    Each,
}

/// A window of a size: what a pool slides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Height and width.
    pub size: [usize; 2],
    /// How it slides; it is not dilated.
    pub sliding: Sliding,
}

/// How a window slides over an image. Made of a [`Padding`], it goes by single steps and is not
/// dilated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sliding {
    /// How far it goes from place to place, down and to the right.
    pub strides: [usize; 2],
    /// How far apart its own elements are, down and to the right; 1 where they are neighbours.
    pub dilations: [usize; 2],
    /// What is beyond the image's edges.
    pub padding: Padding,
}

/// How far a window may reach beyond an image, where it meets zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Padding {
    /// As far as it takes for one place a stride; an odd rest is at the bottom and to the right.
    Same,
    /// Not at all.
    Valid,
    /// So far: `[[top, bottom], [left, right]]`.
    Explicit([[usize; 2]; 2]),
}

impl From<Padding> for Sliding {
    fn from(padding: Padding) -> Self {
        Self { strides: [1, 1], dilations: [1, 1], padding }
    }
}

impl Sliding {
    /// The same by these strides.
    #[must_use]
    pub fn strides(self, strides: [usize; 2]) -> Self {
        Self { strides, ..self }
    }

    /// The same with the window's elements so far apart (TensorFlow: `dilations`, or "atrous").
    #[must_use]
    pub fn dilations(self, dilations: [usize; 2]) -> Self {
        Self { dilations, ..self }
    }

    /// Whether it gets anywhere: strides and dilations are at least 1.
    pub(crate) fn moves(&self) -> bool {
        self.strides.iter().chain(&self.dilations).all(|step| *step > 0)
    }

    /// How many elements a window of `size` spans along `axis`, 0 the height and 1 the width.
    pub(crate) fn span(&self, axis: usize, size: usize) -> usize {
        size.checked_sub(1).map_or(0, |steps| steps * self.dilations[axis] + 1)
    }

    /// How many places a window of `size` has along `axis` of an image that is `extent` long there;
    /// none where it is too large for even a stride less.
    pub(crate) fn places(&self, axis: usize, extent: usize, size: usize) -> Option<usize> {
        let stride = self.strides[axis];
        let padded = match self.padding {
            Padding::Same => return Some(extent.div_ceil(stride)),
            Padding::Valid => extent,
            Padding::Explicit(around) => extent + around[axis][0] + around[axis][1],
        };
        Some((padded + stride).checked_sub(self.span(axis, size))? / stride)
    }

    /// How far the first place is before the image's edge along `axis`.
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

impl Window {
    /// Whether it is a pool or the gradient of one.
    pub(crate) fn is_pool(&self) -> bool {
        matches!(
            self,
            Self::MaxPool(_) | Self::MaxPoolGrad(_) | Self::AvgPool(_) | Self::AvgPoolGrad(_)
        )
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Convolution(Convolution { channels: Channels::All, .. }) => "Conv2D",
            Self::Convolution(Convolution { channels: Channels::Each, .. }) => {
                "DepthwiseConv2dNative"
            }
            Self::InputGradient(Convolution { channels: Channels::All, .. }, _) => {
                "Conv2DBackpropInput"
            }
            Self::InputGradient(Convolution { channels: Channels::Each, .. }, _) => {
                "DepthwiseConv2dNativeBackpropInput"
            }
            Self::FilterGradient(Convolution { channels: Channels::All, .. }) => {
                "Conv2DBackpropFilter"
            }
            Self::FilterGradient(Convolution { channels: Channels::Each, .. }) => {
                "DepthwiseConv2dNativeBackpropFilter"
            }
            Self::MaxPool(_) => "MaxPool",
            Self::MaxPoolGrad(_) => "MaxPoolGrad",
            Self::AvgPool(_) => "AvgPool",
            Self::AvgPoolGrad(_) => "AvgPoolGrad",
        }
    }
}
