//! Entries of a tape, and how they are written.
//!
//! Numbers are written as LEB128, seven bits a byte. An entry is its tag, the time since the entry
//! before it \[ns\], and what its kind has; a decoder takes no more memory than in proportion to
//! the bytes that it is given.

use std::fmt;

use smallvec::SmallVec;

use super::name::{Author, Kind, Name};
use crate::cluster::TaskName;
use crate::transport::Loss;
use crate::units::Time;

/// What a task received at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When, on the task's clock.
    pub at: Time,
    /// What.
    pub event: Event,
}

/// Something that reached a task from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An envelope arrived.
    Received {
        /// The sender's number in the cluster.
        from: u32,
        /// Its messages, in order.
        messages: Vec<Name>,
    },
    /// A peer was lost.
    Lost {
        /// The peer's number in the cluster.
        peer: u32,
        /// The cause.
        loss: Loss,
    },
    /// Kernels ended that had run beside the message thread.
    Computed {
        /// The number of the task's device; it runs one piece after the other.
        device: u32,
    },
    /// The task ended by itself.
    Ended {
        /// The digest of the trained weights, if the task had them.
        weights: Option<u64>,
        /// The error that its program ended with, if it did.
        error: Option<String>,
    },
}

const RECEIVED: u8 = 0;
const LOST: u8 = 1;
const ENDED: u8 = 2;
const COMPUTED: u8 = 3;

const LOSSES: [Loss; 4] = [Loss::Silent, Loss::Stopped, Loss::Restarted, Loss::Outlived];

/// Appends the bytes of `event`, which comes `after` \[ns\] the one before it.
pub(super) fn encode(after: u64, event: &Event, out: &mut Vec<u8>) {
    match event {
        Event::Received { from, messages } => {
            out.push(RECEIVED);
            write(after, out);
            write(u64::from(*from), out);
            for name in messages {
                encode_name(name, out);
            }
        }
        Event::Lost { peer, loss } => {
            out.push(LOST);
            write(after, out);
            write(u64::from(*peer), out);
            let loss = LOSSES.iter().position(|known| known == loss);
            out.push(loss.expect("all are in the list") as u8);
        }
        Event::Computed { device } => {
            out.push(COMPUTED);
            write(after, out);
            write(u64::from(*device), out);
        }
        Event::Ended { weights, error } => {
            out.push(ENDED);
            write(after, out);
            out.push(u8::from(weights.is_some()));
            write(weights.unwrap_or(0), out);
            out.push(u8::from(error.is_some()));
            out.extend_from_slice(error.as_deref().unwrap_or_default().as_bytes());
        }
    }
}

fn encode_name(name: &Name, out: &mut Vec<u8>) {
    out.push(name.kind as u8);
    match name.author {
        Author::Own => write(0, out),
        Author::Other(task, life) => {
            write(1 + u64::from(task), out);
            write(u64::from(life), out);
        }
    }
    write(name.number, out);
    write(name.items.len() as u64, out);
    for item in &name.items {
        write(u64::from(*item), out);
    }
}

/// The entry in `bytes`, which comes after one at `before`; `tasks` is how many the cluster has.
///
/// # Errors
/// What is wrong with the bytes.
pub(super) fn decode(bytes: &[u8], before: Time, tasks: u32) -> Result<Entry, &'static str> {
    let mut reader = Reader(bytes);
    let tag = reader.byte()?;
    let at = before.0.checked_add(reader.number()?).ok_or("its time is beyond every clock")?;
    let task = |reader: &mut Reader<'_>| {
        let number = reader.small()?;
        if number < tasks { Ok(number) } else { Err("it names a task that the cluster has not") }
    };
    let event = match tag {
        RECEIVED => {
            let (from, mut messages) = (task(&mut reader)?, Vec::new());
            while !reader.0.is_empty() {
                messages.push(decode_name(&mut reader, tasks)?);
            }
            Event::Received { from, messages }
        }
        LOST => {
            let peer = task(&mut reader)?;
            let loss = LOSSES.get(usize::from(reader.byte()?)).ok_or("it has an unknown cause")?;
            Event::Lost { peer, loss: *loss }
        }
        COMPUTED => Event::Computed { device: reader.small()? },
        ENDED => {
            let (has_weights, weights) = (reader.byte()? != 0, reader.number()?);
            let failed = reader.byte()? != 0;
            let error = String::from_utf8_lossy(std::mem::take(&mut reader.0)).into_owned();
            Event::Ended { weights: has_weights.then_some(weights), error: failed.then_some(error) }
        }
        _ => return Err("it is of an unknown kind"),
    };
    match reader.0.is_empty() {
        true => Ok(Entry { at: Time(at), event }),
        false => Err("it is longer than what it has"),
    }
}

