//! Tapes: the order in which the tasks of a deployment received messages and lost peers, in files
//! that a simulation plays back.
//!
//! A task's results depend on the order in which messages of different peers reach it, and on
//! nothing else that chance decides. So a tape has no values: each of its entries names what was
//! received, as the simulation of the same scenario names it, too. Each life of a task has a tape
//! of its own, which it appends to before its actors see anything.
//!
//! | | |
//! |---|---|
//! | [`Name`] | a message, without its values and without ids that differ between worlds |
//! | [`Entry`] | an envelope that was received, the loss of a peer, or the end of the task |
//! | [`Tape`] | what one file has, as [`read`] gives it |
//! | [`TapeWriter`] | writes the tape of a task while it runs |
//! | [`Tapes`] | the tapes of a run, read from a folder |

mod entry;
mod error;
mod file;
mod name;
mod tapes;
mod writer;

pub use entry::{Entry, Event};
pub use error::TapeError;
pub use file::{Header, Tape, read};
pub use name::{Author, Kind, Masters, Name};
pub(crate) use name::{joined, parts};
pub use tapes::{Life, Tapes};
pub use writer::TapeWriter;
