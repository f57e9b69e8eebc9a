//! The outputs of operations on windows of images.

use super::{Channels, Convolution, Pool, Window};
use crate::graph::{GraphProblem, OutputTypes, Padding, Sliding, TensorType, agree, one};
use crate::tensor::DType;

/// The dimensions of images or of a filter.
type Dims = [Option<usize>; 4];

/// The outputs of `op` for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] if they don't fit.
pub(super) fn infer(op: &Window, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let dims: Option<Vec<Dims>> =
        inputs.iter().map(|input| input.float_dims()?.try_into().ok()).collect();
    let needs = match dims {
        None => {
            "f32 of rank 4: images [n, height, width, channels], a filter [height, width, in, out]"
        }
        Some(dims) => match outputs(op, &dims) {
            Ok(shape) => return Ok(one(DType::F32, shape)),
            Err(needs) => needs,
        },
    };
    Err(GraphProblem::needs(needs, inputs))
}

/// The shape of the output, or the inputs that the operation needs, in words.
fn outputs(op: &Window, inputs: &[Dims]) -> Result<Dims, &'static str> {
    match (op, inputs) {
        (Window::Convolution(convolution), [x, filter]) => convolved(convolution, x, filter),
        (Window::InputGradient(convolution, None), [dy, filter, x]) => {
            matches(convolved(convolution, x, filter)?, dy)?;
            Ok(*x)
        }
        (Window::InputGradient(convolution, Some([height, width])), [dy, filter]) => {
            let channels = match convolution.channels {
                Channels::All => filter[2],
                Channels::Each => filter[2].or(quotient(dy[3], filter[3])),
            };
            let x = [dy[0], Some(*height), Some(*width), channels];
            matches(convolved(convolution, &x, filter)?, dy)?;
            Ok(x)
        }
        (Window::FilterGradient(convolution), [x, dy, filter]) => {
            matches(convolved(convolution, x, filter)?, dy)?;
            Ok(*filter)
        }
        (Window::MaxPool(pool) | Window::AvgPool(pool), [x]) => pooled(pool, x),
        (Window::MaxPoolGrad(pool), [x, y, dy]) => {
            matches(matches(pooled(pool, x)?, y)?, dy)?;
            Ok(*x)
        }
        (Window::AvgPoolGrad(pool), [dy, x]) => {
            matches(pooled(pool, x)?, dy)?;
            Ok(*x)
        }
        _ => Err("another number of inputs"),
    }
}

fn quotient(dividend: Option<usize>, divisor: Option<usize>) -> Option<usize> {
    dividend?.checked_div(divisor?)
}

/// The shape of a convolution's output.
fn convolved(convolution: &Convolution, x: &Dims, filter: &Dims) -> Result<Dims, &'static str> {
    let &[height, width, filter_in, filter_out] = filter;
    if filter.contains(&Some(0)) {
        return Err("a filter that is not empty");
    }
    let channels =
        agree(x[3], filter_in).ok_or("images with as many channels as the filter has inputs")?;
    let out = match convolution.channels {
        Channels::All => filter_out,
        Channels::Each => {
            // More than any tensor has is refused with the output.
            channels.zip(filter_out).map(|(channels, each)| channels.saturating_mul(each))
        }
    };
    let [rows, columns] = places(&convolution.sliding, x, [height, width])?;
    Ok([x[0], rows, columns, out])
}

/// The shape of a pool's output.
fn pooled(pool: &Pool, x: &Dims) -> Result<Dims, &'static str> {
    let size = pool.size;
    if size.contains(&0) || pool.sliding.dilations != [1, 1] {
        return Err("a window of at least one element, not dilated");
    }
    if let Padding::Explicit(around) = pool.sliding.padding
        && (0..2).any(|axis| around[axis].iter().any(|padding| *padding >= size[axis]))
    {
        return Err("less padding than the window is large, or it would find nothing but padding");
    }
    let [rows, columns] = places(&pool.sliding, x, size.map(Some))?;
    Ok([x[0], rows, columns, x[3]])
}

/// The numbers of places of a window of `size`, down and to the right.
fn places(
    sliding: &Sliding,
    x: &Dims,
    size: [Option<usize>; 2],
) -> Result<[Option<usize>; 2], &'static str> {
    if !sliding.moves() {
        return Err("strides and dilations of at least 1");
    }
    let along = |axis: usize| match (x[axis + 1], size[axis], sliding.padding) {
        (Some(extent), _, Padding::Same) => Ok(sliding.places(axis, extent, 1)),
        (Some(extent), Some(size), _) => {
            let places = sliding.places(axis, extent, size);
            places.map(Some).ok_or("images, with their padding, at least as large as the window")
        }
        _ => Ok(None),
    };
    Ok([along(0)?, along(1)?])
}

/// `expected`, with the dimensions that only `given` knows; refused if they differ.
fn matches(expected: Dims, given: &Dims) -> Result<Dims, &'static str> {
    let mut merged = expected;
    for (dim, given) in merged.iter_mut().zip(given) {
        *dim = agree(*dim, *given)
            .ok_or("results of the shape that sliding the window over the images gives")?;
    }
    Ok(merged)
}
