//! The devices that operations request: the stack of device scopes and functions around their
//! construction.

use std::sync::Arc;

use super::op::Op;
use super::{TensorType, VariableSpec};
use crate::cluster::DeviceSpec;

/// An operation whose device a device function chooses.
#[derive(Debug)]
pub struct OperationRequest<'a> {
    /// The operation's name.
    pub name: &'a str,
    /// Its kind, with its attributes.
    pub op: &'a Op,
    /// The types of its outputs.
    pub outputs: &'a [TensorType],
    /// The device requested by the scopes inside the function's own scope.
    pub device: &'a DeviceSpec,
}

impl OperationRequest<'_> {
    /// The variable that the operation declares, if it declares one that workers share.
    pub fn shared_variable(&self) -> Option<&VariableSpec> {
        self.variable().filter(|spec| !spec.is_local)
    }

    /// The size of the operation's outputs, as far as their shapes are known \[bytes\].
    pub fn byte_size(&self) -> u64 {
        let of_type = |output: &TensorType| {
            let elements = output.shape.known().map_or(0, |shape| shape.elements());
            (elements * output.dtype.size()) as u64
        };
        let of_outputs = || self.outputs.iter().map(of_type).sum();
        self.variable().map_or_else(of_outputs, VariableSpec::byte_size)
    }

    /// The variable that the operation declares, if it declares one.
    pub fn variable(&self) -> Option<&VariableSpec> {
        match self.op {
            Op::Variable(spec) => Some(spec),
            _ => None,
        }
    }
}

/// A rule that places each operation as it is built (TensorFlow: the function given to
/// `tf.device`).
///
/// The returned device replaces the requested one; a function that should only fill gaps merges the
/// request's device itself. It is not called for an operation that is colocated with another, such
/// as the read of a variable. The graph is locked during the call: the function must decide by the
/// request, without a look at the graph.
pub trait DeviceFunction: Send + Sync {
    /// The device for an operation.
    fn device(&self, request: &OperationRequest<'_>) -> DeviceSpec;
}

/// One scope around the construction of operations.
#[derive(Clone)]
pub(super) enum DeviceScope {
    /// Fills the parts that inner scopes left open.
    Spec(DeviceSpec),
    /// Is asked for each operation.
    Function(Arc<dyn DeviceFunction>),
    /// Hides all scopes outside it (TensorFlow: `tf.device(None)`).
    Reset,
}

/// The device that `scopes`, outermost first, request for an operation.
pub(super) fn resolve(
    scopes: &[DeviceScope],
    name: &str,
    op: &Op,
    outputs: &[TensorType],
) -> DeviceSpec {
    let mut device = DeviceSpec::default();
    for scope in scopes.iter().rev() {
        match scope {
            DeviceScope::Spec(spec) => device = spec.merged(&device),
            DeviceScope::Function(function) => {
                device = function.device(&OperationRequest { name, op, outputs, device: &device });
            }
            DeviceScope::Reset => break,
        }
    }
    device
}
