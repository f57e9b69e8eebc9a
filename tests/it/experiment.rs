//! Experiments as a library's user asks for them: in simulation, for real, with tasks of one's own.

mod all_reduce;
mod arguments;
mod checkpoints;
mod coordinator;
mod critical_paths;
mod estimator;
mod evaluator;
mod imported;
mod layers;
mod lost_towers;
mod own_server;
mod partitioners;
mod processors;
mod programs;
mod replicas;
mod reports;
mod seeds;
mod streamed;
mod timelines;
