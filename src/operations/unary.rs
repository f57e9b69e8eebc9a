//! Functions of each element of one value, and their gradients.

mod arithmetic;
mod build;
mod second;

use super::chain::elementwise;
use super::types::{matching, number, outputs, real};
use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, Elementwise, GraphError, GraphProblem,
    Known, OpDef, Output, OutputTypes, Outputs, TensorType, bytes,
};
use crate::kernels::broadcast::Operand;
use crate::kernels::cost::{EXP, TANH};
use crate::kernels::number::Float;
use crate::kernels::{by_float, written};
use crate::tensor::{DType, Tensor};

/// A function of one real number (f32, f64), or also of an integer if its doc says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// `max(x, 0)`
    Relu,
    /// `min(max(x, 0), 6)`
    Relu6,
    /// `x`, multiplied by this factor if it is below 0.
    LeakyRelu(f32),
    /// `x`, or `eˣ − 1` below 0.
    Elu,
    /// `1.0507 x`, or `1.7581 (eˣ − 1)` below 0 (Klambauer et al. 2017).
    Selu,
    /// `x Φ(x)`, Φ being the normal distribution (TensorFlow `tf.nn.gelu`; Hendrycks and Gimpel
    /// 2016).
    Gelu {
        /// Whether it is `½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))` instead.
        approximate: bool,
    },
    /// `1 / (1 + e⁻ˣ)`
    Sigmoid,
    /// `tanh x`
    Tanh,
    /// `ln(1 + eˣ)`
    Softplus,
    /// `x / (1 + |x|)`
    Softsign,
    /// `x / (1 + e⁻ˣ)` (TensorFlow `tf.nn.silu`).
    Silu,
    /// `−ln(1 + e⁻ˣ)` (TensorFlow `tf.math.log_sigmoid`).
    LogSigmoid,
    /// `eˣ`
    Exp,
    /// `eˣ − 1`
    Expm1,
    /// `ln x`
    Log,
    /// `ln(1 + x)`
    Log1p,
    /// `√x`
    Sqrt,
    /// `1 / √x`
    Rsqrt,
    /// `1 / x`
    Reciprocal,
    /// `x²`, of integers too.
    Square,
    /// `|x|`, of integers too.
    Abs,
    /// 1, −1 or 0, of integers too.
    Sign,
    /// `−x`, of integers too.
    Neg,
    /// The integer below.
    Floor,
    /// The integer above.
    Ceil,
    /// The nearest integer; of two equally near, the even one.
    Round,
    /// `sin x`
    Sin,
    /// `cos x`
    Cos,
    /// The error function.
    Erf,
}

/// `(gradient, x)` or `(gradient, y)`, by the function: the gradient of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnaryGrad(pub Unary);

/// The value that a function's gradient is computed from, besides the gradient of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The function's input.
    Input,
    /// Its result.
    Output,
    /// None, since the gradient needs no kernel of its own: that of `Neg`, and of the functions
    /// through which no gradient passes back.
    Nothing,
}

