//! Votes that wait, are dropped, are taken over, or are of steps that are taken again.

use super::*;
use crate::cluster::LocalDevice;
use crate::runtime::messages::{Origin, StepId};
use crate::runtime::state::{Commit, VariableId};
use crate::sync::Mode;
use crate::tensor::Tensor;
use crate::transport::PeerId;

/// The vote of `worker`, one of two, which sets a variable of its own to `position`.
fn vote(mode: Mode, worker: u32, position: i64) -> Commit {
    Commit {
        global_step: VariableId(0),
        replica: Replica { worker, workers: 2, mode },
        read: 0,
        version: Some(Version::default()),
        set: smallvec![(VariableId(1 + worker), Tensor::scalar(position))],
        taken: None,
    }
}

/// After the vote of each worker in turn: the number of answers, and what is set.
fn votes(mode: Mode) -> [(usize, Vec<(u32, i64)>); 2] {
    let members = Membership::default();
    let mut coordination = Coordination::new(vote(mode, 0, 0).replica, &members, None);
    [0, 1].map(|worker| {
        let step = StepId { master: worker.into(), number: 0, trains: true };
        let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
        let position = 7 + i64::from(worker);
        let answers =
            coordination.commit(&members, ticket, 0, &vote(mode, worker, position), true).len();
        let set = coordination.take_set().into_iter();
        let set = set.map(|(variable, value)| (variable.0, value.item().unwrap()));
        (answers, set.collect())
    })
}

#[test]
fn what_a_vote_sets_changes_with_the_verdict_and_not_while_the_vote_waits() {
    let waits = votes(Mode::KAsync { k: 2 });
    assert_eq!(waits, [(0, vec![]), (2, vec![(1, 7), (2, 8)])]);
}

#[test]
fn a_vote_of_a_failed_step_sets_nothing_when_its_worker_is_lost() {
    let members = Membership::default();
    let commit = vote(Mode::KAsync { k: 2 }, 0, 7);
    let mut coordination = Coordination::new(commit.replica, &members, None);
    let step = StepId { master: 0, number: 0, trains: true };
    let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
    assert!(coordination.commit(&members, ticket, 0, &commit, true).is_empty(), "it waits");
    coordination.forget(step);
    coordination.answer_vote(0, None);
    assert!(coordination.take_set().is_empty());
}

/// The vote of `worker`, one of three, in the first step of the life with this `master`.
fn vote_of_three(mode: Mode, worker: u32, master: u64) -> (Ticket, Commit) {
    let step = StepId { master, number: 0, trains: true };
    let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
    let origin = Origin { owner: None, training: 3, number: 0, is_again: false };
    let taken = Some(Taken { task: PeerId(worker), origin });
    let replica = Replica { worker, workers: 3, mode };
    (ticket, Commit { replica, taken, ..vote(mode, worker, 7) })
}

/// A training of three workers. A fence of worker 0 withholds the answers to the `voters`;
/// worker 1 is lost, the fence is lifted, and worker 1 comes back.
fn lost_behind_a_fence(mode: Mode, voters: &[u32]) -> (Coordination, Membership) {
    let mut members = Membership::default();
    let (owner, Commit { replica, .. }) = vote_of_three(mode, 0, 0);
    let mut coordination = Coordination::new(replica, &members, None);
    coordination.put_up_fence(&members, replica, owner);
    for worker in voters {
        let (ticket, commit) = vote_of_three(mode, *worker, u64::from(*worker));
        assert!(coordination.commit(&members, ticket, 0, &commit, true).is_empty(), "{mode}");
    }
    members.lose(Some(1), &[]);
    assert!(coordination.leave(&members, 1).is_empty(), "{mode}");
    let answers = coordination.lift_fence(replica, owner);
    assert_eq!(answers.len(), 1 + voters.len(), "{mode}");
    members.join(1, 3, 1, 0);
    coordination.rejoin(&members, 1);
    (coordination, members)
}

#[test]
fn a_worker_that_was_lost_while_a_fence_withheld_its_place_is_not_given_it_again() {
    let mode = Mode::KAsync { k: 2 };
    let (mut coordination, members) = lost_behind_a_fence(mode, &[1, 2]);
    let (ticket, commit) = vote_of_three(mode, 1, 11);
    let answers = coordination.commit(&members, ticket, 1, &commit, true);
    assert!(answers.is_empty(), "its new life votes in the round under way");
}

