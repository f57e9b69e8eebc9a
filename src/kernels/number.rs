//! What kernels may do with an element: the arithmetic that is common to the types of numbers.

use crate::tensor::Element;

use super::math;

/// A number. Integers wrap where a result is too large, as TensorFlow's do.
pub(crate) trait Number: Element + PartialOrd {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// What no number is below.
    const LEAST: Self;
    /// What no number is above.
    const GREATEST: Self;

    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
    /// A `count`-th of it; of an integer cut towards 0, and 0 where the count is 0.
    fn over(self, count: usize) -> Self;
    /// `count`, which wraps or is rounded where it is too large.
    fn counted(count: usize) -> Self;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;

    /// The greater of two; NaN where either is.
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        if self > other || self.is_nan() { self } else { other }
    }

    /// The lesser of two; NaN where either is.
    #[inline(always)]
    fn lesser(self, other: Self) -> Self {
        if self < other || self.is_nan() { self } else { other }
    }
}

/// A real number.
pub(crate) trait Float: Number {
    /// The difference.
    fn minus(self, other: Self) -> Self;
    /// The quotient.
    fn per(self, other: Self) -> Self;
    /// eˣ.
    fn exp(self) -> Self;
    /// ln x.
    fn log(self) -> Self;
}

macro_rules! integer {
    ($($integer:ident),+) => {$(
        impl Number for $integer {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn over(self, count: usize) -> Self {
                Self::try_from(count).ok().and_then(|count| self.checked_div(count)).unwrap_or(0)
            }

            #[inline(always)]
            fn counted(count: usize) -> Self {
                count as Self
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
        }
    )+};
}
integer!(i32, i64);

macro_rules! float {
    ($($float:ident $exp:path, $log:path;)+) => {$(
        impl Number for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = Self::NEG_INFINITY;
            const GREATEST: Self = Self::INFINITY;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn over(self, count: usize) -> Self {
                self / count as Self
            }

            #[inline(always)]
            fn counted(count: usize) -> Self {
                count as Self
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
        }

        impl Float for $float {
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn per(self, other: Self) -> Self {
                self / other
            }

            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }

            #[inline(always)]
            fn log(self) -> Self {
                $log(self)
            }
        }
    )+};
}
float! {
    f32 math::exp, math::log;
    f64 f64::exp, f64::ln;
}
