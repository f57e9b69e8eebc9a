//! Properties of the state machines together, under any order of messages and any failures.

mod any_order;
mod fences;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Coordinator, Effect, Leaving, Membership, Mode};

/// One worker's next move in a training with bounded staleness.
#[derive(Clone, Copy, Debug)]
enum Move {
    Commit(u32),
    Leave(u32),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one =
        prop_oneof![20 => (0u32..6).prop_map(Move::Commit), 1 => (0u32..6).prop_map(Move::Leave)];
    prop::collection::vec(one, 0..200)
}

proptest! {
    #[test]
    fn bounded_staleness_keeps_the_bound_and_never_holds_everybody(
        workers in 1u32..6, slack in 0u32..4, moves in moves()
    ) {
        let mut members = Membership::default();
        let mode = Mode::BoundedStaleness { slack };
        let mut coordinator = Coordinator::new(mode, workers, &members);
        let mut clocks: BTreeMap<u32, u64> = (0..workers).map(|worker| (worker, 0)).collect();
        let mut running: Vec<u32> = (0..workers).collect();
        for next in moves {
            let effects = match next {
                Move::Commit(worker) if running.contains(&worker) => {
                    running.retain(|other| *other != worker);
                    clocks.entry(worker).and_modify(|clock| *clock += 1);
                    coordinator.commit(&members, worker)
                }
                Move::Leave(worker) => {
                    clocks.remove(&worker);
                    members.leave(worker, Leaving::Done);
                    coordinator.leave(&members, worker)
                }
                Move::Commit(_) => continue,
            };
            for effect in effects {
                let Effect::Release { worker } = effect else {
                    panic!("nothing but releases: {effect:?}")
                };
                prop_assert!(!running.contains(&worker), "a commit has one release");
                running.push(worker);
                if let (Some(clock), Some(slowest)) = (clocks.get(&worker), clocks.values().min()) {
                    prop_assert!(
                        clock - slowest <= u64::from(slack),
                        "{worker} is too far ahead: {clocks:?}"
                    );
                }
            }
            prop_assert!(clocks.is_empty() || clocks.keys().any(|worker| running.contains(worker)));
        }
        members.finish();
        prop_assert_eq!(
            running.len() + coordinator.finish(&members).len(),
            workers as usize,
            "the end lets everybody go"
        );
    }
}
