//! Arithmetic, products, reductions, losses and windows.

use super::{Attributes, Writer, Written, number, shape};
use crate::graph::{Defined, Operation, Padding, Sliding};
use crate::import::wire::{ListValue, Value};
use crate::operations::{
    Binary, Broadcast, Cast, Channels, Compare, Convolution, Guard, Library, Logical, LossFunction,
    Order, Pool, Product, Reduce, Rows, Unary, UnaryGrad, Window,
};
use crate::tensor::DType;

fn text(text: &str) -> Value {
    Value::S(text.as_bytes().to_vec())
}

/// `[1, height, width, 1]`
fn of_image([height, width]: [usize; 2]) -> Value {
    let i = vec![1, height as i64, width as i64, 1];
    Value::List(ListValue { i, ..ListValue::default() })
}

fn sliding(of: &Sliding) -> Attributes<'static> {
    let mut attributes = vec![("strides", of_image(of.strides)), ("data_format", text("NHWC"))];
    let padding = match of.padding {
        Padding::Same => "SAME",
        Padding::Valid => "VALID",
        Padding::Explicit([[top, bottom], [left, right]]) => {
            let i = [0, 0, top, bottom, left, right, 0, 0].map(|size| size as i64).to_vec();
            let sizes = Value::List(ListValue { i, ..ListValue::default() });
            attributes.push(("explicit_paddings", sizes));
            "EXPLICIT"
        }
    };
    attributes.push(("padding", text(padding)));
    attributes
}

