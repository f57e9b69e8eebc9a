//! Kernels that change types, and a kernel that fills a tensor with one value.

use half::bf16;

use super::parallel::{for_chunks, map};

/// A type whose values can be cast to `To` (TensorFlow `Cast`).
pub(crate) trait CastTo<To>: Copy + Sync {
    /// The value as `To`. Floats are cut towards 0; where TensorFlow leaves the result open, they
    /// saturate at the integer's limits, with 0 for NaN. Wide integers wrap; a truth value is 0 or
    /// 1; every number but 0 is true, NaN included. Values are converted to `bf16` by way of `f32`,
    /// then to the nearest, of two to the even one.
    fn cast(self) -> To;
}

impl<T: Copy + Sync> CastTo<T> for T {
    #[inline(always)]
    fn cast(self) -> T {
        self
    }
}

macro_rules! cast_numbers {
    ($($from:ty => $($to:ty),+;)+) => {$($(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self as $to
            }
        }
    )+)+};
}
cast_numbers! {
    f32 => f64, i32, i64, i8;
    f64 => f32, i32, i64, i8;
    i32 => f32, f64, i64, i8;
    i64 => f32, f64, i32, i8;
    i8 => f32, f64, i32, i64;
}

macro_rules! cast_halves {
    ($($number:ty),+) => {$(
        impl CastTo<bf16> for $number {
            #[inline(always)]
            fn cast(self) -> bf16 {
                bf16::from_f32(self as f32)
            }
        }
        impl CastTo<$number> for bf16 {
            #[inline(always)]
            fn cast(self) -> $number {
                self.to_f32() as $number
            }
        }
    )+};
}
cast_halves!(f32, f64, i32, i64, i8);

macro_rules! cast_truth {
    ($($number:ty),+) => {$(
        impl CastTo<bool> for $number {
            #[inline(always)]
            fn cast(self) -> bool {
                self != 0 as $number
            }
        }
        impl CastTo<$number> for bool {
            #[inline(always)]
            fn cast(self) -> $number {
                u8::from(self) as $number
            }
        }
    )+};
}
cast_truth!(f32, f64, i32, i64, i8);

impl CastTo<bool> for bf16 {
    #[inline(always)]
    fn cast(self) -> bool {
        self.to_f32() != 0.0
    }
}
impl CastTo<bf16> for bool {
    #[inline(always)]
    fn cast(self) -> bf16 {
        bf16::from_f32(f32::from(u8::from(self)))
    }
}

/// `out[i] = x[i]` as another type; [`CastTo::cast`] says how.
pub(crate) fn cast<From: CastTo<To>, To: Send>(x: &[From], out: &mut [To]) {
    map(x, out, From::cast);
}

/// A type that can be cast to any that a tensor can hold.
pub(crate) trait CastToAny:
    CastTo<f32> + CastTo<f64> + CastTo<bf16> + CastTo<i32> + CastTo<i64> + CastTo<i8> + CastTo<bool>
{
}
impl<T> CastToAny for T where
    T: CastTo<f32>
        + CastTo<f64>
        + CastTo<bf16>
        + CastTo<i32>
        + CastTo<i64>
        + CastTo<i8>
        + CastTo<bool>
{
}

/// `out[i] = value` (TensorFlow `Fill`).
pub(crate) fn fill<T: Copy + Send + Sync>(value: T, out: &mut [T]) {
    for_chunks(out, 1, |_, out| out.fill(value));
}
