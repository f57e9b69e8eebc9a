//! A tensor: an element type, a shape and a reference-counted, aligned buffer. No operations.
//!
//! A tensor is one pointer, and cloning it copies that. A shared tensor is never written: a writer
//! first copies the values if, and only if, another tensor still holds them. So no reader ever sees
//! a torn value, and passing tensors between the tasks of one process costs nothing. A part of a
//! tensor shares the whole's buffer by the same rule.
//!
//! A tensor can be *hollow*: an element type and a shape without memory under them. It stands for
//! values that nobody computes, and is as long on the wire as they would be.

mod buffer;
mod dtype;
mod filling;
mod held;
mod memory;
mod rows;
mod shape;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use buffer::Buffer;
pub use dtype::{DType, Element};
pub(crate) use filling::FillingTensor;
use held::{Held, Memory};
pub(crate) use memory::SimulationLimit;
pub use memory::{OutOfMemory, set_memory_limit};
pub(crate) use memory::{memory_of_machine, within_memory};
pub(crate) use shape::{MAX_ELEMENTS, MAX_RANK};
pub use shape::{PartialShape, Shape, ShapeError};

/// An n-dimensional array, row-major and contiguous. Immutable while shared; cheap to clone.
#[derive(Clone)]
pub struct Tensor(
    /// `None` only while it is being dropped.
    Option<Arc<Held>>,
);

/// Errors of making or reading a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The values are more or fewer than the shape holds.
    #[error("{values} values do not fill the shape {shape}, which holds {}", shape.elements())]
    Count {
        /// The number of values given.
        values: usize,
        /// The shape they should fill.
        shape: Shape,
    },
    /// The tensor holds another element type.
    #[error("the tensor holds {found}, not {wanted}")]
    DType {
        /// The tensor's element type.
        found: DType,
        /// The requested element type.
        wanted: DType,
    },
    /// One value was requested of a tensor that has none or several.
    #[error("the shape {0} holds no single value")]
    NotScalar(Shape),
    /// A byte that should be a boolean is neither 0 nor 1.
    #[error("a byte of a tensor of booleans is {0}, neither 0 nor 1")]
    NoBoolean(u8),
    /// The tensor is hollow.
    #[error(
        "{0}{1} has no numbers: it was made with numerics = \"shapes\"; use \"real\" to have them \
         computed"
    )]
    Hollow(DType, Shape),
    /// There is no memory for the tensor.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

impl Tensor {
    /// A tensor of `values` in row-major order.
    ///
    /// # Errors
    /// If the values are more or fewer than the shape holds; if there is no memory for them. In an
    /// operation's own kernel the latter ends the operation at once, with the same error.
    pub fn new<T: Element>(shape: impl Into<Shape>, values: &[T]) -> Result<Self, TensorError> {
        let shape = shape.into();
        if shape.elements() != values.len() {
            return Err(TensorError::Count { values: values.len(), shape });
        }
        let mut tensor = memory::or_refused(|| Self::uninitialised::<T>(shape))?;
        tensor.make_mut::<T>().copy_from_slice(values);
        Ok(tensor)
    }

    /// A tensor of shape `[]` with one value.
    pub fn scalar<T: Element>(value: T) -> Self {
        let mut tensor = Self::uninitialised::<T>(Shape::SCALAR);
        tensor.make_mut::<T>()[0] = value;
        tensor
    }

    /// A tensor of shape `[]` with the value of `dtype` that is nearest to `value`; a boolean is
    /// true if `value` is not 0.
    pub(crate) fn scalar_of(dtype: DType, value: f64) -> Self {
        match dtype {
            DType::F32 => Self::scalar(value as f32),
            DType::F64 => Self::scalar(value),
            DType::BF16 => Self::scalar(half::bf16::from_f32(value as f32)),
            DType::I32 => Self::scalar(value as i32),
            DType::I64 => Self::scalar(value as i64),
            DType::I8 => Self::scalar(value as i8),
            DType::Bool => Self::scalar(value != 0.0),
        }
    }

    /// A tensor of zeros (`false` for booleans).
    ///
    /// # Panics
    /// If there is no memory for it: the thread says so, and unwinds with [`OutOfMemory`]. In a
    /// step and in a task's program that is an error, `ResourceExhausted`.
    pub fn zeros(dtype: DType, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        Self::over(dtype, shape, Buffer::zeroed(shape.bytes_of(dtype)))
    }