impl Writer<'_> {
    /// An operation that is one of TensorFlow's, with other inputs or attributes at most.
    pub(super) fn plain(&mut self, of: &Operation, op: &Defined) -> Written {
        if let Some(op) = op.get::<Unary>() {
            return self.unary(of, *op);
        }
        if let Some(UnaryGrad(op)) = op.get() {
            return self.unary_gradient(of, *op);
        }
        if let Some(op) = op.get::<Reduce>() {
            return self.reduction(of, op);
        }
        if let Some(op) = op.get::<Window>() {
            return self.window(of, op);
        }
        let (mut inputs, mut attributes) = (self.inputs(of), Attributes::new());
        let type_of = |i: usize| Value::Type(number(self.type_of(of, i).dtype));
        let kind = if let Some(op) = op.get::<Binary>() {
            attributes.push(("T", type_of(0)));
            self.binary(of, *op)
        } else if let Some(Cast(to)) = op.get() {
            attributes = vec![("SrcT", type_of(0)), ("DstT", Value::Type(number(*to)))];
            "Cast"
        } else if let Some(op) = op.get::<Product>() {
            attributes.push(("T", type_of(0)));
            match *op {
                Product::MatMul { transpose_a, transpose_b } => {
                    attributes.push(("transpose_a", Value::B(transpose_a)));
                    attributes.push(("transpose_b", Value::B(transpose_b)));
                    "MatMul"
                }
                Product::BatchMatMul { adj_x, adj_y } => {
                    attributes.push(("adj_x", Value::B(adj_x)));
                    attributes.push(("adj_y", Value::B(adj_y)));
                    "BatchMatMulV2"
                }
            }
        } else if let Some(op) = op.get::<LossFunction>() {
            attributes.push(("T", type_of(0)));
            match op {
                LossFunction::SparseSoftmaxCrossEntropyWithLogits => {
                    attributes.push(("Tlabels", type_of(1)));
                }
                LossFunction::SoftmaxGrad
                | LossFunction::LogSoftmaxGrad
                | LossFunction::SigmoidCrossEntropyWithLogits => return None,
                _ => {}
            }
            of.op.kind()
        } else if let Some(Order::ArgMax { axis, dtype } | Order::ArgMin { axis, dtype }) = op.get()
        {
            attributes = vec![
                ("T", type_of(0)),
                ("Tidx", Value::Type(3)),
                ("output_type", Value::Type(number(*dtype))),
            ];
            inputs.push(self.int(of, "axis", *axis)?);
            of.op.kind()
        } else if let Some(Order::TopK { k: Some(k) }) = op.get() {
            attributes.push(("T", type_of(0)));
            inputs.push(self.int(of, "k", *k)?);
            "TopKV2"
        } else if op.get::<Logical>().is_some() {
            of.op.kind()
        } else if op.get::<Compare>().is_some()
            || op.get::<Library>().is_some_and(|op| *op != Library::Trigamma)
        {
            attributes.push(("T", type_of(0)));
            of.op.kind()
        } else {
            return None;
        };
        self.own(of, kind, inputs, attributes)
    }

    pub(super) fn guard(&mut self, of: &Operation, op: &Guard) -> Written {
        let (inputs, t) = (self.inputs(of), self.t(of, 0));
        match op {
            Guard::StopGradient => self.own(of, "StopGradient", inputs, vec![t]),
            Guard::CustomGradient => {
                let is_custom = ("_gradient_op_type", text("CustomGradient"));
                self.own(of, "Identity", inputs, vec![t, is_custom])
            }
            Guard::PlaceholderWithDefault { shape: dims } => {
                let attributes = vec![
                    ("dtype", Value::Type(number(self.type_of(of, 0).dtype))),
                    ("shape", Value::Shape(shape(dims))),
                ];
                self.own(of, "PlaceholderWithDefault", inputs, attributes)
            }
            Guard::CheckNumerics { .. } | Guard::Assert { .. } | Guard::Print { .. } => None,
        }
    }

    /// TensorFlow's kind of a function of two elements.
    fn binary(&self, of: &Operation, op: Binary) -> &'static str {
        match op {
            Binary::Add => "AddV2",
            Binary::Div if !self.type_of(of, 0).dtype.is_float() => "TruncateDiv",
            _ => of.op.kind(),
        }
    }

    fn unary(&mut self, of: &Operation, op: Unary) -> Written {
        let (inputs, t) = (self.inputs(of), self.t(of, 0));
        match op {
            Unary::Gelu { .. } => None,
            Unary::Silu => {
                let x = inputs[0].clone();
                let gate = self.helper(of, "gate", "Sigmoid", inputs, vec![t.clone()]);
                self.own(of, "Mul", vec![x, gate], vec![t])
            }
            Unary::LogSigmoid => {
                let other = self.helper(of, "negative", "Neg", inputs, vec![t.clone()]);
                let plus = self.helper(of, "softplus", "Softplus", vec![other], vec![t.clone()]);
                self.own(of, "Neg", vec![plus], vec![t])
            }
            Unary::LeakyRelu(alpha) => {
                self.own(of, "LeakyRelu", inputs, vec![t, ("alpha", Value::F(alpha))])
            }
            _ => self.own(of, of.op.kind(), inputs, vec![t]),
        }
    }

    /// `(gradient, x)` or `(gradient, y)`
    fn unary_gradient(&mut self, of: &Operation, op: Unary) -> Written {
        let (dy, seen, t) = (self.input(of, 0), self.input(of, 1), self.t(of, 0));
        match op {
            Unary::Relu
            | Unary::Relu6
            | Unary::Elu
            | Unary::Selu
            | Unary::Softplus
            | Unary::Softsign => self.own(of, of.op.kind(), vec![dy, seen], vec![t]),
            _ if op.gradient_takes_result_first() => {
                self.own(of, of.op.kind(), vec![seen, dy], vec![t])
            }
            Unary::Exp => self.own(of, "Mul", vec![dy, seen], vec![t]),
            Unary::Log => self.own(of, "RealDiv", vec![dy, seen], vec![t]),
            Unary::Square => {
                let two = self.scalar(of, "two", 0, 2.0);
                let twice = self.helper(of, "twice", "Mul", vec![seen, two], vec![t.clone()]);
                self.own(of, "Mul", vec![dy, twice], vec![t])
            }
            Unary::Abs => {
                let sign = self.helper(of, "sign", "Sign", vec![seen], vec![t.clone()]);
                self.own(of, "Mul", vec![dy, sign], vec![t])
            }
            _ => None,
        }
    }

    fn reduction(&mut self, of: &Operation, op: &Reduce) -> Written {
        let axes: Vec<i64> = op.axes.iter().map(|axis| axis as i64).collect();
        let inputs = vec![self.input(of, 0), self.ints(of, "axes", &axes)?];
        let mut attributes = vec![("keep_dims", Value::B(op.keep_dims)), ("Tidx", Value::Type(3))];
        if self.type_of(of, 0).dtype != DType::Bool {
            attributes.push(self.t(of, 0));
        }
        self.own(of, of.op.kind(), inputs, attributes)
    }

    pub(super) fn broadcast(&mut self, of: &Operation, op: Broadcast) -> Written {
        let inputs = self.inputs(of);
        match op {
            Broadcast::Select => {
                let t = self.t(of, 1);
                self.own(of, "SelectV2", inputs, vec![t])
            }
            Broadcast::AddN => {
                let attributes = vec![self.t(of, 0), ("N", Value::I(inputs.len() as i64))];
                self.own(of, "AddN", inputs, attributes)
            }
            Broadcast::SumToLike => self.summed(of),
        }
    }

    pub(super) fn rows(&mut self, of: &Operation, op: Rows) -> Written {
        let (mut inputs, t) = (self.inputs(of), self.t(of, 0));
        match op {
            Rows::ScaleRows => {
                let (axis, t) = (self.int(of, "axis", 1)?, t);
                let factor = vec![inputs[1].clone(), axis];
                inputs[1] = self.helper(of, "factor", "ExpandDims", factor, vec![t.clone()]);
                self.own(of, "Mul", inputs, vec![t])
            }
            Rows::BiasAdd | Rows::BiasAddGrad => self.own(of, of.op.kind(), inputs, vec![t]),
        }
    }

    fn window(&mut self, of: &Operation, op: &Window) -> Written {
        let (mut inputs, t) = (self.inputs(of), self.t(of, 0));
        let convolution = |of: &Convolution| {
            let mut attributes = sliding(&of.sliding);
            attributes.push(("dilations", of_image(of.sliding.dilations)));
            attributes
        };
        let pool = |of: &Pool| {
            let mut attributes = sliding(&of.sliding);
            attributes.push(("ksize", of_image(of.size)));
            attributes
        };
        let (kind, mut attributes) = match op {
            Window::Convolution(own) => (of.op.kind(), convolution(own)),
            Window::InputGradient(own, None) => {
                inputs = vec![self.shape_of(of, 2), inputs[1].clone(), inputs[0].clone()];
                let is_each = own.channels == Channels::Each;
                let kinds = ["Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput"];
                (kinds[usize::from(is_each)], convolution(own))
            }
            Window::FilterGradient(own) => {
                inputs = vec![inputs[0].clone(), self.shape_of(of, 2), inputs[1].clone()];
                let is_each = own.channels == Channels::Each;
                let kinds = ["Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter"];
                (kinds[usize::from(is_each)], convolution(own))
            }
            Window::MaxPool(own) => ("MaxPool", pool(own)),
            Window::MaxPoolGrad(own) => ("MaxPoolGrad", pool(own)),
            Window::AvgPool(own) => ("AvgPool", pool(own)),
            Window::AvgPoolGrad(own) => {
                inputs = vec![self.shape_of(of, 1), inputs[0].clone()];
                ("AvgPoolGrad", pool(own))
            }
            Window::InputGradient(_, Some(_)) => return None,
        };
        attributes.push(t);
        self.own(of, kind, inputs, attributes)
    }
}
