//! Functions of two elements, broadcast.

use super::chain::elementwise;
use super::types::{broadcast, number, outputs};
use crate::graph::{
    Backprop, ComputeError, Cost, Defined, Elementwise, GraphError, GraphProblem, Known, OpDef,
    Output, OutputTypes, Outputs, TensorType, bytes,
};
use crate::kernels::broadcast::{Operand, map2_broadcast, shape_of};
use crate::kernels::number::Number;
use crate::kernels::{by_number, cost, functions as f, written};
use crate::tensor::{Shape, Tensor};

listed! {
    /// A function of two elements of one type: f32, f64, i32 or i64. Shapes are broadcast as NumPy
    /// does it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Binary {
        /// `a + b` (TensorFlow `AddV2`).
        Add,
        /// `a − b`
        Sub,
        /// `a · b`
        Mul,
        /// `a / b`; of integers, rounded towards 0 (TensorFlow `RealDiv`; of integers `Div`).
        Div as "RealDiv",
        /// `⌊a / b⌋`
        FloorDiv,
        /// The remainder of [`FloorDiv`](Self::FloorDiv), with the sign of `b`.
        FloorMod,
        /// `aᵇ`
        Pow,
        /// The greater.
        Maximum,
        /// The lesser.
        Minimum,
        /// `(a − b)²`
        SquaredDifference,
    }
    pub(crate) const ALL;
    /// The name of its kind.
    fn name;
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    Binary::ALL.map(Defined::from).into()
}

impl OpDef for Binary {
    without_attributes!();

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let [_, _] = inputs else {
            return Err(GraphProblem::needs("another number of inputs", inputs));
        };
        let result = number(inputs).zip(broadcast(inputs));
        let needs = "two numbers of one type, of shapes that broadcast";
        outputs(result.map(|(dtype, shape)| TensorType::new(dtype, shape)), needs, inputs)
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let dy = of.only_arrived()?;
        if *self == Self::FloorDiv {
            return Ok(vec![None, None]);
        }
        let (a, b) = (of.input(0), of.input(1));
        let by_a = || self.by_left(&dy, &a, &b)?.summed_to(&a, &[&b]);
        let by_b = || self.by_right(of, &dy, &a, &b)?.summed_to(&b, &[&a]);
        Ok(vec![of.for_input(0, by_a)?, of.for_input(1, by_b)?])
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let each = if *self == Self::Pow { 2 * cost::EXP } else { 1 };
        Cost::work(each * outputs[0].1.elements(), bytes(inputs) + bytes(outputs))
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (a, b) = (inputs[0], inputs[1]);
        let shape = shape_of(a.shape(), b.shape());
        by_number!(a.dtype(), T => {
            if !a.dtype().is_float() && !divides(*self, a, b.slice::<T>()) {
                return Err(ComputeError::new(format!(
                    "{} of integers needs divisors other than 0 and exponents of at least 0; \
                     cast to f32 where others come",
                    self.kind(),
                )));
            }
            Ok(written(shape, |out| {
                arithmetic::<T>(*self, (a.slice(), a.shape()), (b.slice(), b.shape()), out, shape)
            }))
        })
    }

    fn elementwise(&self) -> Option<&dyn Elementwise> {
        Some(self)
    }
}

impl Binary {
    /// The gradient by the first operand, of the shape of the result.
    fn by_left(self, dy: &Output, a: &Output, b: &Output) -> Result<Output, GraphError> {
        match self {
            Self::Add | Self::Sub | Self::FloorDiv | Self::FloorMod => Ok(dy.clone()),
            Self::Mul => dy.mul(b),
            Self::Div => dy.div(b),
            Self::Pow => {
                let below = a.pow(&b.sub(&b.scalar_alike(1.0))?)?;
                dy.mul(&b.mul(&below)?)
            }
            Self::Maximum | Self::Minimum => self.wins(a, b)?.select(dy, &dy.scalar_alike(0.0)),
            Self::SquaredDifference => dy.mul(&dy.scalar_alike(2.0))?.mul(&a.sub(b)?),
        }
    }

