//! What of a scenario is typed in another form than it is read in: keys that make a value together,
//! and values of several forms. Serde stops here.

mod fault;
mod mode;
mod optimizer;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::law::{LawFile, Seconds};
use super::run::RunFile;
use super::{Checkpoint, Compression, Tasks};
use crate::data::Source;
use crate::kernels::Numerics;
use crate::training::Stop;
use crate::units::{BytesPerSecond, FlopsPerSecond, Span};

pub(super) use fault::FaultFile;
pub(super) use mode::{AveragingFile, DiLoCoTable, LocalSgdTable, ModeFile};
pub(super) use optimizer::{
    LearningRateFile, OptimizerFile, ScheduleFile, ScheduleName, ScheduleParameters,
};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScenarioFile {
    pub(super) name: Option<String>,
    pub(super) seed: u64,
    pub(super) cluster: Option<BTreeMap<String, Tasks>>,
    pub(super) network: NetworkFile,
    pub(super) compute: ComputeFile,
    pub(super) program: ProgramFile,
    pub(super) stop: Stop,
    pub(super) run: Option<Vec<RunFile>>,
    pub(super) fault: Vec<FaultFile>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) calibration: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NetworkFile {
    pub(super) latency: Option<Span>,
    pub(super) bandwidth: Option<BytesPerSecond>,
    pub(super) message_cost: Option<Span>,
    pub(super) racks: Option<RacksFile>,
    pub(super) silence: Option<Span>,
    pub(super) compression: Compression,
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
    pub(super) numerics: Numerics,
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
    pub(super) dataset: Option<Source>,
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
