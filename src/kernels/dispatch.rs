//! From the element type of a tensor to the kernel of that type, and to the tensor that it writes.

use smallvec::smallvec;

use crate::graph::Outputs;
use crate::tensor::{DType, Element, Shape, Tensor};

/// Runs `$body` with `$word` as the unsigned integer that is as large as an element of `$dtype`.
macro_rules! by_word {
    ($dtype:expr, $word:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $word = u8;
                $body
            }
            2 => {
                type $word = u16;
                $body
            }
            4 => {
                type $word = u32;
                $body
            }
            _ => {
                type $word = u64;
                $body
            }
        }
    };
}
pub(crate) use by_word;

/// Runs `$body` with `$number` as the type of numbers that `$dtype` is.
macro_rules! by_number {
    ($dtype:expr, $number:ident => $body:expr) => {
        match $dtype {
            $crate::tensor::DType::F32 => {
                type $number = f32;
                $body
            }
            $crate::tensor::DType::F64 => {
                type $number = f64;
                $body
            }
            $crate::tensor::DType::I32 => {
                type $number = i32;
                $body
            }
            $crate::tensor::DType::I64 => {
                type $number = i64;
                $body
            }
            other => panic!("shape inference lets no {other} through where numbers are added"),
        }
    };
}
pub(crate) use by_number;

/// Runs `$body` with `$float` as the type of real numbers that `$dtype` is.
macro_rules! by_float {
    ($dtype:expr, $float:ident => $body:expr) => {
        match $dtype {
            $crate::tensor::DType::F32 => {
                type $float = f32;
                $body
            }
            $crate::tensor::DType::F64 => {
                type $float = f64;
                $body
            }
            other => panic!(
                "shape inference lets no {other} through where real numbers are computed with"
            ),
        }
    };
}
pub(crate) use by_float;

/// Runs `$body` with `$integer` as the type of positions that `$dtype` is.
macro_rules! by_position {
    ($dtype:expr, $integer:ident => $body:expr) => {
        if $dtype == $crate::tensor::DType::I32 {
            type $integer = i32;
            $body
        } else {
            type $integer = i64;
            $body
        }
    };
}
pub(crate) use by_position;

/// The output of a kernel that writes every element.
pub(crate) fn written<T: Element>(shape: Shape, write: impl FnOnce(&mut [T])) -> Outputs {
    let mut out = Tensor::uninitialised::<T>(shape);
    write(out.make_mut());
    smallvec![out]
}

/// A tensor that `write` fills with words of its elements' size.
pub(crate) fn filled_in<W: bytemuck::Pod>(
    dtype: DType,
    shape: Shape,
    write: impl FnOnce(&mut [W]),
) -> Tensor {
    let mut out = Tensor::unwritten(dtype, shape);
    write(out.words_mut());
    out
}
