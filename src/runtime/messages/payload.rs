//! The size of each message between tasks on the wire.

use std::collections::BTreeSet;

use super::{
    Arrivals, ClientMessage, MOST_RANGES, MasterMessage, Packed, ParameterServerMessage,
    PeerMessage, ProgramMessage, SentOperation, SentValue, SessionAction, SessionAnswer,
    SessionCall, WorkerMessage,
};
use crate::cluster::{LocalDevice, TaskName};
use crate::graph::Op;
use crate::runtime::own_values::OwnValuesAnswer;
use crate::tensor::Tensor;
use crate::transport::Payload;
use crate::transport::wire::TENSOR_HEADER;
use crate::units::Bytes;

/// The most devices of a task that one message has values for.
const MAX_DEVICES: usize = 1 << 12;

/// The part of a message outside its tensors: kind, ids, lengths \[bytes\].
const MESSAGE_HEADER: u64 = 32;
/// The size of a crossing edge's id \[bytes\].
const CROSSING_SIZE: u64 = 8;
/// The size of a partition's handle \[bytes\].
const HANDLE_SIZE: u64 = 16;
/// The size of a range of numbers \[bytes\].
const RANGE_SIZE: u64 = 16;
/// The header before a string: its length \[bytes\].
const STRING_HEADER: u64 = 8;
/// The size of one operation of a graph, names and usual attributes included \[bytes\].
const NODE_SIZE: u64 = 96;

impl Payload for PeerMessage {
    fn wire_size(&self) -> Bytes {
        let content = match self {
            Self::Master(message) => message.content_size(),
            Self::Worker(message) => message.content_size(),
            Self::ParameterServer(message) => message.content_size(),
            Self::Client(message) => message.content_size(),
            Self::Program(message) => message.content_size(),
        };
        Bytes(MESSAGE_HEADER + content)
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Self::Master(MasterMessage::Called(call)) => call.check(),
            Self::Worker(WorkerMessage::RegisterGraph(order)) => order.partition.check(),
            Self::Worker(WorkerMessage::Tensors { devices, arrivals, .. }) => {
                check_devices(devices)?;
                values(arrivals).try_for_each(SentValue::check)
            }
            Self::Master(_) | Self::Worker(_) | Self::ParameterServer(_) => Ok(()),
            Self::Client(_) | Self::Program(_) => Ok(()),
        }
    }
}

/// Checks that `devices` are those of one task, each once: a receiver looks at the values anew for
/// each.
fn check_devices(devices: &[LocalDevice]) -> Result<(), String> {
    if devices.len() <= 1 {
        return Ok(()); // nearly always, and then without a set
    }
    if devices.len() > MAX_DEVICES {
        return Err(format!("values for {} devices of a task", devices.len()));
    }
    let mut named = BTreeSet::new();
    match devices.iter().find(|device| !named.insert(**device)) {
        Some(twice) => Err(format!("values for {twice} twice")),
        None => Ok(()),
    }
}

impl PeerMessage {
    /// Whether it carries numbers that a model computes with, such as parameters and gradients,
    /// and not only orders, counts and answers.
    pub(crate) fn has_numbers(&self) -> bool {
        let Self::Worker(WorkerMessage::Tensors { arrivals, .. }) = self else { return false };
        values(arrivals).any(|value| match value {
            SentValue::Exact(value) => value.dtype().is_float(),
            SentValue::Packed(_) => true,
        })
    }

    /// The memory traffic of encoding the message's values, or of decoding them \[bytes\].
    pub(crate) fn coding_traffic(&self) -> u64 {
        let Self::Worker(WorkerMessage::Tensors { arrivals, .. }) = self else { return 0 };
        values(arrivals).map(coding_traffic).sum()
    }
}

fn values(arrivals: &Arrivals) -> impl Iterator<Item = &SentValue> {
    arrivals.iter().filter_map(|(_, value)| value.as_ref())
}

impl MasterMessage {
    fn content_size(&self) -> u64 {
        match self {
            Self::GraphDone { outcome: Ok(fetches), .. } => fetches.iter().map(tensor_size).sum(),
            Self::GraphDone { outcome: Err(error), .. } => error.message.len() as u64,
            Self::GraphRegistered { outcome: Err(error), .. } => error.message.len() as u64,
            Self::GraphRegistered { outcome: Ok(()), .. }
            | Self::ResetDone { .. }
            | Self::WayLost { .. }
            | Self::Known { .. } => 0,
            Self::BlockedWays { to, absent, .. } => {
                let name = |task: &TaskName| 12 + STRING_HEADER + task.job().len() as u64;
                let way = |(task, why): &(TaskName, String)| {
                    name(task) + STRING_HEADER + why.len() as u64
                };
                to.iter().map(way).chain(absent.iter().map(name)).sum()
            }
            Self::Traced { times, .. } => times.len() as u64 * NODE_SIZE,
            Self::Called(call) => {
                RANGE_SIZE * call.arrived.len() as u64 + call.action.content_size()
            }
        }
    }
}

impl SessionCall {
    fn check(&self) -> Result<(), String> {
        match self.arrived.len() {
            0..=MOST_RANGES => Ok(()),
            ranges => Err(format!("{ranges} ranges of calls whose answers have arrived")),
        }
    }
}

impl SessionAction {
    fn content_size(&self) -> u64 {
        match self {
            Self::Extend { operations, .. } => {
                let size = |sent: &SentOperation| sent.op().map_or(NODE_SIZE, operation_size);
                operations.iter().map(size).sum()
            }
            Self::Run { request, feeds, .. } => {
                let edges = request.feeds.len() + request.fetches.len() + request.targets.len();
                edges as u64 * CROSSING_SIZE + feeds.iter().map(tensor_size).sum::<u64>()
            }
            Self::Create { placing, .. } => texts(&placing.device_filters),
            Self::Reset { containers, device_filters, .. } => {
                texts(containers) + texts(device_filters)
            }
            Self::Close { .. } | Self::Return => 0,
        }
    }
}

