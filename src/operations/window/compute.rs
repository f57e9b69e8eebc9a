//! The kernels of operations on windows of images, for tensors, and their costs.

use super::{Channels, Convolution, Pool, Window};
use crate::graph::{Cost, Known, Outputs};
use crate::kernels::window::{self, Windows};
use crate::kernels::written;
use crate::tensor::{Shape, Tensor};

/// The outputs of `op`.
pub(super) fn call(op: &Window, inputs: &[&Tensor]) -> Outputs {
    match (op, inputs) {
        (Window::Convolution(convolution), [x, filter]) => {
            let (windows, channels) = convolved(convolution, x.shape(), filter.shape());
            let out = match convolution.channels {
                Channels::All => channels[1],
                Channels::Each => channels[0] * channels[1],
            };
            let shape = Shape::from([windows.images, windows.places[0], windows.places[1], out]);
            let kernel = of_channels(convolution, window::convolution, window::depthwise);
            written(shape, |out| kernel(x.slice(), filter.slice(), out, &windows, channels))
        }
        (Window::InputGradient(convolution, size), [dy, filter, like @ ..]) => {
            let shape = image_shape(*size, dy.shape(), filter.shape(), like);
            let (windows, channels) = convolved(convolution, shape, filter.shape());
            let kernel =
                of_channels(convolution, window::input_gradient, window::depthwise_input_gradient);
            written(shape, |out| kernel(dy.slice(), filter.slice(), out, &windows, channels))
        }
        (Window::FilterGradient(convolution), [x, dy, filter]) => {
            let (windows, channels) = convolved(convolution, x.shape(), filter.shape());
            let kernel = of_channels(
                convolution,
                window::filter_gradient,
                window::depthwise_filter_gradient,
            );
            written(filter.shape(), |out| kernel(x.slice(), dy.slice(), out, &windows, channels))
        }
        (Window::MaxPool(pool), [x]) => pooled(pool, x, window::max_pool),
        (Window::AvgPool(pool), [x]) => pooled(pool, x, window::avg_pool),
        (Window::MaxPoolGrad(pool), [x, y, dy]) => {
            let (windows, channels) = windows_of(pool, x.shape());
            let (x_values, y, dy) = (x.slice(), y.slice(), dy.slice());
            written(x.shape(), |out| {
                window::max_pool_grad(x_values, y, dy, out, &windows, channels)
            })
        }
        (Window::AvgPoolGrad(pool), [dy, x]) => {
            let (windows, channels) = windows_of(pool, x.shape());
            written(x.shape(), |out| window::avg_pool_grad(dy.slice(), out, &windows, channels))
        }
        (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
    }
}

/// The cost of `op`.
pub(super) fn cost(op: &Window, inputs: &[Known], outputs: &[Known]) -> Cost {
    let shape = |i: usize| inputs.get(i).map_or(Shape::SCALAR, |(_, shape)| *shape);
    let output = outputs.first().map_or(Shape::SCALAR, |(_, shape)| *shape);
    // The results of the operation, or of the operation that it is the gradient of, and their
    // window.
    let (results, filter) = match op {
        Window::Convolution(_) => (output, shape(1)),
        Window::InputGradient(..) => (shape(0), shape(1)),
        Window::FilterGradient(_) => (shape(1), output),
        Window::MaxPool(pool) | Window::AvgPool(pool) => (output, Shape::from(pool.size)),
        Window::MaxPoolGrad(pool) => (shape(1), Shape::from(pool.size)),
        Window::AvgPoolGrad(pool) => (shape(0), Shape::from(pool.size)),
    };
    let summed = match (op, filter.dims()) {
        (
            Window::Convolution(Convolution { channels: Channels::All, .. })
            | Window::InputGradient(Convolution { channels: Channels::All, .. }, _)
            | Window::FilterGradient(Convolution { channels: Channels::All, .. }),
            [height, width, channels, _],
        ) => height * width * channels,
        (_, [height, width, ..]) => height * width,
        _ => 0,
    };
    // Inputs that are only used for their shape are not read.
    let read = match op {
        Window::Convolution(_) | Window::InputGradient(..) | Window::FilterGradient(_) => 2,
        Window::AvgPoolGrad(_) => 1,
        _ => inputs.len(),
    };
    let is_convolution = matches!(
        op,
        Window::Convolution(_) | Window::InputGradient(..) | Window::FilterGradient(_)
    );
    let flops = if is_convolution { 2 } else { 1 } * results.elements() * summed;
    let floats: usize = inputs.iter().take(read).map(|(_, shape)| shape.elements()).sum();
    Cost::windows(flops, floats + output.elements())
}

/// A kernel of a convolution: of its two operands, into a slice.
type Kernel = fn(&[f32], &[f32], &mut [f32], &Windows, [usize; 2]);

fn of_channels(convolution: &Convolution, all: Kernel, each: Kernel) -> Kernel {
    match convolution.channels {
        Channels::All => all,
        Channels::Each => each,
    }
}

/// The places of the filter on images of shape `x`, and the filter's channels.
fn convolved(convolution: &Convolution, x: Shape, filter: Shape) -> (Windows, [usize; 2]) {
    let &[height, width, channels, out] = filter.dims() else {
        panic!("shape inference lets only filters through")
    };
    (Windows::new(&convolution.sliding, x, [height, width]), [channels, out])
}

/// The shape of the images that the gradient is for.
fn image_shape(size: Option<[usize; 2]>, dy: Shape, filter: Shape, like: &[&Tensor]) -> Shape {
    match (size, like) {
        (Some([height, width]), _) => Shape::from([dy.dims()[0], height, width, filter.dims()[2]]),
        (None, [x, ..]) => x.shape(),
        (None, []) => panic!("shape inference asks for the images where their size is not known"),
    }
}

fn windows_of(pool: &Pool, x: Shape) -> (Windows, usize) {
    let (_, channels) = x.rows_and_columns();
    (Windows::new(&pool.sliding, x, pool.size), channels)
}

fn pooled(pool: &Pool, x: &Tensor, kernel: fn(&[f32], &mut [f32], &Windows, usize)) -> Outputs {
    let (windows, channels) = windows_of(pool, x.shape());
    let shape = Shape::from([windows.images, windows.places[0], windows.places[1], channels]);
    written(shape, |out| kernel(x.slice(), out, &windows, channels))
}
