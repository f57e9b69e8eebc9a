//! Who may save: of several savers of one store, the one that has taken over last.

use std::io;

use crate::checkpoint::CheckpointError;
use crate::checkpoint::names::WRITER_FILE;
use crate::checkpoint::store::Store;

/// A saver's number among those that have taken over; none before it has.
#[derive(Default)]
pub(super) struct Writer(Option<u64>);

impl Writer {
    /// Takes over the checkpoints in `store`, if it has not.
    ///
    /// # Errors
    /// If the store refuses.
    pub(super) fn take_over(&mut self, store: &dyn Store) -> Result<(), CheckpointError> {
        if self.0.is_some() {
            return Ok(());
        }
        let own = last(store)?.map_or(1, |last| last.saturating_add(1));
        let written = store.write(WRITER_FILE, &[own.to_string().as_bytes()]);
        written.map_err(CheckpointError::store("write", store.locate(WRITER_FILE)))?;
        self.0 = Some(own);
        Ok(())
    }

    /// Checks that no other saver has taken over since.
    ///
    /// # Errors
    /// If one has, or the store refuses.
    pub(super) fn check(&self, store: &dyn Store) -> Result<(), CheckpointError> {
        let Some(ours) = self.0 else { return Ok(()) };
        match last(store)? {
            Some(theirs) if theirs != ours => {
                Err(CheckpointError::TakenOver { location: store.locate(""), theirs, ours })
            }
            _ => Ok(()),
        }
    }
}

/// The number of the saver that took over last, if any did.
fn last(store: &dyn Store) -> Result<Option<u64>, CheckpointError> {
    match store.read(WRITER_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CheckpointError::store("read", store.locate(WRITER_FILE))(error)),
        Ok(bytes) => Ok(std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok())),
    }
}
