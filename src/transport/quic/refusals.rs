//! The refusals that a task remembers, so that each is logged once and told to who asks.

use std::collections::BTreeSet;

use super::refusal::Kind;

/// The most refusals of peers that have proved who they are, and the most of all others: these
/// take no room from the former.
const MOST: usize = 1024;
const MOST_UNPROVEN: usize = 512;
/// The most reasons of one kind that are remembered of one unproven peer, which may choose the
/// words.
const MOST_OF_A_KIND: usize = 8;

/// Who was refused, or has refused, and why. Those of unproven peers are by kind.
#[derive(Default)]
pub(super) struct Refusals {
    proven: BTreeSet<(String, String)>,
    unproven: BTreeSet<(Kind, String, String)>,
}

impl Refusals {
    /// Adds a refusal of or by `who`, with its reason; its `kind` if the other end has not proved
    /// who it is. Whether it is a new one, and is remembered.
    pub(super) fn add(&mut self, who: &str, kind: Option<Kind>, why: &str) -> bool {
        let (who, why) = (who.to_owned(), why.to_owned());
        let Some(kind) = kind else {
            return self.proven.len() < MOST && self.proven.insert((who, why));
        };
        let is_alike = |other: &&(Kind, String, String)| other.0 == kind && other.1 == who;
        let alike = self.unproven.iter().filter(is_alike).count();
        let has_room = self.unproven.len() < MOST_UNPROVEN && alike < MOST_OF_A_KIND;
        has_room && self.unproven.insert((kind, who, why))
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
        for i in 0..5_000 {
            refusals.add("10.0.0.9", Some(Kind::OfThem(None)), &format!("noise {i}"));
        }
        assert_eq!(refusals.all().len(), MOST_OF_A_KIND, "one address has a share");
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
