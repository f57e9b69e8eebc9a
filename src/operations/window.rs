//! Operations that slide a window over the height and width of images
//! `[n, height, width, channels]` (NHWC).

mod build;
mod compute;
mod infer;

use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind, Known,
    OpDef, Output, OutputTypes, Outputs, Padding, Sliding, TensorType,
};
use crate::tensor::Tensor;

/// An operation on the elements that a window covers.
///
/// The image is `x`; the result `y` has an element for each place of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// The strides, dilations and padding of the filter.
    pub sliding: Sliding,
    /// The input channels of each output channel.
    pub channels: Channels,
}

/// The channels of an image that make a channel of a convolution's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// All of them; the filter is `[height, width, in, out]` (TensorFlow `Conv2D`).
    All,
    /// One channel alone. Each makes as many channels as the filter
    /// `[height, width, in, multiplier]` says: channel `i` makes the channels from `i * multiplier`
    /// (TensorFlow `DepthwiseConv2dNative`).
    Each,
}

/// The window of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Height and width.
    pub size: [usize; 2],
    /// The strides and padding of the window; it is not dilated.
    pub sliding: Sliding,
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    let sliding = Sliding::from(Padding::Valid);
    let of_channels = [Channels::All, Channels::Each].into_iter().flat_map(|channels| {
        let convolution = Convolution { sliding, channels };
        [
            Window::Convolution(convolution),
            Window::InputGradient(convolution, None),
            Window::FilterGradient(convolution),
        ]
    });
    let pool = Pool { size: [1, 1], sliding };
    let pools = [Window::MaxPool, Window::MaxPoolGrad, Window::AvgPool, Window::AvgPoolGrad];
    of_channels.chain(pools.map(|window| window(pool))).map(Defined::from).collect()
}

impl OpDef for Window {
    fn kind(&self) -> &'static str {
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

    fn attributes(&self, given: &mut Attributes) -> Defined {
        match *self {
            Self::Convolution(own) => Self::Convolution(own.attributes(given)),
            Self::InputGradient(own, size) => {
                let convolution = own.attributes(given);
                let ints = size.map_or(Vec::new(), |size| size.map(|size| size as i64).into());
                let read = |ints: &[i64]| match *ints {
                    [] => Some(None),
                    [a, b] => Some(Some([usize::try_from(a).ok()?, usize::try_from(b).ok()?])),
                    _ => None,
                };
                let size = given.as_ints("input_sizes", ints, read).unwrap_or(size);
                Self::InputGradient(convolution, size)
            }
            Self::FilterGradient(own) => Self::FilterGradient(own.attributes(given)),
            Self::MaxPool(own) => Self::MaxPool(own.attributes(given)),
            Self::MaxPoolGrad(own) => Self::MaxPoolGrad(own.attributes(given)),
            Self::AvgPool(own) => Self::AvgPool(own.attributes(given)),
            Self::AvgPoolGrad(own) => Self::AvgPoolGrad(own.attributes(given)),
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        infer::infer(self, inputs)
    }

    /// A convolution is linear in the image and in the filter, so that its gradients are each
    /// other's.
    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let d = of.only_arrived()?;
        Ok(match *self {
            Self::Convolution(convolution) => {
                let (x, filter) = (of.input(0), of.input(1));
                let by_filter = || x.with(&[&d, &filter], Self::FilterGradient(convolution));
                vec![
                    of.for_input(0, || by_image(convolution, &d, &filter, &x))?,
                    of.for_input(1, by_filter)?,
                ]
            }
            Self::InputGradient(convolution, _) => {
                let (dy, filter) = (of.input(0), of.input(1));
                let by_filter = || d.with(&[&dy, &filter], Self::FilterGradient(convolution));
                vec![
                    of.for_input(0, || d.with(&[&filter], Self::Convolution(convolution)))?,
                    of.for_input(1, by_filter)?,
                    None,
                ]
            }
            Self::FilterGradient(convolution) => {
                let (x, dy) = (of.input(0), of.input(1));
                vec![
                    of.for_input(0, || by_image(convolution, &dy, &d, &x))?,
                    of.for_input(1, || x.with(&[&d], Self::Convolution(convolution)))?,
                    None,
                ]
            }
            Self::MaxPool(pool) => {
                vec![Some(of.input(0).with(&[&of.output(0), &d], Self::MaxPoolGrad(pool))?)]
            }
            Self::AvgPool(pool) => vec![Some(d.with(&[&of.input(0)], Self::AvgPoolGrad(pool))?)],
            Self::AvgPoolGrad(pool) => {
                vec![of.for_input(0, || d.with(&[], Self::AvgPool(pool)))?, None]
            }
            Self::MaxPoolGrad(_) => return Err(of.no_gradient()),
        })
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        compute::cost(self, inputs, outputs)
    }

    fn kernel_kind(&self) -> KernelKind {
        match self {
            Self::Convolution(_) | Self::InputGradient(..) | Self::FilterGradient(_) => {
                KernelKind::Convolution
            }
            Self::MaxPool(_) | Self::MaxPoolGrad(_) | Self::AvgPool(_) | Self::AvgPoolGrad(_) => {
                KernelKind::Reduction
            }
        }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Ok(compute::call(self, inputs))
    }
}

impl Convolution {
    fn attributes(self, given: &mut Attributes) -> Self {
        Self { sliding: self.sliding.attributes(given), ..self }
    }
}

impl Pool {
    fn attributes(self, given: &mut Attributes) -> Self {
        Self { size: given.pair("ksize", self.size), sliding: self.sliding.attributes(given) }
    }
}

/// The gradient by the image `x`. It takes `x` as an input only if the size of `x` is unknown
/// before the step.
fn by_image(
    convolution: Convolution,
    dy: &Output,
    filter: &Output,
    x: &Output,
) -> Result<Output, GraphError> {
    match *x.tensor_type().shape.dims() {
        [_, Some(height), Some(width), _] => {
            dy.with(&[filter], Window::InputGradient(convolution, Some([height, width])))
        }
        _ => dy.with(&[filter, x], Window::InputGradient(convolution, None)),
    }
}
