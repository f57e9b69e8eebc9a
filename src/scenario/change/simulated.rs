//! Changes of keys that only a simulation reads.

use super::{Change, Sweep};

/// The keys that no deployment reads and the model of a measured machine has no value for: the
/// prediction of a launch leaves them out, and names them. Of the other keys that no deployment
/// reads it has the machine's own values, but for `compute.stop_cost`: that stands for the rest of
/// a kernel that is stopped, which a deployment has, too.
pub(crate) const LEFT_OUT: [&str; 10] = [
    "compute.straggler",
    "compute.step_time",
    "compute.slow",
    "compute.tasks",
    "gpus",
    "network.link",
    "network.connection",
    "program.read_rate",
    "checkpoint.write_rate",
    "checkpoint.read_rate",
];

impl Change {
    /// The key that it sets, if no deployment reads that. One that inflicts faults reads how fast
    /// the network is.
    pub(crate) fn key_of_simulations(&self, has_faults: bool) -> Option<String> {
        self.is_of_simulations(has_faults).then(|| self.path.to_string())
    }

    fn is_of_simulations(&self, has_faults: bool) -> bool {
        let Some(value) = &self.value else { return false };
        let own = match self.path.segments() {
            [run, _, set, own @ ..] if run == "run" && set == "set" => own,
            whole => whole,
        };
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        match own[..] {
            ["compute", "numerics"] => value.as_str() == Some("shapes"),
            ["compute", "devices"] => false,
            // `launch` tells of it wherever it is from: a graph can name GPUs.
            ["gpus", ..] => false,
            ["network", "latency" | "bandwidth" | "preset"] => !has_faults,
            ["compute", _, ..]
            | ["calibration", ..]
            | ["network", "mtu" | "message_cost" | "incast" | "tasks", ..] => true,
            _ => LEFT_OUT.iter().any(|key| own.starts_with(&key.split('.').collect::<Vec<_>>())),
        }
    }
}

impl Sweep {
    /// The key that it gives values to, if no deployment reads that.
    pub(crate) fn key_of_simulations(&self, has_faults: bool) -> Option<String> {
        self.0.first()?.key_of_simulations(has_faults)
    }
}
