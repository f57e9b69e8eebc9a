//! Tests of savers that are replaced while they save, or take over at the same moment.

use super::*;
use crate::checkpoint::Folder;

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

/// The task of this name of a training with this fingerprint.
fn task(name: &str, fingerprint: &str) -> SavingTask {
    SavingTask::new(name, fingerprint, at(1_700_000_000))
}

/// The same of a process that began later than this one, and so is another.
fn of_another_process(store: &Memory, change: impl Fn(&str) -> String) {
    let written = String::from_utf8(store.read("checkpoint.writer").unwrap()).unwrap();
    store.write("checkpoint.writer", &[change(&written).as_bytes()]).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_training_whose_folder_another_has_is_refused_while_that_one_runs_and_is_told_who_it_is() {
    let store = Memory::default();
    let [mut first, mut again, mut other] = std::array::from_fn(|_| saver(store.clone()));
    first.take_over_as(&task("worker:0", "one")).unwrap();
    of_another_process(&store, |written| {
        // The process that has started the tests: it runs.
        let (parent, own) = (std::os::unix::process::parent_id(), std::process::id());
        let stat = |id: u32| std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let begun =
            |id: u32| stat(id).rsplit(')').next().unwrap().split(' ').nth(20).unwrap().to_owned();
        written
            .replace(&format!("\"id\":{own},"), &format!("\"id\":{parent},"))
            .replace(&format!("\"begun\":{}", begun(own)), &format!("\"begun\":{}", begun(parent)))
    });
    let before = store.read("checkpoint.writer").unwrap();
    let error = other.take_over_as(&task("worker:0", "other")).unwrap_err().to_string();
    for part in
        ["another training saves to memory", "worker:0 (process ", "since 2023-11-14T22:13:20Z"]
    {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(store.read("checkpoint.writer").unwrap(), before, "it has taken nothing");
    again.take_over_as(&task("worker:0", "one")).unwrap(); // perhaps its next life
    let error = first.save(&snapshot(2, 0), at(2)).unwrap_err().to_string();
    assert!(error.contains("another chief saves to memory by now, worker:0 ("), "{error}");
}

#[test]
fn a_folder_whose_process_is_gone_or_out_of_sight_or_whose_training_has_ended_is_taken_over() {
    let changes: [fn(&str) -> String; 3] = [
        |written| written.replace("\"begun\":", "\"begun\":9"),
        |written| written.replace("\"realm\":\"", "\"realm\":\"of another machine "),
        |written| format!("{written} ended: 1000 steps"),
    ];
    for change in changes {
        let store = Memory::default();
        saver(store.clone()).take_over_as(&task("worker:0", "one")).unwrap();
        of_another_process(&store, change);
        let mut other = saver(store.clone());
        other.take_over_as(&task("worker:0", "other")).unwrap();
        save(&mut other, [1]);
    }
}

#[test]
fn the_name_of_a_task_does_not_look_like_the_note_of_an_end() {
    let store = Memory::default();
    let mut first = saver(store.clone());
    first.take_over_as(&task("a by b ended: c", "d")).unwrap();
    assert_eq!(first.ended().unwrap(), None);
    first.end("1000 steps").unwrap();
    assert_eq!(first.ended().unwrap().as_deref(), Some("1000 steps"));
    let written = String::from_utf8(store.read("checkpoint.writer").unwrap()).unwrap();
    assert_eq!(written.split(' ').count(), 7, "older versions read its words: {written}");
}

#[test]
fn what_is_no_note_of_a_saver_is_refused_for_good_and_not_read() {
    let path = std::env::temp_dir().join(format!("trainyard-writer-{}", std::process::id()));
    let note = path.join("checkpoint.writer");
    let assert_refused = |what: &str| {
        let mut saver = saver(Folder::new(&path));
        for error in [saver.ended().unwrap_err(), saver.take_over().unwrap_err()] {
            assert!(error.is_misplaced() && error.to_string().contains(what), "{error}");
        }
    };
    std::fs::create_dir_all(&note).unwrap();
    assert_refused("checkpoint.writer: it is not a plain file");
    std::fs::remove_dir(&note).unwrap();
    std::os::unix::fs::symlink("/dev/null", &note).unwrap();
    assert_refused("checkpoint.writer: it is not a plain file");
    std::fs::remove_file(&note).unwrap();
    let long = path.join("long");
    std::fs::write(&long, "1".repeat(70_000)).unwrap();
    std::os::unix::fs::symlink(&long, &note).unwrap();
    assert_refused("it is longer than any note of a saver");
    std::fs::remove_dir_all(path).unwrap();
}
