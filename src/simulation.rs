//! The simulated world: virtual time, a modelled network and modelled compute under the real actors.

mod law;
pub mod scenario;

pub use law::Law;
