//! The grammar of device names.

use std::str::FromStr;
use std::sync::Arc;

use super::DeviceSpec;
use crate::cluster::job_name::{JobNameError, check_job_name, is_word, parse_index};

/// The error of a text that is not a device name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a device name: {problem}")]
pub struct DeviceNameError {
    /// The whole text.
    pub text: String,
    /// The problem.
    pub problem: DeviceNameProblem,
}

/// The problem with a device name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceNameProblem {
    /// It doesn't start with `/`.
    #[error("it must start with `/`, as in `/job:worker/task:3/device:CPU:0`")]
    NoSlash,
    /// A part's key is unknown.
    #[error(
        "`{0}` is no part of one; the parts are job:NAME, replica:N, task:N, device:TYPE:N, cpu:N \
         and gpu:N"
    )]
    UnknownPart(String),
    /// A job, replica or task is given twice.
    #[error("it has more than one {0}")]
    Repeated(&'static str),
    /// There are two devices.
    #[error("Multiple device types are not allowed")]
    TwoTypes,
    /// A replica, task or device index is not a `u32`.
    #[error("`{0}` is not an index; write a whole number from 0, or `*` for any")]
    Index(String),
    /// A device's type is outside the grammar.
    #[error(
        "`{0}` is not a device type; write a letter, then letters, digits and `_`, or `*` for any"
    )]
    Type(String),
    /// A full name has a device type that no device is of.
    #[error("there are no devices of the type {0}, only of CPU and GPU")]
    NoSuchType(String),
    /// A job's name is outside the grammar.
    #[error(transparent)]
    Job(#[from] JobNameError),
    /// A full name lacks a part.
    #[error("it must be a full name, but has no {0}")]
    Partial(&'static str),
    /// A full name has a replica other than 0.
    #[error("its replica is {0}, but every device is of replica 0")]
    Replica(u32),
}

impl FromStr for DeviceSpec {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Self, DeviceNameError> {
        parse(text).map_err(|problem| DeviceNameError { text: text.to_owned(), problem })
    }
}

/// The parts that have been read, whether set or `*`.
#[derive(Default)]
struct Seen {
    job: bool,
    replica: bool,
    task: bool,
    device: bool,
}

fn parse(text: &str) -> Result<DeviceSpec, DeviceNameProblem> {
    let mut spec = DeviceSpec::default();
    if text.is_empty() || text == "/" {
        return Ok(spec);
    }
    let mut seen = Seen::default();
    for part in text.strip_prefix('/').ok_or(DeviceNameProblem::NoSlash)?.split('/') {
        let unknown = || DeviceNameProblem::UnknownPart(part.to_owned());
        let (key, value) = part.split_once(':').ok_or_else(unknown)?;
        match key {
            "job" => {
                once(&mut seen.job, DeviceNameProblem::Repeated("job"))?;
                spec.job = unless_any(value, |name| {
                    check_job_name(name).map(|()| name.into()).map_err(Into::into)
                })?;
            }
            "replica" => {
                once(&mut seen.replica, DeviceNameProblem::Repeated("replica"))?;
                spec.replica = unless_any(value, index)?;
            }
            "task" => {
                once(&mut seen.task, DeviceNameProblem::Repeated("task"))?;
                spec.task = unless_any(value, index)?;
            }
            "device" => {
                once(&mut seen.device, DeviceNameProblem::TwoTypes)?;
                let (device_type, device_index) = value.split_once(':').unwrap_or((value, "*"));
                spec.device_type = unless_any(device_type, capitals)?;
                spec.device_index = unless_any(device_index, index)?;
            }
            short if short.eq_ignore_ascii_case("cpu") || short.eq_ignore_ascii_case("gpu") => {
                once(&mut seen.device, DeviceNameProblem::TwoTypes)?;
                spec.device_type = Some(capitals(short)?);
                spec.device_index = unless_any(value, index)?;
            }
            _ => return Err(unknown()),
        }
    }
    Ok(spec)
}

fn once(seen: &mut bool, problem: DeviceNameProblem) -> Result<(), DeviceNameProblem> {
    if std::mem::replace(seen, true) { Err(problem) } else { Ok(()) }
}

fn unless_any<T>(
    value: &str,
    read: impl FnOnce(&str) -> Result<T, DeviceNameProblem>,
) -> Result<Option<T>, DeviceNameProblem> {
    if value == "*" { Ok(None) } else { read(value).map(Some) }
}

fn index(text: &str) -> Result<u32, DeviceNameProblem> {
    parse_index(text).ok_or_else(|| DeviceNameProblem::Index(text.to_owned()))
}

fn capitals(text: &str) -> Result<Arc<str>, DeviceNameProblem> {
    if is_word(text) {
        Ok(text.to_ascii_uppercase().into())
    } else {
        Err(DeviceNameProblem::Type(text.to_owned()))
    }
}
