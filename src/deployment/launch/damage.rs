//! Damages the checkpoints of a launch.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Its second half is missing.
    Cut,
    /// The byte in its middle is another.
    Changed,
}

impl Damage {
    /// Damages the file of values in `folder` that was written last, and returns its path; none if
    /// there is no such file.
    pub(super) fn inflict(self, folder: &Path) -> io::Result<Option<PathBuf>> {
        let Some(path) = newest(folder)? else { return Ok(None) };
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let middle = file.metadata()?.len() / 2;
        match self {
            Self::Cut => file.set_len(middle)?,
            Self::Changed => {
                let mut byte = [0];
                file.read_exact_at(&mut byte, middle)?;
                file.write_all_at(&[byte[0] ^ 1], middle)?;
            }
        }
        Ok(Some(path))
    }
}

fn newest(folder: &Path) -> io::Result<Option<PathBuf>> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        listed => listed?,
    };
    let mut newest = None;
    for entry in listed {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "safetensors") {
            continue;
        }
        // Older checkpoints are deleted meanwhile.
        let Ok(written) = path.metadata().and_then(|found| found.modified()) else { continue };
        newest = newest.max(Some((written, path)));
    }
    Ok(newest.map(|(_, path)| path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::Folder;

    #[test]
    fn the_newest_file_of_values_is_cut_or_has_another_byte() {
        let folder = Folder::private("trainyard-damage").unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(Damage::Cut.inflict(&folder.path().join("none")).unwrap(), None);
        assert_eq!(Damage::Cut.inflict(folder.path()).unwrap(), None);
        write("b.safetensors", "1234");
        write("a.safetensors", "1234");
        write("c.json", "1234");
        let future = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1 << 33);
        let newest = OpenOptions::new().write(true).open(folder.path().join("a.safetensors"));
        newest.unwrap().set_modified(future).unwrap();
        let found = Damage::Changed.inflict(folder.path()).unwrap().unwrap();
        assert_eq!(found, folder.path().join("a.safetensors"));
        assert_eq!((&*read("a.safetensors"), &*read("b.safetensors")), ("1224", "1234"));
        Damage::Cut.inflict(folder.path()).unwrap();
        assert_eq!((&*read("b.safetensors"), &*read("c.json")), ("1234", "1234"));
    }
}
