//! Tests of a replaced saver whose index is written after its successor has saved.

use std::sync::Mutex;

use super::*;

/// A saver that has saved step 2, and is replaced within the write of the index of `step`: another
/// has saved step 3 before that write ends. The other, and the store.
fn replaced(step: u64, index: &'static str) -> (Saver, Memory) {
    let store = Memory::default();
    let successor = Arc::new(Mutex::new(saver(store.clone())));
    let other = Arc::clone(&successor);
    let act = move || {
        let mut other = other.lock().unwrap();
        other.take_over().unwrap();
        assert!(other.save(&snapshot(3, 1), at(3)).unwrap().is_new);
    };
    let mut zombie = saver(meanwhile::before(&store, index, act));
    zombie.take_over().unwrap();
    save(&mut zombie, [2]);
    let error = zombie.save(&snapshot(step, 0), at(4)).unwrap_err().to_string();
    assert!(error.contains("another chief saves to memory"), "{error}");
    drop(zombie);
    (Arc::into_inner(successor).unwrap().into_inner().unwrap(), store)
}

#[test]
fn the_next_save_mends_an_index_that_a_replaced_saver_has_put_over_the_last_one() {
    for next in [3, 4] {
        let (mut successor, store) = replaced(3, "model.ckpt-3.index.json");
        let saved = successor.save(&snapshot(next, 1), at(5)).unwrap();
        assert_eq!(saved.is_new, next > 3, "what is saved already stays");
        let mut reader = saver(store);
        assert!(is_of(&reader.restore(3).unwrap(), &snapshot(3, 1)), "the index is its own again");
        assert_eq!(reader.latest().unwrap().checkpoint.unwrap().global_step, next);
    }
}

#[test]
fn the_end_of_the_training_mends_an_index_that_a_replaced_saver_has_put_over_the_last_one() {
    let (successor, store) = replaced(3, "model.ckpt-3.index.json");
    successor.end("steps = 3").unwrap();
    assert!(
        is_of(&saver(store).restore(3).unwrap(), &snapshot(3, 1)),
        "the index is its own again"
    );
}

#[test]
fn a_late_index_of_a_replaced_saver_is_never_the_newest_whatever_its_step() {
    let (mut successor, store) = replaced(10, "model.ckpt-10.index.json");
    assert_eq!(saver(store.clone()).newest().unwrap(), Some(3));
    assert!(is_of(&saver(store.clone()).latest().unwrap().checkpoint.unwrap(), &snapshot(3, 1)));
    successor.save(&snapshot(4, 1), at(5)).unwrap();
    let mut third = saver(store.clone());
    third.take_over().unwrap();
    assert_eq!(third.latest().unwrap().checkpoint.unwrap().global_step, 4);
    third.save(&snapshot(5, 1), at(6)).unwrap();
    assert_eq!(saver(store).newest().unwrap(), Some(5));
}

#[test]
fn a_save_is_newer_than_all_before_it_also_where_the_note_of_who_took_over_is_gone() {
    let store = Memory::default();
    save(&mut saver(store.clone()), [500]); // as a saver that has not taken over: from 0 on
    let mut next = saver(store.clone());
    next.take_over().unwrap();
    save(&mut next, [100]);
    store.delete("checkpoint.writer").unwrap();
    let mut last = saver(store.clone());
    last.take_over().unwrap(); // again the first, by its number
    save(&mut last, [50]);
    assert_eq!(saver(store).newest().unwrap(), Some(50));
}
