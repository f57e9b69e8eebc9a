//! A tensor that arrives in pieces: its bytes are written straight to their final place.

use super::buffer::Filling;
use super::{DType, Shape, Tensor, TensorError};

/// A tensor that still lacks some of its bytes. It takes memory only as they arrive: the length is
/// what a peer or a file says.
pub(crate) struct FillingTensor {
    dtype: DType,
    shape: Shape,
    buffer: Filling,
}

impl FillingTensor {
    pub(crate) fn new(dtype: DType, shape: Shape) -> Self {
        Self { dtype, shape, buffer: Filling::new(shape.bytes_of(dtype)) }
    }

    /// The length that is missing \[bytes\].
    pub(crate) fn missing(&self) -> usize {
        self.buffer.missing()
    }

    /// Appends as much of `bytes` as is missing, and removes that part from `bytes`.
    pub(crate) fn push(&mut self, bytes: &mut &[u8]) {
        self.buffer.push(bytes);
    }

    /// The complete tensor.
    ///
    /// # Errors
    /// [`TensorError::NoBoolean`], if a byte of a boolean tensor is neither 0 nor 1.
    pub(crate) fn full(self) -> Result<Tensor, TensorError> {
        let tensor = Tensor::over(self.dtype, self.shape, self.buffer.full());
        if self.dtype == DType::Bool
            && let Some(byte) = tensor.bytes().iter().find(|byte| **byte > 1)
        {
            return Err(TensorError::NoBoolean(*byte));
        }
        Ok(tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_that_comes_in_pieces_of_any_size_is_the_tensor() {
        let whole = Tensor::new([3, 67], &(0..201).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
        for piece in [1, 7, 63, 64, 65, 128, 200, 804] {
            let mut filling = FillingTensor::new(DType::F32, whole.shape());
            for mut bytes in whole.bytes().chunks(piece) {
                filling.push(&mut bytes);
                assert!(bytes.is_empty());
            }
            assert_eq!((filling.missing(), filling.full().unwrap()), (0, whole.clone()), "{piece}");
        }
    }

    #[test]
    fn a_length_that_is_only_announced_takes_no_memory() {
        let mut filling = FillingTensor::new(DType::F32, [1 << 20, 1 << 20].into());
        filling.push(&mut &[0; 100][..]);
        assert_eq!(filling.missing(), (1 << 42) - 100, "this machine has no 4 TiB");
    }

    #[test]
    fn a_tensor_beyond_the_first_room_comes_whole() {
        let whole = Tensor::new([600_000], &(0..600_000).collect::<Vec<i32>>()).unwrap();
        let mut filling = FillingTensor::new(DType::I32, whole.shape());
        whole.bytes().chunks(70_001).for_each(|mut bytes| filling.push(&mut bytes));
        assert_eq!(filling.full().unwrap(), whole);
    }

    #[test]
    fn what_is_more_than_a_tensor_is_left() {
        let mut filling = FillingTensor::new(DType::I32, Shape::SCALAR);
        let mut bytes = &[1, 0, 0, 0, 9, 9][..];
        filling.push(&mut bytes);
        assert_eq!((bytes, filling.full().unwrap()), (&[9, 9][..], Tensor::scalar(1)));
        assert_eq!(
            FillingTensor::new(DType::F64, [0].into()).full().unwrap(),
            Tensor::zeros(DType::F64, [0])
        );
    }

    #[test]
    fn a_byte_that_is_no_boolean_is_refused() {
        let mut filling = FillingTensor::new(DType::Bool, [3].into());
        filling.push(&mut &[0, 1, 2][..]);
        assert_eq!(filling.full().unwrap_err(), TensorError::NoBoolean(2));
    }
}