    /// The gradient by the second operand, of the shape of the result.
    fn by_right(
        self,
        of: &Backprop<'_>,
        dy: &Output,
        a: &Output,
        b: &Output,
    ) -> Result<Output, GraphError> {
        match self {
            Self::Add => Ok(dy.clone()),
            Self::Sub => Ok(dy.negate()),
            Self::Mul => dy.mul(a),
            Self::Div => Ok(dy.div(b)?.mul(&of.output(0))?.negate()),
            Self::FloorDiv | Self::FloorMod => dy.mul(&a.floor_div(b)?.negate()),
            // Where the base is not above 0, its logarithm is not a number; the gradient is 0
            // there.
            Self::Pow => {
                let (zero, one) = (a.scalar_alike(0.0), a.scalar_alike(1.0));
                let base = a.greater(&zero)?.select(a, &one)?;
                dy.mul(&of.output(0).mul(&base.log())?)
            }
            Self::Maximum | Self::Minimum => self.wins(a, b)?.select(&dy.scalar_alike(0.0), dy),
            Self::SquaredDifference => Ok(self.by_left(dy, a, b)?.negate()),
        }
    }

    /// The elements in which the first operand gets the gradient of an extreme; on a tie it does.
    fn wins(self, a: &Output, b: &Output) -> Result<Output, GraphError> {
        if self == Self::Maximum { a.greater_equal(b) } else { a.less_equal(b) }
    }

    fn chained<T: Number>(self, at: usize, x: &[T], other: Option<Operand<'_, T>>, out: &mut [T]) {
        let (shape, other) = (Shape::from([x.len()]), other.expect("there are two operands"));
        let (a, b) = if at == 0 { ((x, shape), other) } else { (other, (x, shape)) };
        arithmetic(self, a, b, out, shape);
    }
}

elementwise!(Binary);

/// Whether integers have a result: no divisor is 0, and no exponent below.
fn divides<T: Number>(op: Binary, a: &Tensor, b: &[T]) -> bool {
    match op {
        Binary::Div | Binary::FloorDiv | Binary::FloorMod => {
            !b.contains(&T::ZERO) || a.shape().elements() == 0
        }
        Binary::Pow => b.iter().all(|b| *b >= T::ZERO) || a.shape().elements() == 0,
        _ => true,
    }
}

/// `out[i] = op(a[i], b[i])`, broadcast to `shape`.
fn arithmetic<T: Number>(
    op: Binary,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
    shape: Shape,
) {
    match op {
        Binary::Add => map2_broadcast(a, b, out, shape, T::plus),
        Binary::Sub => map2_broadcast(a, b, out, shape, T::minus),
        Binary::Mul => map2_broadcast(a, b, out, shape, T::times),
        Binary::Div => map2_broadcast(a, b, out, shape, T::quotient),
        Binary::FloorDiv => map2_broadcast(a, b, out, shape, T::floor_quotient),
        Binary::FloorMod => map2_broadcast(a, b, out, shape, f::floor_mod::<T>),
        Binary::Pow => map2_broadcast(a, b, out, shape, T::power),
        Binary::Maximum => map2_broadcast(a, b, out, shape, T::greater),
        Binary::Minimum => map2_broadcast(a, b, out, shape, T::lesser),
        Binary::SquaredDifference => map2_broadcast(a, b, out, shape, f::squared_difference::<T>),
    }
}

macro_rules! binary {
    ($($method:ident $function:ident $says:literal),* $(,)?) => {
        /// Functions of two elements of one type. Shapes are broadcast as NumPy does it: aligned at
        /// the last dimension; a dimension that is 1 or missing takes the size of the other.
        impl Output {$(
            #[doc = $says]
            ///
            /// # Errors
            /// If the element types differ or do not have the function, or the shapes do not
            /// broadcast.
            #[track_caller]
            pub fn $method(&self, other: &Self) -> Result<Self, GraphError> {
                self.with(&[other], Binary::$function)
            }
        )*}
    };
}
binary! {
    add Add "`a + b`",
    sub Sub "`a − b`",
    mul Mul "`a · b`",
    div Div "`a / b`; of integers, cut towards 0.",
    floor_div FloorDiv "`⌊a / b⌋`; it has no gradient.",
    floor_mod FloorMod
        "What is left of `a` after [`floor_div`](Self::floor_div), of the sign of `b`.",
    pow Pow "`aᵇ`",
    maximum Maximum "The greater; the first has the gradient where they are equal.",
    minimum Minimum "The lesser; the first has the gradient where they are equal.",
    squared_difference SquaredDifference "`(a − b)²`",
}
