//! Damages the checkpoints of a launch.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::checkpoint::is_shard;
use crate::faults::Damage;

/// Damages the file of values in `folder` that was written last, and returns its path; none if
/// there is no such file.
pub(super) fn inflict(damage: Damage, folder: &Path) -> io::Result<Option<PathBuf>> {
    let Some(path) = newest(folder)? else { return Ok(None) };
    // Why not `fs::write`: it would bring back a file that is deleted meanwhile.
    let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    damage.apply(&mut bytes);
    file.write_all_at(&bytes, 0)?;
    file.set_len(bytes.len() as u64)?;
    Ok(Some(path))
}

fn newest(folder: &Path) -> io::Result<Option<PathBuf>> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        listed => listed?,
    };
    let mut newest = None;
    for entry in listed {
        let path = entry?.path();
        if !path.file_name().and_then(OsStr::to_str).is_some_and(is_shard) {
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
        assert_eq!(inflict(Damage::Cut, &folder.path().join("none")).unwrap(), None);
        assert_eq!(inflict(Damage::Cut, folder.path()).unwrap(), None);
        write("b.safetensors", "1234");
        write("a.safetensors", "1234");
        write("c.json", "1234");
        let future = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1 << 33);
        let newest = OpenOptions::new().write(true).open(folder.path().join("a.safetensors"));
        newest.unwrap().set_modified(future).unwrap();
        let found = inflict(Damage::Changed, folder.path()).unwrap().unwrap();
        assert_eq!(found, folder.path().join("a.safetensors"));
        assert_eq!((&*read("a.safetensors"), &*read("b.safetensors")), ("1224", "1234"));
        inflict(Damage::Cut, folder.path()).unwrap();
        assert_eq!((&*read("b.safetensors"), &*read("c.json")), ("1234", "1234"));
    }
}
