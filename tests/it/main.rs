//! What the system does as a whole; one file a behaviour.

mod binary;
mod checkers;
mod cli;
mod convnet;
mod devices;
mod embeddings;
mod errors;
mod fault_matrix;
mod faults;
mod fixture;
mod gradients;
mod graph_command;
mod graphdefs;
mod life_of_a_step;
mod normalisation;
mod optimizers;
mod peer_to_peer;
mod queues;
mod servers;
mod sessions;
mod shapes;
mod simulated;
mod simulation;
mod staleness;
mod stall;
mod user_program;
