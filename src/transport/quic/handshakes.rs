//! The handshakes that are under way, in all and with each address.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The most handshakes at a time with one address, of `limit` in all: whoever opens as many as it
/// can leaves room for others.
pub(super) fn of_one_address(limit: usize) -> usize {
    limit - limit / 4
}

/// The handshakes that are under way.
#[derive(Default)]
pub(super) struct Handshakes(RefCell<BTreeMap<IpAddr, usize>>);

/// A handshake, which counts for as long as it takes.
pub(super) struct Handshake<'a>(&'a Handshakes, IpAddr);

impl Handshakes {
    pub(super) fn count(&self) -> usize {
        self.0.borrow().values().sum()
    }

    pub(super) fn of(&self, address: IpAddr) -> usize {
        self.0.borrow().get(&address).copied().unwrap_or(0)
    }

    pub(super) fn begin(&self, address: IpAddr) -> Handshake<'_> {
        *self.0.borrow_mut().entry(address).or_default() += 1;
        Handshake(self, address)
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        let handshakes = &mut *self.0.0.borrow_mut();
        match handshakes.get_mut(&self.1) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(handshakes.remove(&self.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_count_by_address_until_they_end() {
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let handshakes = Handshakes::default();
        let first = handshakes.begin(one);
        let second = handshakes.begin(one);
        let third = handshakes.begin(other);
        assert_eq!((handshakes.count(), handshakes.of(one), handshakes.of(other)), (3, 2, 1));
        drop((first, third));
        assert_eq!((handshakes.count(), handshakes.of(one), handshakes.of(other)), (1, 1, 0));
        drop(second);
        assert!(handshakes.0.borrow().is_empty());
        assert!(of_one_address(64) < 64 && of_one_address(1) == 1);
    }
}
