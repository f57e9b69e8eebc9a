//! Functions of each element that the platform's library computes: seldom used, one element after
//! another. The common functions are [`Unary`](super::Unary)'s.

pub(crate) mod gamma;

use super::types::{outputs, real};
use crate::graph::{
    Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, Known, OpDef, Output,
    OutputTypes, Outputs, TensorType, bytes,
};
use crate::kernels::cost::EXP;
use crate::kernels::{parallel, written};
use crate::tensor::{DType, Tensor};

listed! {
    /// A function of one real number (f32, f64; f32 is computed as f64 and rounded).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Library {
        /// `tan x`
        Tan,
        /// `sinh x`
        Sinh,
        /// `cosh x`
        Cosh,
        /// `arcsin x`
        Asin,
        /// `arccos x`
        Acos,
        /// `arctan x`
        Atan,
        /// `arsinh x`
        Asinh,
        /// `arcosh x`
        Acosh,
        /// `artanh x`
        Atanh,
        /// `1 − erf x`, precise where it is almost 0.
        Erfc,
        /// `ln |Γ(x)|`
        Lgamma,
        /// The derivative of `ln Γ(x)`.
        Digamma,
        /// The derivative of [`Digamma`](Self::Digamma).
        Trigamma,
    }
    pub(crate) const ALL;
    /// The name of its kind.
    fn name;
}

impl Library {
    fn function(self) -> fn(f64) -> f64 {
        match self {
            Self::Tan => f64::tan,
            Self::Sinh => f64::sinh,
            Self::Cosh => f64::cosh,
            Self::Asin => f64::asin,
            Self::Acos => f64::acos,
            Self::Atan => f64::atan,
            Self::Asinh => f64::asinh,
            Self::Acosh => f64::acosh,
            Self::Atanh => f64::atanh,
            Self::Erfc => erfc,
            Self::Lgamma => gamma::logarithm,
            Self::Digamma => gamma::digamma,
            Self::Trigamma => gamma::trigamma,
        }
    }

    /// The derivative at the operation's input.
    fn derivative(self, of: &Backprop<'_>) -> Result<Output, GraphError> {
        let (x, y) = (&of.input(0), &of.output(0));
        let one = x.scalar_alike(1.0);
        match self {
            Self::Lgamma => x.with(&[], Self::Digamma),
            Self::Digamma => x.with(&[], Self::Trigamma),
            Self::Trigamma => Err(of.no_gradient()),
            Self::Tan => one.add(&y.square()),
            Self::Sinh => x.with(&[], Self::Cosh),
            Self::Cosh => x.with(&[], Self::Sinh),
            Self::Asin => Ok(one.sub(&x.square())?.rsqrt()),
            Self::Acos => Ok(one.sub(&x.square())?.rsqrt().negate()),
            Self::Atan => Ok(one.add(&x.square())?.reciprocal()),
            Self::Asinh => Ok(one.add(&x.square())?.rsqrt()),
            Self::Acosh => Ok(x.square().sub(&one)?.rsqrt()),
            Self::Atanh => Ok(one.sub(&x.square())?.reciprocal()),
            Self::Erfc => {
                x.square().negate().exp().mul(&x.scalar_alike(-std::f64::consts::FRAC_2_SQRT_PI))
            }
        }
    }
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    Library::ALL.map(Defined::from).into()
}

impl OpDef for Library {
    without_attributes!();

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let fits = if inputs.len() == 1 { real(inputs) } else { None };
        outputs(fits.map(|_| inputs[0]), "one f32 or f64", inputs)
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let derivative = self.derivative(of)?;
        Ok(vec![Some(of.only_arrived()?.mul(&derivative)?)])
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        Cost::work(4 * EXP * outputs[0].1.elements(), bytes(inputs) + bytes(outputs))
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (x, function) = (inputs[0], self.function());
        Ok(match x.dtype() {
            DType::F32 => written::<f32>(x.shape(), |y| {
                parallel::map(x.slice::<f32>(), y, |x| function(f64::from(x)) as f32);
            }),
            _ => written::<f64>(x.shape(), |y| parallel::map(x.slice::<f64>(), y, function)),
        })
    }
}

/// The complement of the error function: its power series below 2, its continued fraction above
/// (Abramowitz and Stegun 1964, 7.1.6 and 7.1.14).
pub(crate) fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let size = x.abs();
    let above = if size < 2.0 {
        let terms = std::iter::successors(Some((size, 0.0)), |(term, n): &(f64, f64)| {
            Some((term * 2.0 * size * size / (2.0 * n + 3.0), n + 1.0))
        });
        let series: f64 = terms.take(60).map(|(term, _)| term).sum();
        1.0 - std::f64::consts::FRAC_2_SQRT_PI * (-size * size).exp() * series
    } else {
        let fraction = (1..=80).rev().fold(size, |below, k| size + f64::from(k) / 2.0 / below);
        (-size * size).exp() * std::f64::consts::FRAC_2_SQRT_PI / 2.0 / fraction
    };
    if x < 0.0 { 2.0 - above } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complement_of_the_error_function_is_precise_where_it_is_almost_0() {
        // Abramowitz and Stegun 1964, tables 7.1 and 7.3, and mpmath for 10.
        let known = [
            (0.0, 1.0),
            (0.5, 0.479_500_122_186_953_5),
            (1.0, 0.157_299_207_050_285_13),
            (2.0, 4.677_734_981_047_266e-3),
            (3.0, 2.209_049_699_858_544e-5),
            (10.0, 2.088_487_583_762_545e-45),
            (-1.0, 1.842_700_792_949_715),
        ];
        for (x, y) in known {
            let found = erfc(x);
            assert!((found - y).abs() <= 1e-12 * y, "erfc({x}) is {found}, not {y}");
        }
    }
}
