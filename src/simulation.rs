//! The simulated world: virtual time, a modelled network and modelled compute under the real
//! actors.
//!
//! The actors, the messages and the numbers are those of a deployment. The simulation models the
//! time at which a message arrives (`network`), the time that kernels take (`device`) and when the
//! tasks' processors get to them (`processor`, on `hosts`), and the effects of faults on all that
//! (`faults`, `fault_injector`, `connections`). `world` holds it as plain data; `driver` owns it
//! and ticks it when no actor can run; `endpoints` are its clock, transport and devices as a task
//! sees them. Every event feeds a digest (`audit`): runs with equal digests are equal.

mod audit;
mod background;
mod chore;
mod cluster;
mod connections;
mod critical_path;
mod device;
mod driver;
mod endpoints;
mod events;
mod fault_injector;
mod faults;
mod gauges;
mod gpus;
mod hardware;
mod hosts;
mod law;
mod network;
mod noise;
mod processor;
mod programs;
mod replay;
mod run;
mod stall;
mod timeline;
mod world;

pub use audit::Digest;
pub use cluster::{Cluster, Outcome};
pub(crate) use critical_path::StepEnd;
pub use critical_path::{CriticalPathShares, SpanKind};
pub use device::{ComputeSpec, ComputeSpecError};
pub(crate) use driver::{end_step, is_disk_full, take_damage};
pub use faults::{Damage, Fault, FaultKind, Faults, SkipReason, SkippedFault, Trigger};
pub use gauges::{Gauges, Reading};
pub use gpus::{Gpus, MemoryLink};
pub use hardware::Hardware;
pub use hosts::{Hosts, Lanes, MessageCost, MessageThread};
pub use law::{Law, LawError};
pub(crate) use network::LEAST_MTU;
pub use network::{
    CardTraffic, ConnectionSpec, LinkSpeed, Loopback, NetworkError, NetworkSpec, Racks,
};
pub use noise::Noise;
pub use processor::{Activity, ProcessorUsage};
pub use run::run;
pub use timeline::TimelineSpec;
