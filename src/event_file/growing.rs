//! A file that grows on a thread of its own: a disk that is slow or full holds nobody up.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::Builder;
use std::time::Duration;

/// How long the end of a run waits for the disk.
const LIMIT: Duration = Duration::from_secs(10);
/// The most that waits for a disk \[bytes\].
const MOST_WAITING: usize = 64 << 20;

/// A file that a thread appends to. Writing never fails: [`Self::finish`] tells the file's error.
pub(crate) struct GrowingFile {
    /// The way to the thread, until the file has all.
    pieces: Option<Sender<Vec<u8>>>,
    /// What was written and the disk has not taken \[bytes\].
    waiting: Arc<AtomicUsize>,
    /// Whether that became too much: the file ends there.
    is_cut: bool,
    /// Brings the file's path once the thread ends. None once it was waited for.
    end: Option<io::Result<Receiver<io::Result<PathBuf>>>>,
}

impl GrowingFile {
    /// Starts the thread, which makes the file with `create`.
    pub(crate) fn start(
        create: impl FnOnce() -> io::Result<(File, PathBuf)> + Send + 'static,
    ) -> Self {
        let (pieces, received) = mpsc::channel::<Vec<u8>>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let taken = Arc::clone(&waiting);
        let append = move || {
            let (mut file, path) = create()?;
            for piece in received {
                file.write_all(&piece)?;
                taken.fetch_sub(piece.len(), Ordering::Relaxed);
            }
            Ok(path)
        };
        let (told, end) = mpsc::channel();
        let run = move || {
            told.send(append()).ok(); // nobody may be left who waits for it
        };
        let end = Builder::new().name("events".into()).spawn(run).map(|_| end);
        Self { pieces: Some(pieces), waiting, is_cut: false, end: Some(end) }
    }

    /// Waits until all is in the file, and returns its path.
    ///
    /// # Errors
    /// If it can't be written: it has nothing of what came after the first error. If the disk was
    /// slower than what was written, or does not answer for [`LIMIT`].
    pub(crate) fn finish(mut self) -> io::Result<PathBuf> {
        self.close(LIMIT).expect("nobody has waited for the thread")
    }

    /// Waits for the thread, if nobody has. After `limit` it is left to itself: a disk can hang for
    /// ever.
    fn close(&mut self, limit: Duration) -> Option<io::Result<PathBuf>> {
        self.pieces = None;
        let failed = |error| match error {
            RecvTimeoutError::Disconnected => io::Error::other("its thread has panicked"),
            RecvTimeoutError::Timeout => {
                let message = format!(
                    "the disk has not taken all of it within {limit:?}, so its end may be missing; \
                     see whether the disk hangs"
                );
                io::Error::new(io::ErrorKind::TimedOut, message)
            }
        };
        let wait = |end: Receiver<io::Result<PathBuf>>| end.recv_timeout(limit).map_err(failed)?;
        let path = self.end.take()?.and_then(wait);
        let message = "the disk is slower than what is written to it, so its end is missing";
        Some(if self.is_cut { path.and(Err(io::Error::other(message))) } else { path })
    }
}

impl Write for GrowingFile {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let waited = self.waiting.fetch_add(piece.len(), Ordering::Relaxed);
        self.is_cut |= waited > MOST_WAITING;
        if self.is_cut {
            self.pieces = None;
        }
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
        if let Some(Err(error)) = self.close(LIMIT) {
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

    #[test]
    fn a_disk_that_hangs_is_left_to_itself_and_told() {
        let (_hangs, answer) = mpsc::channel();
        let mut file = GrowingFile::start(move || answer.recv().map_err(io::Error::other)?);
        file.write_all(b"piece").unwrap();
        let error = file.close(Duration::from_millis(10)).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(file.close(LIMIT).is_none(), "it is waited for once");
    }

    #[test]
    fn what_waits_for_a_disk_is_bounded_and_what_is_beyond_is_told() {
        let (hangs, answer) = mpsc::channel::<()>();
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_owned();
        let mut file = GrowingFile::start(move || {
            answer.recv().ok();
            create_new(&place, "file")
        });
        let piece = vec![0; MOST_WAITING / 4];
        for _ in 0..8 {
            file.write_all(&piece).unwrap();
        }
        drop(hangs);
        let error = file.finish().unwrap_err().to_string();
        assert!(error.contains("its end is missing"), "{error}");
        let length = std::fs::metadata(folder.path().join("file")).unwrap().len();
        assert_eq!(length, 5 * piece.len() as u64, "all until more than the limit waited");
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
