//! The file `checkpoint`, which names the newest checkpoints in TensorFlow's words
//! (`CheckpointState`).
//!
//! It is for people and other tools. This program finds checkpoints by their indexes, and reads
//! here only whether there were any.

use std::collections::BTreeSet;

/// The text of the file for `checkpoints`, the oldest first.
pub(super) fn render(checkpoints: &[String]) -> String {
    let line = |key: &str, name: &String| {
        format!("{key}: \"{}\"\n", name.replace('\\', "\\\\").replace('"', "\\\""))
    };
    let newest = checkpoints.last().map(|name| line("model_checkpoint_path", name));
    newest
        .into_iter()
        .chain(checkpoints.iter().map(|name| line("all_model_checkpoint_paths", name)))
        .collect()
}

/// The names of the checkpoints in `text`, which [`render`] has written.
pub(super) fn names(text: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let (_, quoted) = line.split_once(": \"")?;
        Some(quoted.strip_suffix('"')?.to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_tensorflow_writes_it() {
        let names = ["model.ckpt-1", "model.ckpt-2"].map(str::to_owned);
        let expected = "model_checkpoint_path: \"model.ckpt-2\"\n\
                        all_model_checkpoint_paths: \"model.ckpt-1\"\n\
                        all_model_checkpoint_paths: \"model.ckpt-2\"\n";
        assert_eq!(render(&names), expected);
        assert_eq!(super::names(expected), names.into());
    }
}
