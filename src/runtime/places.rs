//! The tasks that hold the shared variables in the chief's graph. A worker that waits for variables
//! in vain asks for them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::transport::PeerId;

use super::messages::Places;
use super::signal::Signal;

/// What a task knows of the places of shared variables.
#[derive(Default)]
pub(crate) struct KnownPlaces {
    /// Those in the graph of this task's program, once it is built.
    own: RefCell<Option<Places>>,
    /// The tasks that have asked for them before.
    asked_by: RefCell<BTreeSet<PeerId>>,
    /// The chief, once it has been asked.
    chief: Cell<Option<PeerId>>,
    /// Those in the chief's graph, as it has told this task.
    of_chief: RefCell<Option<Places>>,
    is_told: Signal,
}

impl KnownPlaces {
    /// Those in this task's graph, or none yet: `asked_by` is then told later.
    pub(super) fn own_for(&self, asked_by: PeerId) -> Option<Places> {
        let own = self.own.borrow().clone();
        if own.is_none() {
            self.asked_by.borrow_mut().insert(asked_by);
        }
        own
    }

    /// Notes those in this task's graph; returns the tasks that wait for them.
    pub(super) fn publish(&self, places: Places) -> BTreeSet<PeerId> {
        *self.own.borrow_mut() = Some(places);
        self.asked_by.take()
    }

    /// `chief` is asked for its places: what it told before is no answer.
    pub(super) fn ask(&self, chief: PeerId) {
        self.chief.set(Some(chief));
        self.of_chief.take();
    }

    /// `from` tells its places, which count if it was asked.
    pub(super) fn hear(&self, from: PeerId, places: Places) {
        if self.chief.get() != Some(from) {
            return tracing::debug!(?from, "places that nobody asked for; dropped");
        }
        *self.of_chief.borrow_mut() = Some(places);
        self.is_told.raise();
    }

    /// Waits until the chief tells its places.
    pub(super) async fn told(&self) -> Places {
        self.is_told.until(|| self.of_chief.take()).await
    }
}
