//! Data sets: samples in memory, split into a training and a test part, and dealt out in batches.
//!
//! A sample is a row of features and a class label. Where the samples come from is the business of
//! one file each ([`Dataset::digits`] is embedded in the library); which worker gets which, and in
//! what order, is [`Batches`]'.
//!
//! A file can be gzipped. What it says of its own size is checked before memory is taken, and what
//! is wrong with it is told with the file and the place.

mod batches;
mod deal;
mod digits;
mod file;
mod idx;
mod libsvm;
mod npy;
mod padded;
mod samples;
mod source;
mod sparse;
mod synthetic;
mod table;

use std::io;
use std::path::Path;

use crate::kernels::Numerics;
use crate::tensor::{DType, Tensor, TensorError};
pub use batches::Batches;
pub use libsvm::{LibSvm, SparseSample};
pub use source::Source;
pub use sparse::{SparseBatches, SparseDataset, SparseSplit};

/// A data set in its two parts.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// What the workers train on.
    pub train: Split,
    /// What the model is evaluated on.
    pub test: Split,
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
}

/// Some samples of a [`Split`], to be fed to a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The features, `f32` of shape `[samples, width]`.
    pub features: Tensor,
    /// Of sparse data which feature each of those is, `i64` of their shape. A sample with fewer has
    /// some of value 0 at the end.
    pub ids: Option<Tensor>,
    /// The classes, `i32` of shape `[samples]`.
    pub labels: Tensor,
}

/// Some samples of a [`SparseSplit`], to be fed to a graph.
///
/// A sample has as many places as the one with the most features in the batch. Those that it does
/// not fill have id 0 and value 0, so that a sum of what the ids look up, weighted by the values,
/// is that of its own features.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseBatch {
    /// Which features, `i64` of shape `[samples, most features]`, in ascending order.
    pub ids: Tensor,
    /// What they are, `f32` of the same shape.
    pub values: Tensor,
    /// The classes, `i32` of shape `[samples]`.
    pub labels: Tensor,
}

/// Why there is no such data set, or no such batches of it.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file can't be read.
    #[error("can't read {file}: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds something else than it should.
    #[error("{file}, {place}: {problem}")]
    Malformed {
        /// The file.
        file: String,
        /// Where in it: a line, a column, a range of bytes.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// The features or the labels are tensors of the wrong shape.
    #[error(
        "features of shape [n,width] and labels of shape [n] make a split, not {features:?} and \
         {labels:?}"
    )]
    Shape {
        /// The shape of the features.
        features: Vec<usize>,
        /// The shape of the labels.
        labels: Vec<usize>,
    },
    /// The features are no tensor of `f32`, or the labels none of `i32`.
    #[error("features are a tensor of f32, ids one of i64 and labels one of i32: {0}")]
    Tensor(#[from] TensorError),
    /// The samples can't be images of that size.
    #[error(
        "a sample has {width} features, which are no image of height, width and channels {shape:?}"
    )]
    Image {
        /// How many features a sample has.
        width: usize,
        /// The image's height, width and channels.
        shape: [usize; 3],
    },
    /// A label names no class.
    #[error(
        "sample {sample} has label {label}, but labels tell {classes} classes apart: they count \
         from 0 and stay below"
    )]
    Label {
        /// The sample's index.
        sample: usize,
        /// Its label.
        label: i32,
        /// How many classes there are.
        classes: usize,
    },
    /// There is nothing to make batches of.
    #[error("no batches can be made with no {what}; give at least one")]
    Empty {
        /// What there is none of.
        what: &'static str,
    },
    /// The worker is none of those that the samples are dealt to.
    #[error("worker {worker} gets no samples: they are dealt to {workers} workers, counted from 0")]
    NoSuchWorker {
        /// The worker's index.
        worker: u32,
        /// How many workers there are.
        workers: u32,
    },
}

impl Dataset {
    /// The embedded digits: 8x8 pixels from 0 to 1 of 10 classes, 1498 samples to train on and 299
    /// to test on (E. Alpaydin and C. Kaynak, UCI, CC BY 4.0; `src/data/README.md`).
    ///
    /// # Errors
    /// None that is not a defect of the library.
    pub fn digits() -> Result<Self, DataError> {
        digits::load()
    }

    /// Sparse samples of `slots` features each, of `rows` that there are, drawn from `seed`: a few
    /// features are frequent and most are rare, and what a sample's features weigh together decides
    /// which of two classes it is of. 8192 samples to train on and 2048 to test on.
    ///
    /// # Errors
    /// If there are no slots or no rows.
    pub fn synthetic(rows: usize, slots: usize, seed: u64) -> Result<Self, DataError> {
        synthetic::draw(rows, slots, seed)
    }

