//! `[network]`, `[compute]`, `[hosts]`, `[gpus]` and `[calibration]` together: the hardware of a
//! simulation.

use std::collections::BTreeMap;

use super::calibration::{CalibrationFile, calibration};
use super::compute::{ComputeFile, compute, devices, own_compute, slow};
use super::gpus::{GpusFile, gpus};
use super::hosts::{HostsFile, hosts};
use super::mistakes::Mistakes;
use super::network::{NetworkFile, check_cards, network};
use super::{Calibration, Tasks};
use crate::simulation::{Hardware, Hosts, MessageThread, NetworkSpec};

/// The sections as they are typed.
pub(super) struct HardwareSections {
    pub(super) network: NetworkFile,
    pub(super) compute: ComputeFile,
    pub(super) hosts: Option<HostsFile>,
    pub(super) gpus: BTreeMap<String, GpusFile>,
    pub(super) calibration: Option<CalibrationFile>,
}

/// The hardware of the tasks of `cluster`. `origin` is the scenario's file.
pub(super) fn hardware(
    mut sections: HardwareSections,
    origin: &str,
    cluster: &BTreeMap<String, Tasks>,
    found: &mut Mistakes,
) -> Hardware {
    let slow = slow(&sections.compute.slow, cluster, found);
    let devices = devices(sections.compute.devices, found);
    let own = std::mem::take(&mut sections.compute.tasks);
    let mut network = network(sections.network, cluster, found);
    let mut compute = compute(sections.compute.speed(), found);
    let hosts = sections.hosts.map(|file| hosts(&file, cluster, found));
    if let Some(hosts) = &hosts {
        check_cards(&network, hosts, cluster, found);
    }
    let calibration = sections.calibration.map(|file| calibration(file, origin, found));
    if let Some(measured) = &calibration {
        measured.apply(&mut network, &mut compute);
    }
    let own_compute = own_compute(own, &compute, cluster, found);
    let gpus = gpus(sections.gpus, (&compute, &own_compute), cluster, found);
    let message_thread = message_thread(calibration.as_ref(), hosts.as_ref(), &network);
    let noise = calibration.map(|calibration| calibration.noise()).unwrap_or_default();
    Hardware { network, compute, own_compute, devices, gpus, slow, hosts, message_thread, noise }
}

/// The costs of the tasks' message threads: those of `[calibration]`, or, on shared hosts without
/// one, the cost of sending that `[network]` has.
fn message_thread(
    calibration: Option<&Calibration>,
    hosts: Option<&Hosts>,
    network: &NetworkSpec,
) -> Option<MessageThread> {
    let sending_costs = || MessageThread::sending_costs(network.message_cost);
    calibration.map(Calibration::message_thread).or_else(|| hosts.map(|_| sending_costs()))
}
