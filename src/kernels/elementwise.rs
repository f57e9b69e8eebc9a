//! The sum of many tensors.

use super::number::Number;
use super::parallel::{for_chunks, vectorised};

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
