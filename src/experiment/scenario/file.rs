//! The scenario file as it is typed: the keys there are, and their defaults. Serde stops here.

mod checkpoint;
mod compression;
mod dataset;
mod fault;
mod mode;
mod optimizer;

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, SeqAccess, Unexpected, Visitor};

use super::law::{LawFile, Seconds};
use crate::units::{BytesPerSecond, FlopsPerSecond, Span};

pub(super) use checkpoint::CheckpointFile;
pub(super) use compression::CompressionFile;
pub(super) use dataset::{DatasetFile, NpyFile};
pub(super) use fault::FaultFile;
pub(super) use mode::{AveragingFile, DiLoCoTable, LocalSgdTable, ModeFile};
pub(super) use optimizer::{
    LearningRateFile, OptimizerFile, Parameters, RuleFile, ScheduleFile, ScheduleName,
};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScenarioFile {
    pub(super) name: Option<String>,
    pub(super) seed: u64,
    pub(super) cluster: Option<BTreeMap<String, TasksFile>>,
    pub(super) network: NetworkFile,
    pub(super) compute: ComputeFile,
    pub(super) program: ProgramFile,
    pub(super) stop: Option<StopFile>,
    pub(super) run: Option<Vec<RunFile>>,
    pub(super) fault: Vec<FaultFile>,
    pub(super) checkpoint: Option<CheckpointFile>,
    pub(super) calibration: Option<IgnoredAny>,
}

/// `2`, or `["host:port", ...]`.
pub(super) enum TasksFile {
    Count(u32),
    Addresses(Vec<String>),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NetworkFile {
    pub(super) latency: Option<Span>,
    pub(super) bandwidth: Option<BytesPerSecond>,
    pub(super) message_cost: Option<Span>,
    pub(super) racks: Option<RacksFile>,
    pub(super) silence: Option<Span>,
    pub(super) compression: Option<CompressionFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RacksFile {
    pub(super) hosts_per_rack: Option<u32>,
    pub(super) uplink: Option<BytesPerSecond>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ComputeFile {
    pub(super) rate: Option<FlopsPerSecond>,
    pub(super) memory: Option<BytesPerSecond>,
    pub(super) devices: Option<u32>,
    pub(super) straggler: Option<LawFile<f64>>,
    pub(super) slow: BTreeMap<String, f64>,
    pub(super) step_time: Option<LawFile<Seconds>>,
    pub(super) numerics: NumericsFile,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NumericsFile {
    #[default]
    Real,
    Shapes,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProgramFile {
    pub(super) model: ModelFile,
    pub(super) hidden: Option<Vec<usize>>,
    pub(super) rows: Option<usize>,
    pub(super) dim: Option<usize>,
    pub(super) slots: Option<usize>,
    pub(super) partitions: Option<usize>,
    pub(super) dataset: Option<DatasetFile>,
    pub(super) batch: Option<usize>,
    pub(super) optimizer: OptimizerFile,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ModelFile {
    #[default]
    Softmax,
    Mlp,
    Convnet,
    Embedding,
    Alexnet,
    #[serde(rename = "vgg16")]
    Vgg16,
    #[serde(rename = "inception_v3")]
    InceptionV3,
    #[serde(rename = "resnet50")]
    Resnet50,
    Null,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StopFile {
    pub(super) steps: Option<u64>,
    pub(super) accuracy: Option<f64>,
    pub(super) evaluate_every: Option<u64>,
    pub(super) time: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunFile {
    pub(super) name: Option<String>,
    pub(super) mode: ModeFile,
    pub(super) compression: Option<CompressionFile>,
}

struct TasksVisitor;

impl<'de> Visitor<'de> for TasksVisitor {
    type Value = TasksFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tasks or a list of \"host:port\"")
    }

    fn visit_i64<E: de::Error>(self, count: i64) -> Result<TasksFile, E> {
        let count =
            u32::try_from(count).map_err(|_| E::invalid_value(Unexpected::Signed(count), &self))?;
        Ok(TasksFile::Count(count))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TasksFile, A::Error> {
        let mut addresses = Vec::new();
        while let Some(address) = seq.next_element()? {
            addresses.push(address);
        }
        Ok(TasksFile::Addresses(addresses))
    }
}

impl<'de> Deserialize<'de> for TasksFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TasksVisitor)
    }
}
