//! A convolutional network as a table of layers.

use crate::graph::Padding;

/// A published image model: its input, its classes, its layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// Height, width, channels.
    pub(super) image: [usize; 3],
    pub(super) classes: usize,
    pub(super) layers: fn() -> Vec<Layer>,
}

/// A layer, or several side by side.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    Convolve(Convolve),
    MaxPool(Pool),
    AvgPool(Pool),
    /// The mean of each channel over the whole image.
    GlobalAvgPool,
    Flatten,
    Dense {
        units: usize,
        relu: bool,
    },
    /// Branches with the same input; their output channels are concatenated.
    Branches(Vec<Vec<Self>>),
    /// The relu of the sum of two branches of the same input. An empty shortcut is the input
    /// itself.
    Residual {
        branch: Vec<Self>,
        shortcut: Vec<Self>,
    },
}

/// A convolution, with a bias or batch normalisation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolve {
    pub(super) filters: usize,
    pub(super) kernel: [usize; 2],
    pub(super) stride: usize,
    pub(super) padding: Padding,
    pub(super) normalised: bool,
    pub(super) relu: bool,
}

/// A window that moves over each channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    pub(super) size: usize,
    pub(super) stride: usize,
    pub(super) padding: Padding,
}

impl Layer {
    /// A square convolution of stride 1, padded to the size of its input, with bias and relu.
    pub(super) fn conv(filters: usize, size: usize) -> Self {
        Self::conv_of(filters, [size, size])
    }

    /// A convolution of a `[height, width]` kernel, else as [`Layer::conv`].
    pub(super) fn conv_of(filters: usize, kernel: [usize; 2]) -> Self {
        Self::Convolve(Convolve {
            filters,
            kernel,
            stride: 1,
            padding: Padding::Same,
            normalised: false,
            relu: true,
        })
    }

    pub(super) fn max_pool(size: usize, stride: usize) -> Self {
        Self::MaxPool(Pool { size, stride, padding: Padding::Same })
    }

    pub(super) fn avg_pool(size: usize, stride: usize) -> Self {
        Self::AvgPool(Pool { size, stride, padding: Padding::Same })
    }

    /// A fully connected layer with a relu.
    pub(super) fn dense(units: usize) -> Self {
        Self::Dense { units, relu: true }
    }

    /// The last layer.
    pub(super) fn logits(units: usize) -> Self {
        Self::Dense { units, relu: false }
    }

    /// Removes the padding.
    pub(super) fn valid(mut self) -> Self {
        match &mut self {
            Self::Convolve(Convolve { padding, .. }) | Self::MaxPool(Pool { padding, .. }) => {
                *padding = Padding::Valid
            }
            other => panic!("{other:?} has no padding"),
        }
        self
    }

    pub(super) fn stride(self, stride: usize) -> Self {
        Self::Convolve(Convolve { stride, ..self.convolve() })
    }

    /// Uses batch normalisation in place of the bias.
    pub(super) fn normalised(self) -> Self {
        Self::Convolve(Convolve { normalised: true, ..self.convolve() })
    }

    /// Removes the relu.
    pub(super) fn linear(self) -> Self {
        Self::Convolve(Convolve { relu: false, ..self.convolve() })
    }

    fn convolve(self) -> Convolve {
        match self {
            Self::Convolve(convolve) => convolve,
            other => panic!("{other:?} is no convolution"),
        }
    }
}
