//! Data sets: samples split into a training and a test part, and dealt out in batches.
//!
//! A sample is a row of features and a class label. Each source of samples has one file
//! ([`Dataset::digits`] is embedded in the library). Samples to train on are in memory, where
//! [`Batches`] decides which worker gets which of them in what order, or are read as they are used,
//! by a [`Pipeline`]; samples to test on are in memory.
//!
//! A file can be gzipped. The size that it claims is checked before memory is taken, and an error
//! names the file, the place and the problem.

mod batches;
mod deal;
mod digits;
mod epochs;
mod error;
mod example;
mod file;
mod glob;
mod idx;
mod image_folder;
mod libsvm;
mod npy;
mod padded;
mod pipeline;
mod rows;
mod samples;
mod scale;
mod skew;
mod source;
mod stack;
mod stream;
mod synthetic;
mod table;
mod tfrecord;

use std::path::Path;
use std::sync::Arc;

use crate::kernels::Numerics;
use crate::tensor::{DType, Shape, Tensor};
use epochs::Epochs;
use skew::Shares;

pub use batches::Batches;
pub use error::DataError;
pub use example::Example;
pub use image_folder::ImageFile;
pub(crate) use pipeline::Elements;
pub use pipeline::Pipeline;
pub use rows::Row;
pub use source::Source;
pub use stack::{ByteLen, Sample, Stack};
pub use stream::{Format, Stream};
pub use tfrecord::Record;

/// A data set in its two parts.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// The samples that the workers train on.
    pub train: Split,
    /// The samples that the model is evaluated on.
    pub test: Split,
}

impl Dataset {
    /// The embedded digits: 8x8 pixels from 0 to 1 of 10 classes, 1498 samples to train on and 299
    /// to test on (E. Alpaydin and C. Kaynak, UCI, CC BY 4.0; `src/data/README.md`).
    ///
    /// # Errors
    /// Only if the library has a defect.
    pub fn digits() -> Result<Self, DataError> {
        digits::load()
    }

    /// Draws sparse samples of `slots` features each, out of `rows` features, from `seed`: a few
    /// features are frequent and most are rare, and the sum of its features' weights decides which
    /// of two classes a sample is of. 8192 samples to train on and 2048 to test on.
    ///
    /// # Errors
    /// If there are no slots or no rows.
    pub fn synthetic(rows: usize, slots: usize, seed: u64) -> Result<Self, DataError> {
        synthetic::draw(rows, slots, seed)
    }

    /// Reads the LIBSVM file `path` as sparse samples of `slots` features each, out of `rows`
    /// features. `test` and `seed` are as those of [`Dataset::libsvm`].
    ///
    /// # Errors
    /// If a file can't be read or is malformed, or a sample has more features than slots or a
    /// feature outside of the rows.
    pub fn libsvm_sparse(
        path: &Path,
        test: Option<&Path>,
        rows: usize,
        slots: usize,
        seed: u64,
    ) -> Result<Self, DataError> {
        padded::libsvm(path, test, rows, slots, seed)
    }

    /// The IDX files in `directory`, as MNIST ships them: `train-images-idx3-ubyte`,
    /// `train-labels-idx1-ubyte` and the same of `t10k` for testing, each with `.gz` or without.
    /// Pixels are scaled to 0 to 1.
    ///
    /// # Errors
    /// If one is missing or malformed, or they don't match each other.
    pub fn idx(directory: &Path) -> Result<Self, DataError> {
        idx::load(directory)
    }

    /// Reads a CSV file with a header: the column `label` has the class, every other column a
    /// number.
    ///
    /// Labels that are all whole numbers are the classes' numbers; others are numbered in
    /// alphabetical order. The samples of `test` are for testing; without it, a fifth of those of
    /// `file`, drawn by `seed`.
    ///
    /// # Errors
    /// If a file is missing or malformed, with the line and the column.
    pub fn csv(
        file: &Path,
        label: &str,
        test: Option<&Path>,
        seed: u64,
    ) -> Result<Self, DataError> {
        table::load(file, label, test, seed)
    }

    /// Reads a LIBSVM file densely: every feature in its place and absent ones 0. Labels are
    /// numbered in ascending order. The samples of `test` are for testing; without it, a fifth of
    /// those of `file`, drawn by `seed`.
    ///
    /// # Errors
    /// If a file is missing or malformed, or has more features than fit densely into memory.
    pub fn libsvm(file: &Path, test: Option<&Path>, seed: u64) -> Result<Self, DataError> {
        libsvm::load(file, test, seed)
    }

    /// Reads NumPy arrays in `.npy` files: features `[n, …]` and labels `[n]`, of floats, integers,
    /// uint8 (pixels, scaled to 0 to 1) or bool, in either order of bytes and of indices. Samples
    /// of features `[n, height, width]` and `[n, height, width, channels]` are images. The samples
    /// of `test` are for testing; without it, a fifth of those of `train`, drawn by `seed`.
    ///
    /// # Errors
    /// If a file is missing or malformed, or they don't match each other.
    pub fn npy(
        train: (&Path, &Path),
        test: Option<(&Path, &Path)>,
        seed: u64,
    ) -> Result<Self, DataError> {
        npy::load(train, test, seed)
    }

    /// Reads arrays of the `.npz` archive `file` by the names of the features and of the labels, as
    /// [`Dataset::npy`].
    ///
    /// # Errors
    /// If the archive or an array in it is missing or malformed, or they don't match each other.
    pub fn npz(
        file: &Path,
        train: (&str, &str),
        test: Option<(&str, &str)>,
        seed: u64,
    ) -> Result<Self, DataError> {
        npy::load_archive(file, train, test, seed)
    }

