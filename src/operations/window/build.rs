//! The methods of `Output` that slide windows over images `[n, height, width, channels]`.

use super::{Channels, Convolution, Pool, Window};
use crate::graph::{GraphError, Output, Sliding};

impl Output {
    /// The convolution with `filter` `[height, width, in, out]`: images with as many channels as
    /// the filter has outputs (TensorFlow `Conv2D`).
    ///
    /// # Errors
    /// If they are not f32 of rank 4, the channels differ, or the filter is larger than the image
    /// and its padding.
    #[track_caller]
    pub fn conv2d(&self, filter: &Self, sliding: impl Into<Sliding>) -> Result<Self, GraphError> {
        let convolution = Convolution { sliding: sliding.into(), channels: Channels::All };
        self.with(&[filter], Window::Convolution(convolution))
    }

    /// The transposed convolution: images of `size` (height and width) whose [`Output::conv2d`] by
    /// this `filter` `[height, width, out, in]` has the shape of this one (TensorFlow:
    /// `tf.nn.conv2d_transpose`).
    ///
    /// # Errors
    /// If they are not f32 of rank 4, or images of `size` would give another shape.
    #[track_caller]
    pub fn conv2d_transpose(
        &self,
        filter: &Self,
        size: [usize; 2],
        sliding: impl Into<Sliding>,
    ) -> Result<Self, GraphError> {
        let convolution = Convolution { sliding: sliding.into(), channels: Channels::All };
        self.with(&[filter], Window::InputGradient(convolution, Some(size)))
    }

    /// The convolution of each channel by itself with `filter` `[height, width, in, multiplier]`:
    /// images of `in * multiplier` channels (TensorFlow `DepthwiseConv2dNative`).
    ///
    /// # Errors
    /// If they are not f32 of rank 4, the channels differ, or the filter is larger than the image
    /// and its padding.
    #[track_caller]
    pub fn depthwise_conv2d(
        &self,
        filter: &Self,
        sliding: impl Into<Sliding>,
    ) -> Result<Self, GraphError> {
        let convolution = Convolution { sliding: sliding.into(), channels: Channels::Each };
        self.with(&[filter], Window::Convolution(convolution))
    }

    /// The greatest element in each place of a window of `size` (height and width; TensorFlow
    /// `MaxPool`).
    ///
    /// # Errors
    /// If it is not f32 of rank 4, or the window is larger than the image and its padding.
    #[track_caller]
    pub fn max_pool(
        &self,
        size: [usize; 2],
        sliding: impl Into<Sliding>,
    ) -> Result<Self, GraphError> {
        self.with(&[], Window::MaxPool(Pool { size, sliding: sliding.into() }))
    }

    /// The mean of the elements in each place of a window of `size` (height and width), without
    /// padding (TensorFlow `AvgPool`).
    ///
    /// # Errors
    /// If it is not f32 of rank 4, or the window is larger than the image and its padding.
    #[track_caller]
    pub fn avg_pool(
        &self,
        size: [usize; 2],
        sliding: impl Into<Sliding>,
    ) -> Result<Self, GraphError> {
        self.with(&[], Window::AvgPool(Pool { size, sliding: sliding.into() }))
    }
}
