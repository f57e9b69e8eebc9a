//! Tests of the checkpoints that a saver keeps and finds.

mod damage;
mod death;
mod late_index;
mod meanwhile;
mod takeover;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::checkpoint::fixture::{
    Call, Tampered, at, files, files_of, is_of, save, saver, snapshot,
};
use crate::checkpoint::{Memory, SavedVariable, Shard};
use crate::tensor::{DType, Tensor};

#[test]
fn what_is_saved_is_found_by_another_saver() {
    let store = Memory::default();
    let saved = saver(store.clone()).save(&snapshot(7, 0), at(7)).unwrap();
    assert_eq!((saved.name.as_str(), saved.unfinished.len()), ("model.ckpt-7", 0));
    let bytes: u64 = store
        .list()
        .unwrap()
        .iter()
        .filter(|e| e.name.ends_with("safetensors"))
        .map(|e| e.bytes)
        .sum();
    assert_eq!(saved.bytes, bytes);
    let found = saver(store).latest().unwrap();
    let restored = found.checkpoint.unwrap();
    assert!(is_of(&restored, &snapshot(7, 0)));
    assert_eq!((restored.name.as_str(), found.rejected.len()), ("model.ckpt-7", 0));
}

#[test]
fn the_newest_two_of_three_stay_and_the_state_file_names_them() {
    let store = Memory::default();
    save(&mut saver(store.clone()), 1..=3);
    assert_eq!(files(&store), files_of(&[2, 3]));
    let state = String::from_utf8(store.read("checkpoint").unwrap()).unwrap();
    let expected = "model_checkpoint_path: \"model.ckpt-3\"\n\
                    all_model_checkpoint_paths: \"model.ckpt-2\"\n\
                    all_model_checkpoint_paths: \"model.ckpt-3\"\n";
    assert_eq!(state, expected);
}

#[test]
fn none_or_0_keeps_all() {
    for max_to_keep in [None, Some(0)] {
        let store = Memory::default();
        save(
            &mut Saver::new(Arc::new(store.clone()), Retention { max_to_keep, keep_every: None }),
            1..=7,
        );
        assert_eq!(files(&store), files_of(&[1, 2, 3, 4, 5, 6, 7]));
    }
}

/// From TensorFlow's `saver_test.py`: one checkpoint was old enough, the next one was not.
#[test]
fn one_of_those_that_go_stays_for_each_span_of_time() {
    let store = Memory::default();
    let retention = Retention { max_to_keep: Some(2), keep_every: Some(Duration::from_secs(10)) };
    let mut saver = Saver::new(Arc::new(store.clone()), retention);
    for (step, seconds) in [(1, 1), (2, 2), (3, 3), (4, 4)] {
        saver.save(&snapshot(step, 0), Duration::from_secs(seconds)).unwrap();
    }
    assert_eq!(files(&store), files_of(&[1, 3, 4]));
}

#[test]
fn after_a_restart_the_retention_goes_on() {
    let store = Memory::default();
    for step in 1..=6 {
        save(&mut saver(store.clone()), [step]);
    }
    assert_eq!(files(&store), files_of(&[5, 6]));
}

#[test]
fn the_newest_is_what_was_saved_last_even_where_its_step_is_lower() {
    let store = Memory::default();
    save(&mut saver(store.clone()), [500, 100]);
    let found = saver(store.clone()).latest().unwrap();
    assert_eq!(found.checkpoint.unwrap().global_step, 100);
    save(&mut saver(store.clone()), [110]);
    assert_eq!(files(&store), files_of(&[100, 110]));
}

#[test]
fn the_last_checkpoint_is_not_written_over_while_it_can_be_read() {
    let store = Memory::default();
    let mut saver = saver(store.clone());
    save(&mut saver, [4, 5]);
    let again = saver.save(&snapshot(5, 1), at(6)).unwrap();
    assert!(!again.is_new && again.name == "model.ckpt-5" && again.bytes > 0, "{again:?}");
    assert!(is_of(&saver.latest().unwrap().checkpoint.unwrap(), &snapshot(5, 0)));
    assert_eq!(files(&store), files_of(&[4, 5]));
    store.write("model.ckpt-5-00000-of-00002.safetensors", &[b"torn"]).unwrap();
    assert!(saver.save(&snapshot(5, 2), at(7)).unwrap().is_new);
    assert!(is_of(&saver.latest().unwrap().checkpoint.unwrap(), &snapshot(5, 2)));
}