    /// A hollow tensor: no values, and no memory whatever its shape.
    pub(crate) fn hollow(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self::of(dtype, shape.into(), Memory::None)
    }

    fn over(dtype: DType, shape: Shape, buffer: Buffer) -> Self {
        Self::of(dtype, shape, Memory::Own(buffer))
    }

    fn of(dtype: DType, shape: Shape, memory: Memory) -> Self {
        Self(Some(Held::new(dtype, shape, memory)))
    }

    /// A tensor with one value everywhere.
    ///
    /// # Panics
    /// As [`Tensor::zeros`].
    pub fn full<T: Element>(shape: impl Into<Shape>, value: T) -> Self {
        let mut tensor = Self::uninitialised::<T>(shape.into());
        tensor.make_mut::<T>().fill(value);
        tensor
    }

    /// A tensor with arbitrary values, left by an earlier tensor: for a kernel that writes every
    /// one.
    ///
    /// Booleans are `false`, since the bytes of an earlier tensor need not be booleans.
    pub(crate) fn uninitialised<T: Element>(shape: Shape) -> Self {
        if T::DTYPE == DType::Bool {
            return Self::zeros(DType::Bool, shape);
        }
        Self::unwritten(T::DTYPE, shape)
    }

    /// A tensor of any element type with arbitrary bytes: for a writer of words of the elements'
    /// size that writes every one.
    pub(crate) fn unwritten(dtype: DType, shape: Shape) -> Self {
        Self::over(dtype, shape, Buffer::recycled(shape.bytes_of(dtype)))
    }

    /// The elements as words of their size, for code that moves them without a look at their
    /// values.
    ///
    /// # Panics
    /// If the words are of another size.
    pub(crate) fn words<W: bytemuck::Pod>(&self) -> &[W] {
        assert_eq!(size_of::<W>(), self.dtype().size(), "a word is as large as an element");
        assert!(!self.is_hollow(), "a tensor whose elements are moved has some");
        bytemuck::cast_slice(self.bytes())
    }

    /// The elements for writing, as words of their size that make values of the type; copies them
    /// first if another tensor shares the buffer.
    ///
    /// # Panics
    /// If the words are of another size.
    pub(crate) fn words_mut<W: bytemuck::Pod>(&mut self) -> &mut [W] {
        assert_eq!(size_of::<W>(), self.dtype().size(), "a word is as large as an element");
        bytemuck::cast_slice_mut(self.bytes_mut())
    }

    /// The same values in another shape, sharing the buffer.
    ///
    /// # Panics
    /// If the shape holds another number of elements.
    pub(crate) fn reshaped(&self, shape: Shape) -> Self {
        assert_eq!(shape.elements(), self.shape().elements(), "a shape of as many elements");
        let memory = Memory::part(self, 0).unwrap_or(Memory::None);
        Self::of(self.dtype(), shape, memory)
    }

    /// The elements from number `first` on, in the shape of the part that they are, sharing the
    /// buffer. `None` if they don't begin on a cache line, as all tensors do, or the tensor is
    /// hollow.
    ///
    /// # Panics
    /// If there are not as many elements.
    pub(crate) fn part(&self, first: usize, shape: Shape) -> Option<Self> {
        let begin = first * self.dtype().size();
        assert!(begin + shape.bytes_of(self.dtype()) <= self.byte_len(), "a part of the whole");
        Some(Self::of(self.dtype(), shape, Memory::part(self, begin)?))
    }

