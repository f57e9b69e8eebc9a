//! The repair of an index that a replaced saver has put over that of its successor.

use std::collections::BTreeMap;

use super::Saver;
use crate::checkpoint::{CheckpointError, names};

impl Saver {
    /// Writes the index of the last save again, if there is one of a replaced saver in its place: a
    /// saver may be within the write of its index while another takes over, and no store can keep
    /// that write from coming to its end. Its save has a lower number.
    ///
    /// # Errors
    /// If the store refuses.
    pub(super) fn repair(&self, files: &BTreeMap<String, u64>) -> Result<(), CheckpointError> {
        let Some(own) = self.last.as_ref().filter(|_| self.writer.has_taken_over()) else {
            return Ok(());
        };
        let name = names::index(own.global_step);
        if !files.contains_key(&name) {
            return Ok(());
        }
        match self.reader(files).index(own.global_step) {
            Ok(found) if found.save < own.save => {
                tracing::warn!(
                    checkpoint = names::checkpoint(own.global_step),
                    "a chief that was replaced has put its index over this one's; it is mended"
                );
                self.write_file(&name, &[&own.encode()])
            }
            Err(error) if error.is_transient() => Err(error),
            _ => Ok(()),
        }
    }
}
