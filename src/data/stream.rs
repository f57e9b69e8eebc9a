//! Data sets of a scenario that are read as they are used: which files, and what is in them.

use std::path::{Path, PathBuf};

use super::example::Example;
use super::file::MOST_VALUES;
use super::image_folder::{self, ImageFile};
use super::pipeline::Pipeline;
use super::rows::{Columns, Row, Rows};
use super::samples::Samples;
use super::tfrecord::Record;
use super::{Batch, DataError, Dataset, Sample, Split, glob, scale};

/// Samples in files, which are read as they are used. In a pattern `*` and `?` stand for any part
/// of a name and for one character of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The form of the files.
    pub format: Format,
    /// The files to train on: a pattern or, of images, a folder.
    pub train: PathBuf,
    /// The files to test on, whose samples are held in memory.
    pub test: PathBuf,
    /// The number of samples to draw the next one from; none to take them in their order.
    pub shuffle: Option<usize>,
    /// How many batches the reader may be ahead.
    pub prefetch: usize,
}

/// The form of a stream's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// TFRecord files of `tf.train.Example`.
    TfRecord {
        /// The feature that has a sample's values: floats, integers, or bytes: one a value, or an
        /// encoded image.
        features: String,
        /// The feature that has the class, an integer.
        label: String,
        /// The shape of a sample.
        shape: Vec<usize>,
        /// The number of classes.
        classes: usize,
    },
    /// CSV files with a header.
    Csv {
        /// The column of the class, a number.
        label: String,
        /// The number of classes.
        classes: usize,
    },
    /// A folder a class, of which those to train on have the numbers of all.
    Images {
        /// The height, width and channels that images are scaled to.
        size: [usize; 3],
    },
}

impl Stream {
    /// The same with relative paths below `folder`.
    pub(super) fn beside(self, folder: &Path) -> Self {
        Self { train: folder.join(&self.train), test: folder.join(&self.test), ..self }
    }

    /// The data set: the samples for testing, and where those to train on are.
    pub(super) fn load(&self) -> Result<Dataset, DataError> {
        let (width, classes) = self.extent()?;
        self.batches(0, 0, 1, 1)?; // the files to train on are there
        let mut samples = Samples::default();
        for sample in self.samples(&self.test, None)?.iter()? {
            let Sample { features, label } = sample?;
            samples.features.extend(features);
            samples.labels.push(label);
            if samples.features.len() > MOST_VALUES {
                let problem = format!("more than {MOST_VALUES} values to test on");
                return Err(DataError::malformed(&self.test, "the files", problem));
            }
        }
        // Those to train on are read later, and are of the same scale.
        scale::warn(samples.features.iter().copied().enumerate(), |at| self.place(at, width));
        let test = samples.into_split(width, classes)?;
        let train = Split::streamed(self.clone(), width, classes)?;
        Ok(match self.image_shape() {
            Some(shape) => Dataset { train, test }.of_images(shape)?,
            None => Dataset { train, test },
        })
    }

    /// The endless batches of `worker`, one of `workers`.
    ///
    /// # Errors
    /// If there are no files.
    pub(crate) fn batches(
        &self,
        seed: u64,
        worker: u32,
        workers: u32,
        batch: usize,
    ) -> Result<Pipeline<Batch>, DataError> {
        let (shards, index) = (workers.into(), worker.into());
        let share = Share { shards, index, shuffle: self.shuffle, seed };
        let samples = self.samples(&self.train, Some(share))?;
        Ok(samples.batch(batch).prefetch(self.prefetch))
    }

    /// The number of samples to train on, where that is known before all files are read.
    ///
    /// # Errors
    /// If a folder can't be read.
    pub(super) fn count(&self) -> Result<Option<usize>, DataError> {
        match self.format {
            Format::Images { .. } => {
                Ok(Some(image_folder::images(&self.train, &self.train)?.len()))
            }
            Format::TfRecord { .. } | Format::Csv { .. } => Ok(None),
        }
    }

    /// The values that a worker holds in memory to shuffle.
    pub(crate) fn shuffled_values(&self, width: usize) -> usize {
        match self.format {
            Format::Images { .. } => 0,
            _ => self.shuffle.unwrap_or(0).saturating_mul(width),
        }
    }