#[test]
fn a_step_that_a_training_reaches_again_after_it_went_back_is_replaced() {
    let store = Memory::default();
    let mut saver = saver(store.clone());
    save(&mut saver, [4, 5]);
    for (step, salt) in [(4, 1), (5, 1), (4, 2)] {
        let saved = saver.save(&snapshot(step, salt), at(6)).unwrap();
        assert!(saved.is_new && saved.unfinished.is_empty(), "{saved:?}");
        assert!(is_of(&saver.latest().unwrap().checkpoint.unwrap(), &snapshot(step, salt)));
        assert_eq!(files(&store).len(), files_of(&[4, 5]).len());
    }
}

/// A store whose reads of one file fail.
fn failing(store: &Memory, file: &'static str) -> Tampered {
    Tampered::new(store, move |call| match call {
        Call::Read(name) if name == file => Err(io::Error::other("a cable is loose")),
        _ => Ok(()),
    })
}

#[test]
fn a_read_that_fails_is_an_error_and_no_reason_to_take_an_older_checkpoint() {
    for file in ["model.ckpt-2.index.json", "model.ckpt-2-00001-of-00002.safetensors"] {
        let store = Memory::default();
        save(&mut saver(store.clone()), [1, 2]);
        let mut failing = saver(failing(&store, file));
        let error = failing.latest().unwrap_err().to_string();
        assert!(error.contains(file) && error.contains("a cable is loose"), "{error}");
        let newest = failing.newest().map_err(|error| error.to_string());
        match file.ends_with(".json") {
            true => assert_eq!(newest, Err(error)),
            false => assert_eq!(newest, Ok(Some(2)), "the index alone is read"),
        }
        let mut mended = saver(store);
        assert_eq!(mended.latest().unwrap().checkpoint.unwrap().global_step, 2);
    }
}

#[test]
fn a_save_is_newer_than_one_whose_index_could_not_be_read() {
    let store = Memory::default();
    save(&mut saver(store.clone()), [1, 2]);
    let index = store.read("model.ckpt-2.index.json").unwrap();
    store.write("model.ckpt-2.index.json", &[b"{"]).unwrap();
    let mut saver = saver(store.clone());
    assert_eq!(saver.latest().unwrap().checkpoint.unwrap().global_step, 1);
    assert!(saver.save(&snapshot(1, 1), at(3)).unwrap().is_new);
    store.write("model.ckpt-2.index.json", &[&index]).unwrap();
    assert!(is_of(&saver.latest().unwrap().checkpoint.unwrap(), &snapshot(1, 1)));
}

#[test]
fn nothing_is_saved_while_an_index_cannot_be_read_so_that_no_abandoned_branch_is_newer() {
    let store = Memory::default();
    let retention = Retention { max_to_keep: Some(1), keep_every: Some(Duration::from_secs(1000)) };
    save(&mut Saver::new(Arc::new(store.clone()), retention), 1..=9);
    assert_eq!(files(&store), files_of(&[1, 9]));
    let file = "model.ckpt-9.index.json";
    let error = saver(failing(&store, file)).save(&snapshot(2, 1), at(10)).unwrap_err().to_string();
    assert!(error.contains(file) && error.contains("a cable is loose"), "{error}");
    assert_eq!(files(&store), files_of(&[1, 9]));
    save(&mut saver(store.clone()), [2]);
    assert_eq!(saver(store).latest().unwrap().checkpoint.unwrap().global_step, 2);
}

#[test]
fn the_end_is_noted_for_its_conditions_and_the_next_that_takes_over_removes_it() {
    let store = Memory::default();
    let [mut chief, mut next] = [saver(store.clone()), saver(store.clone())];
    chief.take_over().unwrap();
    save(&mut chief, [1]);
    assert_eq!(next.ended().unwrap(), None);
    chief.end("1000 steps").unwrap();
    assert_eq!(next.ended().unwrap().as_deref(), Some("1000 steps"));
    assert_eq!(next.latest().unwrap().checkpoint.unwrap().global_step, 1);
    next.take_over().unwrap();
    assert_eq!(next.ended().unwrap(), None);
    assert!(chief.end("1000 steps").is_err(), "another has taken over");
}

