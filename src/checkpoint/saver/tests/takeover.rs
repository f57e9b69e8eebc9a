//! Tests of savers that are replaced while they save, or take over at the same moment.

use super::*;

#[test]
fn a_saver_that_is_replaced_while_it_saves_leaves_the_same_step_of_its_successor_whole() {
    for after in
        ["model.ckpt-3-00000-of-00002.safetensors", "model.ckpt-3-00001-of-00002.safetensors"]
    {
        let store = Memory::default();
        let mut successor = saver(store.clone());
        let act = move || {
            successor.take_over().unwrap();
            assert!(successor.save(&snapshot(3, 1), at(3)).unwrap().is_new);
        };
        let mut zombie = saver(meanwhile::after(&store, after, act));
        zombie.take_over().unwrap();
        save(&mut zombie, [2]);
        let error = zombie.save(&snapshot(3, 0), at(4)).unwrap_err().to_string();
        assert!(error.contains("another chief saves to memory"), "{error}");
        let found = saver(store.clone()).latest().unwrap();
        assert!(found.rejected.is_empty(), "{:?}", found.rejected);
        assert!(is_of(&found.checkpoint.unwrap(), &snapshot(3, 1)));
        let and_the_writer = files_of(&[2, 3]).len() + 1;
        assert_eq!(files(&store).len(), and_the_writer, "{:?}", files(&store));
    }
}

#[test]
fn of_two_savers_that_take_over_at_once_only_the_last_saves() {
    let store = Memory::default();
    let [mut first, mut second] = [saver(store.clone()), saver(store.clone())];
    first.take_over().unwrap();
    store.delete("checkpoint.writer").unwrap(); // as the second found it before the first wrote
    second.take_over().unwrap();
    save(&mut second, [1]);
    let error = first.save(&snapshot(2, 0), at(2)).unwrap_err().to_string();
    assert!(error.contains("this one has been replaced"), "{error}");
    assert_eq!(second.latest().unwrap().checkpoint.unwrap().global_step, 1);
}

#[test]
fn a_saver_takes_over_from_one_that_wrote_no_token() {
    let store = Memory::default();
    store.write("checkpoint.writer", &[b"4 ended: 1000 steps"]).unwrap();
    let mut next = saver(store.clone());
    assert_eq!(next.ended().unwrap().as_deref(), Some("1000 steps"));
    next.take_over().unwrap();
    assert_eq!(next.ended().unwrap(), None);
    let written = String::from_utf8(store.read("checkpoint.writer").unwrap()).unwrap();
    assert!(written.starts_with("5 "), "{written}");
    save(&mut next, [1]);
    assert!(is_of(&saver(store).latest().unwrap().checkpoint.unwrap(), &snapshot(1, 0)));
}
