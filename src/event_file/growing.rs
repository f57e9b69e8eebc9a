//! A file that grows on a thread of its own: a disk that is slow or full holds nobody up.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::thread::{Builder, JoinHandle};

/// A file that a thread appends to. Writing never fails: [`Self::finish`] tells the file's error.
pub(crate) struct GrowingFile {
    /// The way to the thread, until the file has all.
    pieces: Option<Sender<Vec<u8>>>,
    /// Returns the file's path. None once it was waited for.
    thread: Option<io::Result<JoinHandle<io::Result<PathBuf>>>>,
}

impl GrowingFile {
    /// Starts the thread, which makes the file with `create`.
    pub(crate) fn start(
        create: impl FnOnce() -> io::Result<(File, PathBuf)> + Send + 'static,
    ) -> Self {
        let (pieces, received) = mpsc::channel::<Vec<u8>>();
        let append = move || {
            let (mut file, path) = create()?;
            received.into_iter().try_for_each(|piece| file.write_all(&piece))?;
            Ok(path)
        };
        let thread = Builder::new().name("events".into()).spawn(append);
        Self { pieces: Some(pieces), thread: Some(thread) }
    }

    /// Waits until all is in the file, and returns its path.
    ///
    /// # Errors
    /// If it can't be written: it has nothing of what came after the first error.
    pub(crate) fn finish(mut self) -> io::Result<PathBuf> {
        self.close().expect("nobody has waited for the thread")
    }

    /// Waits for the thread, if nobody has.
    fn close(&mut self) -> Option<io::Result<PathBuf>> {
        self.pieces = None;
        let panicked = |_| Err(io::Error::other("its thread has panicked"));
        let join = |thread: JoinHandle<_>| thread.join().unwrap_or_else(panicked);
        Some(self.thread.take()?.and_then(join))
    }
}

impl Write for GrowingFile {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if let Some(pieces) = &self.pieces {
            pieces.send(piece.to_vec()).ok(); // the thread has gone with an error, which it tells
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for GrowingFile {
    /// Also a run that fails keeps all that was written.
    fn drop(&mut self) {
        if let Some(Err(error)) = self.close() {
            tracing::error!(%error, "a file of events can't be written to its end");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_file::create_new;

    #[test]
    fn a_growing_file_that_is_dropped_has_all_that_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_owned();
        let mut file = GrowingFile::start(move || create_new(&place, "file"));
        for piece in [b"one, ", b"two, "] {
            file.write_all(piece).unwrap();
        }
        drop(file);
        assert_eq!(std::fs::read(folder.path().join("file")).unwrap(), b"one, two, ");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_at_the_end_and_holds_nobody_up() {
        let full = || {
            let path = PathBuf::from("/dev/full");
            Ok((File::options().write(true).open(&path)?, path))
        };
        let mut file = GrowingFile::start(full);
        for _ in 0..1000 {
            file.write_all(b"piece").unwrap();
        }
        assert_eq!(file.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
