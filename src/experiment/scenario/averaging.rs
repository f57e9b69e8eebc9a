//! Workers that train copies of their own, and average them.

use std::fmt;
use std::num::NonZeroU32;

/// How workers that train copies of their own average them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Averaging {
    /// A worker's steps from one average to the next.
    pub every: NonZeroU32,
    /// What applies the average; where nothing does, all go on from it (local SGD).
    pub outer: Option<Nesterov>,
}

/// The outer optimizer of DiLoCo, momentum of Nesterov.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nesterov {
    /// Default: 0.7.
    pub learning_rate: f32,
    /// Default: 0.9.
    pub momentum: f32,
}

impl Default for Nesterov {
    fn default() -> Self {
        Self { learning_rate: 0.7, momentum: 0.9 }
    }
}

impl fmt::Display for Averaging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.outer.is_some() { "DiLoCo" } else { "local SGD" };
        write!(f, "{name}, every {}", self.every)
    }
}
