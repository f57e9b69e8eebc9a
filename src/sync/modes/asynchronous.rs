//! `async`: each worker's gradient is applied as it arrives.

use std::fmt;

use serde::Deserialize;

use crate::sync::policy::{Free, Policy};
use crate::sync::protocol::{Needs, Protocol};

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

impl Protocol for Async {
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    fn policy(&self, _workers: u32) -> Box<dyn Policy> {
        Box::new(Free)
    }
}

impl fmt::Display for Async {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("async")
    }
}
