//! The names of a checkpoint's files.

/// The file that names the newest checkpoints (TensorFlow: `latest_filename`).
pub(super) const STATE_FILE: &str = "checkpoint";
/// The file with the identity of the saver that writes here, and whether its training has ended.
pub(super) const WRITER_FILE: &str = "checkpoint.writer";
/// The beginning of every checkpoint's name (TensorFlow: the default `checkpoint_basename`).
const BASENAME: &str = "model.ckpt";
const INDEX: &str = ".index.json";
const SHARD: &str = ".safetensors";

/// The kind of a checkpoint file, parsed from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileOf {
    /// The index of a step.
    Index(u64),
    /// A shard of a step, and its edition.
    Shard(u64, u32),
}

/// The checkpoint's own name, as TensorFlow's `Saver.save` returns it.
pub(super) fn checkpoint(step: u64) -> String {
    format!("{BASENAME}-{step}")
}

pub(super) fn index(step: u64) -> String {
    format!("{}{INDEX}", checkpoint(step))
}

/// The file of shard `shard` of `shards`. If a step is saved again, it gets another edition, so
/// that its first files stay as they are until the index names the new ones. Each saver has
/// editions of its own.
pub(super) fn shard(step: u64, edition: u32, (shard, shards): (usize, usize)) -> String {
    let edition = if edition == 0 { String::new() } else { format!(".{edition}") };
    format!("{}{edition}-{shard:05}-of-{shards:05}{SHARD}", checkpoint(step))
}

/// The kind of `file`, if it is a file of a checkpoint.
pub(super) fn parse(file: &str) -> Option<FileOf> {
    let rest = file.strip_prefix(BASENAME)?.strip_prefix('-')?;
    if let Some(step) = rest.strip_suffix(INDEX) {
        return Some(FileOf::Index(number(step)?));
    }
    let mut words = rest.strip_suffix(SHARD)?.split('-');
    let (step, at, of, shards) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (step, edition) = match step.split_once('.') {
        Some((step, edition)) => (number(step)?, u32::try_from(number(edition)?).ok()?),
        None => (number(step)?, 0),
    };
    let position = (at.parse().ok()?, shards.parse().ok()?);
    let is_shard = of == "of" && words.next().is_none() && shard(step, edition, position) == file;
    is_shard.then_some(FileOf::Shard(step, edition))
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
            prop_assert_eq!(parse(&index(step)), Some(FileOf::Index(step)));
            let file = super::shard(step, edition, (shard, 200_000));
            prop_assert_eq!(parse(&file), Some(FileOf::Shard(step, edition)));
        }
    }

    #[test]
    fn other_files_are_no_files_of_a_checkpoint() {
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
            assert_eq!(parse(file), None, "{file}");
        }
    }

    #[test]
    fn the_files_of_a_store_are_known_whatever_its_checkpoints_are_called() {
        let shard = "own-7.2-00000-of-00003.safetensors";
        for file in ["checkpoint", "checkpoint.writer", "a-1.index.json", shard] {
            assert!(is_of_store(file), "{file}");
        }
        for file in ["model-4.safetensors", "checkpoint.safetensors", "a-of-b.safetensors"] {
            assert!(!is_of_store(file), "{file}");
        }
    }
}
