//! The size of each message between tasks on the wire.

use super::{Packed, PeerMessage};
use crate::tensor::Tensor;
use crate::transport::Payload;
use crate::units::Bytes;

/// The part of a message outside its tensors: kind, ids, lengths \[bytes\].
const MESSAGE_HEADER: u64 = 32;
/// The header before a tensor's values: element type, shape, length \[bytes\].
const TENSOR_HEADER: u64 = 32;
/// The size of one operation of a partition, names and attributes included \[bytes\].
const NODE_SIZE: u64 = 96;

impl Payload for PeerMessage {
    fn wire_size(&self) -> Bytes {
        let tensor = |tensor: &Tensor| TENSOR_HEADER + tensor.byte_len() as u64;
        let content = match self {
            Self::RegisterGraph { partition, .. } => partition.nodes.len() as u64 * NODE_SIZE,
            Self::RunGraph { feeds, .. } => feeds.iter().map(tensor).sum(),
            Self::Tensors { arrivals, .. } => {
                arrivals.iter().map(|(_, value)| 8 + value.as_ref().map_or(0, tensor)).sum()
            }
            Self::PackedTensors { arrivals, .. } => {
                let packed = |packed: &Packed| packed.parts().map(tensor).sum();
                arrivals.iter().map(|(_, value)| 8 + value.as_ref().map_or(0, packed)).sum()
            }
            Self::GraphDone { outcome: Ok(fetches), .. } => fetches.iter().map(tensor).sum(),
            Self::GraphDone { outcome: Err(error), .. }
            | Self::GraphRegistered { outcome: Err(error), .. } => error.message.len() as u64,
            Self::DeregisterGraphs { graphs, .. } => 16 * graphs.len() as u64,
            Self::Reset { containers, .. } => {
                containers.iter().map(|name| 8 + name.len() as u64).sum()
            }
            Self::GraphRegistered { outcome: Ok(()), .. }
            | Self::AbortStep(_)
            | Self::ResetDone { .. }
            | Self::Leave { .. }
            | Self::TrainingOver => 0,
        };
        Bytes(MESSAGE_HEADER + content)
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Self::RegisterGraph { partition, .. } => partition.check(),
            Self::PackedTensors { arrivals, .. } => {
                arrivals.iter().filter_map(|(_, value)| value.as_ref()).try_for_each(Packed::check)
            }
            _ => Ok(()),
        }
    }
}
