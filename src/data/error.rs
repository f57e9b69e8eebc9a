//! Errors of data sets: what is wrong, in which file, and where.

use std::io;
use std::path::Path;

use crate::runtime::{Code, Error};
use crate::tensor::{OutOfMemory, TensorError};

/// Errors of data sets and of their batches.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file can't be read.
    #[error("can't read {file}: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file's content is malformed.
    #[error("{file}, {place}: {problem}")]
    Malformed {
        /// The file.
        file: String,
        /// The place in the file: a line, a column, a range of bytes.
        place: String,
        /// The problem there.
        problem: String,
    },
    /// A file has not what it is asked for: a column, an array, a class.
    #[error("{file}, {place}: {problem}")]
    Mistaken {
        /// The file.
        file: String,
        /// The place in the file: a line, a column, a range of bytes.
        place: String,
        /// The mistake, and what to do.
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
    /// An error of a program's own, in a function of its [`Pipeline`](super::Pipeline); made by
    /// [`DataError::program`].
    #[error(transparent)]
    Program(Box<dyn std::error::Error + Send + Sync>),
    /// The features are not a tensor of `f32`, or the labels not one of `i32`.
    #[error("features are a tensor of f32, ids one of i64 and labels one of i32: {0}")]
    Tensor(#[source] TensorError),
    /// There is no memory for the samples.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The samples can't be images of that size.
    #[error(
        "a sample has {width} features, which are no image of height, width and channels {shape:?}"
    )]
    Image {
        /// The number of features of a sample.
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
        /// The number of classes.
        classes: usize,
    },
    /// There are no samples to make batches of, or another count is zero.
    #[error("no batches can be made with no {what}; give at least one")]
    Empty {
        /// The thing that is missing.
        what: &'static str,
    },
    /// A batch has fewer samples than it is to have shares, or shall have none.
    #[error(
        "a batch of {samples} samples can't be cut into {count} shares of a sample or more; choose \
         a larger batch, or fewer shares"
    )]
    Shares {
        /// The number of samples.
        samples: usize,
        /// The number of shares.
        count: usize,
    },
    /// The tensors of a batch that is to be cut have not a row each for each sample.
    #[error(
        "a batch is cut along the first dimension of its tensors, which is the number of samples: \
         not of features {features:?}, ids {ids:?} and labels {labels:?}"
    )]
    Rows {
        /// The shape of the features.
        features: Vec<usize>,
        /// The shape of the ids, if there are some.
        ids: Option<Vec<usize>>,
        /// The shape of the labels.
        labels: Vec<usize>,
    },
    /// Shares of the samples can't be drawn.
    #[error("the concentration of the workers' labels is a number above 0, not {concentration}")]
    Concentration {
        /// What was given.
        concentration: f64,
    },
    /// The worker is not one of those that the samples are dealt to.
    #[error("worker {worker} gets no samples: they are dealt to {workers} workers, counted from 0")]
    NoSuchWorker {
        /// The worker's index.
        worker: u32,
        /// The number of workers.
        workers: u32,
    },
}

impl From<TensorError> for DataError {
    fn from(error: TensorError) -> Self {
        match error {
            TensorError::OutOfMemory(refused) => refused.into(),
            mistake => Self::Tensor(mistake),
        }
    }
}

impl From<DataError> for Error {
    fn from(error: DataError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl DataError {
    /// An error of a program's own, such as of a function that it maps samples by; a text is one,
    /// too. The step that needs the data fails with its text, and with its code if it is an error
    /// of the runtime, else with [`Code::Internal`].
    ///
    /// ```
    /// # use trainyard::data::{DataError, Pipeline};
    /// let numbers = Pipeline::from_elements(["7", "8", "nine"]);
    /// let numbers = numbers.map(|text| text.parse::<i32>().map_err(DataError::program));
    /// let read: Result<Vec<i32>, DataError> = numbers.iter()?.collect();
    /// assert_eq!(read.unwrap_err().to_string(), "invalid digit found in string");
    /// # Ok::<(), DataError>(())
    /// ```
    pub fn program(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Program(error.into())
    }

    /// Whether the file was read, and its content is wrong.
    pub(crate) fn is_corrupt(&self) -> bool {
        match self {
            Self::Unreadable { source, .. } => source.kind() == io::ErrorKind::UnexpectedEof,
            _ => matches!(self, Self::Malformed { .. } | Self::Empty { .. }),
        }
    }

    /// Whether it was asked for what it has not.
    pub(crate) fn is_mistaken(&self) -> bool {
        matches!(
            self,
            Self::Mistaken { .. }
                | Self::Label { .. }
                | Self::Shares { .. }
                | Self::Rows { .. }
                | Self::Concentration { .. }
        )
    }

    /// The code of an error of the runtime that it causes.
    pub(crate) fn code(&self) -> Code {
        match self {
            _ if self.is_corrupt() => Code::DataLoss,
            _ if self.is_mistaken() => Code::InvalidArgument,
            Self::OutOfMemory(_) => Code::ResourceExhausted,
            Self::Program(error) => {
                error.downcast_ref().map_or(Code::Internal, |error: &Error| error.code)
            }
            _ => Code::NotFound,
        }
    }

    pub(super) fn mistaken(file: &Path, place: &str, problem: String) -> Self {
        Self::Mistaken { file: file.display().to_string(), place: place.to_owned(), problem }
    }

    pub(super) fn malformed(file: &Path, place: &str, problem: String) -> Self {
        Self::Malformed { file: file.display().to_string(), place: place.to_owned(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn an_error_of_a_programs_own_has_its_text_and_an_error_of_the_runtime_its_code() {
        let own = Error::from(DataError::program("the label is of next year"));
        assert_eq!(own, Error::new(Code::Internal, "the label is of next year"));
        let late = Error::new(Code::DeadlineExceeded, "the index did not answer");
        let of_runtime = Error::from(DataError::program(late));
        assert_eq!(of_runtime.code, Code::DeadlineExceeded);
        assert!(of_runtime.message.contains("the index did not answer"), "{of_runtime}");
    }

    #[test]
    fn samples_without_memory_are_no_samples_of_another_type() {
        let refused = OutOfMemory { wanted: Bytes(9), taken: Bytes(1), limit: Bytes(8) };
        let error = DataError::from(TensorError::OutOfMemory(refused));
        assert_eq!(Error::from(error), Error::from(refused));
        assert_eq!(Error::from(refused).code, Code::ResourceExhausted);
    }
}
