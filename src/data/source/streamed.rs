//! A streamed data set, as a scenario types it.

use super::super::stream::{Format, Stream};
use super::Table;

/// How many batches a reader is ahead, if nothing else is said.
const PREFETCH: usize = 2;

impl Table {
    /// Whether it has a key that only a streamed data set has.
    pub(super) fn is_streamed(&self) -> bool {
        let numbers = [self.classes, self.shuffle, self.prefetch];
        self.tfrecord.is_some()
            || self.images.is_some()
            || self.features.is_some()
            || self.shape.is_some()
            || self.size.is_some()
            || numbers.iter().any(Option::is_some)
    }

    /// The streamed data set.
    ///
    /// # Errors
    /// If a key is missing, or too many are there.
    pub(super) fn into_stream(mut self) -> Result<Stream, String> {
        let is_array = self.npy.is_some() || self.npz.is_some();
        if is_array || self.idx.is_some() || self.libsvm.is_some() {
            let keys = "`features`, `shape`, `classes`, `size`, `shuffle` and `prefetch`";
            return Err(format!(
                "only `tfrecord`, `csv` and `images` are streamed and have {keys}"
            ));
        }
        let (format, train) = match (self.tfrecord.take(), self.csv.take(), self.images.take()) {
            (Some(files), None, None) => (self.tfrecord_format()?, files),
            (None, Some(files), None) => (self.csv_format()?, files),
            (None, None, Some(folder)) => (self.images_format()?, folder),
            _ => return Err("name one of `tfrecord`, `csv` and `images`".to_owned()),
        };
        if self.shuffle == Some(0) || self.prefetch == Some(0) {
            return Err("`shuffle` and `prefetch` are at least 1; leave them out".to_owned());
        }
        let test = needed(self.test.take(), "test = \"FILES\", the samples to test on")?;
        let prefetch = self.prefetch.unwrap_or(PREFETCH);
        Ok(Stream { format, train, test, shuffle: self.shuffle, prefetch })
    }

    fn tfrecord_format(&mut self) -> Result<Format, String> {
        absent(self.size.is_some(), "size", "images")?;
        let shape = needed(self.shape.take(), "shape = [28, 28, 1], that of a sample")?;
        if shape.iter().try_fold(1usize, |all, side| all.checked_mul(*side)).is_none_or(too_wide) {
            return Err("`shape` has sides of at least 1, and is no larger than memory".to_owned());
        }
        Ok(Format::TfRecord {
            features: needed(self.features.take(), "features = \"NAME\", those of a sample")?,
            label: needed(self.label.take(), "label = \"NAME\", the feature of the class")?,
            shape,
            classes: self.classes()?,
        })
    }

    fn csv_format(&mut self) -> Result<Format, String> {
        absent(self.size.is_some(), "size", "images")?;
        absent(self.features.is_some() || self.shape.is_some(), "features", "tfrecord")?;
        let label = needed(self.label.take(), "label = \"COLUMN\"")?;
        Ok(Format::Csv { label, classes: self.classes()? })
    }

    fn images_format(&mut self) -> Result<Format, String> {
        absent(self.features.is_some() || self.shape.is_some(), "features", "tfrecord")?;
        absent(self.label.is_some() || self.classes.is_some(), "classes", "tfrecord` and `csv")?;
        let size = needed(self.size, "size = [HEIGHT, WIDTH, CHANNELS], that of all images")?;
        let area = size[0].checked_mul(size[1]).and_then(|area| area.checked_mul(size[2]));
        if area.is_none_or(too_wide) || !matches!(size[2], 1 | 3) {
            return Err("`size` is at least 1 by 1, of 1 channel or of 3".to_owned());
        }
        Ok(Format::Images { size })
    }

    fn classes(&self) -> Result<usize, String> {
        let classes = needed(self.classes, "classes = N, the labels being from 0 to N - 1")?;
        if (1..=i32::MAX as usize).contains(&classes) {
            Ok(classes)
        } else {
            Err("`classes` is at least 1 and less than 2^31".to_owned())
        }
    }
}

/// Whether no sample has so many values.
fn too_wide(values: usize) -> bool {
    !(1..=super::super::file::MOST_VALUES).contains(&values)
}

fn needed<T>(given: Option<T>, key: &str) -> Result<T, String> {
    given.ok_or_else(|| format!("a streamed data set needs {key}"))
}

fn absent(is_there: bool, key: &str, of: &str) -> Result<(), String> {
    if is_there { Err(format!("only `{of}` has `{key}`; remove it")) } else { Ok(()) }
}
