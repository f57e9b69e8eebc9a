//! Sessions, servers, hooks and programs on them.

mod arguments;
mod errors;
mod hooks;
mod hostile_peer;
mod life_of_a_step;
mod monitored_session;
mod peer_to_peer;
mod places;
mod queues;
mod remote;
mod run_options;
mod servers;
mod session_creation;
mod sessions;
mod training_steps;
pub(crate) mod user_program;
