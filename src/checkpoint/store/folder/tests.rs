//! Tests of a folder on a disk that loses unsynced data, and on this machine's disk.

mod disk;

use std::fs;

use super::*;
use crate::checkpoint::fixture::{at, files, files_of, is_of, save, saver, snapshot};
use crate::checkpoint::{Snapshot, open_store};
use disk::{Crash, Disk};

fn on(disk: &Disk) -> Folder {
    Folder::over("run".into(), Box::new(disk.clone()))
}

/// Saves `next` after 1 and 2 on a disk that stops after each number of calls. Whatever unsynced
/// data was lost, the last or the new checkpoint is found, and nothing is broken.
fn stop_anywhere(next: &Snapshot) {
    for crash in Crash::ALL {
        for calls in 0.. {
            let disk = Disk::default();
            save(&mut saver(on(&disk)), [1, 2]);
            disk.stop_after(calls);
            let saved = saver(on(&disk)).save(next, at(3));
            let disk = disk.after(crash);
            let found = saver(on(&disk)).latest().unwrap();
            assert!(
                found.rejected.is_empty(),
                "{crash:?} after {calls} calls: {:?}",
                found.rejected
            );
            let restored = found.checkpoint.unwrap();
            let is_new = is_of(&restored, next);
            assert!(is_new || is_of(&restored, &snapshot(2, 0)), "{crash:?} after {calls} calls");
            assert!(
                is_new || saved.is_err(),
                "{crash:?} after {calls} calls: it was said to be saved"
            );
            save(&mut saver(on(&disk)), [9]);
            let expected = files_of(&[restored.global_step, 9]).len();
            assert_eq!(
                disk.names().len(),
                expected,
                "{crash:?} after {calls} calls: {:?}",
                disk.names()
            );
            if saved.is_ok_and(|saved| saved.unfinished.is_empty()) {
                assert!(calls > 20, "there were {calls} places to stop at");
                break;
            }
        }
    }
}

#[test]
fn a_crash_at_any_call_to_the_system_leaves_the_last_checkpoint_or_the_new_one() {
    stop_anywhere(&snapshot(3, 0));
}

#[test]
fn a_crash_at_any_call_while_a_step_is_saved_again_leaves_the_first_or_the_second() {
    stop_anywhere(&snapshot(1, 1));
}

#[test]
fn a_full_disk_leaves_nothing_unfinished_and_the_last_checkpoint() {
    let mut failures = 0;
    for room in (0..).step_by(64) {
        let disk = Disk::default();
        save(&mut saver(on(&disk)), [1, 2]);
        disk.leave_room(room);
        let saved = saver(on(&disk)).save(&snapshot(3, 0), at(3));
        assert!(disk.names().iter().all(|name| !is_unfinished(name)), "{:?}", disk.names());
        let step = saver(on(&disk)).latest().unwrap().checkpoint.unwrap().global_step;
        match saved {
            Ok(saved) if saved.unfinished.is_empty() => break,
            Ok(_) => assert_eq!(step, 3),
            Err(error) => assert!(
                step == 2 && error.to_string().contains("can't write run/model.ckpt-3"),
                "{error}"
            ),
        }
        failures += 1;
    }
    assert!(failures > 10, "{failures}");
}

/// An empty folder on this machine, for one test.
fn folder(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("trainyard-{}-{test}", std::process::id()));
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    path
}

#[test]
fn a_folder_is_made_by_the_first_write_and_is_empty_before() {
    let path = folder("made");
    let store = open_store(path.join("a/b").to_str().unwrap()).unwrap();
    assert_eq!(store.list().unwrap(), []);
    store.delete("absent").unwrap();
    store.write("file", &[b"one ", b"two"]).unwrap();
    store.write("file", &[b"three"]).unwrap();
    assert_eq!(store.list().unwrap(), [Entry { name: "file".to_owned(), bytes: 5 }]);
    assert_eq!(store.read("file").unwrap(), b"three");
    assert_eq!(store.locate("file"), path.join("a/b/file").display().to_string());
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_write_that_finds_its_unfinished_file_there_leaves_it_to_its_writer() {
    let path = folder("others");
    fs::create_dir(&path).unwrap();
    let theirs = path.join("file.0000000000000001-0.tmp");
    let open = System.create(&theirs).unwrap();
    let refused = Folder { token: 1, ..Folder::new(&path) }.write("file", &[b"ours"]);
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert!(theirs.exists());
    drop(open);
    Folder::new(&path).write("file", &[b"ours"]).unwrap();
    assert!(!theirs.exists(), "its writer is gone");
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_training_is_saved_and_found_on_the_disk_of_this_machine() {
    let path = folder("saved");
    save(&mut saver(Folder::new(&path)), 1..=4);
    assert_eq!(files(&Folder::new(&path)), files_of(&[3, 4]));
    assert!(is_of(
        &saver(Folder::new(&path)).latest().unwrap().checkpoint.unwrap(),
        &snapshot(4, 0)
    ));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn what_a_dead_process_left_is_deleted_and_what_a_living_one_or_the_user_writes_is_not() {
    let path = folder("left");
    fs::create_dir_all(&path).unwrap();
    let [dead, living] = [1, 2].map(|token| path.join(unfinished("file", token, 0)));
    let names = ["draft.tmp", "draft.1-0.tmp", "draft.000000000000000g-0.tmp", "a-0.tmp"];
    let of_user = names.map(|name| path.join(name));
    of_user.iter().chain([&dead]).for_each(|file| drop(System.create(file).unwrap()));
    let writing = System.create(&living).unwrap();
    Folder::new(&path).write("file", &[b"x"]).unwrap();
    assert_eq!((dead.exists(), living.exists()), (false, true));
    assert!(of_user.iter().all(|file| file.exists()));
    drop(writing);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let store = Folder::new(folder("out"));
    for name in ["", ".", "..", "../a", "/etc/passwd", "a/b", "a\\b", "a\0"] {
        assert_eq!(store.read(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
        assert_eq!(
            store.write(name, &[]).unwrap_err().kind(),
            io::ErrorKind::InvalidInput,
            "{name:?}"
        );
        assert_eq!(store.delete(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
    }
}
