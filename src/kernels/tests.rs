//! The fast kernels against the references, and against themselves on other numbers of threads.

mod array;
mod broadcast;
mod chain;
mod convert;
mod elementwise;
mod indexed;
mod losses;
mod matmul;
mod moves;
mod norm;
mod numerics;
mod quantize;
mod reduce;
mod rows;
mod sparse;
mod threads;
mod update;
mod window;

use rand::RngExt;

use crate::graph::Op;
use crate::random::stream;
use crate::tensor::Tensor;

/// Every length up to three of the widest vectors and one more, so that every remainder is tested.
const LENGTHS: std::ops::RangeInclusive<usize> = 0..=3 * 16 + 1;

/// Values between -3 and 3, some of them equal, 0 or -0.
fn values(seed: u64, len: usize) -> Vec<f32> {
    let mut stream = stream(seed, &["kernel test"]);
    let value = |_| match stream.random_range(0..20) {
        0 => 0.0,
        1 => -0.0,
        2 => 1.5,
        _ => stream.random_range(-3.0..3.0),
    };
    (0..len).map(value).collect()
}

/// The only output of `op`.
#[track_caller]
fn applied(op: &Op, inputs: &[&Tensor]) -> Tensor {
    let mut outputs =
        crate::operations::call(op, inputs).expect("the values are what the kernel works on");
    assert_eq!(outputs.len(), 1);
    outputs.remove(0)
}

/// The result of `kernel`, written over garbage into a slice `offset` elements into a buffer.
fn written(len: usize, offset: usize, kernel: impl FnOnce(&mut [f32])) -> Vec<f32> {
    let mut buffer = vec![f32::NAN; offset + len + 1];
    kernel(&mut buffer[offset..offset + len]);
    assert!(
        buffer[..offset].iter().chain(&buffer[offset + len..]).all(|x| x.is_nan()),
        "written out of bounds"
    );
    buffer[offset..offset + len].to_vec()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Asserts that `found` is within `tolerance` times the larger of 1 and the wanted value.
#[track_caller]
fn assert_close(found: &[f32], wanted: &[f32], tolerance: f32) {
    assert_eq!(found.len(), wanted.len());
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!(
            (found - wanted).abs() <= tolerance * wanted.abs().max(1.0),
            "element {i}: {found} is not {wanted}"
        );
    }
}
