//! TFRecord files: records, each framed with its length and checksums, read one after the other.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;
use std::sync::Arc;

use super::pipeline::{Elements, Pipeline, Source};
use super::{DataError, file};
use crate::event_file::masked_checksum;

/// The greatest length of a record \[bytes\]: that of a protocol buffer's message.
const LONGEST: u64 = 1 << 31;

/// A record of a TFRecord file.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its content.
    pub data: Vec<u8>,
    pub(super) location: RecordLocation,
}

/// Where an element is from, for errors.
#[derive(Clone, Debug)]
pub(super) struct RecordLocation {
    files: Arc<[PathBuf]>,
    file: usize,
    /// The element's number in the file, from 1.
    number: u64,
}

impl RecordLocation {
    pub(super) fn new(files: &Arc<[PathBuf]>, file: usize, number: u64) -> Self {
        Self { files: Arc::clone(files), file, number }
    }

    /// The error of a record that is sound, but lacks what it is asked for.
    pub(super) fn mistaken(&self, problem: String) -> DataError {
        DataError::mistaken(&self.files[self.file], &format!("record {}", self.number), problem)
    }

    /// The error that the element there, a `what`, has a `problem`.
    pub(super) fn malformed(&self, what: &str, problem: String) -> DataError {
        DataError::malformed(&self.files[self.file], &format!("{what} {}", self.number), problem)
    }
}

impl Pipeline<Record> {
    /// The records of `files`, gzipped or not (TensorFlow: `tf.data.TFRecordDataset`). Each
    /// checksum is verified. The file's name and the record's number, from 1, are in errors.
    pub fn tfrecord(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::of_files(files.into_iter().collect(), |files, index| {
            let (bytes, read) = (file::open(&files[index])?, 0);
            Ok(Box::new(Records { bytes, files: Arc::clone(files), index, read }) as Elements<_>)
        })
    }
}

/// The records of one file.
struct Records {
    bytes: Box<dyn BufRead + Send>,
    files: Arc<[PathBuf]>,
    index: usize,
    /// The number of records read so far.
    read: u64,
}

impl Records {
    /// The length of the next record's data; none at the end of the file.
    fn length(&mut self) -> Result<Option<u64>, DataError> {
        if file::is_at_end(&mut self.bytes).map_err(|error| self.broken(&error))? {
            return Ok(None);
        }
        self.read += 1;
        let length: [u8; 8] = self.exactly()?;
        let checksum: [u8; 4] = self.exactly()?;
        if checksum != masked_checksum(&length) {
            return Err(self.malformed("the length does not match its checksum".to_owned()));
        }
        match u64::from_le_bytes(length) {
            length if length > LONGEST => Err(self.malformed(format!(
                "{length} bytes are more than the {LONGEST} of the longest record"
            ))),
            length => Ok(Some(length)),
        }
    }

    fn exactly<const N: usize>(&mut self) -> Result<[u8; N], DataError> {
        let mut bytes = [0; N];
        self.bytes.read_exact(&mut bytes).map_err(|error| self.broken(&error))?;
        Ok(bytes)
    }

    fn broken(&self, error: &io::Error) -> DataError {
        let why = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the file ends within it".to_owned(),
            _ => error.to_string(),
        };
        self.malformed(why)
    }

    fn malformed(&self, problem: String) -> DataError {
        self.location().malformed("record", problem)
    }

    fn location(&self) -> RecordLocation {
        RecordLocation::new(&self.files, self.index, self.read)
    }
}

impl Source<Record> for Records {
    fn next(&mut self) -> Result<Option<Record>, DataError> {
        let Some(length) = self.length()? else { return Ok(None) };
        let read = file::read(&mut self.bytes, length as usize);
        let data = read.map_err(|error| self.broken(&error))?;
        let checksum: [u8; 4] = self.exactly()?;
        if checksum != masked_checksum(&data) {
            return Err(self.malformed("the data does not match its checksum".to_owned()));
        }
        Ok(Some(Record { data, location: self.location() }))
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        for passed in 0..count {
            let Some(length) = self.length()? else { return Ok(passed) };
            let rest = length + 4;
            let copied = io::copy(&mut (&mut self.bytes).take(rest), &mut io::sink());
            if copied.map_err(|error| self.broken(&error))? < rest {
                return Err(self.broken(&io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(count)
    }
}
