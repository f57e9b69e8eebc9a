//! The trainings that a parameter server has a part in: who takes part, how the ends of steps are
//! coordinated, and who waits for others.

use std::collections::BTreeMap;

use crate::cluster::ClusterSpec;
use crate::sync::{Membership, Participation, Views};

use super::coordination::Coordination;
use super::joins::Joins;
use super::notices::Notices;
use crate::runtime::mail::Binding;
use crate::runtime::state::VariableId;

/// What a parameter server knows of its trainings, beside the variables.
#[derive(Default)]
pub(super) struct Trainings {
    /// The coordinations, by global step: a task can hold those of several trainings.
    pub(super) coordinations: BTreeMap<VariableId, Coordination>,
    /// The members of these trainings.
    pub(super) members: Membership,
    /// The cluster whose workers they are, once a program has said so.
    pub(super) cluster: Option<ClusterSpec>,
    /// Who takes part in the rounds of the variables here.
    pub(super) participation: Participation,
    /// The views of the training whose global step is here, if it has rounds.
    pub(super) views: Option<Views>,
    /// Whether the shards of that training are its barrier.
    pub(super) has_barrier: bool,
    /// Partitions held off because a fence was up, or because their worker's last training was not
    /// over here.
    pub(super) held_off: Vec<Binding>,
    pub(super) joins: Joins,
    pub(super) notices: Notices,
}
