//! Operations that move elements: our attributes become TensorFlow's inputs.

use super::{Attributes, Writer, Written, number};
use crate::graph::{Mirror, Operation, Subscript};
use crate::import::wire::{ListValue, Value};
use crate::operations::{Array, Indexed};

fn ints(values: &[usize]) -> Vec<i64> {
    values.iter().map(|value| *value as i64).collect()
}

fn list(values: &[usize]) -> Value {
    Value::List(ListValue { i: ints(values), ..ListValue::default() })
}

fn pairs(paddings: &[(usize, usize)]) -> Vec<i64> {
    paddings.iter().flat_map(|(before, after)| [*before as i64, *after as i64]).collect()
}

/// TensorFlow's begin, end, strides and masks of a slice.
struct Slice {
    bounds: [Vec<i64>; 3],
    masks: Vec<(&'static str, Value)>,
}

fn slice(subscripts: &[Subscript]) -> Slice {
    let mut bounds: [Vec<i64>; 3] = Default::default();
    let (mut no_begin, mut no_end, mut new, mut shrink) = (0, 0, 0, 0);
    for (i, subscript) in subscripts.iter().enumerate() {
        let bit = 1i64 << i;
        let entry = match *subscript {
            Subscript::Every { begin, end, stride } => {
                no_begin |= if begin.is_none() { bit } else { 0 };
                no_end |= if end.is_none() { bit } else { 0 };
                [begin.unwrap_or(0), end.unwrap_or(0), stride]
            }
            Subscript::At(position) => {
                shrink |= bit;
                // Before the end: TensorFlow looks at the begin alone.
                [position, position + 1, 1]
            }
            Subscript::NewAxis => {
                new |= bit;
                [0, 0, 1]
            }
        };
        bounds.iter_mut().zip(entry).for_each(|(bounds, entry)| bounds.push(entry));
    }
    let masks = vec![
        ("begin_mask", Value::I(no_begin)),
        ("end_mask", Value::I(no_end)),
        ("ellipsis_mask", Value::I(0)),
        ("new_axis_mask", Value::I(new)),
        ("shrink_axis_mask", Value::I(shrink)),
        ("Index", Value::Type(3)),
    ];
    Slice { bounds, masks }
}

impl Writer<'_> {
    pub(super) fn array(&mut self, of: &Operation, op: &Array) -> Written {
        let (t, mut inputs) = (self.first_type(of), self.inputs(of));
        let mut attributes: Vec<_> = t.into_iter().collect();
        let kind = self
            .reordered(of, op, &mut inputs, &mut attributes)
            .or_else(|| self.cut(of, op, &mut inputs, &mut attributes))
            .or_else(|| self.filled(of, op, &mut inputs, &mut attributes))?;
        self.own(of, kind, inputs, attributes)
    }

