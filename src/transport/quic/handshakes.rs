//! The handshakes that are under way, in all and with each address, and who waits to begin one.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use super::settings::FIRST_PATIENCE;
use crate::units::Time;

/// The most that wait to begin a handshake.
pub(super) const MOST_WAITING: usize = 1024;
/// The longest wait of a connection for its handshake. Packets that its sender repeats meanwhile
/// wait with it. Once it is given up, the next of them is a new connection: so this is shorter than
/// the sender's patience.
pub(super) const LONGEST_WAIT: Duration =
    Duration::from_millis(FIRST_PATIENCE.as_millis() as u64 / 2);

/// The handshakes that are under way.
pub(super) struct Handshakes {
    /// The most at a time.
    limit: usize,
    count: Cell<usize>,
    by_address: RefCell<BTreeMap<IpAddr, usize>>,
}

/// A handshake with an address, which counts until this is dropped.
pub(super) struct Handshake(Rc<Handshakes>, IpAddr);

impl Handshakes {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), count: Cell::new(0), by_address: RefCell::default() }
    }

    /// The share of the most at a time that is under way.
    pub(super) fn share(&self) -> f64 {
        self.count.get() as f64 / self.limit as f64
    }

    fn of(&self, address: IpAddr) -> usize {
        self.by_address.borrow().get(&address).copied().unwrap_or(0)
    }

    /// Whether one more with `address` may begin. One address has three quarters at most: whoever
    /// opens as many as it can leaves room for others.
    fn have_room(&self, address: IpAddr) -> bool {
        self.count.get() < self.limit && self.of(address) < self.limit - self.limit / 4
    }

    fn begin(self: &Rc<Self>, address: IpAddr) -> Handshake {
        self.count.update(|count| count + 1);
        *self.by_address.borrow_mut().entry(address).or_default() += 1;
        Handshake(Rc::clone(self), address)
    }
}

impl Handshake {
    pub(super) fn address(&self) -> IpAddr {
        self.1
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.0.count.update(|count| count - 1);
        let by_address = &mut *self.0.by_address.borrow_mut();
        match by_address.get_mut(&self.1) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(by_address.remove(&self.1)),
        }
    }
}

/// Those who wait to begin a handshake, and since when, by address in the order in which they came.
pub(super) struct Waiting<T> {
    by_address: BTreeMap<IpAddr, VecDeque<(Time, T)>>,
    count: usize,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { by_address: BTreeMap::new(), count: 0 }
    }
}

impl<T> Waiting<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds `one`, from `address`. If too many wait then, takes out and returns one: the last that
    /// came from the address with the most.
    pub(super) fn add(&mut self, now: Time, address: IpAddr, one: T) -> Option<T> {
        self.by_address.entry(address).or_default().push_back((now, one));
        self.count += 1;
        if self.count <= MOST_WAITING {
            return None;
        }
        let most = self.by_address.iter().max_by_key(|(_, waiting)| waiting.len());
        let most = *most.expect("some wait").0;
        self.remove(most, VecDeque::pop_back)
    }

    /// Takes out one that has waited too long.
    pub(super) fn outdated(&mut self, now: Time) -> Option<T> {
        let is_outdated = |since: Time| since.after(LONGEST_WAIT) < now;
        let outdated = self.firsts().find(|(_, since)| is_outdated(*since))?.0;
        self.remove(outdated, VecDeque::pop_front)
    }

    /// Takes out the one that is to come next, if there is room among `handshakes`, and begins its
    /// handshake: the first of the address that has fewest.
    pub(super) fn next(&mut self, handshakes: &Rc<Handshakes>) -> Option<(Handshake, T)> {
        let may_begin = self.firsts().filter(|(address, _)| handshakes.have_room(*address));
        let next = may_begin.min_by_key(|(address, since)| (handshakes.of(*address), *since))?.0;
        let one = self.remove(next, VecDeque::pop_front)?;
        Some((handshakes.begin(next), one))
    }

    /// By address: since when its first one has waited.
    fn firsts(&self) -> impl Iterator<Item = (IpAddr, Time)> {
        self.by_address.iter().map(|(address, waiting)| (*address, waiting[0].0))
    }

    /// Takes out what `which` takes of those who wait from `address`.
    fn remove(
        &mut self,
        address: IpAddr,
        which: impl Fn(&mut VecDeque<(Time, T)>) -> Option<(Time, T)>,
    ) -> Option<T> {
        let waiting = self.by_address.get_mut(&address)?;
        let (_, one) = which(waiting)?;
        self.count -= 1;
        if waiting.is_empty() {
            self.by_address.remove(&address);
        }
        Some(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn whoever_opens_as_many_as_it_can_leaves_a_quarter_to_others() {
        let handshakes = Rc::new(Handshakes::new(4));
        let mut waiting = Waiting::default();
        (0..5).for_each(|number| assert!(waiting.add(Time(0), ONE, number).is_none()));
        let next = |waiting: &mut Waiting<u32>| waiting.next(&handshakes);
        let mut begun: Vec<_> = std::iter::from_fn(|| next(&mut waiting)).collect();
        let numbers: Vec<u32> = begun.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [0, 1, 2], "in their order, as far as their address may");
        waiting.add(Time(1), OTHER, 5);
        begun.extend(next(&mut waiting));
        assert_eq!(begun[3].1, 5);
        assert_eq!(handshakes.share(), 1.0);
        assert!(next(&mut waiting).is_none());
        begun.pop();
        assert!(next(&mut waiting).is_none(), "the place of another is not for it");
        begun.pop();
        waiting.add(Time(1), OTHER, 6);
        let (last, number) = next(&mut waiting).unwrap();
        assert_eq!((last.address(), number), (OTHER, 6), "who has fewest comes first");
        drop((last, begun));
        assert_eq!(handshakes.share(), 0.0);
        assert!(handshakes.by_address.borrow().is_empty());
    }

    #[test]
    fn where_too_many_wait_the_last_of_the_address_of_which_most_do_goes() {
        let mut waiting = Waiting::default();
        let fill = |waiting: &mut Waiting<usize>, address, count| -> Vec<usize> {
            (0..count).filter_map(|number| waiting.add(Time(0), address, number)).collect()
        };
        assert!(fill(&mut waiting, ONE, MOST_WAITING).is_empty());
        assert_eq!(fill(&mut waiting, ONE, 1), [0], "it goes itself");
        let gone: Vec<usize> = (MOST_WAITING / 2..MOST_WAITING).rev().collect();
        assert_eq!(fill(&mut waiting, OTHER, gone.len()), gone);
    }

    #[test]
    fn whoever_has_waited_too_long_is_given_up() {
        let mut waiting = Waiting::default();
        (0..2).for_each(|number| assert!(waiting.add(Time(number), ONE, number).is_none()));
        let end = Time(0).after(LONGEST_WAIT);
        assert_eq!(waiting.outdated(end), None);
        assert_eq!(waiting.outdated(Time(end.0 + 1)), Some(0));
        assert_eq!(waiting.outdated(Time(end.0 + 1)), None);
        assert_eq!(waiting.outdated(Time(end.0 + 2)), Some(1));
        assert!(waiting.is_empty() && waiting.by_address.is_empty());
    }
}