    /// The raw bytes for writing values of the tensor's type; copies them first if another tensor
    /// shares the buffer.
    fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(!self.is_hollow(), "a tensor that is written has memory");
        if self.is_shared() {
            let mut copy = Self::unwritten(self.dtype(), self.shape());
            copy.bytes_mut().copy_from_slice(self.bytes());
            *self = copy;
        }
        self.own_bytes().expect("values that are not shared are their tensor's own")
    }

    /// The bytes for writing. `None` if another tensor shares them, or the tensor is hollow.
    fn own_bytes(&mut self) -> Option<&mut [u8]> {
        self.0.as_mut().and_then(Arc::get_mut).and_then(Held::bytes_mut)
    }

    fn held(&self) -> &Held {
        self.0.as_ref().expect("a tensor has its values until it is dropped")
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.held().dtype
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.held().shape
    }

    /// The size of the values \[bytes\], without any header; for a hollow tensor, of the values it
    /// stands for.
    pub fn byte_len(&self) -> usize {
        self.held().byte_len()
    }

    /// Whether it is hollow: made where only shapes are computed, without values.
    pub fn is_hollow(&self) -> bool {
        matches!(self.held().memory, Memory::None)
    }

    /// The raw little-endian bytes of the values; empty for a hollow tensor.
    pub fn bytes(&self) -> &[u8] {
        self.held().bytes()
    }

    /// The values in row-major order.
    ///
    /// # Errors
    /// If they are of another type, or the tensor is hollow.
    pub fn values<T: Element>(&self) -> Result<&[T], TensorError> {
        if T::DTYPE != self.dtype() {
            return Err(TensorError::DType { found: self.dtype(), wanted: T::DTYPE });
        }
        if self.is_hollow() {
            return Err(TensorError::Hollow(self.dtype(), self.shape()));
        }
        Ok(bytemuck::checked::cast_slice(self.bytes()))
    }

    /// The values, of a type that graph construction has already checked.
    pub(crate) fn slice<T: Element>(&self) -> &[T] {
        self.values().expect("the graph was checked for element types when it was built")
    }

    /// The values of a tensor of i32 or i64, as [`Self::slice`] gives those of one type.
    pub(crate) fn integers(&self) -> Vec<i64> {
        match self.dtype() {
            DType::I32 => self.slice::<i32>().iter().map(|value| i64::from(*value)).collect(),
            _ => self.slice::<i64>().to_vec(),
        }
    }

    /// The only value of a tensor that holds one.
    ///
    /// # Errors
    /// As [`Tensor::values`]; if the tensor holds none or several.
    pub fn item<T: Element>(&self) -> Result<T, TensorError> {
        match self.values::<T>()? {
            [value] => Ok(*value),
            _ => Err(TensorError::NotScalar(self.shape())),
        }
    }

    /// Whether another tensor shares the values, so that writing to them would copy them first.
    pub(crate) fn is_shared(&mut self) -> bool {
        !self.is_hollow() && self.own_bytes().is_none()
    }

    /// Copies the values if another tensor shares them: to write to them takes no more memory then.
    pub(crate) fn unshare(&mut self) {
        if !self.is_hollow() {
            self.bytes_mut();
        }
    }

    /// The values for writing; copies them first if another tensor shares the buffer.
    ///
    /// # Panics
    /// If the tensor holds another element type.
    pub(crate) fn make_mut<T: Element>(&mut self) -> &mut [T] {
        assert_eq!(T::DTYPE, self.dtype(), "a tensor is written as what it holds");
        bytemuck::checked::cast_slice_mut(self.bytes_mut())
    }

    /// The values as an `ndarray` view, without a copy.
    ///
    /// # Errors
    /// As [`Tensor::values`].
    pub fn view<T: Element>(&self) -> Result<ndarray::ArrayViewD<'_, T>, TensorError> {
        let values = self.values()?;
        Ok(ndarray::ArrayViewD::from_shape(self.shape().dims(), values)
            .expect("a buffer has as many values as its shape"))
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            Held::release(held);
        }
    }
}

impl<T: Element, D: ndarray::Dimension> From<ndarray::Array<T, D>> for Tensor {
    /// A tensor of the array's values.
    ///
    /// # Panics
    /// If the array has more than 6 dimensions; if there is no memory for it, as [`Tensor::zeros`].
    fn from(array: ndarray::Array<T, D>) -> Self {
        let shape = Shape::new(array.shape());
        let array = array.as_standard_layout();
        let values = array.as_slice().expect("the standard layout is contiguous");
        let mut tensor = Self::uninitialised::<T>(shape);
        tensor.make_mut::<T>().copy_from_slice(values);
        tensor
    }
}

impl<T: Element> From<T> for Tensor {
    fn from(value: T) -> Self {
        Self::scalar(value)
    }
}

impl PartialEq for Tensor {
    /// Equal element type, shape and bytes; so a NaN equals itself and `0.0` differs from `-0.0`.
    /// Two hollow tensors of one type and shape are equal.
    fn eq(&self, other: &Self) -> bool {
        let is_alike = self.is_hollow() == other.is_hollow() && self.dtype() == other.dtype();
        is_alike && self.held().shape == other.held().shape && self.bytes() == other.bytes()
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "{}{} ", self.dtype(), self.shape())?;
        if self.is_hollow() {
            return f.write_str("hollow");
        }
        let mut list = f.debug_list();
        self.dtype().entries(self, SHOWN, &mut list);
        if self.shape().elements() > SHOWN {
            list.entry(&format_args!("…"));
        }
        list.finish()
    }
}
