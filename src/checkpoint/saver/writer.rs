//! Who may save: of several savers of one store, the one that has taken over last; and whether it
//! has come to the end of its training.

use std::io;

use crate::checkpoint::CheckpointError;
use crate::checkpoint::names::WRITER_FILE;
use crate::checkpoint::store::Store;

/// What comes between the number and the conditions of a training that has ended.
const ENDED: &str = " ended: ";

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

    /// Notes that the training has ended, by the conditions `stop`. The next that takes over
    /// removes the note.
    ///
    /// # Errors
    /// If another saver has taken over since, or the store refuses.
    pub(super) fn end(&self, store: &dyn Store, stop: &str) -> Result<(), CheckpointError> {
        self.check(store)?;
        let Some(own) = self.0 else { return Ok(()) };
        let written = store.write(WRITER_FILE, &[format!("{own}{ENDED}{stop}").as_bytes()]);
        written.map_err(CheckpointError::store("write", store.locate(WRITER_FILE)))
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
    let text = text(store)?;
    Ok(text.and_then(|text| text.split(' ').next()?.parse().ok()))
}

/// The stop conditions of the training that the last saver has brought to its end, if it has.
pub(super) fn ended(store: &dyn Store) -> Result<Option<String>, CheckpointError> {
    let text = text(store)?;
    Ok(text.and_then(|text| Some(text.split_once(ENDED)?.1.to_owned())))
}

fn text(store: &dyn Store) -> Result<Option<String>, CheckpointError> {
    match store.read(WRITER_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CheckpointError::store("read", store.locate(WRITER_FILE))(error)),
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
    }
}
