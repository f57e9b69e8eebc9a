//! Strategies that choose a parameter server for each variable.

use super::md5::md5;
use crate::graph::OperationRequest;

/// Chooses a parameter server for each operation that goes to one, in the order they are built
/// (TensorFlow: the `ps_strategy` of `tf.train.replica_device_setter`). A closure is one, too.
pub trait PsStrategy: Send {
    /// The index of the server for `request`, below `servers`. `servers` is at least 1, and the
    /// same at each call.
    fn next(&mut self, request: &OperationRequest<'_>, servers: u32) -> u32;
}

impl<F: FnMut(&OperationRequest<'_>, u32) -> u32 + Send> PsStrategy for F {
    fn next(&mut self, request: &OperationRequest<'_>, servers: u32) -> u32 {
        self(request, servers)
    }
}

/// One server after the other (TensorFlow's default).
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: u32,
}

impl PsStrategy for RoundRobin {
    fn next(&mut self, _: &OperationRequest<'_>, servers: u32) -> u32 {
        let chosen = self.next;
        self.next = (chosen + 1) % servers;
        chosen
    }
}

/// The server with the fewest bytes so far, the first of equals (TensorFlow:
/// `GreedyLoadBalancingStrategy` with `byte_size_load_fn`).
#[derive(Debug, Default)]
pub struct GreedyByBytes {
    loads: Loads,
}

impl PsStrategy for GreedyByBytes {
    fn next(&mut self, request: &OperationRequest<'_>, servers: u32) -> u32 {
        self.loads.add(request.byte_size() as f64, servers)
    }
}

/// The server with the least load so far, the first of equals (TensorFlow:
/// `GreedyLoadBalancingStrategy`).
#[derive(Debug)]
pub struct Greedy<F> {
    load: F,
    loads: Loads,
}

impl<F: FnMut(&OperationRequest<'_>) -> f64 + Send> Greedy<F> {
    /// Each operation is a load of `load(operation)`, in any unit.
    pub fn new(load: F) -> Self {
        Self { load, loads: Loads::default() }
    }
}

impl<F: FnMut(&OperationRequest<'_>) -> f64 + Send> PsStrategy for Greedy<F> {
    fn next(&mut self, request: &OperationRequest<'_>, servers: u32) -> u32 {
        let load = (self.load)(request);
        self.loads.add(load, servers)
    }
}

/// The load of each server.
#[derive(Debug, Default)]
struct Loads(Vec<f64>);

impl Loads {
    /// Gives `load` to the server that has least.
    fn add(&mut self, load: f64, servers: u32) -> u32 {
        self.0.resize(servers as usize, 0.0);
        let lightest = (0..self.0.len()).min_by(|a, b| self.0[*a].total_cmp(&self.0[*b]));
        let chosen = lightest.expect("there is at least one server");
        self.0[chosen] += load;
        chosen as u32
    }
}

/// A server by the operation's name and a seed, whatever is built besides (TensorFlow:
/// `tf.contrib.training.RandomStrategy`, whose choices these are).
#[derive(Debug, Default)]
pub struct RandomByName {
    /// The seed.
    pub seed: u64,
}

impl PsStrategy for RandomByName {
    fn next(&mut self, request: &OperationRequest<'_>, servers: u32) -> u32 {
        let digest = md5(format!("{}_{}", request.name, self.seed).as_bytes());
        (digest % u128::from(servers)) as u32
    }
}
