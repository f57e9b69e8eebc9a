//! Which parameter server the next variable goes to.

use crate::graph::VariableSpec;

/// Chooses a parameter server for each variable, in the order they are built.
pub trait PsStrategy: Send {
    /// The index of the server for `variable`.
    fn next(&mut self, variable: &VariableSpec) -> u32;
}

/// One server after the other (TensorFlow's default).
#[derive(Debug)]
pub struct RoundRobin {
    servers: u32,
    next: u32,
}

impl RoundRobin {
    /// Over `servers` parameter servers; at least one.
    pub fn new(servers: u32) -> Self {
        Self { servers: servers.max(1), next: 0 }
    }
}

impl PsStrategy for RoundRobin {
    fn next(&mut self, _: &VariableSpec) -> u32 {
        let chosen = self.next;
        self.next = (chosen + 1) % self.servers;
        chosen
    }
}

/// The server that holds the fewest bytes so far; of equals the first
/// (TensorFlow: `GreedyLoadBalancingStrategy` with `byte_size_load_fn`).
#[derive(Debug)]
pub struct GreedyByBytes {
    loads: Vec<u64>,
}

impl GreedyByBytes {
    /// Over `servers` parameter servers; at least one.
    pub fn new(servers: u32) -> Self {
        Self { loads: vec![0; servers.max(1) as usize] }
    }
}

impl PsStrategy for GreedyByBytes {
    fn next(&mut self, variable: &VariableSpec) -> u32 {
        let lightest = (0..self.loads.len()).min_by_key(|server| self.loads[*server]);
        let chosen = lightest.expect("there is at least one server");
        self.loads[chosen] += variable.byte_size();
        chosen as u32
    }
}
