//! Opening a data file, gzipped or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::DataError;

/// The most values that a data set in memory may have: 4 GiB as f32.
pub(super) const MOST_VALUES: usize = 1 << 30;

/// Opens the file at `path`, and unzips it if its first bytes say that it is gzipped.
pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead>, DataError> {
    let failed = |source| DataError::Unreadable { file: path.display().to_string(), source };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let is_gzipped = file.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
    Ok(if is_gzipped {
        Box::new(BufReader::new(MultiGzDecoder::new(file)))
    } else {
        Box::new(file)
    })
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
