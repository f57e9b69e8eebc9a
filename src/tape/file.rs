//! The file of a tape: a magic number, the header, then entries, each a frame with its length and a
//! check value.
//!
//! A file is only ever appended to, a frame by one call of the system, so that whatever ends the
//! process, what its actors have seen is there. A last frame that is cut off is left out.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::TapeError;
use super::entry::{self, Entry, Event};
use crate::cluster::TaskName;
use crate::transport::wire;
use crate::units::Time;
use crate::user_file;

/// What every tape begins with; the last byte is the version of the format.
pub(super) const MAGIC: &[u8] = b"trainyard tape\x03";
/// The greatest length of a frame \[bytes\]: as that of an envelope without its values.
const FRAME: u32 = 16 << 20;
/// The greatest length of a tape \[bytes\].
pub(super) const TAPE: u64 = 1 << 32;
/// The length of a check value \[bytes\]: CRC-32C.
const CHECK: usize = 4;

/// What a tape was recorded in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The scenario's name.
    pub scenario: String,
    /// The run's name.
    pub run: String,
    /// Its mode and compression, in words.
    pub how: String,
    /// The seed of all that is random.
    pub seed: u64,
    /// A hash of the model, the optimizer and the batch.
    pub program: u64,
    /// The task that recorded it.
    pub task: TaskName,
    /// The tasks of the cluster. An entry names a task by its index in this list.
    pub tasks: Vec<TaskName>,
    /// When the task's clock began, since 1970 \[ns\].
    pub began: u64,
}

/// Appends a frame of `payload` to `out`.
pub(super) fn frame(payload: &[u8], out: &mut Vec<u8>) {
    wire::encode(&(payload.len() as u32), out).expect("it is a number");
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
}

/// The first bytes of the tape of `header`.
pub(super) fn beginning(header: &Header) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    frame(&serde_json::to_vec(header).expect("it is plain data"), &mut bytes);
    bytes
}

/// A tape as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tape {
    /// What it was recorded in.
    pub header: Header,
    /// What the task received, in order.
    pub entries: Vec<Entry>,
    /// The length of the last frame, if that is cut off, as by a machine that failed, and left out
    /// \[bytes\].
    pub torn: Option<usize>,
}

/// Reads a tape.
///
/// # Errors
/// What is wrong with the bytes, if they are no tape or are damaged before their end.
pub fn read(bytes: &[u8]) -> Result<Tape, String> {
    let Some(mut left) = bytes.strip_prefix(MAGIC) else {
        let name = &MAGIC[..MAGIC.len() - 1];
        return Err(match bytes.get(MAGIC.len() - 1) {
            Some(version) if bytes.starts_with(name) => format!(
                "it is a tape of format {version}, and this version of trainyard reads format {}",
                MAGIC[MAGIC.len() - 1]
            ),
            _ => "it is no tape; `launch --record DIR` writes some".to_owned(),
        });
    };
    let Next::Frame(payload) = next(&mut left)? else {
        return Err("it is cut off in its header".to_owned());
    };
    let header: Header =
        serde_json::from_slice(payload).map_err(|error| format!("its header: {error}"))?;
    if !header.tasks.contains(&header.task) {
        return Err(format!("its cluster has no {}", header.task));
    }
    let (mut entries, mut at) = (Vec::new(), Time::ZERO);
    loop {
        let payload = match next(&mut left).map_err(|why| format!("{why}{}", place(&entries)))? {
            Next::Frame(payload) => payload,
            Next::End => return Ok(Tape { header, entries, torn: None }),
            Next::Torn(length) => return Ok(Tape { header, entries, torn: Some(length) }),
        };
        let entry = entry::decode(payload, at, header.tasks.len() as u32)
            .map_err(|why| format!("{why}{}", place(&entries)))?;
        at = entry.at;
        let is_last = matches!(entry.event, Event::Ended { .. });
        entries.push(entry);
        if is_last && !left.is_empty() {
            return Err("it goes on after the end of its task".to_owned());
        }
    }
}

