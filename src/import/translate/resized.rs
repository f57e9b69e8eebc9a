//! Images in another size: their rows and columns are picked, and mixed for a bilinear one.

use super::dilation::back;
use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::graph::{Op, Output};
use crate::operations::{Binary, Cast, Indexed};
use crate::tensor::{DType, Tensor};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "ResizeNearestNeighbor" => resized(|resize, x| resize.nearest(x)),
        "ResizeBilinear" => resized(|resize, x| resize.bilinear(x)),
        "ResizeNearestNeighborGrad" => Box::new(nearest_gradient),
        "ResizeBilinearGrad" => Box::new(bilinear_gradient),
        _ => return None,
    })
}

/// `(images, [height, width])`
fn resized(by: fn(&Resize<'_, '_>, &Output) -> Result<Output, NodeProblem>) -> Translate {
    Box::new(move |importer, node| {
        let (x, sizes) = (importer.input(node, 0)?, sizes(&node.ints(1)?)?);
        let resize = Resize::of(importer, node, &x, sizes)?;
        let y = by(&resize, &x)?;
        importer.emit(node, Op::Identity, &[y])
    })
}

/// `(dy, [height, width])`. Images of any values have the gradient of those that were resized.
fn nearest_gradient(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (dy, sizes) = (importer.input(node, 0)?, sizes(&node.ints(1)?)?);
    let any = Resize::of(importer, node, &dy, sizes)?.nearest(&dy)?;
    let resize = Resize::of(importer, node, &any, height_and_width(&dy)?)?;
    let found = back(importer, node, [&resize.nearest(&any)?, &dy, &any])?;
    importer.emit(node, Op::Identity, &[found])
}

/// `(dy, images)`
fn bilinear_gradient(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let dy = importer.input(node, 0)?;
    let x = importer.helper(node, "of", Op::Identity, &[&importer.input(node, 1)?])?;
    let resize = Resize::of(importer, node, &x, height_and_width(&dy)?)?;
    let found = back(importer, node, [&resize.bilinear(&x)?, &dy, &x])?;
    importer.emit(node, Op::Identity, &[found])
}

fn sizes(given: &[i64]) -> Result<[usize; 2], NodeProblem> {
    match *given {
        [height, width] if height > 0 && width > 0 => Ok([height as usize, width as usize]),
        _ => Err(NodeProblem::unsupported("its size must be a height and a width, both from 1")),
    }
}

fn height_and_width(x: &Output) -> Result<[usize; 2], NodeProblem> {
    match *x.tensor_type().shape.dims() {
        [_, Some(height), Some(width), _] => Ok([height, width]),
        _ => Err(NodeProblem::unsupported("the height and width of its images must be known")),
    }
}

/// The most pixels along an axis of images, each of which is a number in the graph.
const LONGEST: usize = 1 << 16;

/// A change of the size of images.
struct Resize<'a, 'n> {
    importer: &'a Importer<'n>,
    node: &'a Node<'a>,
    from: [usize; 2],
    to: [usize; 2],
    /// Whether the corners of both images are in one place.
    align_corners: bool,
    /// Whether a pixel's place is its centre.
    half_pixel_centers: bool,
}

impl<'a, 'n> Resize<'a, 'n> {
    fn of(
        importer: &'a Importer<'n>,
        node: &'a Node<'a>,
        x: &Output,
        to: [usize; 2],
    ) -> Result<Self, NodeProblem> {
        let from = height_and_width(x)?;
        let align_corners = node.def.flag("align_corners")?;
        let half_pixel_centers = node.def.flag("half_pixel_centers")?;
        let is_odd = |size: &usize| !(1..=LONGEST).contains(size);
        if from.iter().chain(&to).any(is_odd) {
            return Err(NodeProblem::unsupported(format!(
                "images must have 1 to {LONGEST} pixels along each axis"
            )));
        }
        Ok(Self { importer, node, from, to, align_corners, half_pixel_centers })
    }

    /// The pixels of the image before for each after, along an axis. Single precision, as in
    /// TensorFlow: the last digit decides which pixel is the nearest.
    fn scale(&self, axis: usize) -> f32 {
        match self.align_corners && self.to[axis] > 1 {
            true => (self.from[axis] - 1) as f32 / (self.to[axis] - 1) as f32,
            false => self.from[axis] as f32 / self.to[axis] as f32,
        }
    }

    /// `x` with the rows (axis 0) or columns (axis 1) at `positions`.
    fn picked(
        &self,
        x: &Output,
        axis: usize,
        positions: Vec<usize>,
    ) -> Result<Output, NodeProblem> {
        let positions: Vec<i32> = positions.into_iter().map(|at| at as i32).collect();
        let indices = self.constant(&[positions.len()], &positions)?;
        let pick = Indexed::Gather { axis: axis + 1, batch: 0 };
        self.importer.helper(self.node, "picked", pick, &[x, &indices])
    }

    fn constant<T: crate::tensor::Element>(
        &self,
        shape: &[usize],
        values: &[T],
    ) -> Result<Output, NodeProblem> {
        let value = Tensor::new(shape, values);
        let value = value.map_err(|error| NodeProblem::unsupported(error.to_string()))?;
        self.importer.helper(self.node, "positions", Op::Const(value), &[])
    }

    fn nearest(&self, x: &Output) -> Result<Output, NodeProblem> {
        let along = |axis: usize| {
            let scale = self.scale(axis);
            let place = move |i: usize| match (self.half_pixel_centers, self.align_corners) {
                (true, true) => ((i as f32 + 0.5) * scale).round(),
                (true, false) => ((i as f32 + 0.5) * scale).floor(),
                (false, true) => (i as f32 * scale).round(),
                (false, false) => (i as f32 * scale).floor(),
            };
            (0..self.to[axis]).map(|i| (place(i) as usize).min(self.from[axis] - 1)).collect()
        };
        self.picked(&self.picked(x, 0, along(0))?, 1, along(1))
    }

    /// Mixes the columns, then the rows, as TensorFlow does.
    fn bilinear(&self, x: &Output) -> Result<Output, NodeProblem> {
        let x = match x.tensor_type().dtype {
            DType::F32 => x.clone(),
            _ => self.importer.helper(self.node, "numbers", Cast(DType::F32), &[x])?,
        };
        self.mixed(&self.mixed(&x, 1)?, 0)
    }

    fn mixed(&self, x: &Output, axis: usize) -> Result<Output, NodeProblem> {
        let scale = self.scale(axis);
        let place = |i: usize| match self.half_pixel_centers {
            true => (i as f32 + 0.5) * scale - 0.5,
            false => i as f32 * scale,
        };
        let places: Vec<f32> = (0..self.to[axis]).map(place).collect();
        let last = self.from[axis] - 1;
        let low = places.iter().map(|place| (place.floor().max(0.0) as usize).min(last)).collect();
        let high = places.iter().map(|place| (place.ceil().max(0.0) as usize).min(last)).collect();
        let parts: Vec<f32> = places.iter().map(|place| place - place.floor()).collect();
        let shape = if axis == 0 { [parts.len(), 1, 1] } else { [1, parts.len(), 1] };
        let parts = self.constant(&shape, &parts)?;
        let (low, high) = (self.picked(x, axis, low)?, self.picked(x, axis, high)?);
        let helper = |part: &str, op: Binary, inputs: [&Output; 2]| {
            self.importer.helper(self.node, part, op, &inputs)
        };
        let apart = helper("apart", Binary::Sub, [&high, &low])?;
        let moved = helper("moved", Binary::Mul, [&apart, &parts])?;
        helper("mixed", Binary::Add, [&low, &moved])
    }
}
