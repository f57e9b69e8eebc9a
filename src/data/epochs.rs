//! The order of the samples in each epoch, drawn once for all workers of a process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use rand::seq::SliceRandom;

use crate::random;

/// The samples in the order of one epoch.
pub(super) type Order = Arc<[usize]>;

/// The most positions that are kept, of all epochs together: 8 MiB. Workers of one simulation are
/// some epochs apart from each other.
const KEPT: usize = 1 << 20;

/// The least number of epochs that are kept, of however many samples.
const LEAST: usize = 2;

/// The orders of the epochs over some samples, which all clones share. An order that is no longer
/// kept is drawn again.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs(Arc<Mutex<Kept>>);

/// The orders that were drawn last.
#[derive(Debug, Default)]
struct Kept {
    /// By seed and epoch.
    orders: BTreeMap<(u64, u64), Order>,
    /// Their keys, the first drawn first.
    drawn: VecDeque<(u64, u64)>,
}

impl Epochs {
    /// A permutation of `samples` samples, which depends on the seed and the epoch's number only.
    pub(super) fn order(&self, samples: usize, seed: u64, epoch: u64) -> Order {
        let mut kept = self.0.lock().expect("nobody panics while drawing an order");
        if let Some(order) = kept.orders.get(&(seed, epoch)) {
            return Arc::clone(order);
        }
        let order = drawn(samples, seed, epoch);
        kept.orders.insert((seed, epoch), Arc::clone(&order));
        kept.drawn.push_back((seed, epoch));
        while kept.drawn.len() > LEAST.max(KEPT / samples.max(1)) {
            let oldest = kept.drawn.pop_front().expect("it is longer than nothing");
            kept.orders.remove(&oldest);
        }
        order
    }
}

fn drawn(samples: usize, seed: u64, epoch: u64) -> Order {
    let mut order: Vec<usize> = (0..samples).collect();
    order.shuffle(&mut random::stream(seed, &["data", "epoch", &epoch.to_string()]));
    order.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_order_of_an_epoch() {
        let epochs = Epochs::default();
        let first = epochs.order(50, 7, 3);
        assert!(Arc::ptr_eq(&first, &epochs.clone().order(50, 7, 3)));
        assert_ne!(first, epochs.order(50, 7, 4));
        assert_ne!(first, epochs.order(50, 8, 3));
    }

    #[test]
    fn an_order_that_is_no_longer_kept_is_drawn_again_as_it_was() {
        let (epochs, samples) = (Epochs::default(), KEPT / 4);
        let first = epochs.order(samples, 7, 0);
        for epoch in 1..9 {
            epochs.order(samples, 7, epoch);
        }
        assert_eq!(epochs.0.lock().unwrap().orders.len(), 4);
        let again = epochs.order(samples, 7, 0);
        assert!(first == again && !Arc::ptr_eq(&first, &again));
    }
}
