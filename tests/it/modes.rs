//! How workers are coordinated: every mode, its laws and what it sends.

mod announced_end;
mod backups;
mod cancelling;
mod compared;
mod compression;
mod control_dependencies;
mod elastic_averaging;
mod fences;
mod local_sgd;
mod noise;
mod read_ahead;
mod repeats;
mod rounds;
mod server_queue;
mod several_optimizers;
mod staleness;
mod sync_replicas;
mod trainings;
