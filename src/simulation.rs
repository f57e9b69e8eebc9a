//! The simulated world: virtual time, a modelled network and modelled compute under the real actors.
//!
//! The actors, the messages and the numbers are those of a deployment; what is modelled is only when
//! a message arrives (`network`) and when a kernel is done (`device`). Every event feeds a digest
//! (`audit`), by which two runs are known to be the same.

mod audit;
mod device;
mod events;
mod law;
mod network;
mod pool;
mod run;
pub mod scenario;
mod world;

pub use audit::Digest;
pub use device::{ComputeError, ComputeSpec};
pub use law::{Law, LawError};
pub use network::{NetworkError, NetworkSpec, Racks};
pub use run::{Cluster, Host, Outcome, run};
