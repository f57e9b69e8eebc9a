//! Updates of variables while the device computes them.

use smallvec::SmallVec;

use crate::cluster::LocalDevice;
use crate::optimizer::Update;
use crate::tensor::OutOfMemory;

use crate::runtime::state::{Ticket, VariableId};

/// The operations that wait for an update: one worker's, or those of a whole round.
pub(super) type Tickets = SmallVec<[Ticket; 1]>;

/// An update that computes.
#[derive(Debug)]
pub(crate) struct Updating {
    pub(super) variables: SmallVec<[VariableId; 5]>,
    pub(super) update: Update,
    /// The operations that wait for it.
    pub(super) tickets: Tickets,
    /// The device that computes it.
    pub(super) device: LocalDevice,
    /// The refusal of its memory: the variables are then unchanged.
    pub(super) refused: Option<OutOfMemory>,
}

/// Updates for the device.
#[derive(Debug, Default)]
pub(crate) struct Updates(pub(super) Vec<Updating>);
