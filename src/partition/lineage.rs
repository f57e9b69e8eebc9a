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
