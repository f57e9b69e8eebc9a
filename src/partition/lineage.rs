//! The devices that the result of each operation depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::cluster::DeviceName;
use crate::graph::OpId;

/// By operation: the devices of the operations that it depends on, and its own.
#[derive(Default)]
pub(super) struct Lineage<'a>(BTreeMap<OpId, Rc<BTreeSet<&'a DeviceName>>>);

impl<'a> Lineage<'a> {
    /// Adds an operation on `device` that depends on the operations `on`. Those that were not added
    /// depend on nothing.
    pub(super) fn add(
        &mut self,
        id: OpId,
        device: &'a DeviceName,
        on: impl IntoIterator<Item = OpId>,
    ) {
        // Most operations depend on the same devices as the one before them, and share its set.
        let mut all: Rc<BTreeSet<&DeviceName>> = Rc::default();
        for of_input in on.into_iter().filter_map(|input| self.0.get(&input)) {
            if all.is_empty() {
                all = Rc::clone(of_input);
            } else if !Rc::ptr_eq(&all, of_input) && !of_input.is_subset(&all) {
                Rc::make_mut(&mut all).extend(of_input.iter());
            }
        }
        if !all.contains(device) {
            Rc::make_mut(&mut all).insert(device);
        }
        self.0.insert(id, all);
    }

    /// Whether the operation depends on one that runs on `device`.
    pub(super) fn depends_on(&self, id: OpId, device: &DeviceName) -> bool {
        self.0.get(&id).is_some_and(|devices| devices.contains(device))
    }
}

/// What partitions need from others before they have sent anything: by receiving device, the device
/// that each value comes from, and the position of its receive.
#[derive(Default)]
pub(super) struct Waits(BTreeMap<DeviceName, Vec<(DeviceName, usize)>>);

impl Waits {
    /// `to` needs the value of its receive `receive`, from the device `from`.
    pub(super) fn add(&mut self, to: &DeviceName, from: &DeviceName, receive: usize) {
        self.0.entry(to.clone()).or_default().push((from.clone(), receive));
    }

    /// The receives whose sender needs something of their receiver first, itself or by way of
    /// others, as neighbours in a ring do.
    pub(super) fn in_circles(&self) -> Vec<(DeviceName, usize)> {
        let needs: BTreeMap<&DeviceName, BTreeSet<&DeviceName>> =
            self.0.keys().map(|device| (device, self.needed_by(device))).collect();
        let mut found = Vec::new();
        for (to, waits) in &self.0 {
            let circles = waits
                .iter()
                .filter(|(from, _)| needs.get(from).is_some_and(|needed| needed.contains(to)));
            found.extend(circles.map(|(_, receive)| (to.clone(), *receive)));
        }
        found
    }

    /// The devices that something of has to come to `device`, directly or by way of others.
    fn needed_by<'a>(&'a self, device: &'a DeviceName) -> BTreeSet<&'a DeviceName> {
        let (mut needed, mut open) = (BTreeSet::new(), vec![device]);
        while let Some(next) = open.pop() {
            for (from, _) in self.0.get(next).into_iter().flatten() {
                if needed.insert(from) {
                    open.push(from);
                }
            }
        }
        needed
    }
}