/// The list of all functions, and a record of each: what its gradient sees, and the operations of
/// it and of its gradient for an element.
macro_rules! records {
    ($(
        $name:ident $(($of:literal))? $({ $key:ident: $value:literal })?: $seen:ident $work:expr,
    )*) => {
        /// Each function, with any attribute.
        pub(crate) const ALL: [Self; [$(stringify!($name)),*].len()] =
            [$(Self::$name $(($of))? $({ $key: $value })?),*];

        /// The kinds of the function and of its gradient, what the gradient sees, and the
        /// operations of both for an element.
        fn record(self) -> ([&'static str; 2], Seen, [usize; 2]) {
            match self {$(
                Self::$name { .. } => (
                    [stringify!($name), concat!(stringify!($name), "Grad")], Seen::$seen, $work
                ),
            )*}
        }
    };
}

impl Unary {
    records! {
        Relu: Output [1, 2],
        Relu6: Output [2, 2],
        LeakyRelu(0.2): Input [1, 2],
        Elu: Output [EXP + 2, 2],
        Selu: Output [EXP + 2, 2],
        Gelu { approximate: false }: Input [TANH, TANH + EXP],
        Sigmoid: Output [TANH, 2],
        Tanh: Output [TANH, 2],
        Softplus: Input [2 * EXP, TANH],
        Softsign: Input [2, 2],
        Silu: Input [TANH, TANH],
        LogSigmoid: Input [2 * EXP, TANH],
        Exp: Output [EXP, 2],
        Expm1: Input [EXP, EXP],
        Log: Input [EXP, 2],
        Log1p: Input [EXP, 2],
        Sqrt: Output [1, 2],
        Rsqrt: Output [2, 2],
        Reciprocal: Output [1, 2],
        Square: Input [1, 2],
        Abs: Input [1, 2],
        Sign: Output [1, 2],
        Neg: Nothing [1, 2],
        Floor: Nothing [1, 2],
        Ceil: Nothing [1, 2],
        Round: Nothing [1, 2],
        Sin: Input [EXP, EXP],
        Cos: Input [EXP, EXP],
        Erf: Input [TANH, EXP],
    }

    pub(crate) fn gradient_sees(self) -> Seen {
        self.record().1
    }

    /// Whether TensorFlow's gradient takes the function's result before the gradient of it.
    pub(crate) fn gradient_takes_result_first(self) -> bool {
        matches!(self, Self::Sigmoid | Self::Tanh | Self::Sqrt | Self::Rsqrt | Self::Reciprocal)
    }

    fn takes_integers(self) -> bool {
        matches!(self, Self::Square | Self::Abs | Self::Sign | Self::Neg)
    }

    /// Whether the kernel looks at all elements before it chooses how to compute them.
    fn looks_ahead(self) -> bool {
        matches!(self, Self::Sin | Self::Cos)
    }

    fn with_attributes(self, given: &mut Attributes) -> Self {
        match self {
            Self::LeakyRelu(alpha) => Self::LeakyRelu(given.float("alpha", alpha)),
            Self::Gelu { approximate } => {
                Self::Gelu { approximate: given.flag("approximate", approximate) }
            }
            function => function,
        }
    }
}

/// One of each kind. The gradients that have no kernel keep their places, since a place is an
/// operation's number in messages; shape inference refuses them.
pub(super) fn kinds() -> Vec<Defined> {
    let gradients = Unary::ALL.map(UnaryGrad).map(Defined::from);
    Unary::ALL.map(Defined::from).into_iter().chain(gradients).collect()
}

impl OpDef for Unary {
    fn kind(&self) -> &'static str {
        self.record().0[0]
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        self.with_attributes(given).into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let (fits, needs) = match (self.takes_integers(), inputs) {
            (true, [_]) => (number(inputs), "one f32, f64, i32 or i64"),
            (false, [_]) => (real(inputs), "one f32 or f64"),
            _ => (None, "another number of inputs"),
        };
        outputs(fits.map(|_| inputs[0]), needs, inputs)
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let dy = of.only_arrived()?;
        let seen = match self.gradient_sees() {
            Seen::Input => of.input(0),
            Seen::Output => of.output(0),
            Seen::Nothing if *self == Self::Neg => return Ok(vec![Some(dy.negate())]),
            Seen::Nothing => return Ok(vec![None]),
        };
        Ok(vec![Some(dy.with(&[&seen], UnaryGrad(*self))?)])
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let flops = self.record().2[0] * outputs[0].1.elements();
        Cost::work(flops, bytes(inputs) + bytes(outputs))
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let x = inputs[0];
        let shape = x.shape();
        Ok(match x.dtype() {
            DType::I32 => written::<i32>(shape, |y| arithmetic::of_any(*self, x.slice(), y)),
            DType::I64 => written::<i64>(shape, |y| arithmetic::of_any(*self, x.slice(), y)),
            dtype => by_float!(dtype, T => {
                written::<T>(shape, |y| arithmetic::unary(*self, x.slice(), y))
            }),
        })
    }

    fn elementwise(&self) -> Option<&dyn Elementwise> {
        if self.looks_ahead() { None } else { Some(self) }
    }
}

impl Unary {
    fn chained<T: Float>(&self, _: usize, x: &[T], _: Option<Operand<'_, T>>, out: &mut [T]) {
        arithmetic::unary(*self, x, out);
    }
}

elementwise!(Unary);

impl OpDef for UnaryGrad {
    fn kind(&self) -> &'static str {
        self.0.record().0[1]
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        Self(self.0.with_attributes(given)).into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let result = match inputs {
            _ if self.0.gradient_sees() == Seen::Nothing => {
                let needs = format!("no `{}`: that gradient has no kernel", self.kind());
                return Err(GraphProblem::needs(&needs, inputs));
            }
            [dy, _] if real(inputs).is_some() => matching(inputs).map(|shape| (dy.dtype, shape)),
            [_, _] => None,
            _ => return Err(GraphProblem::needs("another number of inputs", inputs)),
        };
        let result = result.map(|(dtype, shape)| TensorType::new(dtype, shape));
        outputs(result, "two f32 or two f64 of one shape", inputs)
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let (arrived, dy, seen) = (of.only_arrived()?, of.input(0), of.input(1));
        let by_dy = of.for_input(0, || arrived.with(&[&seen], *self))?;
        if !of.wants(1) {
            return Ok(vec![by_dy, None]);
        }
        let by_seen = second::by_seen(self.0, &(arrived * dy), &seen)?;
        Ok(vec![by_dy, by_seen.ok_or_else(|| of.no_gradient())?])
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let flops = self.0.record().2[1] * outputs[0].1.elements();
        Cost::work(flops, bytes(inputs) + bytes(outputs))
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (dy, seen) = (inputs[0], inputs[1]);
        Ok(by_float!(dy.dtype(), T => written::<T>(dy.shape(), |dx| {
            arithmetic::unary_grad(self.0, dy.slice(), seen.slice(), dx);
        })))
    }

    fn elementwise(&self) -> Option<&dyn Elementwise> {
        if self.0.looks_ahead() { None } else { Some(self) }
    }
}

impl UnaryGrad {
    fn chained<T: Float>(&self, at: usize, x: &[T], other: Option<Operand<'_, T>>, out: &mut [T]) {
        let (other, _) = other.expect("a gradient sees a value");
        let (dy, seen) = if at == 0 { (x, other) } else { (other, x) };
        arithmetic::unary_grad(self.0, dy, seen, out);
    }
}

elementwise!(UnaryGrad);
