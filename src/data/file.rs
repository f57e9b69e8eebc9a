//! Opening a data file, gzipped or not.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::DataError;
use crate::user_file;

/// The most values that a data set in memory may have: 1 GiB as f32.
pub(super) const MOST_VALUES: usize = 1 << 28;
/// The longest line of a text \[bytes\].
const LONGEST_LINE: usize = 16 << 20;

/// Opens the file at `path`, and unzips it if its first bytes say that it is gzipped.
///
/// # Errors
/// If it can't be read, or is a device or a pipe, which may have no end.
pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, DataError> {
    let failed = |source| DataError::Unreadable { file: path.display().to_string(), source };
    let mut file = BufReader::new(user_file::open(path).map_err(failed)?);
    let is_gzipped = file.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
    Ok(if is_gzipped {
        Box::new(BufReader::new(MultiGzDecoder::new(file)))
    } else {
        Box::new(file)
    })
}

/// Opens the text at `path` as [`open`]. Reading it fails at a line that is too long to be one: of
/// some megabytes of zeros, gzip makes gigabytes.
pub(super) fn open_text(path: &Path) -> Result<Box<dyn BufRead + Send>, DataError> {
    Ok(Box::new(Lines { text: open(path)?, length: 0 }))
}

/// A text whose lines are at most [`LONGEST_LINE`] long.
struct Lines {
    text: Box<dyn BufRead + Send>,
    /// What has been read of the current line \[bytes\].
    length: usize,
}

impl BufRead for Lines {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.length > LONGEST_LINE {
            let problem = format!("a line is longer than {LONGEST_LINE} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        self.text.fill_buf()
    }

    fn consume(&mut self, read: usize) {
        // What is consumed was in the buffer, and still is.
        let buffer = self.text.fill_buf().unwrap_or_default();
        let end_of_line = buffer[..read.min(buffer.len())].iter().rposition(|byte| *byte == b'\n');
        match end_of_line {
            Some(at) => self.length = read - at - 1,
            None => self.length += read,
        }
        self.text.consume(read);
    }
}

impl Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

/// Reads the next `len` bytes of `file`. Takes no more memory than there are bytes.
pub(super) fn read(file: &mut dyn BufRead, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(len as u64).read_to_end(&mut bytes)?;
    if bytes.len() < len {
        let message = format!("the file ends after {} of {len} bytes", bytes.len());
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
    }
    Ok(bytes)
}

/// Whether the file has no more bytes.
pub(super) fn is_at_end(file: &mut dyn BufRead) -> io::Result<bool> {
    Ok(file.fill_buf()?.is_empty())
}
