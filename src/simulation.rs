//! The simulated world: virtual time, a modelled network and modelled compute under the real
//! actors.
//!
//! The actors, the messages and the numbers are those of a deployment. The simulation models the
//! time at which a message arrives (`network`), the time at which a kernel is done (`device`), and
//! the effects of faults on both (`faults`, `fault_injector`, `links`). `world` holds all of that
//! as plain data; `driver` owns it and ticks it when no actor can run; `endpoints` are its clock,
//! transport and devices as a task sees them. Every event feeds a digest (`audit`): runs with equal
//! digests are equal.

mod audit;
mod cluster;
mod device;
mod driver;
mod endpoints;
mod events;
mod fault_injector;
mod faults;
mod job;
mod law;
mod links;
mod network;
mod programs;
mod run;
mod stall;
mod world;

pub use audit::Digest;
pub use cluster::{Cluster, Host, Outcome};
pub use device::{ComputeError, ComputeSpec};
pub use faults::{Fault, FaultKind, Faults, Trigger};
pub use law::{Law, LawError};
pub use network::{NetworkError, NetworkSpec, Racks};
pub use run::run;
