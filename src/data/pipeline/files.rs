//! Files that are read one after the other.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::DataError;
use super::{Elements, Source};

/// The elements of some files, of which one is open at a time.
pub(in super::super) struct Chained<T, F> {
    files: Arc<[PathBuf]>,
    open: Arc<F>,
    /// The file to be opened next.
    next: usize,
    current: Option<Elements<T>>,
}

impl<T, F> Chained<T, F>
where
    F: Fn(&Arc<[PathBuf]>, usize) -> Result<Elements<T>, DataError>,
{
    pub(super) fn new(files: Arc<[PathBuf]>, open: Arc<F>) -> Self {
        Self { files, open, next: 0, current: None }
    }

    /// The open file, or the next one; none after the last.
    fn current(&mut self) -> Result<Option<&mut Elements<T>>, DataError> {
        if self.current.is_none() && self.next < self.files.len() {
            self.current = Some((self.open)(&self.files, self.next)?);
            self.next += 1;
        }
        Ok(self.current.as_mut())
    }
}

impl<T, F> Source<T> for Chained<T, F>
where
    F: Fn(&Arc<[PathBuf]>, usize) -> Result<Elements<T>, DataError> + Send + Sync,
{
    fn next(&mut self) -> Result<Option<T>, DataError> {
        while let Some(file) = self.current()? {
            if let Some(element) = file.next()? {
                return Ok(Some(element));
            }
            self.current = None;
        }
        Ok(None)
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        let mut passed = 0;
        while passed < count
            && let Some(file) = self.current()?
        {
            let of_file = file.skip(count - passed)?;
            if of_file < count - passed {
                self.current = None;
            }
            passed += of_file;
        }
        Ok(passed)
    }
}
