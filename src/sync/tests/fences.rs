//! A fence among commits, votes, leaves and other fences, in any order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::sync::{Contribution, Coordinator, Effect, Epoch, Leaving, Membership, Mode, Version};

#[derive(Clone, Copy, Debug)]
enum Move {
    /// The worker votes if the mode has votes, or ends a step.
    Step(u32),
    Leave(u32),
    Begin(u32),
    PutUp(u32),
    Lift(u32),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let worker = || 0u32..5;
    let one = prop_oneof![
        20 => worker().prop_map(Move::Step),
        1 => worker().prop_map(Move::Leave),
        2 => worker().prop_map(Move::Begin),
        2 => worker().prop_map(Move::PutUp),
        2 => worker().prop_map(Move::Lift),
    ];
    prop::collection::vec(one, 0..200)
}

const MODES: [Mode; 6] = [
    Mode::Async,
    Mode::Sync { backups: 1, cancel: false },
    Mode::BoundedStaleness { slack: 1 },
    Mode::KAsync { k: 2 },
    Mode::KBatchSync { k: 3, cancel: false },
    Mode::KBatchAsync { k: 2 },
];

/// The state of a training as its answers tell it.
struct Seen {
    coordinator: Coordinator,
    members: Membership,
    votes: bool,
    /// The workers that have neither a vote nor a commit open.
    running: BTreeSet<u32>,
    begun: BTreeSet<u32>,
    /// The worker whose fence is up.
    up: Option<u32>,
}

impl Seen {
    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Fenced { worker } => {
                    let inside: Vec<&u32> = self.begun.intersection(&self.running).collect();
                    assert!(
                        inside.iter().all(|other| **other == worker),
                        "{inside:?} may be inside a step"
                    );
                    self.up = Some(worker);
                }
                Effect::Release { worker } | Effect::Drop { worker } => self.go_on(worker),
                Effect::Count { worker, .. } => self.go_on(worker),
                Effect::Close { .. } | Effect::Stop { .. } => {}
            }
        }
    }

    fn go_on(&mut self, worker: u32) {
        assert!(self.up.is_none_or(|owner| owner == worker), "{worker} goes on behind a fence");
        self.running.insert(worker);
    }

    fn step(&mut self, next: Move) {
        let effects = match next {
            // A worker that has not begun or that waits takes no step.
            Move::Step(worker)
                if !self.begun.contains(&worker) || !self.running.remove(&worker) =>
            {
                return;
            }
            Move::Step(worker) => {
                self.up.take_if(|owner| *owner == worker);
                let round = self.coordinator.round().unwrap_or_default();
                let version = Version { epoch: Epoch(0), ..round };
                if self.votes {
                    self.coordinator.vote(&self.members, Contribution { worker, version })
                } else {
                    self.coordinator.commit(&self.members, worker)
                }
            }
            Move::Leave(worker) => {
                self.begun.remove(&worker);
                self.up.take_if(|owner| *owner == worker);
                self.members.leave(worker, Leaving::Done);
                self.coordinator.leave(&self.members, worker)
            }
            // The runtime lets nobody begin while there is a fence. Once all have left, who begins
            // does so in another training, with another coordinator.
            Move::Begin(worker)
                if self.coordinator.fence_owner().is_none()
                    && self.running.contains(&worker)
                    && !self.begun.is_empty() =>
            {
                self.members.join(worker, u32::MAX, u64::from(worker), 0);
                self.coordinator.rejoin(worker);
                self.begun.insert(worker);
                return;
            }
            Move::Begin(_) => return,
            Move::PutUp(worker) if !self.running.contains(&worker) => return,
            Move::PutUp(worker) => match self.coordinator.put_up_fence(&self.members, worker) {
                Ok(effects) => effects,
                Err(owner) => return assert_ne!(owner, worker),
            },
            Move::Lift(worker) => {
                let lifted = self.coordinator.lift_fence(worker);
                assert!(lifted.is_some() || self.up != Some(worker));
                self.up.take_if(|owner| *owner == worker);
                lifted.unwrap_or_default()
            }
        };
        self.carry_out(effects);
    }
}

/// The membership of workers that have all made ready to train.
fn training(workers: u32) -> Membership {
    let mut members = Membership::default();
    for worker in 0..workers {
        members.join(worker, workers, u64::from(worker), 0);
    }
    members
}

proptest! {
    #[test]
    fn behind_a_fence_nobody_goes_on_and_after_its_lift_nobody_is_held_for_ever(
        workers in 1u32..6, mode in 0usize..6, moves in moves()
    ) {
        let mode = MODES[mode];
        let members = training(workers);
        let coordinator = Coordinator::new(mode, workers, &members);
        let all: BTreeSet<u32> = (0..workers).collect();
        let votes = mode.needs().has_votes();
        let (running, begun) = (all.clone(), all.clone());
        let mut seen = Seen { coordinator, members, votes, running, begun, up: None };
        for next in moves {
            let (Move::Step(worker)
            | Move::Leave(worker)
            | Move::Begin(worker)
            | Move::PutUp(worker)
            | Move::Lift(worker)) = next;
            if worker < workers {
                seen.step(next);
            }
        }
        if let Some(owner) = seen.coordinator.fence_owner() {
            seen.step(Move::Lift(owner));
        }
        let anybody_goes = !seen.begun.is_disjoint(&seen.running);
        prop_assert!(
            seen.begun.is_empty() || anybody_goes,
            "all of {:?} wait, and no fence is there",
            seen.begun
        );
        seen.up = None;
        seen.members.finish();
        let effects = seen.coordinator.finish(&seen.members);
        seen.carry_out(effects);
        prop_assert_eq!(seen.running, all, "the end lets everybody go");
    }
}
