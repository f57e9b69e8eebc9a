//! Operations that slide a window over the height and width of images
//! `[n, height, width, channels]` (NHWC).

use serde::{Deserialize, Serialize};

/// An operation on the elements that a window covers.
///
/// The image is `x`; the result `y` has an element for each place of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Window {
    /// `(x, filter)`: the sum of the window's elements, each times the filter's.
    Convolution(Convolution),
    /// `(dy, filter)`: the gradient of a convolution by `x`, whose height and width are given;
    /// without them `(dy, filter, x)`, with the values of `x` not used. It is also the transposed
    /// convolution.
    InputGradient(Convolution, Option<[usize; 2]>),
    /// `(x, dy, filter)`: the gradient of a convolution by its filter, whose values are not used.
    FilterGradient(Convolution),
    /// `(x)`: the greatest of the window's elements, for each channel; of equal ones the first
    /// counts. A NaN is never greatest, unless it is first.
    MaxPool(Pool),
    /// `(x, y, dy)`: the gradient of [`Window::MaxPool`], which goes to the greatest element.
    MaxPoolGrad(Pool),
    /// `(x)`: the mean of the window's elements, for each channel; padding does not count.
    AvgPool(Pool),
    /// `(dy, x)`: the gradient of [`Window::AvgPool`]; the values of `x` are not used.
    AvgPoolGrad(Pool),
}

/// A convolution: strictly a cross-correlation, as in TensorFlow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Convolution {
    /// The strides, dilations and padding of the filter.
    pub sliding: Sliding,
    /// The input channels of each output channel.
    pub channels: Channels,
}

/// The channels of an image that make a channel of a convolution's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Channels {
    /// All of them; the filter is `[height, width, in, out]` (TensorFlow `Conv2D`).
    All,
    /// One channel alone. Each makes as many channels as the filter
    /// `[height, width, in, multiplier]` says: channel `i` makes the channels from `i * multiplier`
    /// (TensorFlow `DepthwiseConv2dNative`).
    Each,
}

/// The window of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Height and width.
    pub size: [usize; 2],
    /// The strides and padding of the window; it is not dilated.
    pub sliding: Sliding,
}

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
        size.checked_sub(1).map_or(0, |steps| steps * self.dilations[axis] + 1)
    }

    /// The number of places of a window of `size` along `axis` of an image that is `extent` long
    /// there; `None` if the window is larger than the padded image by more than a stride.
    pub(crate) fn places(&self, axis: usize, extent: usize, size: usize) -> Option<usize> {
        let stride = self.strides[axis];
        let padded = match self.padding {
            Padding::Same => return Some(extent.div_ceil(stride)),
            Padding::Valid => extent,
            Padding::Explicit(around) => extent + around[axis][0] + around[axis][1],
        };
        Some((padded + stride).checked_sub(self.span(axis, size))? / stride)
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
