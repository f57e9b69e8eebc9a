//! Operations on the wire: of a client's graph, and when those of a step ran.
//!
//! The kind of an operation and its attributes are encoded by themselves, so that a kind that is
//! not registered here is an error of the session that sent it, and not of the connection.

use std::sync::Arc;

use serde::de::{Deserializer, Error as _};
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::cluster::DeviceSpec;
use crate::graph::{Edge, GraphDef, Op, OpId, ReceivedOperation};
use crate::transport::wire;
use crate::units::Time;

use crate::runtime::error::{Code, Error, Result};

/// When an operation of a step ran (TensorFlow: `NodeExecStats`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationTime {
    /// The operation's name.
    pub operation: Arc<str>,
    /// The device that it ran on: `/job:ps/task:0/device:CPU:0`.
    pub device: Arc<str>,
    /// When it was given to the device or to the parameter server, on the clock of its task. In a
    /// simulation all tasks have one clock.
    pub began: Time,
    /// When its outputs were there.
    pub ended: Time,
}

/// One operation of a graph, for a master in another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SentOperation {
    name: Arc<str>,
    op: SentOp,
    inputs: SmallVec<[Edge; 3]>,
    control_inputs: SmallVec<[OpId; 2]>,
    variables: SmallVec<[OpId; 2]>,
    /// The requested device, as it is written.
    device: String,
    colocated_with: Option<OpId>,
    built_at: Arc<str>,
}

/// An operation's kind with its attributes, as far as this process knows the kind.
#[derive(Clone, Debug)]
enum SentOp {
    Known(Op),
    Unknown { encoded: Vec<u8>, why: String },
}

impl SentOperation {
    /// The operations of `graph` from `first` on, at most `count` of them.
    pub(crate) fn of(graph: &GraphDef, first: usize, count: usize) -> Vec<Self> {
        let end = graph.operations.len().min(first + count);
        let ids = (first..end).map(|id| OpId(id as u32));
        ids.map(|id| Self::from(ReceivedOperation::of(graph, id))).collect()
    }

    /// Its kind with its attributes, if that is registered here.
    pub(super) fn op(&self) -> Option<&Op> {
        match &self.op {
            SentOp::Known(op) => Some(op),
            SentOp::Unknown { .. } => None,
        }
    }

    /// The operation, to be added to a graph.
    ///
    /// # Errors
    /// If its kind is not registered here, or its device is none.
    pub(crate) fn receive(self) -> Result<ReceivedOperation> {
        let Self { name, op, inputs, control_inputs, variables, device, .. } = self;
        let refused =
            |why: String| Error::new(Code::InvalidArgument, why).in_operation(name.to_string());
        let op = match op {
            SentOp::Known(op) => op,
            SentOp::Unknown { why, .. } => return Err(refused(why)),
        };
        let device: DeviceSpec =
            device.parse().map_err(|error| refused(format!("its device: {error}")))?;
        let (colocated_with, built_at) = (self.colocated_with, self.built_at);
        Ok(ReceivedOperation {
            name,
            op,
            inputs,
            control_inputs,
            variables,
            device,
            colocated_with,
            built_at,
        })
    }
}

impl From<ReceivedOperation> for SentOperation {
    fn from(operation: ReceivedOperation) -> Self {
        Self {
            name: operation.name,
            op: SentOp::Known(operation.op),
            inputs: operation.inputs,
            control_inputs: operation.control_inputs,
            variables: operation.variables,
            device: operation.device.to_string(),
            colocated_with: operation.colocated_with,
            built_at: operation.built_at,
        }
    }
}

impl Serialize for SentOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Unknown { encoded, .. } => encoded.serialize(serializer),
            Self::Known(op) => {
                let mut encoded = Vec::new();
                wire::encode(op, &mut encoded).map_err(S::Error::custom)?;
                encoded.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for SentOp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let (encoded, before) = (Vec::<u8>::deserialize(from)?, wire::tensors_left());
        match wire::decode(&encoded) {
            Ok(op) => Ok(Self::Known(op)),
            // The tensors of the operations that follow could not be told from its own.
            Err(error) if wire::tensors_left() != before => Err(D::Error::custom(error)),
            Err(error) => Ok(Self::Unknown { encoded, why: error.to_string() }),
        }
    }
}