    /// The height, width and channels of a sample that is an image.
    pub(crate) fn image_shape(&self) -> Option<[usize; 3]> {
        match &self.format {
            Format::TfRecord { shape, .. } => shape.as_slice().try_into().ok(),
            Format::Images { size } => Some(*size),
            Format::Csv { .. } => None,
        }
    }

    /// The features of a sample, and the classes.
    fn extent(&self) -> Result<(usize, usize), DataError> {
        Ok(match &self.format {
            Format::TfRecord { shape, classes, .. } => (shape.iter().product(), *classes),
            Format::Csv { label, classes } => (columns(&self.train, label)?.width(), *classes),
            Format::Images { size } => (size.iter().product(), image_folder::classes(&self.train)?),
        })
    }

    /// The file and the feature of the value at `index` of those of samples of `width`.
    fn place(&self, index: usize, width: usize) -> String {
        let columns = match &self.format {
            Format::Csv { label, .. } => columns(&self.test, label).ok(),
            Format::TfRecord { .. } | Format::Images { .. } => None,
        };
        columns.map_or_else(
            || format!("{}: feature {}", self.test.display(), index % width),
            |columns| columns.place(index),
        )
    }

    /// The samples of the files `pattern`: those of `share`, or all in their order.
    fn samples(&self, pattern: &Path, share: Option<Share>) -> Result<Pipeline<Sample>, DataError> {
        let (_, classes) = self.extent()?;
        Ok(match &self.format {
            Format::TfRecord { .. } => {
                Share::of(share, Pipeline::tfrecord(glob::files(pattern)?)).map(self.of_record())
            }
            Format::Csv { label, .. } => {
                let (files, columns) = (glob::files(pattern)?, columns(&self.train, label)?);
                let rows = Share::of(share, Pipeline::csv_with(files, label, columns));
                rows.map(move |row| of_row(row, classes))
            }
            Format::Images { size } => {
                let size = *size;
                let files = Pipeline::image_folder_like(pattern, &self.train)?;
                Share::of(share, files).map(move |file| of_image(&file, size))
            }
        })
    }

    /// Makes a record a sample, of files of TFRecord.
    fn of_record(
        &self,
    ) -> impl Fn(Record) -> Result<Sample, DataError> + Send + Sync + 'static + use<> {
        let (format, image) = (self.format.clone(), self.image_shape());
        move |record| {
            let Format::TfRecord { features, label, shape, classes } = &format else {
                unreachable!("records are of files of TFRecord");
            };
            let (example, width) = (Example::decode(&record)?, shape.iter().product());
            let decode = |encoded: &[u8]| match image {
                Some(shape) => image_folder::pixels(encoded, shape),
                None => Err(format!("{} bytes, where {width} are asked for", encoded.len())),
            };
            let values = example.numbers(features, width, decode)?;
            let class = example.ints(label, 1)?[0];
            let label = i32::try_from(class)
                .ok()
                .filter(|class| (0..*classes as i64).contains(&i64::from(*class)));
            let label = label.ok_or_else(|| {
                let why = format!("{class} is no class from 0 to {}", classes.max(&1) - 1);
                example.mistaken("label", &why)
            })?;
            Ok(Sample { features: values, label })
        }
    }
}

/// A worker's share of a stream.
struct Share {
    shards: u64,
    index: u64,
    shuffle: Option<usize>,
    seed: u64,
}

impl Share {
    /// The worker's elements of `all`, in a new order each epoch if they are shuffled, without an
    /// end; `all` itself if there is no `share`. What is shuffled is not decoded yet, so that
    /// passing over elements costs little.
    fn of<T: Send + 'static>(share: Option<Self>, all: Pipeline<T>) -> Pipeline<T> {
        let Some(Self { shards, index, shuffle, seed }) = share else { return all };
        let own = all.shard(shards, index);
        match shuffle {
            Some(buffer) => own.shuffle(buffer, seed).repeat(),
            None => own.repeat(),
        }
    }
}

/// The features of the CSV files `pattern`, which are those of the first one.
fn columns(pattern: &Path, label: &str) -> Result<Columns, DataError> {
    let files = glob::files(pattern)?;
    Ok(Rows::open(&files[0], label)?.columns())
}

fn of_row(row: Row, classes: usize) -> Result<Sample, DataError> {
    Ok(Sample { label: row.class(classes)?, features: row.features })
}

fn of_image(file: &ImageFile, size: [usize; 3]) -> Result<Sample, DataError> {
    Ok(Sample { features: file.decode(size)?, label: file.class })
}
