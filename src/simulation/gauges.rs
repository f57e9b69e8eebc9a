//! The figures of a running simulation that an observer sees.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::cluster::TaskName;
use crate::units::Time;

use super::critical_path::CriticalPathShares;

/// The figures of a running simulation that an observer sees. The simulation writes them if it is
/// asked to, and never reads them: observers don't change the run.
#[derive(Debug)]
pub struct Gauges {
    is_wanted: AtomicBool,
    reading: Mutex<Reading>,
}

/// The state of a simulation at the end of a training step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// When the step ended.
    pub now: Time,
    /// What tasks have sent, by sender and receiver \[bytes\].
    pub sent: BTreeMap<(TaskName, TaskName), u64>,
    /// The critical paths of the steps so far.
    pub path: CriticalPathShares,
}

impl Default for Gauges {
    fn default() -> Self {
        Self { is_wanted: AtomicBool::new(true), reading: Mutex::default() }
    }
}

impl Gauges {
    /// The last reading. Asks for another, which the simulation writes at the end of a step.
    pub fn read(&self) -> Reading {
        self.is_wanted.store(true, Ordering::Relaxed);
        self.reading().clone()
    }

    /// Whether somebody has asked since the last reading.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    pub(super) fn write(&self, reading: Reading) {
        self.is_wanted.store(false, Ordering::Relaxed);
        *self.reading() = reading;
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().expect("nobody panics while it holds the reading")
    }
}
