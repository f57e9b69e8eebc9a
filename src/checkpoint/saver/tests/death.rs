//! Tests of savers that are killed between any two operations of a store, and of full stores.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::checkpoint::Snapshot;

/// A store that makes `left` changes, and then no more.
fn mortal(store: &Memory, left: u64) -> Tampered {
    let left = AtomicU64::new(left);
    Tampered::new(store, move |call| match call {
        Call::Write(..) | Call::Delete => {
            let one_less = |left: u64| left.checked_sub(1);
            let changed = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            changed.map(drop).map_err(|_| io::Error::other("killed"))
        }
        Call::Read(_) | Call::Written(_) => Ok(()),
    })
}

/// A store with room for `room` bytes; files take their room already while they are written.
fn small(store: &Memory, room: u64) -> Tampered {
    let memory = store.clone();
    Tampered::new(store, move |call| {
        let Call::Write(_, parts) = call else { return Ok(()) };
        let taken: u64 = memory.list()?.iter().map(|entry| entry.bytes).sum();
        let needed: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if taken + needed > room { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    })
}

/// Saves `next` after 1 and 2, and dies after each number of changes. Each time, one of the earlier
/// checkpoints or `next` is found and nothing is broken, and the save of step 9 leaves no trace of
/// the death.
fn die_anywhere(next: &Snapshot) {
    for changes in 0.. {
        let store = Memory::default();
        save(&mut saver(store.clone()), [1, 2]);
        let saved = saver(mortal(&store, changes)).save(next, at(3));
        let found = saver(store.clone()).latest().unwrap();
        assert!(found.rejected.is_empty(), "after {changes} changes: {:?}", found.rejected);
        let restored = found.checkpoint.unwrap();
        let is_new = is_of(&restored, next);
        assert!(
            is_new || is_of(&restored, &snapshot(2, 0)),
            "after {changes} changes: {}",
            restored.global_step
        );
        assert!(is_new || saved.is_err(), "after {changes} changes the save was said to be done");
        let kept = restored.global_step;
        save(&mut saver(store.clone()), [9]);
        assert_eq!(
            files(&store).len(),
            files_of(&[kept, 9]).len(),
            "after {changes} changes: {:?}",
            files(&store)
        );
        if saved.is_ok_and(|saved| saved.unfinished.is_empty()) {
            return assert!(changes > 4, "there were {changes} places to die at");
        }
    }
}

#[test]
fn a_saver_that_dies_anywhere_leaves_the_last_checkpoint_or_the_new_one() {
    die_anywhere(&snapshot(3, 0));
}

#[test]
fn a_saver_that_dies_anywhere_while_it_saves_a_step_again_leaves_the_first_or_the_second() {
    die_anywhere(&snapshot(1, 1));
}

#[test]
fn a_full_store_is_an_error_that_names_the_file_and_nothing_of_the_save_stays() {
    let store = Memory::default();
    save(&mut saver(store.clone()), [1, 2]);
    let (before, taken) =
        (files(&store), store.list().unwrap().iter().map(|entry| entry.bytes).sum::<u64>());
    let mut failures = 0;
    for room in (taken..).step_by(100) {
        match saver(small(&store, room)).save(&snapshot(3, 0), at(3)) {
            Ok(_) => break,
            Err(error) => {
                assert!(error.to_string().contains("can't write model.ckpt-3"), "{error}");
                failures += 1;
            }
        }
        assert_eq!(saver(store.clone()).latest().unwrap().checkpoint.unwrap().global_step, 2);
        assert_eq!(files(&store), before);
    }
    assert!(failures > 5, "{failures}");
    save(&mut saver(store.clone()), [4]);
    assert_eq!(files(&store), files_of(&[3, 4]));
}

#[test]
fn what_could_not_be_deleted_is_told_and_deleted_by_the_next_save() {
    let store = Memory::default();
    save(&mut saver(store.clone()), [1, 2]);
    let is_stubborn = AtomicBool::new(true);
    let mut saver = saver(Tampered::new(&store, move |call| match call {
        Call::Delete if is_stubborn.swap(false, Ordering::Relaxed) => Err(io::Error::other("no")),
        _ => Ok(()),
    }));
    let unfinished = saver.save(&snapshot(3, 0), at(3)).unwrap().unfinished;
    assert!(
        unfinished[0].to_string().contains("can't delete model.ckpt-1.index.json: no"),
        "{unfinished:?}"
    );
    save(&mut saver, [4]);
    assert_eq!(files(&store), files_of(&[3, 4]));
}