    /// The kind, inputs and attributes of another shape or order.
    fn reordered(
        &mut self,
        of: &Operation,
        op: &Array,
        inputs: &mut Vec<String>,
        attributes: &mut Attributes<'_>,
    ) -> Option<&'static str> {
        Some(match op {
            Array::Reshape(shape) => {
                inputs.push(self.dims(of, shape)?);
                "Reshape"
            }
            Array::ReshapeLike => {
                inputs[1] = self.shape_of(of, 1);
                "Reshape"
            }
            Array::ExpandDims(axis) => {
                inputs.push(self.int(of, "axis", *axis)?);
                "ExpandDims"
            }
            // To TensorFlow, no axes are all of size 1.
            Array::Squeeze(axes) if axes.is_empty() => "Identity",
            Array::Squeeze(axes) => {
                attributes.push(("squeeze_dims", list(axes)));
                "Squeeze"
            }
            Array::Transpose(order) => {
                inputs.push(self.ints(of, "order", &ints(order))?);
                "Transpose"
            }
            Array::Concat { axis } => {
                attributes.push(("N", Value::I(inputs.len() as i64)));
                inputs.push(self.int(of, "axis", *axis)?);
                "ConcatV2"
            }
            Array::Split { axis, sizes } => {
                attributes.push(("num_split", Value::I(sizes.len() as i64)));
                attributes.push(("Tlen", Value::Type(3)));
                inputs.push(self.ints(of, "sizes", &ints(sizes))?);
                inputs.push(self.int(of, "axis", *axis)?);
                "SplitV"
            }
            Array::Stack { axis } => {
                attributes.push(("N", Value::I(inputs.len() as i64)));
                attributes.push(("axis", Value::I(*axis as i64)));
                "Pack"
            }
            Array::Unstack { axis } => {
                attributes.push(("num", Value::I(of.outputs.len() as i64)));
                attributes.push(("axis", Value::I(*axis as i64)));
                "Unpack"
            }
            _ => return None,
        })
    }

    /// The same of parts of a value, and of what is padded.
    fn cut(
        &mut self,
        of: &Operation,
        op: &Array,
        inputs: &mut Vec<String>,
        attributes: &mut Attributes<'_>,
    ) -> Option<&'static str> {
        Some(match op {
            Array::Slice { begin, size } => {
                let size: Vec<i64> =
                    size.iter().map(|size| size.map_or(-1, |size| size as i64)).collect();
                inputs.push(self.ints(of, "begin", &ints(begin))?);
                inputs.push(self.ints(of, "size", &size)?);
                attributes.push(("Index", Value::Type(3)));
                "Slice"
            }
            Array::StridedSlice(subscripts) => {
                let slice = slice(subscripts);
                inputs.extend(self.bounds(of, &slice)?);
                attributes.extend(slice.masks);
                "StridedSlice"
            }
            Array::StridedSliceGrad(subscripts) => {
                let (slice, dy, like) =
                    (slice(subscripts), inputs[0].clone(), self.shape_of(of, 1));
                *inputs = vec![like];
                inputs.extend(self.bounds(of, &slice)?);
                inputs.push(dy);
                attributes.extend(slice.masks);
                "StridedSliceGrad"
            }
            Array::Pad { paddings, value } => {
                inputs.push(self.matrix_of_pairs(of, paddings)?);
                inputs.push(self.constant(of, "value", value));
                "PadV2"
            }
            Array::MirrorPad { paddings, mirror } => {
                inputs.push(self.matrix_of_pairs(of, paddings)?);
                let mode = if *mirror == Mirror::Reflect { "REFLECT" } else { "SYMMETRIC" };
                attributes.push(("mode", Value::S(mode.into())));
                "MirrorPad"
            }
            _ => return None,
        })
    }

    /// The same of repetitions, sums and sizes.
    fn filled(
        &mut self,
        of: &Operation,
        op: &Array,
        inputs: &mut Vec<String>,
        attributes: &mut Attributes<'_>,
    ) -> Option<&'static str> {
        Some(match op {
            Array::Tile(multiples) => {
                inputs.push(self.ints(of, "multiples", &ints(multiples))?);
                "Tile"
            }
            Array::BroadcastTo(shape) => {
                let dims = shape.known()?;
                inputs.push(self.ints(of, "dims", &ints(dims.dims()))?);
                "BroadcastTo"
            }
            Array::Reverse(axes) => {
                inputs.push(self.ints(of, "axes", &ints(axes))?);
                "ReverseV2"
            }
            Array::Cumsum { axis, exclusive, reverse } => {
                inputs.push(self.int(of, "axis", *axis)?);
                attributes.push(("exclusive", Value::B(*exclusive)));
                attributes.push(("reverse", Value::B(*reverse)));
                "Cumsum"
            }
            Array::ZerosLike => "ZerosLike",
            Array::Range { start, limit, delta } => {
                attributes.push(("Tidx", Value::Type(number(start.dtype()))));
                let parts = [("start", start), ("limit", limit), ("delta", delta)];
                *inputs = parts.map(|(part, value)| self.constant(of, part, value)).into();
                "Range"
            }
            Array::Shape(dtype) => {
                attributes.push(("out_type", Value::Type(number(*dtype))));
                "Shape"
            }
            Array::Size(dtype) => {
                attributes.push(("out_type", Value::Type(number(*dtype))));
                "Size"
            }
            Array::Rank => "Rank",
            _ => return None,
        })
    }

    /// `T`, of an operation with inputs.
    fn first_type(&self, of: &Operation) -> Option<(&'static str, Value)> {
        (!of.inputs.is_empty()).then(|| self.t(of, 0))
    }

    fn bounds(&mut self, of: &Operation, slice: &Slice) -> Option<Vec<String>> {
        let parts = ["begin", "end", "strides"].iter().zip(&slice.bounds);
        parts.map(|(part, bounds)| self.ints(of, part, bounds)).collect()
    }

    fn matrix_of_pairs(&mut self, of: &Operation, paddings: &[(usize, usize)]) -> Option<String> {
        let flat: Option<Vec<i32>> =
            pairs(paddings).into_iter().map(|size| i32::try_from(size).ok()).collect();
        let matrix = crate::tensor::Tensor::new([paddings.len(), 2], &flat?).ok()?;
        Some(self.constant(of, "paddings", &matrix))
    }

    /// `(gradient, x)`: the gradient summed to the shape of `x`, as TensorFlow's gradients do it.
    pub(super) fn summed(&mut self, of: &Operation) -> Written {
        let (of_x, of_dy) = (self.shape_of(of, 1), self.shape_of(of, 0));
        let (dy, t) = (self.input(of, 0), self.t(of, 0));
        let args = vec![of_x.clone(), of_dy];
        let axes =
            self.helper(of, "axes", "BroadcastGradientArgs", args, vec![("T", Value::Type(3))]);
        let keep = vec![t.clone(), ("Tidx", Value::Type(3)), ("keep_dims", Value::B(true))];
        let sum = self.helper(of, "sum", "Sum", vec![dy, axes], keep);
        self.own(of, "Reshape", vec![sum, of_x], vec![t])
    }

    pub(super) fn indexed(&mut self, of: &Operation, op: &Indexed) -> Written {
        let mut inputs = self.inputs(of);
        let type_of = |i: usize| Value::Type(number(self.type_of(of, i).dtype));
        match op {
            Indexed::Gather { axis, batch } => {
                let attributes = vec![
                    ("Tparams", type_of(0)),
                    ("Tindices", type_of(1)),
                    ("Taxis", Value::Type(3)),
                    ("batch_dims", Value::I(*batch as i64)),
                ];
                inputs.push(self.int(of, "axis", *axis)?);
                self.own(of, "GatherV2", inputs, attributes)
            }
            Indexed::GatherNd => {
                let attributes = vec![("Tparams", type_of(0)), ("Tindices", type_of(1))];
                self.own(of, "GatherNd", inputs, attributes)
            }
            Indexed::ScatterNd(shape) if self.type_of(of, 0).dtype == crate::tensor::DType::I32 => {
                let attributes = vec![("T", type_of(1)), ("Tindices", type_of(0))];
                inputs.push(self.ints(of, "dims", &ints(shape.dims()))?);
                self.own(of, "ScatterNd", inputs, attributes)
            }
            Indexed::TensorScatterAdd | Indexed::TensorScatterUpdate => {
                let attributes = vec![("T", type_of(0)), ("Tindices", type_of(1))];
                let is_sum = *op == Indexed::TensorScatterAdd;
                let kind = if is_sum { "TensorScatterAdd" } else { "TensorScatterUpdate" };
                self.own(of, kind, inputs, attributes)
            }
            Indexed::OneHot { depth, axis, on, off } => {
                let attributes = vec![
                    ("T", Value::Type(number(on.dtype()))),
                    ("TI", type_of(0)),
                    ("axis", Value::I(*axis as i64)),
                ];
                inputs.push(self.int(of, "depth", *depth)?);
                inputs.push(self.constant(of, "on", on));
                inputs.push(self.constant(of, "off", off));
                self.own(of, "OneHot", inputs, attributes)
            }
            Indexed::ScatterNd(_) | Indexed::GatherGrad { .. } => None,
        }
    }
}
