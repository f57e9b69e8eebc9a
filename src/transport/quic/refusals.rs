//! The refusals that a task remembers, so that each is logged once and told to who asks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::refusal::Kind;

/// The most refusals of peers that have proved who they are, and the most of all others: these
/// take no room from the former.
const MOST: usize = 1024;
const MOST_UNPROVEN: usize = 512;
/// The most reasons of one kind that are remembered of one unproven peer, which may choose the
/// words. Later ones take the place of the first, and are not logged.
const MOST_OF_A_KIND: usize = 8;

/// Who was refused, or has refused, and why. Those of unproven peers are by kind.
#[derive(Default)]
pub(super) struct Refusals {
    proven: BTreeSet<(String, String)>,
    unproven: BTreeMap<(Kind, String), VecDeque<String>>,
}

impl Refusals {
    /// Adds a refusal of or by `who`, with its reason; its `kind` if the other end has not proved
    /// who it is. Whether it is a new one, and is to be logged.
    pub(super) fn add(&mut self, who: &str, kind: Option<Kind>, why: &str) -> bool {
        let (who, why) = (who.to_owned(), why.to_owned());
        let Some(kind) = kind else {
            return self.proven.len() < MOST && self.proven.insert((who, why));
        };
        let all: usize = self.unproven.values().map(VecDeque::len).sum();
        let key = (kind, who);
        if all >= MOST_UNPROVEN && !self.unproven.contains_key(&key) {
            return false;
        }
        let alike = self.unproven.entry(key).or_default();
        if alike.contains(&why) {
            return false;
        }
        let is_full = all >= MOST_UNPROVEN || alike.len() >= MOST_OF_A_KIND;
        if is_full {
            alike.pop_front();
        }
        alike.push_back(why);
        !is_full
    }

    /// All of them: who, and why.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        let of_one = |((_, who), reasons): (&(Kind, String), &VecDeque<String>)| {
            let pair = |why: &String| (who.clone(), why.clone());
            reasons.iter().map(pair).collect::<Vec<_>>()
        };
        let unproven = self.unproven.iter().flat_map(of_one);
        let mut all: Vec<_> = self.proven.iter().cloned().chain(unproven).collect();
        all.sort();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_proves_nothing_takes_no_room_from_other_refusals() {
        let mut refusals = Refusals::default();
        let noise = (0..5_000).map(|i| format!("noise {i}"));
        let logged = noise.filter(|why| refusals.add("10.0.0.9", Some(Kind::OfThem(None)), why));
        assert_eq!(logged.count(), MOST_OF_A_KIND, "one address has a share");
        assert!(!refusals.add("10.0.0.9", Some(Kind::OfThem(None)), "another"));
        assert_eq!(refusals.all().len(), MOST_OF_A_KIND);
        assert!(refusals.all().contains(&("10.0.0.9".into(), "another".into())), "it is listed");
        assert!(refusals.add("10.0.0.9", Some(Kind::OfUs(None)), "of another authority"));
        for i in 0..5_000 {
            refusals.add(&format!("10.0.1.{i}"), Some(Kind::Silent), "it does not answer");
        }
        assert_eq!(refusals.all().len(), MOST_UNPROVEN);
        assert!(refusals.add("worker:1", None, "program.batch differs"));
        assert!(!refusals.add("worker:1", None, "program.batch differs"), "each is logged once");
        assert!(refusals.all().contains(&("worker:1".into(), "program.batch differs".into())));
    }
}
