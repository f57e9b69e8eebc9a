//! What is said to the user on standard error.

use std::fmt::Arguments;
use std::io::Write;

/// Says a line, written as for `println!`.
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}
pub(crate) use say;

/// Says `words`. Where standard error goes to a disk that is full, they are lost, and nothing else:
/// `eprintln!` would panic.
pub(crate) fn line(words: Arguments<'_>) {
    let _ = writeln!(anstream::stderr(), "{words}");
}