    /// The LIBSVM file `path` as sparse samples of `slots` features each, of `rows` that there are.
    /// `test` and `seed` are as those of [`Dataset::libsvm`].
    ///
    /// # Errors
    /// If a file can't be read or is malformed, or a sample has more features than slots or one
    /// that is none of the rows.
    pub fn libsvm_sparse(
        path: &Path,
        test: Option<&Path>,
        (rows, slots): (usize, usize),
        seed: u64,
    ) -> Result<Self, DataError> {
        padded::libsvm(path, test, (rows, slots), seed)
    }

    /// The IDX files in `directory`, as MNIST ships them: `train-images-idx3-ubyte`,
    /// `train-labels-idx1-ubyte` and the same of `t10k` for testing, each with `.gz` or without.
    /// Pixels are scaled to 0 to 1.
    ///
    /// # Errors
    /// If one is missing or malformed, or they don't fit each other.
    pub fn idx(directory: &Path) -> Result<Self, DataError> {
        idx::load(directory)
    }

    /// A CSV file with a header: the class is in the column `label`, every other column is a
    /// number.
    ///
    /// Labels that are all whole numbers are the classes' numbers; others are numbered in
    /// alphabetical order. The samples of `test` are for testing; without it, a fifth of them,
    /// drawn by `seed`.
    ///
    /// # Errors
    /// If a file is missing or malformed: told with line and column.
    pub fn csv(
        file: &Path,
        label: &str,
        test: Option<&Path>,
        seed: u64,
    ) -> Result<Self, DataError> {
        table::load(file, label, test, seed)
    }

    /// A LIBSVM file, every feature in its place and absent ones 0. Labels are numbered in
    /// ascending order. The samples of `test` are for testing; without it, a fifth of them, drawn
    /// by `seed`.
    ///
    /// To read one without holding it in memory there is [`LibSvm`].
    ///
    /// # Errors
    /// If a file is missing or malformed, or has more features than fit densely into memory.
    pub fn libsvm(file: &Path, test: Option<&Path>, seed: u64) -> Result<Self, DataError> {
        libsvm::load(file, test, seed)
    }

    /// NumPy arrays in `.npy` files: features `[n, …]` and labels `[n]`, of float32, float64,
    /// int32, int64, uint8 (pixels, scaled to 0 to 1) or bool. The samples of `test` are for
    /// testing; without it, a fifth of them, drawn by `seed`.
    ///
    /// # Errors
    /// If a file is missing or malformed, or they don't fit each other.
    pub fn npy(
        train: (&Path, &Path),
        test: Option<(&Path, &Path)>,
        seed: u64,
    ) -> Result<Self, DataError> {
        npy::load(train, test, seed)
    }
}

impl Dataset {
    /// The same samples, each of which is an image: as [`Split::of_images`].
    ///
    /// # Errors
    /// If a sample has another number of features.
    pub fn of_images(self, shape: [usize; 3]) -> Result<Self, DataError> {
        Ok(Self { train: self.train.of_images(shape)?, test: self.test.of_images(shape)? })
    }
}

impl Dataset {
    /// Random images of `image` `[height, width, channels]` and labels of `classes`, drawn by
    /// `seed`: what costs a training as much as real ones. Without numbers they take no memory.
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

impl DataError {
    fn malformed(file: &Path, place: &str, problem: String) -> Self {
        Self::Malformed { file: file.display().to_string(), place: place.to_owned(), problem }
    }
}

impl Split {
    /// Samples of `features`, `f32` of shape `[n, width]`, and `labels`, `i32` of shape `[n]` from
    /// 0 to `classes - 1`.
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
        Ok(Self { features, ids: None, labels, width, image_shape: None, classes })
    }

    /// The same samples, each of which is an image of `shape` `[height, width, channels]`, row by
    /// row.
    ///
    /// # Errors
    /// If a sample has another number of features.
    pub fn of_images(self, shape: [usize; 3]) -> Result<Self, DataError> {
        if shape.iter().product::<usize>() != self.width {
            return Err(DataError::Image { width: self.width, shape });
        }
        Ok(Self { image_shape: Some(shape), ..self })
    }

    /// The height, width and channels of a sample, where it is an image.
    pub fn image_shape(&self) -> Option<[usize; 3]> {
        self.image_shape
    }

    /// The same, of sparse samples: `ids`, `i64` of the features' shape, says which feature each
    /// is.
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

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.labels.shape().elements()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The features of a sample.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many classes the labels tell apart.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Every sample, in the order of the data set. Copies nothing.
    pub fn whole(&self) -> Batch {
        Batch {
            features: self.features.clone(),
            ids: self.ids.clone(),
            labels: self.labels.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
