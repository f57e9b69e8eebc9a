//! The index of a checkpoint: its parts, with the checksum of everything, its own included.
//!
//! It is one JSON object, `{"checksum":"…","index":{…}}`: the checksum is that of the bytes of the
//! inner object.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use xxhash_rust::xxh3::xxh3_64;

use super::names;
use super::slices::{self, Layout, Slice, Table};
use crate::tensor::{DType, Shape};

/// The version of the format that is written and read.
const FORMAT: u32 = 1;
/// The longest index that is read \[bytes\]: a variable takes some 300.
pub(super) const MOST_BYTES: u64 = 1 << 28;
const BEFORE: &str = "{\"checksum\":\"";
const BETWEEN: &str = "\",\"index\":";
const AFTER: &str = "}\n";

/// The parts of a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Index {
    format: u32,
    /// The number of the save within its training: the newest has the largest. A saver that takes
    /// over counts from its own number times 2^32.
    pub(crate) save: u64,
    pub(crate) global_step: u64,
    /// The time of the save, since the epoch; in a simulation, since its beginning.
    pub(crate) time: Duration,
    /// The edition in the names of the shards: saves of the same step that replace each other, or
    /// are of different savers, have different ones.
    pub(super) edition: u32,
    pub(crate) shards: Vec<ShardEntry>,
    pub(crate) variables: BTreeMap<String, VariableEntry>,
}

/// The entry of a shard's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardEntry {
    pub(crate) task: String,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(super) checksum: Checksum,
}

/// The entry of a variable: its shard, type and place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariableEntry {
    /// The index of the shard that holds it.
    pub(crate) shard: usize,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(super) checksum: Checksum,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) slice: Option<Slice>,
    /// Whether it is of the model, though it is named like a slot. Indexes of before don't say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_of_model: bool,
}

/// An XXH3 hash of 64 bits; written as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checksum(pub(super) u64);

/// The contents of one save, before the files have their names.
pub(super) struct Contents {
    pub(super) shards: Vec<ShardEntry>,
    pub(super) variables: BTreeMap<String, VariableEntry>,
}

impl Index {
    /// The index of `contents`; names the files of its shards.
    pub(super) fn new(
        (global_step, edition): (u64, u32),
        save: u64,
        time: Duration,
        of: Contents,
    ) -> Self {
        let Contents { mut shards, variables } = of;
        let count = shards.len();
        for (at, shard) in shards.iter_mut().enumerate() {
            shard.file = names::shard(global_step, edition, (at, count));
        }
        Self { format: FORMAT, save, global_step, time, edition, shards, variables }
    }

    /// The bytes of the index file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let inner =
            serde_json::to_string_pretty(self).expect("strings and numbers can be written as JSON");
        let checksum = Checksum(xxh3_64(inner.as_bytes()));
        format!("{BEFORE}{checksum}{BETWEEN}{inner}{AFTER}").into_bytes()
    }

    /// Decodes the index of step `global_step`.
    ///
    /// # Errors
    /// If the bytes are no index, or another index; with the reason.
    pub(super) fn decode(bytes: &[u8], global_step: u64) -> Result<Self, String> {
        let damaged = || "it was cut off or changed, or is no index of a checkpoint".to_owned();
        let text = str::from_utf8(bytes).map_err(|_| damaged())?;
        let rest = text
            .strip_prefix(BEFORE)
            .and_then(|rest| rest.strip_suffix(AFTER))
            .ok_or_else(damaged)?;
        let (checksum, inner) = rest.split_once(BETWEEN).ok_or_else(damaged)?;
        if checksum != Checksum(xxh3_64(inner.as_bytes())).to_string() {
            return Err(damaged());
        }
        let Version { format } = serde_json::from_str(inner).map_err(|error| error.to_string())?;
        if format != FORMAT {
            return Err(format!("it has format {format}, and this program reads format {FORMAT}"));
        }
        let index: Self = serde_json::from_str(inner).map_err(|error| error.to_string())?;
        index.check(global_step)?;
        Ok(index)
    }

    /// Checks that it is the index of the step, that all its files have the names of its shards,
    /// and that parts make up their wholes.
    fn check(&self, global_step: u64) -> Result<(), String> {
        if self.global_step != global_step {
            return Err(format!("it is of step {}", self.global_step));
        }
        for (at, shard) in self.shards.iter().enumerate() {
            let expected = names::shard(global_step, self.edition, (at, self.shards.len()));
            if shard.file != expected {
                return Err(format!("it names the file {:?} where {expected} belongs", shard.file));
            }
        }
        if let Some((name, entry)) =
            self.variables.iter().find(|(_, entry)| entry.shard >= self.shards.len())
        {
            return Err(format!(
                "`{name}` is in shard {}, of {} shards",
                entry.shard,
                self.shards.len()
            ));
        }
        self.tables().map(drop)
    }

    /// The partitioned variables.
    pub(super) fn tables(&self) -> Result<BTreeMap<String, Table>, String> {
        let layouts = self.variables.iter().map(|(name, entry)| entry.layout(name));
        slices::tables(layouts).map_err(|(name, problem)| format!("`{name}`: {problem}"))
    }

    /// The length of all files of shards \[bytes\].
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().fold(0, |sum, shard| sum.saturating_add(shard.bytes))
    }
}

impl VariableEntry {
    pub(super) fn layout<'a>(&'a self, name: &'a str) -> Layout<'a> {
        Layout { name, dtype: self.dtype, shape: self.shape, slice: self.slice.as_ref() }
    }
}

/// The format's version alone; all other keys are ignored.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Checksum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u64::from_str_radix(&text, 16)
            .ok()
            .map(Self)
            .filter(|checksum| checksum.to_string() == text);
        number.ok_or_else(|| de::Error::custom(format!("`{text}` is no checksum")))
    }
}
