//! Files that users name: plain ones, of a limited length, so that reading one ends.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The greatest length of a text, such as a scenario \[bytes\].
pub(crate) const TEXT: u64 = 1 << 20;
/// The greatest length of a TensorFlow graph \[bytes\]: that of a protocol buffer's message.
pub(crate) const GRAPH: u64 = 1 << 31;

/// Opens the file at `path`.
///
/// # Errors
/// If it can't be opened; if it is a device, which may have no end, or a pipe, into which nobody
/// may write.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    let problem = if kind.is_char_device() || kind.is_block_device() {
        "it is a device; name a file"
    } else if kind.is_fifo() {
        "it is a pipe; write what comes from it into a file, and name that"
    } else {
        return File::open(path);
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

/// Reads the whole file at `path`.
///
/// # Errors
/// Those of [`open`]; if it can't be read, or is longer than `limit`.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= limit {
        return Ok(bytes);
    }
    let problem = format!("it is longer than {limit} bytes, and so not what is asked for");
    Err(io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// Whether `path` is the folder of one of TensorFlow's SavedModels.
pub(crate) fn is_saved_model(path: &Path) -> bool {
    path.join("saved_model.pb").is_file()
}

/// Reads the text at `path`.
///
/// # Errors
/// Those of [`read`], with the limit [`TEXT`]; if it is no UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path, TEXT)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_and_what_is_too_long_is_refused() {
        let refused = |path: &Path| read(path, 8).unwrap_err().to_string();
        assert!(refused(Path::new("/dev/zero")).contains("it is a device"));
        let folder = std::env::temp_dir().join(format!("trainyard-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (pipe, file) = (folder.join("pipe"), folder.join("file"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(refused(&pipe).contains("it is a pipe"));
        fs::write(&file, "123456789").unwrap();
        assert!(refused(&file).contains("longer than 8 bytes"));
        fs::write(&file, "12345678").unwrap();
        assert_eq!(read(&file, 8).unwrap(), b"12345678");
        fs::write(&file, b"gr\xfc\xdfe").unwrap();
        assert!(read_text(&file).unwrap_err().to_string().contains("no text in UTF-8"));
        fs::remove_dir_all(folder).unwrap();
    }
}
