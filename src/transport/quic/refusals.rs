//! The refusals that a task remembers, so that each is logged once and told to who asks.

use std::collections::{BTreeSet, VecDeque};

use super::refusal::Kind;

/// The most refusals of peers that have proved who they are, and the most of all others: these
/// take no room from the former.
const MOST: usize = 1024;
const MOST_UNPROVEN: usize = 512;
/// The most reasons of one kind that are remembered of one unproven peer, which may choose the
/// words.
const MOST_OF_A_KIND: usize = 8;

/// Who was refused, or has refused, and why.
#[derive(Default)]
pub(super) struct Refusals {
    proven: BTreeSet<(String, String)>,
    /// The last of unproven peers, by kind. One that takes the place of an older one is not logged.
    unproven: VecDeque<(Kind, String, String)>,
}

impl Refusals {
    /// Adds a refusal of or by `who`, with its reason; its `kind` if the other end has not proved
    /// who it is. Whether it is a new one, and is to be logged.
    pub(super) fn add(&mut self, who: &str, kind: Option<Kind>, why: &str) -> bool {
        let (who, why) = (who.to_owned(), why.to_owned());
        let Some(kind) = kind else {
            return self.proven.len() < MOST && self.proven.insert((who, why));
        };
        let is_alike = |other: &(Kind, String, String)| other.0 == kind && other.1 == who;
        if self.unproven.iter().any(|other| is_alike(other) && other.2 == why) {
            return false;
        }
        let alike = self.unproven.iter().filter(|other| is_alike(other)).count();
        let outdated = if alike >= MOST_OF_A_KIND {
            self.unproven.iter().position(is_alike)
        } else {
            (self.unproven.len() >= MOST_UNPROVEN).then_some(0)
        };
        outdated.map(|at| self.unproven.remove(at));
        self.unproven.push_back((kind, who, why));
        outdated.is_none()
    }

    /// All of them: who, and why.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        let unproven = self.unproven.iter().map(|(_, who, why)| (who.clone(), why.clone()));
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
        assert!(
            !refusals.add("10.0.2.1", Some(Kind::OfUs(None)), "expired"),
            "many have none left"
        );
        assert!(refusals.all().contains(&("10.0.2.1".into(), "expired".into())), "it is listed");
        assert!(refusals.add("worker:1", None, "program.batch differs"));
        assert!(!refusals.add("worker:1", None, "program.batch differs"), "each is logged once");
        assert!(refusals.all().contains(&("worker:1".into(), "program.batch differs".into())));
    }
}
