//! The simulated world: virtual time, a modelled network and modelled compute under the real
//! actors.
//!
//! The actors, the messages and the numbers are those of a deployment; what is modelled is only
//! when a message arrives (`network`) and when a kernel is done (`device`). Every event feeds a
//! digest (`audit`), by which two runs are known to be the same. What is to go wrong (`faults`)
//! does so at its moment (`misfortune`), and what is then still taken of whom is one table's to say
//! (`links`).

mod audit;
mod device;
mod ending;
mod events;
mod faults;
mod law;
mod links;
mod misfortune;
mod network;
mod passage;
mod pool;
mod programs;
mod run;
mod world;

pub use audit::Digest;
pub use device::{ComputeError, ComputeSpec};
pub use faults::{Fault, Faults, Misfortune, Moment};
pub use law::{Law, LawError};
pub use network::{NetworkError, NetworkSpec, Racks};
pub use run::{Cluster, Host, Outcome, run};
