//! The refusals that a task remembers, so that each is logged once and those that stand are told to
//! who asks.

use std::collections::{BTreeMap, VecDeque};

use super::refusal::Kind;
use crate::cluster::TaskName;
use crate::units::Time;

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
    proven: BTreeMap<(String, String), State>,
    /// The last of unproven peers, by kind. One that takes the place of an older one is not logged.
    unproven: VecDeque<(Kind, String, String, State)>,
}

/// What has become of a refusal.
struct State {
    /// The task that was refused under its address, if it has proved its name.
    sender: Option<TaskName>,
    /// When it last happened.
    at: Time,
    /// Whether the two have connected since.
    is_over: bool,
}

impl State {
    fn new(sender: Option<TaskName>, at: Time) -> Self {
        Self { sender, at, is_over: false }
    }

    /// It has happened again.
    fn renew(&mut self, at: Time) {
        (self.at, self.is_over) = (at, false);
    }
}

/// A refusal at some time.
pub(super) struct NewRefusal<'a> {
    pub(super) who: &'a str,
    /// The task that `who` is, if it has proved that.
    pub(super) sender: Option<&'a TaskName>,
    /// The kind, if the other end has not proved who it is.
    pub(super) kind: Option<Kind>,
    pub(super) why: &'a str,
    pub(super) at: Time,
}

impl Refusals {
    /// Adds a refusal. Whether it is a new one, and is to be logged.
    pub(super) fn add(&mut self, refused: &NewRefusal<'_>) -> bool {
        let NewRefusal { who, sender, kind, why, at } = *refused;
        let (who, why) = (who.to_owned(), why.to_owned());
        let state = State::new(sender.cloned(), at);
        let Some(kind) = kind else {
            return self.add_proven((who, why), state);
        };
        let is_alike = |other: &(Kind, String, String, State)| other.0 == kind && other.1 == who;
        let mut alike = self.unproven.iter_mut().filter(|other| is_alike(other));
        if let Some(known) = alike.find(|other| other.2 == why) {
            known.3.renew(at);
            return false;
        }
        let alike = self.unproven.iter().filter(|other| is_alike(other)).count();
        let outdated = if alike >= MOST_OF_A_KIND {
            self.unproven.iter().position(is_alike)
        } else {
            (self.unproven.len() >= MOST_UNPROVEN).then_some(0)
        };
        outdated.map(|at| self.unproven.remove(at));
        self.unproven.push_back((kind, who, why, state));
        outdated.is_none()
    }

    fn add_proven(&mut self, who_and_why: (String, String), state: State) -> bool {
        if let Some(known) = self.proven.get_mut(&who_and_why) {
            known.renew(state.at);
            return false;
        }
        let has_room = self.proven.len() < MOST;
        if has_room {
            self.proven.insert(who_and_why, state);
        }
        has_room
    }

    /// `peer` has connected: what was refused before no longer stands. Each stays logged.
    pub(super) fn has_connected(&mut self, peer: &TaskName) {
        let name = peer.to_string();
        let proven = self.proven.iter_mut().map(|((who, _), state)| (who, state));
        let unproven = self.unproven.iter_mut().map(|(_, who, _, state)| (&*who, state));
        for (who, state) in proven.chain(unproven) {
            state.is_over |= *who == name || state.sender.as_ref() == Some(peer);
        }
    }

    /// All of them: who, and why.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        self.each().map(|(who, why, _)| (who.to_owned(), why.to_owned())).collect()
    }

    /// Those after which the two have not connected: who, why, and when.
    pub(super) fn standing(&self) -> Vec<(String, String, Time)> {
        let standing = self.each().filter(|(.., state)| !state.is_over);
        standing.map(|(who, why, state)| (who.to_owned(), why.to_owned(), state.at)).collect()
    }

    /// All of them, by who and why.
    fn each(&self) -> impl Iterator<Item = (&str, &str, &State)> {
        let proven = self.proven.iter().map(|((who, why), state)| (&**who, &**why, state));
        let unproven = self.unproven.iter().map(|(_, who, why, state)| (&**who, &**why, state));
        let mut all: Vec<_> = proven.chain(unproven).collect();
        all.sort_by_key(|(who, why, _)| (*who, *why));
        all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Refusals {
        /// Adds a refusal at no special time.
        fn note(&mut self, who: &str, kind: Option<Kind>, why: &str) -> bool {
            self.add(&NewRefusal { who, sender: None, kind, why, at: Time(0) })
        }
    }

    #[test]
    fn a_refusal_of_a_peer_that_has_connected_since_is_told_no_more_until_it_comes_again() {
        let mut refusals = Refusals::default();
        let worker = TaskName::new("worker", 1);
        let of_name = |at| NewRefusal {
            who: "worker:1",
            sender: None,
            kind: Some(Kind::OfThem(None)),
            why: "expired",
            at: Time(at),
        };
        let (other, sender) = (of_name(1), Some(&worker));
        let of_address =
            NewRefusal { who: "10.0.0.9", sender, kind: None, why: "other settings", at: Time(2) };
        assert!(refusals.add(&of_name(1)) && refusals.add(&of_address));
        assert!(refusals.add(&NewRefusal { who: "worker:2", ..other }));
        refusals.has_connected(&worker);
        let who = |refusals: &Refusals| -> Vec<(String, Time)> {
            refusals.standing().into_iter().map(|(who, _, at)| (who, at)).collect()
        };
        assert_eq!(who(&refusals), [("worker:2".to_owned(), Time(1))]);
        assert!(!refusals.add(&of_name(7)), "it is logged once");
        let both = [("worker:1".to_owned(), Time(7)), ("worker:2".to_owned(), Time(1))];
        assert_eq!(who(&refusals), both);
    }

    #[test]
    fn who_proves_nothing_takes_no_room_from_other_refusals() {
        let mut refusals = Refusals::default();
        let noise = (0..5_000).map(|i| format!("noise {i}"));
        let logged = noise.filter(|why| refusals.note("10.0.0.9", Some(Kind::OfThem(None)), why));
        assert_eq!(logged.count(), MOST_OF_A_KIND, "one address has a share");
        assert!(!refusals.note("10.0.0.9", Some(Kind::OfThem(None)), "another"));
        assert_eq!(refusals.all().len(), MOST_OF_A_KIND);
        assert!(refusals.all().contains(&("10.0.0.9".into(), "another".into())), "it is listed");
        assert!(refusals.note("10.0.0.9", Some(Kind::OfUs(None)), "of another authority"));
        for i in 0..5_000 {
            refusals.note(&format!("10.0.1.{i}"), Some(Kind::Silent), "it does not answer");
        }
        assert_eq!(refusals.all().len(), MOST_UNPROVEN);
        assert!(
            !refusals.note("10.0.2.1", Some(Kind::OfUs(None)), "expired"),
            "many have none left"
        );
        assert!(refusals.all().contains(&("10.0.2.1".into(), "expired".into())), "it is listed");
        assert!(refusals.note("worker:1", None, "program.batch differs"));
        assert!(!refusals.note("worker:1", None, "program.batch differs"), "each is logged once");
        assert!(refusals.all().contains(&("worker:1".into(), "program.batch differs".into())));
    }
}
