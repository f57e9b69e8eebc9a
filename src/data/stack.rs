//! Samples, and how some of them become a batch.

use super::{Batch, DataError};
use crate::tensor::Tensor;

/// A row of features and its class.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The features.
    pub features: Vec<f32>,
    /// The class.
    pub label: i32,
}

/// Elements of which some can be stacked into a batch.
pub trait Stack: Send + Sized + 'static {
    /// The batch.
    type Batch: Send + 'static;

    /// Stacks `elements`, of which there is at least one.
    ///
    /// # Errors
    /// If they do not go together.
    fn stack(elements: Vec<Self>) -> Result<Self::Batch, DataError>;
}

impl Stack for Sample {
    type Batch = Batch;

    fn stack(elements: Vec<Self>) -> Result<Batch, DataError> {
        let labels: Vec<i32> = elements.iter().map(|sample| sample.label).collect();
        let width = elements[0].features.len();
        if let Some(other) = elements.iter().find(|sample| sample.features.len() != width) {
            let (features, labels) = (vec![other.features.len(), width], vec![labels.len()]);
            return Err(DataError::Shape { features, labels });
        }
        let features: Vec<f32> = elements.into_iter().flat_map(|sample| sample.features).collect();
        Ok(Batch {
            features: Tensor::new([labels.len(), width], &features)?,
            ids: None,
            labels: Tensor::new([labels.len()], &labels)?,
        })
    }
}

/// Elements whose length counts where a simulation lets them be read.
pub trait ByteLen: Send + 'static {
    /// The length \[bytes\].
    fn byte_len(&self) -> u64;
}

impl ByteLen for Batch {
    fn byte_len(&self) -> u64 {
        let ids = self.ids.as_ref().map_or(0, Tensor::byte_len);
        (self.features.byte_len() + self.labels.byte_len() + ids) as u64
    }
}

impl ByteLen for Tensor {
    fn byte_len(&self) -> u64 {
        Self::byte_len(self) as u64
    }
}

/// The elements of a [`Pipeline::zip`](super::Pipeline::zip).
impl<A: ByteLen, B: ByteLen> ByteLen for (A, B) {
    fn byte_len(&self) -> u64 {
        self.0.byte_len() + self.1.byte_len()
    }
}
