//! Strategies that choose a parameter server for each variable.

use crate::graph::VariableSpec;

/// Chooses a parameter server for each variable, in the order they are built.
pub trait PsStrategy: Send {
    /// The index of the server for `variable`, below `servers`. `servers` is at least 1, and the
    /// same at each call.
    fn next(&mut self, variable: &VariableSpec, servers: u32) -> u32;
}

/// One server after the other (TensorFlow's default).
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: u32,
}

impl PsStrategy for RoundRobin {
    fn next(&mut self, _: &VariableSpec, servers: u32) -> u32 {
        let chosen = self.next;
        self.next = (chosen + 1) % servers;
        chosen
    }
}

/// The server with the fewest bytes so far, the first of equals (TensorFlow:
/// `GreedyLoadBalancingStrategy` with `byte_size_load_fn`).
#[derive(Debug, Default)]
pub struct GreedyByBytes {
    /// The load of each server \[bytes\].
    loads: Vec<u64>,
}

impl PsStrategy for GreedyByBytes {
    fn next(&mut self, variable: &VariableSpec, servers: u32) -> u32 {
        self.loads.resize(servers as usize, 0);
        let lightest = (0..self.loads.len()).min_by_key(|server| self.loads[*server]);
        let chosen = lightest.expect("there is at least one server");
        self.loads[chosen] += variable.byte_size();
        chosen as u32
    }
}
