//! Operations on arrays whose sizes are values of the step, such as those that follow the size of a
//! batch. A kernel reads the sizes, and is then the kernel of [`Array`] with these as attributes.

use smallvec::SmallVec;

use super::array::check_direction;
use super::{Array, Broadcast};
use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, Known, OpDef,
    Output, OutputTypes, Outputs, Subscript, TensorType, bytes, one,
};
use crate::tensor::{PartialShape, Shape, Tensor};

/// A change of shape or order by sizes (i32 or i64 vectors) that only a step knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Dynamic {
    /// The change.
    pub change: Change,
    /// The result's shape, as far as it is known when the graph is built.
    pub shape: PartialShape,
}

/// The changes, each with its inputs. TensorFlow's operations of these names take the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `(x, sizes)`: the same elements in the shape of these sizes, one of which may be −1.
    Reshape,
    /// `(x, sizes)`: repeated to fill a shape.
    BroadcastTo,
    /// `(x, multiples)`: repeated along each axis.
    Tile,
    /// `(gradient, multiples, x)`: the sum of the gradients of all repetitions of each element.
    TileGrad,
    /// `(x, begin, sizes)`: the part that begins at a position; −1 is the rest of an axis.
    Slice,
    /// `(x, paddings)`: with zeros before and after each axis.
    Pad,
    /// `(start, limit, delta)`: the values below a limit.
    Range,
    /// `(x, begin, end, strides)`, with TensorFlow's five masks in their order: `begin_mask`,
    /// `end_mask`, `ellipsis_mask`, `new_axis_mask`, `shrink_axis_mask`.
    StridedSlice([i64; 5]),
    /// `(gradient, begin, end, strides, x)`: zeros of the shape of `x`, with the gradient where
    /// the slice was taken.
    StridedSliceGrad([i64; 5]),
}

/// The most elements of a value whose sizes a step brings: more than a task has memory for.
const MOST: usize = 1 << 36;

const MASKS: [&str; 5] =
    ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"];

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    let all = [
        Change::Reshape,
        Change::BroadcastTo,
        Change::Tile,
        Change::TileGrad,
        Change::Slice,
        Change::Pad,
        Change::Range,
        Change::StridedSlice([0; 5]),
        Change::StridedSliceGrad([0; 5]),
    ];
    all.map(|change| Dynamic { change, shape: PartialShape::new(&[]) }.into()).into()
}

impl OpDef for Dynamic {
    fn kind(&self) -> &'static str {
        match self.change {
            Change::Reshape => "DynamicReshape",
            Change::BroadcastTo => "DynamicBroadcastTo",
            Change::Tile => "DynamicTile",
            Change::TileGrad => "DynamicTileGrad",
            Change::Slice => "DynamicSlice",
            Change::Pad => "DynamicPad",
            Change::Range => "DynamicRange",
            Change::StridedSlice(_) => "DynamicStridedSlice",
            Change::StridedSliceGrad(_) => "DynamicStridedSliceGrad",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        let mut masks = |own: [i64; 5]| {
            let mut named = own.iter().zip(MASKS).map(|(own, name)| given.int(name, *own));
            [(); 5].map(|()| named.next().expect("there are five masks"))
        };
        let change = match self.change {
            Change::StridedSlice(own) => Change::StridedSlice(masks(own)),
            Change::StridedSliceGrad(own) => Change::StridedSliceGrad(masks(own)),
            change => change,
        };
        Self { change, shape: given.dims("shape", self.shape) }.into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let (count, what) = self.sizes();
        let are_sizes = |sizes: &[TensorType]| {
            sizes.len() == count && sizes.iter().all(|sizes| sizes.dtype.is_integer())
        };
        let fits = match (self.change, inputs) {
            (Change::Range, [start, limit, delta]) => {
                let is_like = |x: &TensorType| x.dtype == start.dtype && x.shape.rank() == 0;
                start.dtype.is_number() && [*start, *limit, *delta].iter().all(is_like)
            }
            (Change::TileGrad | Change::StridedSliceGrad(_), [dy, sizes @ .., x]) => {
                dy.dtype == x.dtype && x.dtype.is_number() && are_sizes(sizes)
            }
            (Change::Range | Change::TileGrad | Change::StridedSliceGrad(_), _) | (_, []) => false,
            (_, [_, sizes @ ..]) => are_sizes(sizes),
        };
        match (fits, self.change, inputs) {
            (false, ..) => Err(GraphProblem::needs(what, inputs)),
            (_, Change::TileGrad | Change::StridedSliceGrad(_), [.., x]) => {
                Ok(one(x.dtype, x.shape))
            }
            _ => Ok(one(inputs[0].dtype, self.shape)),
        }
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let mut gradients = vec![None; of.inputs()];
        let dy = of.only_arrived()?;
        let back = || match self.change {
            Change::Reshape => dy.with(&[&of.input(0)], Array::ReshapeLike),
            Change::BroadcastTo => dy.with(&[&of.input(0)], Broadcast::SumToLike),
            Change::Tile => {
                let x = of.input(0);
                let shape = x.tensor_type().shape;
                dy.with(&[&of.input(1), &x], Self { change: Change::TileGrad, shape })
            }
            Change::StridedSlice(masks) => {
                let x = of.input(0);
                let shape = x.tensor_type().shape;
                let inputs = [&of.input(1), &of.input(2), &of.input(3), &x];
                dy.with(&inputs, Self { change: Change::StridedSliceGrad(masks), shape })
            }
            _ => Err(of.no_gradient()),
        };
        if self.change != Change::Range {
            gradients[0] = of.for_input(0, back)?;
        }
        Ok(gradients)
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let read = bytes(&inputs[..1]);
        match self.change {
            Change::Reshape => Cost::default(),
            Change::TileGrad | Change::Slice | Change::StridedSlice(_) => Cost::moved(2 * read),
            // The sizes decide how large the result is, unless the graph tells.
            _ if outputs.is_empty() => Cost::moved(2 * read).unbounded(),
            _ => Cost::moved(read + bytes(outputs)),
        }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (array, values) = self.fixed(inputs)?;
        let types: SmallVec<[TensorType; 2]> =
            values.iter().map(|x| TensorType::new(x.dtype(), x.shape())).collect();
        let refused = |problem: GraphProblem| ComputeError::new(problem.to_string());
        let inferred = array.infer(&types).map_err(refused)?;
        let shape = match (self.change, inputs) {
            (Change::TileGrad | Change::StridedSliceGrad(_), [.., x]) => x.shape().into(),
            _ => self.shape,
        };
        if inferred[0].shape.merge(&shape).is_none() {
            let found = inferred[0].shape;
            return Err(ComputeError::new(format!(
                "its sizes make the shape {found}, where the graph was built for {shape}"
            )));
        }
        let dims = inferred[0].shape;
        let count = dims.dims().iter().flatten();
        if count.fold(1usize, |count, dim| count.saturating_mul(*dim)) > MOST {
            return Err(ComputeError::new(format!("its sizes make a value too large: {dims}")));
        }
        array.compute(&values)
    }
}