impl ClientMessage {
    fn content_size(&self) -> u64 {
        match &self.outcome {
            Ok(SessionAnswer::Fetched(values, times)) => {
                values.iter().map(tensor_size).sum::<u64>() + times.len() as u64 * NODE_SIZE
            }
            Ok(_) => 0,
            Err(error) => error.message.len() as u64,
        }
    }
}

fn texts(texts: &[String]) -> u64 {
    texts.iter().map(|text| STRING_HEADER + text.len() as u64).sum()
}

impl WorkerMessage {
    fn content_size(&self) -> u64 {
        match self {
            Self::RegisterGraph(order) => {
                let filters = order.functions.iter().map(|placing| texts(&placing.device_filters));
                let nodes = order.partition.nodes.iter().map(|node| operation_size(&node.op));
                nodes.sum::<u64>() + filters.sum::<u64>()
            }
            Self::DeregisterGraphs { graphs, .. } => HANDLE_SIZE * graphs.len() as u64,
            Self::RunGraph(order) => order.feeds.iter().map(tensor_size).sum(),
            Self::Tensors { arrivals, .. } => {
                let edges = arrivals.len() as u64 * CROSSING_SIZE;
                edges + values(arrivals).map(SentValue::size).sum::<u64>()
            }
            Self::AbortStep(_) | Self::AskForMaster { .. } | Self::AskForWays { .. } => 0,
        }
    }
}

impl ParameterServerMessage {
    fn content_size(&self) -> u64 {
        match self {
            Self::Reset { containers, incarnations, .. } => {
                let text = |text: &str| STRING_HEADER + text.len() as u64;
                let containers = containers.iter().map(|name| text(name));
                let tasks = incarnations.iter().map(|(task, _)| 12 + text(task.job()));
                containers.chain(tasks).sum()
            }
            Self::ChiefFailed { error, .. } => STRING_HEADER + error.message.len() as u64,
            Self::LetIn { .. } => 4,
            Self::Flush { out, .. } => 4 * (1 + out.len() as u64),
            Self::Flushed { progress, .. } => 5 + 28 * progress.len() as u64,
            Self::Install(view) => 4 + 8 * view.out.len() as u64 + 20 * view.back.len() as u64,
            Self::Leave { .. }
            | Self::Lost { .. }
            | Self::Back { .. }
            | Self::Found { .. }
            | Self::TrainingOver { .. }
            | Self::Stopping => 0,
        }
    }
}

impl ProgramMessage {
    fn content_size(&self) -> u64 {
        match self {
            Self::Places(places) => {
                let place = |(name, task): &(String, TaskName)| {
                    12 + 2 * STRING_HEADER + (name.len() + task.job().len()) as u64
                };
                places.iter().map(place).sum()
            }
            Self::OwnValues(OwnValuesAnswer::Values(own) | OwnValuesAnswer::Last(own)) => {
                let value = |(name, value): &(String, Tensor)| {
                    STRING_HEADER + name.len() as u64 + tensor_size(value)
                };
                8 + own.values.iter().map(value).sum::<u64>()
            }
            Self::AskForOwnValues { .. } => 8,
            Self::OwnValues(OwnValuesAnswer::Later | OwnValuesAnswer::Nothing)
            | Self::AskForPlaces
            | Self::AskForRestoredValues
            | Self::WatchCheckpoints
            | Self::CheckpointSaved => 0,
        }
    }
}

/// The size of an operation; a constant of more than a few values comes with them.
fn operation_size(op: &Op) -> u64 {
    match op {
        Op::Const(value) if value.byte_len() as u64 > NODE_SIZE => NODE_SIZE + tensor_size(value),
        _ => NODE_SIZE,
    }
}

fn tensor_size(tensor: &Tensor) -> u64 {
    (TENSOR_HEADER + tensor.byte_len()) as u64
}

impl SentValue {
    /// Its length on the wire, in whatever encoding it has \[bytes\].
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Exact(value) => tensor_size(value),
            Self::Packed(packed) => match &**packed {
                Packed::Refused(why) => STRING_HEADER + why.len() as u64,
                packed => packed.parts().map(tensor_size).sum(),
            },
        }
    }
}

fn coding_traffic(value: &SentValue) -> u64 {
    let SentValue::Packed(packed) = value else { return 0 };
    let value = match &**packed {
        Packed::Refused(_) => return 0,
        Packed::Bf16(value) | Packed::Int8 { values: value, .. } => value,
    };
    let whole = size_of::<f32>() * value.shape().elements();
    whole as u64 + packed.parts().map(|part| part.byte_len() as u64).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;

    use super::*;
    use crate::runtime::messages::{Arrivals, StepId};

    #[test]
    fn values_for_devices_that_no_task_has_are_refused() {
        let step = StepId { master: 1, number: 2, trains: true };
        let check = |devices: &mut dyn Iterator<Item = u32>| {
            let devices = devices.map(LocalDevice::cpu).collect::<SmallVec<_>>();
            PeerMessage::from(WorkerMessage::Tensors { step, devices, arrivals: Arrivals::new() })
                .check()
        };
        assert_eq!(check(&mut (0..4)), Ok(()));
        assert!(check(&mut [0, 1, 0].into_iter()).unwrap_err().contains("twice"));
        let many = MAX_DEVICES as u32;
        assert!(check(&mut (0..many)).is_ok() && check(&mut (0..=many)).is_err());
    }
}
