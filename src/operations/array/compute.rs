//! The kernels of operations that move elements, for tensors.

use smallvec::{SmallVec, smallvec};

use super::Array;
use super::infer::left_open;
use super::range::range_len;
use super::views::{around, padded, padded_shape, repeated, taken, tiles};
use crate::graph::{Mirror, Outputs, Subscript};
use crate::kernels::scan::{self, Order};
use crate::kernels::strided::{self, Axis, View, dense};
use crate::kernels::{by_number, by_word, filled_in, pad};
use crate::tensor::{DType, Element, Shape, Tensor};

/// The outputs of `op`.
pub(super) fn call(op: &Array, inputs: &[&Tensor]) -> Outputs {
    match (op, inputs) {
        (Array::Reshape(shape), [x]) => {
            let open = left_open(x.shape().dims(), shape.dims()).unwrap_or(0);
            let dims: Vec<usize> = shape.dims().iter().map(|dim| dim.unwrap_or(open)).collect();
            smallvec![x.reshaped(Shape::new(&dims))]
        }
        (Array::ReshapeLike, [x, like]) => smallvec![x.reshaped(like.shape())],
        (Array::ExpandDims(axis), [x]) => smallvec![x.reshaped(inserted(x.shape(), *axis, 1))],
        (Array::Squeeze(axes), [x]) => {
            let shape = x.shape();
            let left = (0..)
                .zip(shape.dims())
                .filter(|(axis, _)| !axes.contains(axis))
                .map(|(_, dim)| *dim);
            smallvec![x.reshaped(Shape::new(&left.collect::<Vec<_>>()))]
        }
        (Array::Concat { axis }, inputs) => smallvec![concat(inputs, *axis)],
        (Array::Stack { axis }, inputs) => {
            let apart: Vec<Tensor> =
                inputs.iter().map(|x| x.reshaped(inserted(x.shape(), *axis, 1))).collect();
            smallvec![concat(&apart.iter().collect::<Vec<_>>(), *axis)]
        }
        (Array::Split { axis, sizes }, [x]) => split(x, *axis, sizes),
        (Array::SplitLike { axis }, [x, parts @ ..]) => {
            let sizes: Vec<usize> = parts.iter().map(|part| part.shape().dims()[*axis]).collect();
            split(x, *axis, &sizes)
        }
        (Array::Unstack { axis }, [x]) => {
            let parts = split(x, *axis, &vec![1; x.shape().dims()[*axis]]);
            parts.iter().map(|part| part.reshaped(removed(part.shape(), *axis))).collect()
        }
        (Array::StridedSliceGrad(subscripts), [dy, x]) => {
            smallvec![strided_grad(dy, x.shape(), subscripts)]
        }
        (Array::TileGrad(multiples), [dy]) => {
            let dims: Vec<usize> =
                dy.shape().dims().iter().zip(multiples).map(|(dim, times)| dim / times).collect();
            smallvec![summed(dy, Shape::new(&dims), &tiles(&dims, multiples))]
        }
        (Array::Range { start, limit, delta }, []) => smallvec![range(start, limit, delta)],
        (Array::Shape(dtype), [x]) => {
            let dims: Vec<i64> = x.shape().dims().iter().map(|dim| *dim as i64).collect();
            smallvec![sizes(*dtype, Shape::from([dims.len()]), &dims)]
        }
        (Array::Size(dtype), [x]) => {
            smallvec![sizes(*dtype, Shape::SCALAR, &[x.shape().elements() as i64])]
        }
        (Array::Rank, [x]) => smallvec![Tensor::scalar(x.shape().rank() as i32)],
        (op, [x]) => smallvec![moved(op, x)],
        (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
    }
}

/// The one output of an operation of one input.
fn moved(op: &Array, x: &Tensor) -> Tensor {
    let shape = x.shape();
    let (dims, axes) = (shape.dims(), dense(shape.dims()));
    match op {
        Array::Transpose(order) => viewed(x, 0, order.iter().map(|axis| axes[*axis])),
        Array::Slice { begin, size } => {
            let first =
                begin.iter().zip(&axes).map(|(begin, axis)| *begin as isize * axis.step).sum();
            let part = |((axis, begin), size): ((&Axis, &usize), &Option<usize>)| Axis {
                len: size.unwrap_or(axis.len - begin),
                ..*axis
            };
            viewed(x, first, axes.iter().zip(begin).zip(size).map(part))
        }
        Array::StridedSlice(subscripts) => {
            let (first, taken) = taken(subscripts, &axes);
            viewed(x, first, taken)
        }
        Array::Pad { paddings, value } => {
            let padded = padded(dims, paddings);
            by_word!(x.dtype(), W => filled_in::<W>(x.dtype(), padded_shape(&padded), |out| {
                pad::pad(x.words(), &padded, value.words::<W>()[0], out);
            }))
        }
        Array::MirrorPad { paddings, mirror } => {
            let padded = padded(dims, paddings);
            by_word!(x.dtype(), W => filled_in::<W>(x.dtype(), padded_shape(&padded), |out| {
                pad::mirror_pad(x.words(), &padded, *mirror, out);
            }))
        }
        Array::MirrorPadGrad { paddings, mirror } => mirror_pad_grad(x, paddings, *mirror),
        Array::Tile(multiples) => {
            let tiled: Vec<usize> =
                dims.iter().zip(multiples).map(|(dim, times)| dim * times).collect();
            copied(x, Shape::new(&tiled), &tiles(dims, multiples))
        }
        Array::BroadcastTo(to) => {
            let own = to.rank() - dims.len();
            let filled = |(at, dim): (usize, &Option<usize>)| dim.unwrap_or_else(|| dims[at - own]);
            let filled: Vec<usize> = to.dims().iter().enumerate().map(filled).collect();
            copied(x, Shape::new(&filled), &repeated(dims, &filled))
        }
        Array::Reverse(reversed) => {
            let turn = |(at, axis): (usize, &Axis)| {
                if reversed.contains(&at) { Axis { step: -axis.step, ..*axis } } else { *axis }
            };
            let last = |at: &usize| axes[*at].step * (axes[*at].len as isize - 1);
            let reversed_once = (0..dims.len()).filter(|at| reversed.contains(at));
            viewed(x, reversed_once.map(|at| last(&at)).sum(), axes.iter().enumerate().map(turn))
        }
        Array::Cumsum { axis, exclusive, reverse } => {
            let along = [dims[*axis], axes[*axis].step as usize];
            let order = Order { exclusive: *exclusive, reverse: *reverse };
            by_number!(x.dtype(), N => written::<N>(x.shape(), |out| {
                scan::sums(x.slice::<N>(), along, order, out);
            }))
        }
        Array::ZerosLike => Tensor::zeros(x.dtype(), x.shape()),
        op => panic!("{op:?} has no kernel for one input"),
    }
}

/// A tensor that `write` fills.
fn written<T: Element>(shape: Shape, write: impl FnOnce(&mut [T])) -> Tensor {
    let mut out = Tensor::uninitialised::<T>(shape);
    write(out.make_mut());
    out
}

/// The elements of `x` that a view of these axes names, in its shape.
fn viewed(x: &Tensor, first: isize, axes: impl IntoIterator<Item = Axis>) -> Tensor {
    let axes: SmallVec<[Axis; 6]> = axes.into_iter().collect();
    let dims: SmallVec<[usize; 6]> = axes.iter().map(|axis| axis.len).collect();
    copied(x, Shape::new(&dims), &View::new(first, axes))
}

fn copied(x: &Tensor, shape: Shape, view: &View) -> Tensor {
    by_word!(x.dtype(), W => {
        filled_in::<W>(x.dtype(), shape, |out| strided::copy(x.words(), view, out))
    })
}

/// Zeros of `shape`, and each element of `dy` added where `view` says.
fn summed(dy: &Tensor, shape: Shape, view: &View) -> Tensor {
    let mut out = Tensor::zeros(dy.dtype(), shape);
    by_number!(dy.dtype(), N => strided::accumulate(dy.slice::<N>(), view, out.make_mut()));
    out
}

fn mirror_pad_grad(dy: &Tensor, paddings: &[(usize, usize)], mirror: Mirror) -> Tensor {
    let inner = |(dim, (before, after)): (&usize, &(usize, usize))| dim - before - after;
    let dims: Vec<usize> = dy.shape().dims().iter().zip(paddings).map(inner).collect();
    let mut out = Tensor::zeros(dy.dtype(), Shape::new(&dims));
    let padded = padded(&dims, paddings);
    by_number!(dy.dtype(), N => {
        pad::mirror_pad_grad(dy.slice::<N>(), &padded, mirror, out.make_mut());
    });
    out
}

/// Zeros of `shape`, and `dy` where the subscripts took it.
fn strided_grad(dy: &Tensor, shape: Shape, subscripts: &[Subscript]) -> Tensor {
    if let Some(padded) = around(subscripts, shape.dims()) {
        return by_word!(dy.dtype(), W => filled_in::<W>(dy.dtype(), shape, |out| {
            pad::pad(dy.words(), &padded, 0, out);
        }));
    }
    let (first, axes) = taken(subscripts, &dense(shape.dims()));
    let mut out = Tensor::zeros(dy.dtype(), shape);
    let view = View::new(first, axes);
    by_word!(dy.dtype(), W => strided::spread(dy.words::<W>(), &view, out.words_mut()));
    out
}

/// The shape with another dimension before `axis`.
fn inserted(shape: Shape, axis: usize, dim: usize) -> Shape {
    let (before, after) = shape.dims().split_at(axis);
    Shape::new(&[before, &[dim], after].concat())
}

fn removed(shape: Shape, axis: usize) -> Shape {
    let dims = shape.dims();
    Shape::new(&[&dims[..axis], &dims[axis + 1..]].concat())
}

fn concat(inputs: &[&Tensor], axis: usize) -> Tensor {
    let (dtype, mut dims) = (inputs[0].dtype(), inputs[0].shape().dims().to_vec());
    dims[axis] = inputs.iter().map(|x| x.shape().dims()[axis]).sum();
    let width = |x: &Tensor| x.shape().dims()[axis..].iter().product::<usize>();
    by_word!(dtype, W => filled_in::<W>(dtype, Shape::new(&dims), |out| {
        let inputs: SmallVec<[(&[W], usize); 8]> =
            inputs.iter().map(|x| (x.words(), width(x))).collect();
        pad::concat(&inputs, out);
    }))
}

/// The least size of a part that shares the memory of the whole \[bytes\]. A smaller one is copied,
/// which takes microseconds: it would keep the memory of the whole for as long as it is used.
const SHARED_FROM: usize = 1 << 16;

/// The parts of `x` along `axis`. Large ones along the first axis share its memory.
fn split(x: &Tensor, axis: usize, sizes: &[usize]) -> Outputs {
    let axes = dense(x.shape().dims());
    let mut begin = 0;
    let part = |size: &usize| {
        let mut axes = axes.clone();
        axes[axis].len = *size;
        let first = begin * axes[axis].step as usize;
        begin += size;
        let dims: SmallVec<[usize; 6]> = axes.iter().map(|axis| axis.len).collect();
        let shape = Shape::new(&dims);
        let is_large = axis == 0 && shape.bytes_of(x.dtype()) >= SHARED_FROM;
        let shared = if is_large { x.part(first, shape) } else { None };
        shared.unwrap_or_else(|| copied(x, shape, &View::new(first as isize, axes)))
    };
    sizes.iter().map(part).collect()
}

fn range(start: &Tensor, limit: &Tensor, delta: &Tensor) -> Tensor {
    let count =
        range_len(start, limit, delta).expect("shape inference lets only ranges that end through");
    by_number!(start.dtype(), N => written::<N>(Shape::from([count]), |out| {
        scan::range(start.slice::<N>()[0], delta.slice::<N>()[0], out);
    }))
}

/// `values`, which fit, as i32 or i64.
fn sizes(dtype: DType, shape: Shape, values: &[i64]) -> Tensor {
    match dtype {
        DType::I32 => written(shape, |out| {
            out.iter_mut().zip(values).for_each(|(out, value)| *out = *value as i32)
        }),
        _ => written(shape, |out| out.copy_from_slice(values)),
    }
}
