//! Where an array is: in a file of its own, or in an archive.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive};

use crate::data::{DataError, file};
use crate::user_file;

/// The most names of arrays in an error.
const NAMES: usize = 20;

/// Where an array is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayLocation<'a> {
    path: &'a Path,
    /// Its name in the archive at `path`; none of a file of its own.
    name: Option<&'a str>,
}

impl<'a> ArrayLocation<'a> {
    /// The file at `path`, gzipped or not.
    pub(super) fn file(path: &'a Path) -> Self {
        Self { path, name: None }
    }

    /// The array `name` of the archive at `path`.
    pub(super) fn of(path: &'a Path, name: &'a str) -> Self {
        Self { path, name: Some(name) }
    }

    /// The error of an array that is malformed at `place`.
    pub(super) fn malformed(&self, place: &str, problem: String) -> DataError {
        DataError::malformed(self.path, &self.within(place), problem)
    }

    /// The file, and `place` in it.
    pub(super) fn place(&self, place: &str) -> String {
        format!("{}, {}", self.path.display(), self.within(place))
    }

    /// `place` in the array, as a place in the file.
    fn within(&self, place: &str) -> String {
        match self.name {
            Some(name) => format!("array `{name}`, {place}"),
            None => place.to_owned(),
        }
    }

    /// The error of an array that is not what it is asked to be, at `place`.
    pub(super) fn mistaken(&self, place: &str, problem: String) -> DataError {
        DataError::mistaken(self.path, &self.within(place), problem)
    }

    /// The error of an array that can't be read to its end.
    pub(super) fn unreadable(&self, source: io::Error) -> DataError {
        let file = match self.name {
            Some(name) => format!("array `{name}` of {}", self.path.display()),
            None => self.path.display().to_string(),
        };
        DataError::Unreadable { file, source }
    }

    /// Has `read` read the array's bytes. Those of an archive are checked against its checksum at
    /// their end.
    pub(super) fn open<T>(
        &self,
        read: impl FnOnce(&mut dyn BufRead) -> Result<T, DataError>,
    ) -> Result<T, DataError> {
        match self.name {
            Some(name) => self.open_in_archive(name, read),
            None => read(&mut *file::open(self.path)?),
        }
    }

    fn open_in_archive<T>(
        &self,
        name: &str,
        read: impl FnOnce(&mut dyn BufRead) -> Result<T, DataError>,
    ) -> Result<T, DataError> {
        let damaged = |error: rawzip::Error| {
            DataError::malformed(self.path, "the archive", error.to_string())
        };
        let unreadable =
            |source| DataError::Unreadable { file: self.path.display().to_string(), source };
        let file = user_file::open(self.path).map_err(unreadable)?;
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let archive = ZipArchive::from_file(file, &mut buffer).map_err(damaged)?;
        let mut entries = archive.entries(&mut buffer);
        let mut names = Vec::new();
        let (place, method) = loop {
            let Some(entry) = entries.next_entry().map_err(damaged)? else {
                return Err(self.missing(name, &names));
            };
            let found = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
            let found = found.strip_suffix(".npy").unwrap_or(&found).to_owned();
            if found == name {
                break (entry.wayfinder(), entry.compression_method());
            }
            if names.len() < NAMES {
                names.push(found);
            }
        };
        let entry = archive.get_entry(place).map_err(damaged)?;
        let stored = BufReader::new(entry.reader());
        match method {
            CompressionMethod::STORE => read(&mut BufReader::new(entry.verifying_reader(stored))),
            CompressionMethod::DEFLATE => {
                let inflated = DeflateDecoder::new(stored);
                read(&mut BufReader::new(entry.verifying_reader(inflated)))
            }
            other => {
                let problem = format!(
                    "it is compressed by {other:?}; numpy.savez and numpy.savez_compressed write \
                     what can be read"
                );
                Err(self.malformed("the entry", problem))
            }
        }
    }

    fn missing(&self, name: &str, names: &[String]) -> DataError {
        let names = names.join(", ");
        let problem = format!("no array `{name}`; it has {names}");
        DataError::mistaken(self.path, "the archive", problem)
    }
}
