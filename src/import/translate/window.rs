//! Windows over images: strides, paddings and sizes are attributes; TensorFlow's shapes become
//! values or sizes.

use super::math::channels_last;
use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::graph::{Padding, Sliding};
use crate::operations::{Array, Channels, Convolution, Pool, Window};

pub(super) fn find(kind: &str) -> Option<Translate> {
    use Channels::{All, Each};
    Some(match kind {
        "Conv2D" => convolution(All),
        "DepthwiseConv2dNative" => convolution(Each),
        "Conv2DBackpropInput" => input_gradient(All),
        "DepthwiseConv2dNativeBackpropInput" => input_gradient(Each),
        "Conv2DBackpropFilter" => filter_gradient(All),
        "DepthwiseConv2dNativeBackpropFilter" => filter_gradient(Each),
        "MaxPool" => pooled(Window::MaxPool),
        "MaxPoolGrad" => pooled(Window::MaxPoolGrad),
        "AvgPool" => pooled(Window::AvgPool),
        "AvgPoolGrad" => Box::new(|importer, node| {
            let (like, dy) =
                (super::array::like(importer, node, node.known(0)?)?, importer.input(node, 1)?);
            importer.emit(node, Window::AvgPoolGrad(pool(node)?), &[dy, like])
        }),
        _ => return None,
    })
}

/// The height and width of an attribute that has a number for each axis of an image. The other
/// numbers must be 1.
pub(super) fn height_and_width(node: &Node<'_>, name: &str) -> Result<[usize; 2], NodeProblem> {
    let wrong = || NodeProblem::Attribute {
        name: name.to_owned(),
        needs: "[1, height, width, 1], both from 1",
    };
    match node.def.ints(name)? {
        [] if name == "dilations" => Ok([1, 1]),
        &[1, height, width, 1] if height > 0 && width > 0 => Ok([height as usize, width as usize]),
        _ => Err(wrong()),
    }
}

fn sliding(node: &Node<'_>) -> Result<Sliding, NodeProblem> {
    channels_last(node.def)?;
    let padding = match node.def.text("padding")? {
        "SAME" => Padding::Same,
        "VALID" => Padding::Valid,
        "EXPLICIT" => explicit(node)?,
        other => {
            return Err(NodeProblem::unsupported(format!(
                "the padding {other} does not exist here"
            )));
        }
    };
    let strides = height_and_width(node, "strides")?;
    Ok(Sliding { strides, dilations: height_and_width(node, "dilations")?, padding })
}

fn explicit(node: &Node<'_>) -> Result<Padding, NodeProblem> {
    let name = "explicit_paddings";
    let wrong = || NodeProblem::Attribute {
        name: name.to_owned(),
        needs: "two sizes an axis, 0 but for height and width",
    };
    match node.def.ints(name)? {
        &[0, 0, top, bottom, left, right, 0, 0] if top.min(bottom).min(left).min(right) >= 0 => {
            let [top, bottom, left, right] = [top, bottom, left, right].map(|size| size as usize);
            Ok(Padding::Explicit([[top, bottom], [left, right]]))
        }
        _ => Err(wrong()),
    }
}

fn pool(node: &Node<'_>) -> Result<Pool, NodeProblem> {
    Ok(Pool { size: height_and_width(node, "ksize")?, sliding: sliding(node)? })
}

fn pooled(window: fn(Pool) -> Window) -> Translate {
    Box::new(move |importer, node| {
        let inputs = importer.inputs(node)?;
        importer.emit(node, window(pool(node)?), &inputs)
    })
}

fn convolution(channels: Channels) -> Translate {
    Box::new(move |importer, node| {
        let inputs = importer.inputs(node)?;
        let convolution = Convolution { sliding: sliding(node)?, channels };
        let depth = |i: usize, axis: usize| {
            inputs.get(i).and_then(|x| x.tensor_type().shape.dims().get(axis).copied().flatten())
        };
        match (depth(0, 3), depth(1, 2)) {
            (Some(of_image), Some(of_filter))
                if channels == Channels::All && of_filter > 0 && of_image > of_filter =>
            {
                grouped(importer, node, convolution, of_image / of_filter)
            }
            _ => importer.emit(node, Window::Convolution(convolution), &inputs),
        }
    })
}

/// Convolves each group of the image's channels with its own part of the filter.
fn grouped(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    convolution: Convolution,
    groups: usize,
) -> Values {
    let split = |importer: &Importer<'_>, i: usize| {
        let x = importer.input(node, i)?;
        let depth = x.tensor_type().shape.dims().get(3).copied().flatten();
        let unfit = || NodeProblem::unsupported(format!("{groups} groups of its channels"));
        let each = depth.filter(|depth| depth.is_multiple_of(groups)).ok_or_else(unfit)? / groups;
        let first = Array::Split { axis: 3, sizes: vec![each; groups] };
        importer.helper(node, "group", first, &[&x])
    };
    let (image, filter) = (split(importer, 0)?, split(importer, 1)?);
    let parts = (0..groups as u32).map(|group| {
        let inputs = [&image.sibling(group), &filter.sibling(group)];
        importer.helper(node, "convolution", Window::Convolution(convolution), &inputs)
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    importer.emit(node, Array::Concat { axis: 3 }, &parts)
}

/// `(sizes of x, filter, dy)`
fn input_gradient(channels: Channels) -> Translate {
    Box::new(move |importer, node| {
        let (sizes, filter, dy) =
            (node.known(0)?, importer.input(node, 1)?, importer.input(node, 2)?);
        let convolution = Convolution { sliding: sliding(node)?, channels };
        let known = |axis: usize| {
            sizes.elements.get(axis).and_then(|size| usize::try_from(size.known()?).ok())
        };
        match (known(1), known(2)) {
            (Some(height), Some(width)) => {
                let gradient = Window::InputGradient(convolution, Some([height, width]));
                importer.emit(node, gradient, &[dy, filter])
            }
            _ => {
                let like = super::array::like(importer, node, sizes)?;
                importer.emit(node, Window::InputGradient(convolution, None), &[dy, filter, like])
            }
        }
    })
}

/// `(x, sizes of the filter, dy)`
fn filter_gradient(channels: Channels) -> Translate {
    Box::new(move |importer, node| {
        let (x, dy) = (importer.input(node, 0)?, importer.input(node, 2)?);
        let like = super::array::like(importer, node, node.known(1)?)?;
        let convolution = Convolution { sliding: sliding(node)?, channels };
        importer.emit(node, Window::FilterGradient(convolution), &[x, dy, like])
    })
}