#[test]
fn a_withheld_place_that_has_gone_to_another_is_not_told_to_the_worker_that_was_lost() {
    let mode = Mode::KBatchAsync { k: 2 };
    let (mut coordination, members) = lost_behind_a_fence(mode, &[1]);
    for (worker, index) in [(2, 0), (1, 1)] {
        let (ticket, commit) = vote_of_three(mode, worker, u64::from(worker));
        assert_eq!(coordination.commit(&members, ticket, 0, &commit, true).len(), 1);
        assert_eq!(coordination.counted_votes[&worker].place, RoundPosition { round: 0, index });
    }
}

#[test]
fn a_step_that_has_counted_and_is_taken_again_after_later_rounds_keeps_its_place() {
    let (mode, members) = (Mode::Sync { backups: 2, cancel: true }, Membership::default());
    let (ticket, mut commit) = vote_of_three(mode, 1, 1);
    let mut coordination = Coordination::new(commit.replica, &members, None);
    assert_eq!(coordination.commit(&members, ticket, 0, &commit, true).len(), 1);
    let place = coordination.counted_votes[&1].place;
    coordination.forget(ticket.step);
    let of = |updates| Version { epoch: members.epoch(), updates };
    let (other, vote) = vote_of_three(mode, 0, 0);
    let vote = Commit { version: Some(of(1)), ..vote };
    assert_eq!(coordination.commit(&members, other, 1, &vote, true).len(), 1);
    let version = of(2);
    commit.version = Some(version);
    let (replica, taken) = (commit.replica, commit.taken);
    let begin = Begin { global_step: VariableId(0), replica, version, taken };
    let answers = coordination.begin(&members, ticket, &begin);
    assert!(answers.len() == 1 && answers[0].outcome.is_ok(), "it can't be stopped");
    assert_eq!(coordination.commit(&members, ticket, 2, &commit, true).len(), 1);
    assert_eq!(coordination.counted_votes[&1].place, place);
    assert_eq!(coordination.round().map(|round| round.updates), Some(2), "no round closes");
}

/// What `worker` is told as it begins and ends a step from the version of that number: the
/// errors of any step.
fn step(coordination: &mut Coordination, worker: u32, updates: u64, ends: bool) -> Vec<Code> {
    let (members, mode) = (Membership::default(), Mode::Sync { backups: 1, cancel: true });
    let version = Version { epoch: members.epoch(), updates };
    let step = StepId { master: worker.into(), number: updates, trains: true };
    let ticket = |node| Ticket { step, device: LocalDevice::cpu(0), node };
    let replica = Replica { worker, workers: 3, mode };
    let begin = Begin { global_step: VariableId(0), replica, version, taken: None };
    let mut answers = coordination.begin(&members, ticket(0), &begin);
    if ends {
        let commit = Commit { replica, version: Some(version), ..vote(mode, worker, 0) };
        answers.extend(coordination.commit(&members, ticket(1), 0, &commit, true));
    }
    answers.into_iter().filter_map(|answer| Some(answer.outcome.err()?.code)).collect()
}

#[test]
fn a_chief_that_is_late_for_every_round_ends_a_step_now_and_then() {
    let mode = Mode::Sync { backups: 1, cancel: true };
    let replica = Replica { worker: 0, workers: 3, mode };
    let mut coordination = Coordination::new(replica, &Membership::default(), None);
    let mut rounds = 0..;
    for _ in 0..2 {
        let mut stops = 0;
        loop {
            let round = rounds.next().unwrap();
            let mut answers = step(&mut coordination, 0, round, false);
            for other in [1, 2] {
                answers.extend(step(&mut coordination, other, round, true));
            }
            if answers.is_empty() {
                break;
            }
            assert_eq!(answers, [Code::Late]);
            stops += 1;
        }
        assert_eq!(stops, MOST_STOPS);
        assert!(step(&mut coordination, 0, 0, true).is_empty(), "its vote is dropped");
    }
}

#[test]
fn a_vote_that_is_dropped_sets_its_values_since_its_worker_goes_on_behind_the_step() {
    let late = votes(Mode::Sync { backups: 1, cancel: false });
    assert_eq!(late, [(1, vec![(1, 7)]), (1, vec![(2, 8)])]);
}
