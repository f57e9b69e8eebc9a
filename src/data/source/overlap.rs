//! Whether a source has samples for testing that are also those to train on.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::glob;
use super::super::stream::{Format, Stream};
use super::Source;

impl Source {
    /// A file of samples to train on that is also one of those to test on.
    pub(crate) fn file_of_both(&self) -> Option<PathBuf> {
        match self {
            Self::Digits | Self::Synthetic | Self::Idx { .. } => None,
            Self::Csv { file, test, .. } | Self::LibSvm { file, test } => {
                same(file, test.as_deref()?)
            }
            Self::Npy { train: (features, _), test } => same(features, &test.as_ref()?.0),
            Self::Npz { file, train: (features, _), test } => {
                (*features == test.as_ref()?.0).then(|| file.clone())
            }
            Self::Streamed(stream) => of_stream(stream),
        }
    }
}

/// The path `test`, if `train` leads to the same file.
fn same(train: &Path, test: &Path) -> Option<PathBuf> {
    let is_same = fs::canonicalize(train).ok()? == fs::canonicalize(test).ok()?;
    is_same.then(|| test.to_owned())
}

fn of_stream(Stream { format, train, test, .. }: &Stream) -> Option<PathBuf> {
    if let Format::Images { .. } = format {
        return same(train, test);
    }
    let files = |pattern: &Path| glob::files(pattern).ok();
    let trained: BTreeSet<PathBuf> =
        files(train)?.iter().filter_map(|file| fs::canonicalize(file).ok()).collect();
    let is_trained = |file: &PathBuf| fs::canonicalize(file).is_ok_and(|at| trained.contains(&at));
    files(test)?.into_iter().find(is_trained)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_to_train_on_that_is_tested_on_is_found_by_whatever_path() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["part-1.csv", "part-2.csv", "test.csv"] {
            fs::write(folder.path().join(name), "x,y\n1,0\n").unwrap();
        }
        let at = |name: &str| folder.path().join(name);
        let label = || "y".to_owned();
        let csv = |test: PathBuf| Source::Csv {
            file: at("part-1.csv"),
            label: label(),
            test: Some(test),
        };
        let again = at(".").join("part-1.csv");
        assert_eq!(csv(again.clone()).file_of_both(), Some(again));
        assert_eq!(csv(at("test.csv")).file_of_both(), None);
        let stream = |test: &str| {
            let format = Format::Csv { label: label(), classes: 2 };
            let (train, test) = (at("part-*.csv"), at(test));
            Source::Streamed(Stream { format, train, test, shuffle: None, prefetch: 1 })
        };
        assert_eq!(stream("part-2.csv").file_of_both(), Some(at("part-2.csv")));
        assert_eq!(stream("test.csv").file_of_both(), None);
        let names = |name: &str| (name.to_owned(), label());
        let npz = |test: &str| {
            let (train, test) = (names("x"), Some(names(test)));
            Source::Npz { file: at("a.npz"), train, test }
        };
        assert_eq!(npz("x").file_of_both(), Some(at("a.npz")));
        assert_eq!(npz("x_test").file_of_both(), None);
    }
}
