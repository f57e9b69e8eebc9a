//! The options of a session, and what another task is told of them.

use std::time::Duration;

use crate::cluster::DeviceSpec;

use crate::runtime::error::Result;
use crate::runtime::messages::{Placing, device_filters};

/// The options of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// Use only the devices that match one of these filters, and those of the session's own server.
    /// Without filters, use all devices of the cluster.
    pub device_filters: Vec<DeviceSpec>,
    /// Share no variables with other sessions.
    pub isolate_session_state: bool,
    /// Run an operation on another device of its task if it asks for a device that the task does
    /// not have, such as `/gpu:0`. The job and the task that it asks for are kept.
    pub allow_soft_placement: bool,
    /// Write the device of each operation of a step to the log, when the master places it.
    pub log_device_placement: bool,
    /// The time that a step may take before it fails and says who had not answered.
    pub operation_timeout: Option<Duration>,
}

impl SessionOptions {
    /// The part of the options that is sent to another task.
    pub(crate) fn placing(&self) -> Placing {
        Placing {
            device_filters: self.device_filters.iter().map(ToString::to_string).collect(),
            allow_soft_placement: self.allow_soft_placement,
            log_device_placement: self.log_device_placement,
        }
    }

    /// The options that another task asks for.
    ///
    /// # Errors
    /// If one of the filters is no device.
    pub(crate) fn of_placing(placing: &Placing) -> Result<Self> {
        Ok(Self {
            device_filters: device_filters(&placing.device_filters)?,
            allow_soft_placement: placing.allow_soft_placement,
            log_device_placement: placing.log_device_placement,
            ..Self::default()
        })
    }
}
