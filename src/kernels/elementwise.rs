//! Sums of tensors.

use super::number::Number;
use super::parallel::{for_chunks, vectorised};
use crate::tensor::{DType, Tensor};

/// `((inputs[0] + inputs[1]) + inputs[2] ...) * scale`, in the order given: the aggregate of a
/// synchronous step's gradients (TensorFlow `AddN`, then the division of the mean).
///
/// # Panics
/// If there are no inputs.
pub(crate) fn add_n<T: Number>(inputs: &[&[T]], scale: T, out: &mut [T]) {
    /// Small enough to stay in the first-level cache while all inputs are added, in elements.
    const BLOCK: usize = 2048;
    let (first, others) = inputs.split_first().expect("a sum has at least one input");
    assert!(
        inputs.iter().all(|input| input.len() == out.len()),
        "the inputs of a sum have the shape of the sum"
    );
    for_chunks(out, BLOCK, |chunk, out| {
        for (i, out) in out.chunks_mut(BLOCK).enumerate() {
            let here = chunk + i * BLOCK..chunk + i * BLOCK + out.len();
            vectorised(|| {
                out.copy_from_slice(&first[here.clone()]);
                for input in others {
                    out.iter_mut()
                        .zip(&input[here.clone()])
                        .for_each(|(out, x)| *out = out.plus(*x));
                }
                out.iter_mut().for_each(|out| *out = out.times(scale));
            });
        }
    });
}

/// Values of different types or shapes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} and {1} can't be added")]
pub(crate) struct Unlike(String, String);

/// `a + b`, of any numbers of one type and shape.
///
/// # Errors
/// If the types or shapes differ.
pub(crate) fn add_values(a: &Tensor, b: &Tensor) -> Result<Tensor, Unlike> {
    fn sum<T: Number>(a: &Tensor, b: &Tensor) -> Tensor {
        let mut sum = Tensor::uninitialised::<T>(a.shape());
        let pairs = a.slice::<T>().iter().zip(b.slice::<T>());
        sum.make_mut::<T>().iter_mut().zip(pairs).for_each(|(sum, (a, b))| *sum = a.plus(*b));
        sum
    }
    match (a.dtype(), b.dtype()) {
        (dtype, other)
            if (a.is_hollow() || b.is_hollow()) && dtype == other && a.shape() == b.shape() =>
        {
            Ok(Tensor::hollow(dtype, a.shape()))
        }
        (DType::F32, DType::F32) if a.shape() == b.shape() => Ok(sum::<f32>(a, b)),
        (DType::F64, DType::F64) if a.shape() == b.shape() => Ok(sum::<f64>(a, b)),
        (DType::I32, DType::I32) if a.shape() == b.shape() => Ok(sum::<i32>(a, b)),
        (DType::I64, DType::I64) if a.shape() == b.shape() => Ok(sum::<i64>(a, b)),
        _ => {
            let name = |x: &Tensor| format!("{}{}", x.dtype(), x.shape());
            Err(Unlike(name(a), name(b)))
        }
    }
}
