//! The right to save: of several savers of one store, the one that took over last has it. A note
//! says whether its training has ended.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use crate::checkpoint::names::WRITER_FILE;
use crate::checkpoint::store::Store;
use crate::checkpoint::{CheckpointError, SavingTask};

/// Separates the saver from its task.
const BY: &str = " by ";
/// Separates both from the conditions of a training that has ended.
const ENDED: &str = " ended: ";
/// The number of saves that each saver can number before those of the next one.
const SAVES: u64 = 1 << 32;
/// The greatest length of a note \[bytes\].
const LONGEST: u64 = 1 << 16;
/// The number of editions that each saver has to itself.
const EDITIONS: u32 = 1000;

/// A saver's identity, if it has taken over.
#[derive(Default)]
pub(super) struct Writer(Option<Identity>);

/// The identity of a saver that has taken over.
#[derive(PartialEq, Eq)]
struct Identity {
    number: u64,
    /// A random number, since two savers that take over at once can take the same `number`. Older
    /// versions of this program write none.
    token: Option<u64>,
    /// The task that saves, if it has said which.
    task: Option<SavingTask>,
}

impl Writer {
    /// Takes over the checkpoints in `store` for `task`, if it has not.
    ///
    /// # Errors
    /// If another training has them, whose process runs on this machine. If the store refuses.
    pub(super) fn take_over(
        &mut self,
        store: &dyn Store,
        task: Option<&SavingTask>,
    ) -> Result<(), CheckpointError> {
        if self.0.is_some() {
            return Ok(());
        }
        let last = first_look(store)?;
        if let (Some(last), Some(task)) = (&last, task) {
            last.leaves_to(task, store)?;
        }
        let number = last.map_or(1, |last| last.identity.number.saturating_add(1));
        let token = Some(RandomState::new().build_hasher().finish());
        let own = Identity { number, token, task: task.cloned() };
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
        let Some(own) = &self.0 else { return Ok(()) };
        let written = store.write(WRITER_FILE, &[format!("{own}{ENDED}{stop}").as_bytes()]);
        written.map_err(CheckpointError::store("write", store.locate(WRITER_FILE)))
    }

    /// Checks that no other saver has taken over since.
    ///
    /// # Errors
    /// If one has, or the store refuses.
    pub(super) fn check(&self, store: &dyn Store) -> Result<(), CheckpointError> {
        let Some(ours) = &self.0 else { return Ok(()) };
        let theirs = last(store)?.map(|last| last.identity).filter(|theirs| theirs != ours);
        theirs.map_or(Ok(()), |theirs| {
            Err(CheckpointError::TakenOver {
                location: store.locate(""),
                by: theirs.task.map(Box::new),
                theirs: theirs.number,
                ours: ours.number,
            })
        })
    }

    /// The first of the saver's own editions. A saver that is replaced while it saves thus writes
    /// over no shard of its successor. One that has not taken over begins as the first does.
    pub(super) fn first_edition(&self) -> u32 {
        let before = self.0.as_ref().map_or(0, |own| own.number.saturating_sub(1));
        (before % u64::from(u32::MAX / EDITIONS)) as u32 * EDITIONS
    }

    /// The least number of the saver's saves: above those of all savers before it, also of saves
    /// that these still have under way.
    pub(super) fn first_save(&self) -> u64 {
        self.0.as_ref().map_or(0, |own| own.number.saturating_mul(SAVES))
    }

    /// Whether the saver has taken over, so that others may be within a save still.
    pub(super) fn has_taken_over(&self) -> bool {
        self.0.is_some()
    }
}

/// The note of the saver that took over last.
struct Note {
    identity: Identity,
    /// The stop conditions by which its training has come to its end, if it has.
    ended: Option<String>,
}

impl Note {
    fn parse(text: &str) -> Option<Self> {
        let (identity, ended) = match text.split_once(ENDED) {
            Some((identity, stop)) => (identity, Some(stop.to_owned())),
            None => (text, None),
        };
        Some(Self { identity: Identity::parse(identity)?, ended })
    }

    /// Checks that `next` may take over: that it is the same chief, or that this one saves no more.
    /// Warns if nobody can see from here whether it does.
    fn leaves_to(&self, next: &SavingTask, store: &dyn Store) -> Result<(), CheckpointError> {
        let is_done = self.ended.is_some();
        let other = self.identity.task.as_ref().filter(|other| !is_done && !other.may_be_of(next));
        let Some(other) = other else { return Ok(()) };
        match other.runs() {
            Some(true) => Err(CheckpointError::InUse {
                location: store.locate(""),
                by: Box::new(other.clone()),
            }),
            Some(false) => Ok(()),
            None => {
                let place = store.locate("");
                tracing::warn!(
                    "{other} saved to {place} before, for another training, and has not said that \
                     this is over; from now on {next} saves there, and the other ends if it still \
                     runs: give each training a folder of its own"
                );
                Ok(())
            }
        }
    }
}

impl Identity {
    fn parse(text: &str) -> Option<Self> {
        let (words, task) = text.split_once(BY).unwrap_or((text, ""));
        let mut words = words.split(' ');
        let number = words.next()?.parse().ok()?;
        let token = words.next().and_then(|token| u64::from_str_radix(token, 16).ok());
        Some(Self { number, token, task: SavingTask::parse(task) })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        self.token.map_or(Ok(()), |token| write!(f, " {token:016x}"))?;
        self.task.as_ref().map_or(Ok(()), |task| write!(f, "{BY}{}", task.noted()))
    }
}

/// The note of the saver that took over last, if any did, in a store that this process has not
/// written to yet: what is longer than any note is refused.
fn first_look(store: &dyn Store) -> Result<Option<Note>, CheckpointError> {
    let listed = store.list().map_err(CheckpointError::store("list", store.locate("")))?;
    if listed.iter().any(|file| file.name == WRITER_FILE && file.bytes > LONGEST) {
        let problem = "it is longer than any note of a saver, so it is none";
        let source = io::Error::new(io::ErrorKind::InvalidInput, problem);
        return Err(CheckpointError::store("read", store.locate(WRITER_FILE))(source));
    }
    last(store)
}

/// The note of the saver that took over last, if any did.
fn last(store: &dyn Store) -> Result<Option<Note>, CheckpointError> {
    Ok(text(store)?.and_then(|text| Note::parse(&text)))
}

/// The stop conditions of the training that the last saver has brought to its end, if it has.
pub(super) fn ended(store: &dyn Store) -> Result<Option<String>, CheckpointError> {
    Ok(first_look(store)?.and_then(|note| note.ended))
}

fn text(store: &dyn Store) -> Result<Option<String>, CheckpointError> {
    match store.read(WRITER_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CheckpointError::store("read", store.locate(WRITER_FILE))(error)),
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
    }
}
