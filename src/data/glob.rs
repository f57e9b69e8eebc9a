//! Names of files with `*` and `?` in them, which stand for several files.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::DataError;

/// The files that `pattern` names, in alphabetical order: `*` stands for any part of a name and `?`
/// for one character of it, also of a folder's.
///
/// # Errors
/// If there are none, or a folder can't be read.
pub(super) fn files(pattern: &Path) -> Result<Vec<PathBuf>, DataError> {
    let unreadable = |source| DataError::Unreadable { file: pattern.display().to_string(), source };
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let name = component.as_os_str().to_string_lossy();
        if matches!(component, Component::Normal(_)) && name.contains(['*', '?']) {
            found = matching(&found, &name).map_err(unreadable)?;
        } else {
            found.iter_mut().for_each(|path| path.push(component));
            found.retain(|path| path.exists());
        }
    }
    if found.is_empty() {
        return Err(unreadable(io::Error::new(io::ErrorKind::NotFound, "there is no such file")));
    }
    Ok(found)
}

/// Whether `path` has a `*` or a `?`, which may also be part of a file's own name.
pub(super) fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?'])
}

/// What in `folders` has a name that fits `pattern`.
fn matching(folders: &[PathBuf], pattern: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in folders.iter().filter(|folder| folder.as_os_str().is_empty() || folder.is_dir()) {
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        for entry in fs::read_dir(here)? {
            let name = entry?.file_name();
            if fits(pattern.as_bytes(), name.to_string_lossy().as_bytes()) {
                found.push(folder.join(name));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether `name` fits `pattern`. A hidden file's name does not fit a `*` at the beginning.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    // Where the last `*` is, and how much of the name it stands for so far.
    let (mut at, mut of_name, mut star) = (0, 0, None);
    while of_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, of_name));
                at += 1;
            }
            Some(c) if *c == b'?' || *c == name[of_name] => (at, of_name) = (at + 1, of_name + 1),
            _ => {
                let Some((last, stands_for)) = star else { return false };
                star = Some((last, stands_for + 1));
                (at, of_name) = (last + 1, stands_for + 1);
            }
        }
    }
    pattern[at..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_part_of_a_name_and_a_question_mark_for_one_character() {
        let fit = |pattern: &str, name: &str| fits(pattern.as_bytes(), name.as_bytes());
        assert!(fit("part-*.csv", "part-0001.csv") && fit("*a*b*", "xaxbbx") && fit("*", "x"));
        assert!(fit("part-?", "part-7") && fit("a*", "a"));
        assert!(!fit("part-*.csv", "part-1.tsv") && !fit("part-?", "part-17"));
        assert!(!fit("*", ".hidden") && fit(".h*", ".hidden"));
    }
}
