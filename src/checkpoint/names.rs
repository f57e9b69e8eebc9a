//! The names of a checkpoint's files.

use super::CheckpointError;

/// The file that names the newest checkpoints (TensorFlow: `latest_filename`).
pub(super) const STATE_FILE: &str = "checkpoint";
/// The file with the identity of the saver that writes here, and whether its training has ended.
pub(super) const WRITER_FILE: &str = "checkpoint.writer";
const INDEX: &str = ".index.json";
const SHARD: &str = ".safetensors";

/// The names of a training's checkpoint files, which begin with the same word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    basename: String,
}

/// The kind of a checkpoint file, parsed from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileOf {
    /// The index of a step.
    Index(u64),
    /// A shard of a step, and its edition.
    Shard(u64, u32),
}

impl Default for Names {
    fn default() -> Self {
        Self { basename: "model.ckpt".to_owned() }
    }
}

impl Names {
    /// # Errors
    /// If `basename` can't be the beginning of a file's name.
    pub(super) fn new(basename: &str) -> Result<Self, CheckpointError> {
        if basename.is_empty() || basename == STATE_FILE || basename.contains(['/', '\\', '\0']) {
            return Err(CheckpointError::Basename(basename.to_owned()));
        }
        Ok(Self { basename: basename.to_owned() })
    }

    /// The checkpoint's own name, as TensorFlow's `Saver.save` returns it.
    pub(super) fn checkpoint(&self, step: u64) -> String {
        format!("{}-{step}", self.basename)
    }

    pub(super) fn index(&self, step: u64) -> String {
        format!("{}{INDEX}", self.checkpoint(step))
    }

    /// The file of shard `shard` of `shards`. If a step is saved again, it gets another edition, so
    /// that its first files stay as they are until the index names the new ones. Each saver has
    /// editions of its own.
    pub(super) fn shard(&self, step: u64, edition: u32, (shard, shards): (usize, usize)) -> String {
        let edition = if edition == 0 { String::new() } else { format!(".{edition}") };
        format!("{}{edition}-{shard:05}-of-{shards:05}{SHARD}", self.checkpoint(step))
    }

    /// The kind of `file`, if it is named by these names.
    pub(super) fn parse(&self, file: &str) -> Option<FileOf> {
        let rest = file.strip_prefix(&self.basename)?.strip_prefix('-')?;
        if let Some(step) = rest.strip_suffix(INDEX) {
            return Some(FileOf::Index(number(step)?));
        }
        let mut words = rest.strip_suffix(SHARD)?.split('-');
        let (step, shard, of, shards) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        let (step, edition) = match step.split_once('.') {
            Some((step, edition)) => (number(step)?, u32::try_from(number(edition)?).ok()?),
            None => (number(step)?, 0),
        };
        let index = (shard.parse().ok()?, shards.parse().ok()?);
        let is_shard =
            of == "of" && words.next().is_none() && self.shard(step, edition, index) == file;
        is_shard.then_some(FileOf::Shard(step, edition))
    }
}

/// Whether `file` is named as a shard of some checkpoint, whatever its other files begin with.
pub(crate) fn is_shard(file: &str) -> bool {
    file.ends_with(SHARD)
}

/// Whether a store of checkpoints has a file named `file`, whatever its checkpoints are called.
pub(super) fn is_of_store(file: &str) -> bool {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_part = |name: &str| {
        let mut words = name.rsplit('-');
        let (of, word, part) = (words.next(), words.next(), words.next());
        word == Some("of") && [of, part].into_iter().all(|number| number.is_some_and(is_number))
    };
    [STATE_FILE, WRITER_FILE].contains(&file)
        || file.ends_with(INDEX)
        || file.strip_suffix(SHARD).is_some_and(is_part)
}

/// Parses a number, only if it is written as numbers are printed.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_name_is_read_back_as_what_it_is_of(
            step: u64,
            edition: u32,
            shard in 0..200_000usize,
        ) {
            let names = Names::default();
            prop_assert_eq!(names.parse(&names.index(step)), Some(FileOf::Index(step)));
            let file = names.shard(step, edition, (shard, 200_000));
            prop_assert_eq!(names.parse(&file), Some(FileOf::Shard(step, edition)));
        }
    }

    #[test]
    fn other_files_are_no_files_of_a_checkpoint() {
        let names = Names::default();
        for file in [
            "checkpoint",
            "model.ckpt-1.index",
            "model.ckpt-01.index.json",
            "model.ckpt-+1.index.json",
            "other-1.index.json",
            "model.ckpt-1.index.json.tmp",
            "model.ckpt-1-0-of-00002.safetensors",
            "model.ckpt-1.0-00000-of-00002.safetensors",
            "model.ckpt-1-00000-in-00002.safetensors",
            "model.ckpt-99999999999999999999.index.json",
        ] {
            assert_eq!(names.parse(file), None, "{file}");
        }
    }

    #[test]
    fn the_files_of_a_store_are_known_whatever_its_checkpoints_are_called() {
        for file in ["checkpoint", "checkpoint.writer", "a-1.index.json"] {
            assert!(is_of_store(file), "{file}");
        }
        assert!(is_of_store(&Names::new("own").unwrap().shard(7, 2, (0, 3))));
        for file in ["model-4.safetensors", "checkpoint.safetensors", "a-of-b.safetensors"] {
            assert!(!is_of_store(file), "{file}");
        }
    }

    #[test]
    fn the_name_of_the_state_file_is_reserved() {
        for basename in ["", "checkpoint", "a/b", "a\\b"] {
            let error = Names::new(basename).unwrap_err().to_string();
            assert!(error.contains(&format!("`{basename}`")), "{error}");
        }
        assert_eq!(Names::new("mine").unwrap().checkpoint(3), "mine-3");
    }
}