impl Dynamic {
    /// The number of inputs that are sizes, and all inputs in words.
    fn sizes(&self) -> (usize, &'static str) {
        match self.change {
            Change::Reshape | Change::BroadcastTo => {
                (1, "a value, and an i32 or i64 for each size")
            }
            Change::Tile => (1, "a value, and an i32 or i64 for each axis"),
            Change::TileGrad => {
                (1, "a gradient, an i32 or i64 for each axis, and what was repeated")
            }
            Change::Pad => (1, "a value, and two i32 or i64 for each axis"),
            Change::Slice => (2, "a value, and two i32 or i64 vectors"),
            Change::Range => (0, "three numbers of one type"),
            Change::StridedSlice(_) => (3, "a value, and three i32 or i64 vectors"),
            Change::StridedSliceGrad(_) => {
                (3, "a gradient, three i32 or i64 vectors, and what the slice was taken of")
            }
        }
    }

    /// The change with the sizes that have come, and its other inputs.
    fn fixed<'a>(
        &self,
        inputs: &[&'a Tensor],
    ) -> Result<(Array, SmallVec<[&'a Tensor; 2]>), ComputeError> {
        let x = inputs[0];
        let ints = |i: usize| inputs[i].integers();
        let sizes = |i: usize| ints(i).iter().map(|size| natural(*size)).collect::<Result<_, _>>();
        let array = match self.change {
            Change::Reshape => Array::Reshape(reshaped(&ints(1))?),
            Change::BroadcastTo => {
                let sizes: Vec<usize> = sizes(1)?;
                Array::BroadcastTo(checked(
                    &sizes.iter().map(|size| Some(*size)).collect::<Vec<_>>(),
                )?)
            }
            Change::Tile => Array::Tile(sizes(1)?),
            Change::TileGrad => {
                let multiples: Vec<usize> = sizes(1)?;
                if multiples.contains(&0) {
                    return Ok((Array::ZerosLike, std::iter::once(inputs[2]).collect()));
                }
                Array::TileGrad(multiples)
            }
            Change::Slice => {
                let rest =
                    |size: &i64| if *size == -1 { Ok(None) } else { natural(*size).map(Some) };
                Array::Slice {
                    begin: sizes(1)?,
                    size: ints(2).iter().map(rest).collect::<Result<_, _>>()?,
                }
            }
            Change::Pad => {
                let both: Vec<usize> = sizes(1)?;
                let paddings = both.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
                Array::Pad { paddings, value: Tensor::zeros(x.dtype(), Shape::SCALAR) }
            }
            Change::Range => {
                let [start, limit, delta] = [0, 1, 2].map(|i| inputs[i].clone());
                check_direction(&start, &limit, &delta).map_err(ComputeError::new)?;
                return Ok((Array::Range { start, limit, delta }, SmallVec::new()));
            }
            Change::StridedSlice(masks) => Array::StridedSlice(subscripts(
                [ints(1), ints(2), ints(3)],
                masks,
                x.shape().rank(),
            )?),
            Change::StridedSliceGrad(masks) => {
                let rank = inputs[4].shape().rank();
                let subscripts = subscripts([ints(1), ints(2), ints(3)], masks, rank)?;
                let values = [x, inputs[4]].into_iter().collect();
                return Ok((Array::StridedSliceGrad(subscripts), values));
            }
        };
        Ok((array, std::iter::once(x).collect()))
    }
}

fn natural(size: i64) -> Result<usize, ComputeError> {
    usize::try_from(size).map_err(|_| ComputeError::new(format!("the size {size} is below 0")))
}

fn checked(dims: &[Option<usize>]) -> Result<PartialShape, ComputeError> {
    let too_many = || ComputeError::new(format!("no value here has the shape {dims:?}"));
    PartialShape::checked(dims).ok_or_else(too_many)
}

/// The shape of these sizes, open where one is −1.
fn reshaped(sizes: &[i64]) -> Result<PartialShape, ComputeError> {
    let known = |size: &i64| if *size == -1 { Ok(None) } else { natural(*size).map(Some) };
    checked(&sizes.iter().map(known).collect::<Result<Vec<_>, _>>()?)
}

/// The subscripts of TensorFlow's `StridedSlice`, for a value of `rank`.
///
/// # Errors
/// If the three vectors are not of one length.
pub(crate) fn subscripts(
    [begin, end, strides]: [Vec<i64>; 3],
    masks: [i64; 5],
    rank: usize,
) -> Result<Vec<Subscript>, ComputeError> {
    let is_set = |mask: usize, i: usize| i < 63 && masks[mask] >> i & 1 == 1;
    let entries = begin.len();
    if end.len() != entries || strides.len() != entries {
        return Err(ComputeError::new("begin, end and strides must be of one length"));
    }
    let of_axes = (0..entries).filter(|i| !is_set(2, *i) && !is_set(3, *i)).count();
    let mut subscripts = Vec::with_capacity(entries);
    for i in 0..entries {
        subscripts.extend(match i {
            _ if is_set(2, i) => vec![Subscript::ALL; rank.saturating_sub(of_axes)],
            _ if is_set(3, i) => vec![Subscript::NewAxis],
            _ if is_set(4, i) => vec![Subscript::At(begin[i])],
            _ => {
                let (begin, end) =
                    ((!is_set(0, i)).then_some(begin[i]), (!is_set(1, i)).then_some(end[i]));
                vec![Subscript::Every { begin, end, stride: strides[i] }]
            }
        });
    }
    Ok(subscripts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    #[test]
    fn a_result_whose_size_the_values_decide_has_a_cost_without_a_bound() {
        let x = (DType::F32, Shape::new(&[10]));
        let sizes = (DType::I32, Shape::new(&[1]));
        let cost = |change, outputs: &[Known]| {
            Dynamic { change, shape: PartialShape::new(&[None]) }.cost(&[x, sizes], outputs)
        };
        for change in [Change::Tile, Change::BroadcastTo, Change::Pad, Change::Range] {
            assert!(cost(change, &[]).is_unbounded, "{change:?}");
            let known = cost(change, &[(DType::F32, Shape::new(&[1000]))]);
            assert_eq!(known, Cost::moved(4 * 10 + 4 * 1000), "{change:?}");
        }
        assert!(!cost(Change::Slice, &[]).is_unbounded, "it is no larger than what it is cut of");
    }

    #[test]
    fn a_range_of_the_step_that_does_not_end_is_refused_with_what_it_lacks() {
        let range = Dynamic { change: Change::Range, shape: PartialShape::new(&[None]) };
        let refused = |values: [f32; 3]| {
            let [start, limit, delta] = values.map(Tensor::from);
            range.compute(&[&start, &limit, &delta]).expect_err("it is wrong").to_string()
        };
        assert!(refused([0.0, 5.0, -1.0]).contains("from its start to its limit"));
        assert!(refused([0.0, f32::NAN, 1.0]).contains("finite"));
        assert!(refused([0.0, 1e30, 1.0]).contains("fewer values"));
    }

    #[test]
    fn the_gradient_of_repetitions_of_the_step_is_their_sum_and_zero_where_there_are_none() {
        let back = Dynamic { change: Change::TileGrad, shape: PartialShape::new(&[None]) };
        let of = |dy: &[f32], times: i32| {
            let (dy, times) = (Tensor::new([dy.len()], dy).unwrap(), Tensor::full([1], times));
            back.compute(&[&dy, &times, &Tensor::full([2], 9f32)]).map(|out| out[0].clone())
        };
        assert_eq!(
            of(&[1.0, 2.0, 10.0, 20.0], 2).unwrap(),
            Tensor::new([2], &[11f32, 22.0]).unwrap()
        );
        assert_eq!(of(&[], 0).unwrap(), Tensor::full([2], 0f32));
        assert!(of(&[1.0, 2.0, 3.0], 1).is_err(), "the gradient is of another value");
    }
}
