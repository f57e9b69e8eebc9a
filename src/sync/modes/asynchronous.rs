//! `async`: each worker's gradient is applied as it arrives.

use std::fmt;

use serde::Deserialize;

use crate::sync::protocol::Protocol;

/// Each worker's gradient is applied as it arrives.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Async {}

impl Async {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "async";
    /// An example, as it is typed.
    pub(super) const EXAMPLE: &str = "\"async\"";
}

impl Protocol for Async {}

impl fmt::Display for Async {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("async")
    }
}