fn place(entries: &[Entry]) -> String {
    format!(" (at position {})", entries.len())
}

/// What comes next in a file.
enum Next<'a> {
    Frame(&'a [u8]),
    End,
    /// A frame of which so many bytes are there.
    Torn(usize),
}

fn next<'a>(left: &mut &'a [u8]) -> Result<Next<'a>, String> {
    if left.is_empty() {
        return Ok(Next::End);
    }
    let there = left.len();
    let mut rest = *left;
    let Ok(length) = wire::decode_next::<u32>(&mut rest) else {
        // A length has at most five bytes.
        return if there < 5 { Ok(Next::Torn(there)) } else { Err("it is damaged".to_owned()) };
    };
    if length > FRAME {
        return Err("it is damaged".to_owned());
    }
    let Some((payload, rest)) = rest.split_at_checked(length as usize) else {
        return Ok(Next::Torn(there));
    };
    let Some((check, rest)) = rest.split_at_checked(CHECK) else { return Ok(Next::Torn(there)) };
    if check != crc32c::crc32c(payload).to_le_bytes() {
        return Err("it is damaged".to_owned());
    }
    *left = rest;
    Ok(Next::Frame(payload))
}

/// Reads the file at `path`.
pub(super) fn load(path: &Path) -> Result<Tape, TapeError> {
    let shown = path.display().to_string();
    let bytes = match user_file::read(path, TAPE) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(TapeError::Damaged { path: shown, problem: error.to_string() });
        }
        read => read.map_err(TapeError::system(format!("read {shown}")))?,
    };
    let tape = read(&bytes).map_err(|problem| TapeError::Damaged { path: shown, problem })?;
    if let Some(length) = tape.torn {
        let bytes = format!("{length} bytes");
        tracing::warn!(tape = %path.display(), "its last entry is cut off and left out: {bytes}");
    }
    Ok(tape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Loss;

    fn tape(entries: u64) -> Vec<u8> {
        let task = TaskName::new("ps", 0);
        let mut bytes = beginning(&Header {
            scenario: "s".to_owned(),
            run: "r".to_owned(),
            how: "async".to_owned(),
            seed: 7,
            program: 1,
            tasks: vec![task.clone()],
            task,
            began: 3,
        });
        for _ in 0..entries {
            let mut payload = Vec::new();
            entry::encode(10, &Event::Lost { peer: 0, loss: Loss::Silent }, &mut payload);
            frame(&payload, &mut bytes);
        }
        bytes
    }

    #[test]
    fn a_tape_that_is_cut_anywhere_has_the_entries_before_the_cut() {
        let (bytes, ends) = (tape(3), [tape(0).len(), tape(1).len(), tape(2).len()]);
        for cut in ends[0]..bytes.len() {
            let Tape { entries, torn, .. } = read(&bytes[..cut]).unwrap();
            let whole = ends.iter().rposition(|end| *end <= cut).unwrap();
            let lost = cut - ends[whole];
            assert_eq!((entries.len(), torn), (whole, Some(lost).filter(|lost| *lost > 0)));
        }
        assert!(read(&bytes[..ends[0] - 1]).unwrap_err().contains("in its header"));
        assert_eq!(read(&bytes).unwrap().entries.last().unwrap().at, Time(30));
    }

    #[test]
    fn a_tape_with_a_changed_byte_is_refused_with_its_position() {
        let (mut bytes, second) = (tape(3), tape(1).len());
        bytes[second + 2] ^= 1;
        assert_eq!(read(&bytes).unwrap_err(), "it is damaged (at position 1)");
        assert_eq!(
            read(b"PK\x03\x04").unwrap_err(),
            "it is no tape; `launch --record DIR` writes some"
        );
        let newer = read(b"trainyard tape\x04").unwrap_err();
        assert!(newer.contains("of format 4"), "{newer}");
    }
}
