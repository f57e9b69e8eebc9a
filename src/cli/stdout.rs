//! Standard output, whose reader may leave before the end, as `head` does.

use std::io::{self, StdoutLock, Write};

use console::Term;

use crate::report::Layout;
use crate::say::Escaping;

/// Standard output for a command's result in words. Once its reader has gone, the rest is dropped
/// and the command ends as if it had been read.
pub(super) fn stdout() -> Escaping<UntilReaderLeaves<StdoutLock<'static>>> {
    Escaping(raw_stdout())
}

/// The same for a result that programs read, such as JSON or DOT, which has escapes of its own.
pub(super) fn raw_stdout() -> UntilReaderLeaves<StdoutLock<'static>> {
    UntilReaderLeaves(io::stdout().lock())
}

/// `layout`, as the terminal on standard output has room for it.
pub(super) fn fitted(layout: Layout) -> Layout {
    match (layout, Term::stdout().size_checked()) {
        (Layout::Plain, Some((_, columns))) if columns > 0 => Layout::Within(columns.into()),
        (layout, _) => layout,
    }
}

/// The outcome of a write to standard output; that its reader has gone is no failure.
pub(super) fn unless_reader_left<T: Default>(written: io::Result<T>) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(T::default()),
        written => written,
    }
}

/// Writes to a pipe for as long as somebody reads it.
pub(super) struct UntilReaderLeaves<W>(W);

impl<W: Write> Write for UntilReaderLeaves<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_reader_left(self.0.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refuses each write for one reason.
    struct Refusing(io::ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_no_failure_and_a_full_disk_is_one() {
        let written = |kind| {
            let mut out = UntilReaderLeaves(Refusing(kind));
            let outcome = out.write_all(b"rows").and_then(|()| out.flush());
            outcome.map_err(|error| error.kind())
        };
        assert_eq!(written(io::ErrorKind::BrokenPipe), Ok(()));
        assert_eq!(written(io::ErrorKind::StorageFull), Err(io::ErrorKind::StorageFull));
    }
}
