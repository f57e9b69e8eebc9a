//! What is said to the user on standard error, and how a terminal is kept from obeying it.

use std::borrow::Cow;
use std::fmt::{Arguments, Display};
use std::io::{self, Write};

/// Says a line, written as for `println!`.
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}
pub(crate) use say;

/// Says `words`. Where standard error goes to a disk that is full, they are lost, and nothing else:
/// `eprintln!` would panic.
pub(crate) fn line(words: Arguments<'_>) {
    labelled("", words);
}

/// Says `words` after `label`, which may be coloured.
pub(crate) fn labelled(label: impl Display, words: impl Display) {
    let _ = writeln!(anstream::stderr(), "{label}{}", escaped(&words.to_string()));
}

/// `text` with the signs escaped that a terminal obeys, but for ends of lines and tabs. Texts come
/// from files and peers, whose signs could rename the window, or hide and forge lines.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_obeyed(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// `text` as [`escaped`] shows it, on one line: a peer's ends of lines could forge lines.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text).replace('\n', r"\n").replace('\t', r"\t")
}

/// Whether `c` is a control character, or one that changes the direction in which others are shown.
fn is_obeyed(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes texts as [`escaped`] shows them.
pub(crate) struct Escaping<W>(pub(crate) W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for chunk in bytes.utf8_chunks() {
            self.0.write_all(escaped(chunk.valid()).as_bytes())?;
            self.0.write_all(chunk.invalid())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_and_all_else_is_as_it_was() {
        let mut out = Escaping(Vec::new());
        out.write_all(b"a\x1b]0;own\x07\x7f\r\n\tb").unwrap();
        out.write_all("\u{9b}2J \u{202e}\u{2066} größer".as_bytes()).unwrap();
        let expected = "a\\u{1b}]0;own\\u{7}\\u{7f}\\r\n\tb\
                        \\u{9b}2J \\u{202e}\\u{2066} größer";
        assert_eq!(String::from_utf8(out.0).unwrap(), expected);
    }

    #[test]
    fn a_letter_that_is_written_in_parts_is_whole() {
        let mut out = Escaping(Vec::new());
        for byte in "größer".bytes() {
            out.write_all(&[byte]).unwrap();
        }
        assert_eq!(String::from_utf8(out.0).unwrap(), "größer");
    }
}
