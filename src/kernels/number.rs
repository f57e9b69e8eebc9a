//! The traits of the element types that kernels compute with, so that one definition serves all.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::math;
use crate::tensor::Element;

/// A type with arithmetic. Integers wrap at their limits, as TensorFlow's do.
pub(crate) trait Number: Element + PartialOrd + Default {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The least number.
    const LEAST: Self;
    /// The greatest number.
    const GREATEST: Self;
    /// `count` as this type; it wraps or is rounded if it is too large.
    fn counted(count: usize) -> Self;
    /// The number divided by `count`; an integer is cut towards 0, and is 0 if the count is 0.
    fn over(self, count: usize) -> Self;
    /// The greater of two; NaN if either is.
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        if self > other || self.is_nan() { self } else { other }
    }
    /// The lesser of two; NaN if either is.
    #[inline(always)]
    fn lesser(self, other: Self) -> Self {
        if self < other || self.is_nan() { self } else { other }
    }
    /// `self + other`
    fn plus(self, other: Self) -> Self;
    /// `self - other`
    fn minus(self, other: Self) -> Self;
    /// `self * other`
    fn times(self, other: Self) -> Self;
    /// `-self`
    fn negated(self) -> Self;
    /// The magnitude.
    fn magnitude(self) -> Self;
    /// The sign: 1 or -1; 0 and NaN stay as they are.
    fn sign(self) -> Self;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
    /// `self / other`; integers are cut towards 0, and must not be divided by 0.
    fn quotient(self, other: Self) -> Self;
    /// The remainder of `self` after [`quotient`](Self::quotient) as an integer, with the sign of
    /// `self`.
    fn remainder(self, other: Self) -> Self;
    /// The integer below `self / other`.
    fn floor_quotient(self, other: Self) -> Self;
    /// `self` to the power `exponent`, which must be at least 0 for integers.
    fn power(self, exponent: Self) -> Self;
}

/// A type of real numbers, with their functions.
pub(crate) trait Float:
    Number
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The nearest to `value`.
    fn of(value: f64) -> Self;
    /// eˣ
    fn exp(self) -> Self;
    /// eˣ - 1
    fn expm1(self) -> Self;
    /// The natural logarithm.
    fn log(self) -> Self;
    /// The natural logarithm of 1 + x.
    fn log1p(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The error function.
    fn erf(self) -> Self;
    /// The sine, where [`turns_are_known`](Self::turns_are_known).
    fn sin(self) -> Self;
    /// The cosine, where [`turns_are_known`](Self::turns_are_known).
    fn cos(self) -> Self;
    /// The sine of any angle: the same bits as [`sin`](Self::sin) for angles in its range.
    fn sin_of_any(self) -> Self;
    /// The cosine of any angle: the same bits as [`cos`](Self::cos) for angles in its range.
    fn cos_of_any(self) -> Self;
    /// Whether the angle is in the range of [`sin`](Self::sin) and [`cos`](Self::cos).
    fn turns_are_known(self) -> bool;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The integer below.
    fn floor(self) -> Self;
    /// The integer above.
    fn ceil(self) -> Self;
    /// The nearest integer, of two the even one.
    fn round(self) -> Self;
}

macro_rules! integers {
    ($($number:ty),+) => {$(
        impl Number for $number {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;
            #[inline(always)]
            fn counted(count: usize) -> Self {
                count as Self
            }
            fn over(self, count: usize) -> Self {
                Self::try_from(count).ok().and_then(|count| self.checked_div(count)).unwrap_or(0)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn negated(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.wrapping_abs()
            }
            #[inline(always)]
            fn sign(self) -> Self {
                self.signum()
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn quotient(self, other: Self) -> Self {
                self.wrapping_div(other)
            }
            #[inline(always)]
            fn remainder(self, other: Self) -> Self {
                self.wrapping_rem(other)
            }
            #[inline(always)]
            fn floor_quotient(self, other: Self) -> Self {
                let is_above = self.wrapping_rem(other) != 0 && (self < 0) != (other < 0);
                self.wrapping_div(other) - Self::from(is_above)
            }
            #[inline(always)]
            fn power(self, exponent: Self) -> Self {
                let (mut result, mut square, mut left) = (1 as Self, self, exponent);
                while left > 0 {
                    if left & 1 == 1 {
                        result = result.wrapping_mul(square);
                    }
                    square = square.wrapping_mul(square);
                    left >>= 1;
                }
                result
            }
        }
    )+};
}
integers!(i32, i64);

macro_rules! floats {
    ($($number:ty { $($method:ident $function:path),+ $(,)? })+) => {$(
        impl Number for $number {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = Self::NEG_INFINITY;
            const GREATEST: Self = Self::INFINITY;
            #[inline(always)]
            fn counted(count: usize) -> Self {
                count as Self
            }
            #[inline(always)]
            fn over(self, count: usize) -> Self {
                self / count as Self
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn negated(self) -> Self {
                -self
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn sign(self) -> Self {
                let of_negative = if self < 0.0 { -1.0 } else { self };
                if self > 0.0 { 1.0 } else { of_negative }
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn quotient(self, other: Self) -> Self {
                self / other
            }
            #[inline(always)]
            fn remainder(self, other: Self) -> Self {
                self % other
            }
            #[inline(always)]
            fn floor_quotient(self, other: Self) -> Self {
                (self / other).floor()
            }
            #[inline(always)]
            fn power(self, exponent: Self) -> Self {
                self.powf(exponent)
            }
        }

        impl Float for $number {
            $(
                #[inline(always)]
                fn $method(self) -> Self {
                    $function(self)
                }
            )+
            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn turns_are_known(self) -> bool {
                size_of::<Self>() == size_of::<f64>() || self.abs() <= math::TURNS_KNOWN as Self
            }
        }
    )+};
}
floats! {
    f32 {
        exp math::exp,
        expm1 math::expm1,
        log math::log,
        log1p math::log1p,
        tanh math::tanh,
        erf math::erf,
        sin math::sin,
        cos math::cos,
        sin_of_any math::sin_of_any,
        cos_of_any math::cos_of_any,
        sqrt f32::sqrt,
        floor f32::floor,
        ceil f32::ceil,
        round f32::round_ties_even,
    }
    f64 {
        exp f64::exp,
        expm1 f64::exp_m1,
        log f64::ln,
        log1p f64::ln_1p,
        tanh f64::tanh,
        erf math::erf_f64,
        sin f64::sin,
        cos f64::cos,
        sin_of_any f64::sin,
        cos_of_any f64::cos,
        sqrt f64::sqrt,
        floor f64::floor,
        ceil f64::ceil,
        round f64::round_ties_even,
    }
}
