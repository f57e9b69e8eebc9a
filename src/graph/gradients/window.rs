//! The gradients of operations on windows of images.

use smallvec::smallvec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::GraphError;
use crate::graph::op::{Convolution, Op, Window};
use crate::graph::{Edge, OpId, Operation};

impl Backward<'_> {
    /// As [`Backward::gradient`].
    ///
    /// A convolution is linear in the image and in the filter, so that its gradients are each
    /// other's.
    pub(super) fn window(
        &self,
        id: OpId,
        operation: &Operation,
        window: &Window,
        arrived: &[Option<Edge>],
    ) -> Result<InputGradients, GraphError> {
        let y = Edge { op: id, output: 0 };
        let add = |window, inputs: &[Edge]| self.add(id, Op::Window(window), inputs);
        let &[Some(d)] = arrived else { return Err(self.no_gradient(operation)) };
        Ok(match (*window, operation.inputs.as_slice()) {
            (Window::Convolution(convolution), &[x, filter]) => smallvec![
                self.for_input(x, || self.by_input(id, convolution, d, filter, x))?,
                self.for_input(filter, || add(
                    Window::FilterGradient(convolution),
                    &[x, d, filter]
                ))?,
            ],
            (Window::InputGradient(convolution, _), &[dy, filter, ..]) => smallvec![
                self.for_input(dy, || add(Window::Convolution(convolution), &[d, filter]))?,
                self.for_input(filter, || add(
                    Window::FilterGradient(convolution),
                    &[d, dy, filter]
                ))?,
                None,
            ],
            (Window::FilterGradient(convolution), &[x, dy, _]) => smallvec![
                self.for_input(x, || self.by_input(id, convolution, dy, d, x))?,
                self.for_input(dy, || add(Window::Convolution(convolution), &[x, d]))?,
                None,
            ],
            (Window::MaxPool(pool), &[x]) => {
                smallvec![Some(add(Window::MaxPoolGrad(pool), &[x, y, d])?)]
            }
            (Window::AvgPool(pool), &[x]) => {
                smallvec![Some(add(Window::AvgPoolGrad(pool), &[d, x])?)]
            }
            (Window::AvgPoolGrad(pool), &[dy, _]) => {
                smallvec![self.for_input(dy, || add(Window::AvgPool(pool), &[d]))?, None]
            }
            _ => return Err(self.no_gradient(operation)),
        })
    }

    /// The gradient by the image `x`. It takes `x` as an input only if the size of `x` is unknown
    /// before the step.
    fn by_input(
        &self,
        id: OpId,
        convolution: Convolution,
        dy: Edge,
        filter: Edge,
        x: Edge,
    ) -> Result<Edge, GraphError> {
        match *self.graph.tensor_type(x).shape.dims() {
            [_, Some(height), Some(width), _] => {
                let gradient = Window::InputGradient(convolution, Some([height, width]));
                self.add(id, Op::Window(gradient), &[dy, filter])
            }
            _ => {
                self.add(id, Op::Window(Window::InputGradient(convolution, None)), &[dy, filter, x])
            }
        }
    }
}