#[test]
fn a_saver_that_another_has_followed_saves_and_deletes_nothing() {
    let store = Memory::default();
    let [mut zombie, mut successor] = [saver(store.clone()), saver(store.clone())];
    zombie.take_over().unwrap();
    save(&mut zombie, [1, 2]);
    successor.take_over().unwrap();
    let before = files(&store);
    let error = zombie.save(&snapshot(3, 0), at(3)).unwrap_err().to_string();
    assert!(error.contains("another chief saves to memory"), "{error}");
    assert_eq!(files(&store), before);
    save(&mut successor, [3]);
    assert_eq!(successor.latest().unwrap().checkpoint.unwrap().global_step, 3);
}

#[test]
fn a_broken_checkpoint_stays_to_be_looked_at_and_does_not_count() {
    let store = Memory::default();
    save(&mut saver(store.clone()), [1, 2]);
    store.write("model.ckpt-2-00000-of-00002.safetensors", &[b"torn"]).unwrap();
    let mut saver = saver(store.clone());
    assert_eq!(saver.latest().unwrap().checkpoint.unwrap().global_step, 1);
    save(&mut saver, [3]);
    assert_eq!(files(&store), files_of(&[1, 2, 3]));
    save(&mut saver, [4]);
    assert_eq!(files(&store), files_of(&[2, 3, 4]));
}

#[test]
fn a_checkpoint_without_all_files_does_not_count_even_where_nobody_looked_for_the_newest() {
    let store = Memory::default();
    save(&mut saver(store.clone()), [1, 2]);
    store.delete("model.ckpt-2-00000-of-00002.safetensors").unwrap();
    save(&mut saver(store.clone()), [3]);
    assert!(is_of(&saver(store.clone()).restore(1).unwrap(), &snapshot(1, 0)));
    assert!(is_of(&saver(store).latest().unwrap().checkpoint.unwrap(), &snapshot(3, 0)));
}

#[test]
fn the_list_tells_what_is_wrong_without_reading_the_values() {
    let store = Memory::default();
    save(&mut saver(store.clone()), [1, 2]);
    store.delete("model.ckpt-1-00001-of-00002.safetensors").unwrap();
    let listed = saver(store).checkpoints().unwrap();
    let [first, second] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((first.global_step, first.time, first.variables), (1, Some(at(1)), Some(7)));
    let problem = first.problem.as_ref().unwrap().to_string();
    assert!(
        problem.contains("model.ckpt-1-00001-of-00002.safetensors is missing")
            && problem.contains("ps:1")
    );
    assert!(second.problem.is_none() && second.bytes > Some(0));
}

#[test]
fn a_step_that_was_not_saved_is_refused_with_those_that_were() {
    let store = Memory::default();
    let error = |step| saver(store.clone()).restore(step).unwrap_err().to_string();
    assert!(error(3).contains("there is none at all"));
    save(&mut saver(store.clone()), [1, 2]);
    assert!(error(3).contains("no checkpoint of step 3 in memory; there are those of 1, 2"));
    assert!(is_of(&saver(store.clone()).restore(1).unwrap(), &snapshot(1, 0)));
}

#[test]
fn what_cannot_be_saved_is_refused_by_name_and_leaves_nothing() {
    let store = Memory::default();
    let shard = |variables| Snapshot {
        global_step: 1,
        shards: vec![Shard { task: "ps:0".to_owned(), variables }],
    };
    let hollow = vec![SavedVariable::new("w", Tensor::hollow(DType::F32, [2]))];
    let twice = vec![
        SavedVariable::new("w", Tensor::scalar(1)),
        SavedVariable::new("w", Tensor::scalar(2)),
    ];
    for (variables, words) in
        [(hollow, "`w` can't be saved: it has no numbers"), (twice, "two variables")]
    {
        let error = saver(store.clone()).save(&shard(variables), at(1)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(files(&store), [""; 0]);
    save(&mut saver(store.clone()), []);
    assert!(saver(store).latest().unwrap().checkpoint.is_none());
}

#[test]
fn a_training_without_variables_can_be_saved() {
    let store = Memory::default();
    let empty = Snapshot { global_step: 3, shards: Vec::new() };
    saver(store.clone()).save(&empty, at(3)).unwrap();
    assert!(is_of(&saver(store).latest().unwrap().checkpoint.unwrap(), &empty));
}