fn decode_name(reader: &mut Reader<'_>, tasks: u32) -> Result<Name, &'static str> {
    let kind = Kind::ALL.get(usize::from(reader.byte()?)).ok_or("a message is of unknown kind")?;
    let author = match reader.small()? {
        0 => Author::Own,
        task if task <= tasks => Author::Other(task - 1, reader.small()?),
        _ => return Err("it names a task that the cluster has not"),
    };
    let (number, count) = (reader.number()?, reader.number()?);
    if count > reader.0.len() as u64 {
        return Err("a message has more items than bytes");
    }
    let items: Result<SmallVec<[u32; 2]>, _> = (0..count).map(|_| reader.small()).collect();
    Ok(Name { kind: *kind, author, number, items: items? })
}

/// Appends `number`.
pub(super) fn write(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// What is left of some bytes.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, &'static str> {
        let (first, rest) = self.0.split_first().ok_or("it is cut off")?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, &'static str> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits")
    }

    fn small(&mut self) -> Result<u32, &'static str> {
        u32::try_from(self.number()?).map_err(|_| "a number has more than 32 bits")
    }
}

impl Name {
    /// The name in words, where `tasks` are those of the cluster.
    pub fn in_words(&self, tasks: &[TaskName]) -> String {
        let (number, items) = self.kind.counts();
        let mut words = format!("{:?} {number} {}", self.kind, self.number);
        if let Author::Other(task, life) = self.author {
            words += &format!(" of {}", tasks[task as usize]);
            if life > 0 {
                words += &format!("'s life {life}");
            }
        }
        if !self.items.is_empty() {
            let list: Vec<String> = self.items.iter().map(u32::to_string).collect();
            words += &format!(" ({items} {})", list.join(", "));
        }
        words
    }
}

impl Event {
    /// The event in words, where `tasks` are those of the cluster.
    pub fn in_words(&self, tasks: &[TaskName]) -> String {
        match self {
            Self::Received { from, messages } => {
                let names: Vec<String> = messages.iter().map(|name| name.in_words(tasks)).collect();
                format!("from {}: {}", tasks[*from as usize], names.join("; "))
            }
            Self::Lost { peer, loss } => format!("{} is lost: {loss}", tasks[*peer as usize]),
            Self::Computed { device } => format!("device CPU:{device} has computed"),
            Self::Ended { error: Some(error), .. } => format!("the task ended: {error}"),
            Self::Ended { weights: Some(weights), .. } => {
                format!("the task ended, with weights={weights:016x}")
            }
            Self::Ended { .. } => "the task ended".to_owned(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn written(event: &Event) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(300, event, &mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_is_read_again() {
        let name = |kind, author, number, items| Name { kind, author, number, items };
        let messages = vec![
            name(Kind::Tensors, Author::Other(1, 2), u64::MAX, smallvec![0, 200, u32::MAX]),
            name(Kind::Leave, Author::Own, 3, smallvec![]),
        ];
        let events = [
            Event::Received { from: 2, messages },
            Event::Received { from: 0, messages: Vec::new() },
            Event::Lost { peer: 1, loss: Loss::Restarted },
            Event::Computed { device: 300 },
            Event::Ended { weights: Some(u64::MAX), error: None },
            Event::Ended { weights: None, error: Some("a disk is full".to_owned()) },
        ];
        for event in events {
            let entry = decode(&written(&event), Time(5), 3).unwrap();
            assert_eq!(entry, Entry { at: Time(305), event });
        }
    }

    #[test]
    fn an_entry_that_names_an_unknown_task_or_kind_is_refused() {
        let lost = written(&Event::Lost { peer: 3, loss: Loss::Silent });
        assert!(decode(&lost, Time::ZERO, 3).unwrap_err().contains("the cluster has not"));
        assert!(decode(&[9, 0], Time::ZERO, 3).unwrap_err().contains("unknown kind"));
        let cause = LOSSES.len() as u8;
        assert!(decode(&[LOST, 0, 0, cause], Time::ZERO, 3).unwrap_err().contains("unknown cause"));
        let many = [RECEIVED, 0, 0, Kind::Tensors as u8, 0, 0, 0xff, 0xff, 0x7f];
        assert!(decode(&many, Time::ZERO, 3).unwrap_err().contains("more items than bytes"));
        assert!(decode(&lost[..3], Time::ZERO, 9).unwrap_err().contains("cut off"));
    }

    #[test]
    fn every_kind_has_its_own_number() {
        assert!(Kind::ALL.iter().enumerate().all(|(number, kind)| *kind as usize == number));
    }
}
