//! Changes of keys that only a simulation reads.

use super::{Change, Sweep};

impl Change {
    /// The key that it sets, if no deployment reads that. One that inflicts faults reads how fast
    /// the network is.
    pub(in crate::experiment) fn key_of_simulations(&self, has_faults: bool) -> Option<String> {
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
            ["compute", _, ..] | ["calibration", ..] => true,
            ["network", "latency" | "bandwidth" | "preset"] => !has_faults,
            [
                "network",
                "mtu" | "message_cost" | "incast" | "connection" | "tasks" | "link",
                ..,
            ] => true,
            ["program", "read_rate"] | ["checkpoint", "read_rate" | "write_rate"] => true,
            _ => false,
        }
    }
}

impl Sweep {
    /// The key that it gives values to, if no deployment reads that.
    pub(in crate::experiment) fn key_of_simulations(&self, has_faults: bool) -> Option<String> {
        self.0.first()?.key_of_simulations(has_faults)
    }
}
