//! A run's mode as it is typed.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Unexpected, Visitor};

use crate::sync::Mode;

/// `"async"`, `"sync"`, `"staleness_aware"`, or a table of one mode with its parameters, such as
/// `{ sync = { backups = 1 } }`.
pub(in crate::experiment::scenario) struct ModeFile {
    /// How gradients, or differences of copies, are coordinated.
    pub(in crate::experiment::scenario) mode: Mode,
    /// Where workers train copies of their own.
    pub(in crate::experiment::scenario) averaging: Option<AveragingFile>,
}

/// The modes in which workers train copies of their own.
pub(in crate::experiment::scenario) enum AveragingFile {
    LocalSgd(LocalSgdTable),
    DiLoCo(DiLoCoTable),
}

/// The names of all modes.
const NAMES: [&str; 10] = [
    "async",
    "sync",
    "bounded_staleness",
    "k_async",
    "k_batch_sync",
    "k_batch_async",
    "staleness_aware",
    "delay_compensated",
    "local_sgd",
    "diloco",
];

/// The modes that have parameters, one of which is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeTable {
    sync: Option<SyncTable>,
    bounded_staleness: Option<BoundedStalenessTable>,
    k_async: Option<KTable>,
    k_batch_sync: Option<KTable>,
    k_batch_async: Option<KTable>,
    delay_compensated: Option<DelayCompensatedTable>,
    local_sgd: Option<LocalSgdTable>,
    diloco: Option<DiLoCoTable>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SyncTable {
    backups: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundedStalenessTable {
    slack: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KTable {
    k: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DelayCompensatedTable {
    lambda: f32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::experiment::scenario) struct LocalSgdTable {
    pub(in crate::experiment::scenario) every: u32,
    #[serde(default)]
    backups: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::experiment::scenario) struct DiLoCoTable {
    pub(in crate::experiment::scenario) every: u32,
    #[serde(default)]
    backups: u32,
    pub(in crate::experiment::scenario) outer_learning_rate: Option<f32>,
    pub(in crate::experiment::scenario) outer_momentum: Option<f32>,
}

impl ModeFile {
    fn of(mode: Mode) -> Self {
        Self { mode, averaging: None }
    }
}

impl ModeTable {
    /// The modes that are given.
    fn modes(self) -> impl Iterator<Item = ModeFile> {
        let modes = [
            self.sync.map(|SyncTable { backups }| Mode::Sync { backups }),
            self.bounded_staleness
                .map(|BoundedStalenessTable { slack }| Mode::BoundedStaleness { slack }),
            self.k_async.map(|KTable { k }| Mode::KAsync { k }),
            self.k_batch_sync.map(|KTable { k }| Mode::KBatchSync { k }),
            self.k_batch_async.map(|KTable { k }| Mode::KBatchAsync { k }),
            self.delay_compensated
                .map(|DelayCompensatedTable { lambda }| Mode::DelayCompensated { lambda }),
        ];
        let averaging = [
            self.local_sgd.map(|table| (table.backups, AveragingFile::LocalSgd(table))),
            self.diloco.map(|table| (table.backups, AveragingFile::DiLoCo(table))),
        ];
        let averaged = |(backups, averaging)| ModeFile {
            mode: Mode::Sync { backups },
            averaging: Some(averaging),
        };
        modes
            .into_iter()
            .flatten()
            .map(ModeFile::of)
            .chain(averaging.into_iter().flatten().map(averaged))
    }
}

struct ModeVisitor;

impl<'de> Visitor<'de> for ModeVisitor {
    type Value = ModeFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "one of \"async\", \"sync\", { sync = { backups = 1 } }, \
             { bounded_staleness = { slack = 4 } }, { k_async = { k = 3 } }, \
             { k_batch_sync = { k = 4 } }, { k_batch_async = { k = 4 } }, \"staleness_aware\", \
             { delay_compensated = { lambda = 0.04 } }, { local_sgd = { every = 8 } } and \
             { diloco = { every = 16 } }",
        )
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<ModeFile, E> {
        match name {
            "async" => Ok(ModeFile::of(Mode::Async)),
            "sync" => Ok(ModeFile::of(Mode::Sync { backups: 0 })),
            "staleness_aware" => Ok(ModeFile::of(Mode::StalenessAware)),
            known if NAMES.contains(&known) => Err(E::invalid_value(Unexpected::Str(known), &self)),
            other => Err(E::unknown_variant(other, &NAMES)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ModeFile, A::Error> {
        let mut modes = ModeTable::deserialize(MapAccessDeserializer::new(map))?.modes();
        match (modes.next(), modes.next()) {
            (Some(mode), None) => Ok(mode),
            _ => Err(de::Error::invalid_value(Unexpected::Other("not exactly one mode"), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for ModeFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ModeVisitor)
    }
}
