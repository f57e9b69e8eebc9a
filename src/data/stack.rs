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

/// Elements of which some can be stacked into a batch: [`Sample`], or a type of your own.
///
/// ```
/// # use trainyard::data::{Batch, DataError, Pipeline, Stack};
/// # use trainyard::tensor::Tensor;
/// #[derive(Clone)]
/// struct House {
///     features: Vec<f32>,
///     price: f32,
/// }
///
/// impl Stack for House {
///     type Batch = Batch;
///
///     fn stack(houses: Vec<Self>) -> Result<Batch, DataError> {
///         let (count, width) = (houses.len(), houses[0].features.len());
///         let prices: Vec<f32> = houses.iter().map(|house| house.price).collect();
///         let features: Vec<f32> = houses.into_iter().flat_map(|house| house.features).collect();
///         Ok(Batch {
///             features: Tensor::new([count, width], &features)?,
///             ids: None,
///             labels: Tensor::new([count, 1], &prices)?,
///         })
///     }
/// }
///
/// let house = House { features: vec![3.0, 120.0], price: 3.2 };
/// let batches = Pipeline::from_elements([house.clone(), house]).batch(2);
/// let batch = batches.iter()?.next().expect("there are two houses")?;
/// assert_eq!(batch.labels, Tensor::new([2, 1], &[3.2f32, 3.2])?);
/// # Ok::<(), DataError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "elements of the type `{Self}` can't be stacked into a batch",
    note = "`map` each to a `Sample`, or to a type of your own that implements `Stack`: the \
            trait's documentation has an example"
)]
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