    /// Declares each sample an image, as [`Split::of_images`] does.
    ///
    /// # Errors
    /// If a sample has another number of features.
    pub fn of_images(self, shape: [usize; 3]) -> Result<Self, DataError> {
        Ok(Self { train: self.train.of_images(shape)?, test: self.test.of_images(shape)? })
    }

    /// Random images of `image` `[height, width, channels]` and labels of `classes`, drawn by
    /// `seed`: a training costs as much with them as with real ones. Without numbers they take
    /// no memory.
    ///
    /// # Errors
    /// If there are no classes.
    pub fn random_images(
        image: [usize; 3],
        classes: usize,
        numerics: Numerics,
        seed: u64,
    ) -> Result<Self, DataError> {
        synthetic::images(image, classes, numerics, seed)
    }
}

/// Samples with their labels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Split {
    features: Tensor,
    ids: Option<Tensor>,
    labels: Tensor,
    width: usize,
    image_shape: Option<[usize; 3]>,
    classes: usize,
    epochs: Epochs,
    shares: Shares,
    /// Where the samples are, if they are not in memory.
    stream: Option<Arc<Stream>>,
}

impl Split {
    /// Creates a split of samples of `features`, `f32` of shape `[n, width]`, and `labels`, `i32`
    /// of shape `[n]` from 0 to `classes - 1`.
    ///
    /// # Errors
    /// If the tensors are of other types or shapes, or a label is out of range.
    pub fn new(features: Tensor, labels: Tensor, classes: usize) -> Result<Self, DataError> {
        if !features.is_hollow() || features.dtype() != DType::F32 {
            features.values::<f32>()?;
        }
        let classes_of = labels.values::<i32>()?;
        let (of_features, of_labels) = (features.shape(), labels.shape());
        let width = match (of_features.dims(), of_labels.dims()) {
            ([samples, width], [labelled]) if samples == labelled => *width,
            (features, labels) => {
                return Err(DataError::Shape {
                    features: features.to_vec(),
                    labels: labels.to_vec(),
                });
            }
        };
        let is_class = |label: &i32| usize::try_from(*label).is_ok_and(|label| label < classes);
        if let Some(sample) = classes_of.iter().position(|label| !is_class(label)) {
            return Err(DataError::Label { sample, label: classes_of[sample], classes });
        }
        Ok(Self {
            features,
            ids: None,
            labels,
            width,
            image_shape: None,
            classes,
            epochs: Epochs::default(),
            shares: Shares::default(),
            stream: None,
        })
    }

    /// A split whose samples `stream` reads as they are used; none is in memory.
    pub(crate) fn streamed(
        stream: Stream,
        width: usize,
        classes: usize,
    ) -> Result<Self, DataError> {
        let features = Tensor::zeros(DType::F32, Shape::from([0, width]));
        let none = Self::new(features, Tensor::zeros(DType::I32, [0]), classes)?;
        Ok(Self { stream: Some(Arc::new(stream)), ..none })
    }

    /// Where the samples are, if they are read as they are used: none is in memory then.
    pub fn stream(&self) -> Option<&Stream> {
        self.stream.as_deref()
    }

    /// Declares each sample an image of `shape` `[height, width, channels]`, row by row.
    ///
    /// # Errors
    /// If a sample has another number of features.
    pub fn of_images(self, shape: [usize; 3]) -> Result<Self, DataError> {
        if shape.iter().product::<usize>() != self.width {
            return Err(DataError::Image { width: self.width, shape });
        }
        Ok(Self { image_shape: Some(shape), ..self })
    }

    /// The height, width and channels of a sample, if it is an image.
    pub fn image_shape(&self) -> Option<[usize; 3]> {
        self.image_shape
    }

    /// Makes the samples sparse: `ids`, `i64` of the features' shape, has the number of each
    /// feature.
    ///
    /// # Errors
    /// If the ids have another type or shape.
    pub fn with_ids(mut self, ids: Tensor) -> Result<Self, DataError> {
        ids.values::<i64>()?;
        if ids.shape() != self.features.shape() {
            let (features, labels) =
                (ids.shape().dims().to_vec(), self.labels.shape().dims().to_vec());
            return Err(DataError::Shape { features, labels });
        }
        self.ids = Some(ids);
        Ok(self)
    }

    /// The number of samples in memory.
    pub fn len(&self) -> usize {
        self.labels.shape().elements()
    }

    /// The number of samples, of those that are streamed only of a folder of images.
    ///
    /// # Errors
    /// If a folder can't be read.
    pub(crate) fn count(&self) -> Result<Option<usize>, DataError> {
        self.stream().map_or_else(|| Ok(Some(self.len())), Stream::count)
    }

    /// Whether there are no samples in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of features of a sample.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// All samples in memory, in the order of the data set. Copies nothing.
    pub fn whole(&self) -> Batch {
        Batch {
            features: self.features.clone(),
            ids: self.ids.clone(),
            labels: self.labels.clone(),
        }
    }
}

/// Some samples of a [`Split`], to be fed to a graph. Those that a program's own [`Stack`] makes
/// can have other types and shapes: a sample is a row of each tensor, whatever is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The features, `f32` of shape `[samples, width]`.
    pub features: Tensor,
    /// For sparse data, the number of each feature, `i64` of the features' shape. A sample with
    /// fewer features is filled with features of value 0 at the end.
    pub ids: Option<Tensor>,
    /// The classes, `i32` of shape `[samples]`.
    pub labels: Tensor,
}

impl Batch {
    /// The number of samples: of the rows of the labels, or 1 if these are a single value.
    pub fn samples(&self) -> usize {
        self.labels.shape().dims().first().copied().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests;
