//! The simulated world: virtual time, a modelled network and modelled compute under the real actors.

mod device;
mod law;
mod network;
pub mod scenario;

pub use device::{ComputeError, ComputeSpec};
pub use law::{Law, LawError};
pub use network::{NetworkError, NetworkSpec, Racks};
