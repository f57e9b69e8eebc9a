//! Entries of a tape, and how they are written: the time since the entry before it \[ns\], then the
//! event, both as the wire encodes them.

use serde::{Deserialize, Serialize};

use super::name::{Author, Name};
use crate::cluster::TaskName;
use crate::transport::{Loss, wire};
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Appends the bytes of `event`, which comes `after` \[ns\] the one before it.
pub(super) fn encode(after: u64, event: &Event, out: &mut Vec<u8>) {
    wire::encode(&(after, event), out).expect("it is plain data");
}

/// The entry in `bytes`, which comes after one at `before`; `tasks` is how many the cluster has.
///
/// # Errors
/// What is wrong with the bytes.
pub(super) fn decode(bytes: &[u8], before: Time, tasks: u32) -> Result<Entry, String> {
    let (after, event): (u64, Event) =
        wire::decode(bytes).map_err(|error| format!("it is no entry: {error}"))?;
    let at = before.0.checked_add(after).ok_or("its time is beyond every clock")?;
    let are_known = event.tasks().all(|task| task < tasks);
    match are_known {
        true => Ok(Entry { at: Time(at), event }),
        false => Err("it names a task that the cluster has not".to_owned()),
    }
}

impl Event {
    /// The numbers of the tasks that it names.
    fn tasks(&self) -> impl Iterator<Item = u32> {
        let (peer, messages) = match self {
            Self::Received { from, messages } => (Some(*from), &messages[..]),
            Self::Lost { peer, .. } => (Some(*peer), &[][..]),
            Self::Computed { .. } | Self::Ended { .. } => (None, &[][..]),
        };
        let authors = messages.iter().filter_map(|name| match name.author {
            Author::Own => None,
            Author::Other(task, _) => Some(task),
        });
        peer.into_iter().chain(authors)
    }
}

impl Name {
    /// The name in words, where `tasks` are those of the cluster.
    pub fn in_words(&self, tasks: &[TaskName]) -> String {
        let (number, items) = self.kind.counts();
        let mut words = format!("{:?} {number} {}", self.kind, self.number);
        if let Author::Other(task, life) = self.author {
            append!(words, " of {}", tasks[task as usize]);
            if life > 0 {
                append!(words, "'s life {life}");
            }
        }
        if !self.items.is_empty() {
            let list: Vec<String> = self.items.iter().map(u32::to_string).collect();
            append!(words, " ({items} {})", list.join(", "));
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

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::tape::Kind;

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
        let refused = |bytes: &[u8], tasks| decode(bytes, Time::ZERO, tasks).unwrap_err();
        let lost = written(&Event::Lost { peer: 3, loss: Loss::Silent });
        assert!(refused(&lost, 3).contains("the cluster has not"));
        let (author, items) = (Author::Other(3, 0), smallvec![]);
        let messages = vec![Name { kind: Kind::Leave, author, number: 0, items }];
        let received = written(&Event::Received { from: 0, messages });
        assert!(refused(&received, 3).contains("the cluster has not"));
        assert!(refused(&[0, 9], 3).contains("it is no entry"), "an event of unknown kind");
        assert!(refused(&lost[..lost.len() - 1], 9).contains("it is no entry"), "cut off");
        assert!(refused(&[&lost[..], &[0]].concat(), 9).contains("it is no entry"), "too long");
    }

    #[test]
    fn a_message_that_claims_more_items_than_it_has_bytes_takes_no_memory_for_them() {
        // Received, from 0, one message of kind 9, of its own, number 0, with 2^40 items.
        let claimed = [0, 0, 0, 1, 9, 0, 0, 253, 0, 0, 0, 0, 0, 1, 0, 0];
        assert!(decode(&claimed, Time::ZERO, 1).unwrap_err().contains("UnexpectedEnd"));
    }

    #[test]
    fn every_kind_has_its_own_number() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            let messages = vec![Name { kind, author: Author::Own, number: 0, items: smallvec![] }];
            let bytes = written(&Event::Received { from: 0, messages });
            assert!(bytes.ends_with(&[kind as u8, 0, 0, 0]) && kind as usize == number, "{kind:?}");
        }
    }
}
