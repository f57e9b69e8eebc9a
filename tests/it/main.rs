//! What the system does as a whole; one file a behaviour.

mod alone;
mod binary;
mod checkers;
mod checkpoint_command;
mod cli;
mod compression;
mod convnet;
mod deploy_files;
mod devices;
mod embeddings;
mod errors;
mod fault_matrix;
mod faults;
mod fences;
mod fixture;
mod gradients;
mod graph_command;
mod graphdefs;
mod hooks;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod launch;
mod life_of_a_step;
mod local_sgd;
mod losses;
mod modes;
mod monitored_session;
mod normalisation;
mod optimizers;
mod over_quic;
mod peer_to_peer;
mod queues;
mod quic_losses;
mod recovery;
mod roles;
mod servers;
mod session_creation;
mod sessions;
mod shapes;
mod simulated;
mod simulation;
mod staleness;
mod stall;
mod sync_replicas;
#[cfg(unix)]
mod tasks;
mod transport_contract;
mod untrusted;
mod user_program;
