//! The ways between the tasks of a step that are blocked, as its senders have told its master.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::transport::PeerId;
use crate::units::Time;

use crate::runtime::messages::GraphHandle;

/// The ways that are blocked: by the part that sends, and the task that it sends to.
#[derive(Debug, Default)]
pub(super) struct Blocked(BTreeMap<(GraphHandle, PeerId), BlockedWay>);

/// A way that is blocked.
#[derive(Debug)]
pub(super) struct BlockedWay {
    pub(super) from: PeerId,
    /// Why, as the sender says.
    pub(super) why: String,
    /// When the master first heard of it, and it has not been open since, as far as that knows.
    since: Time,
}

impl Blocked {
    /// Takes what the part `graph` at `from` says at `now`: the receivers that it can't reach, each
    /// with the reason. Returns whether one is new.
    pub(super) fn take(
        &mut self,
        (graph, from): (GraphHandle, PeerId),
        receivers: BTreeMap<PeerId, String>,
        now: Time,
    ) -> bool {
        self.0.retain(|(of, to), _| *of != graph || receivers.contains_key(to));
        let mut is_new = false;
        for (to, why) in receivers {
            match self.0.entry((graph, to)) {
                Entry::Occupied(mut known) => known.get_mut().why = why,
                Entry::Vacant(place) => {
                    place.insert(BlockedWay { from, why, since: now });
                    is_new = true;
                }
            }
        }
        is_new
    }

    /// All of them, each with the task that it leads to.
    pub(super) fn all(&self) -> impl Iterator<Item = (PeerId, &BlockedWay)> {
        self.0.iter().map(|((_, to), way)| (*to, way))
    }

    /// When the first of them was first heard of.
    pub(super) fn since(&self) -> Option<Time> {
        self.0.values().map(|way| way.since).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_counts_as_blocked_from_the_first_word_of_it_until_its_sender_says_no_more_of_it() {
        let [one, other] = [1, 2].map(|number| GraphHandle { master: 9, number });
        let [ps, worker] = [0, 1].map(PeerId);
        let to = |peers: &[PeerId]| peers.iter().map(|peer| (*peer, String::new())).collect();
        let mut blocked = Blocked::default();
        assert!(blocked.take((one, worker), to(&[ps]), Time(10)));
        assert!(!blocked.take((one, worker), to(&[ps]), Time(20)), "it is known");
        assert!(
            blocked.take((other, worker), to(&[ps]), Time(30)),
            "another part sends there, too"
        );
        assert_eq!(blocked.since(), Some(Time(10)));
        assert!(!blocked.take((one, worker), to(&[]), Time(40)));
        assert_eq!(blocked.since(), Some(Time(30)), "what the other part said still holds");
        assert!(blocked.take((one, worker), to(&[ps]), Time(50)), "it is blocked again");
        blocked.take((other, worker), to(&[]), Time(60));
        assert_eq!(blocked.since(), Some(Time(50)));
    }
}
