//! Tests of files that were cut off, changed, lost or forged: the checkpoint before is found, and
//! the bad file is named.

use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::*;

/// The files of the newer of two checkpoints.
const NEWEST: [&str; 3] = [
    "model.ckpt-2-00000-of-00002.safetensors",
    "model.ckpt-2-00001-of-00002.safetensors",
    "model.ckpt-2.index.json",
];

fn two() -> Memory {
    let store = Memory::default();
    save(&mut saver(store.clone()), [1, 2]);
    store
}

/// Asserts that the first checkpoint is found, complete. Returns the problem reported of the
/// second.
fn passed_over(store: &Memory) -> String {
    let found = saver(store.clone()).latest().unwrap();
    assert!(is_of(&found.checkpoint.unwrap(), &snapshot(1, 0)));
    let [problem] = found.rejected.as_slice() else { panic!("{:?}", found.rejected) };
    problem.to_string()
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_named() {
    let store = two();
    for file in NEWEST {
        let whole = store.read(file).unwrap();
        for length in 0..whole.len() {
            store.write(file, &[&whole[..length]]).unwrap();
            let problem = passed_over(&store);
            assert!(problem.contains(file), "{problem}");
        }
        store.write(file, &[&whole]).unwrap();
    }
    assert_eq!(saver(store).latest().unwrap().checkpoint.unwrap().global_step, 2);
}

#[test]
fn a_shard_that_is_lost_is_named_with_its_task() {
    let store = two();
    store.delete(NEWEST[1]).unwrap();
    let problem = passed_over(&store);
    assert!(
        problem.contains(NEWEST[1]) && problem.contains("is missing") && problem.contains("ps:1"),
        "{problem}"
    );
}

#[test]
fn an_index_that_is_lost_never_was() {
    let store = two();
    store.delete(NEWEST[2]).unwrap();
    let found = saver(store).latest().unwrap();
    assert_eq!((found.checkpoint.unwrap().global_step, found.rejected.len()), (1, 0));
}

#[test]
fn a_variable_whose_value_has_changed_is_named() {
    let store = two();
    let mut bytes = store.read(NEWEST[0]).unwrap();
    let value = 2020f32.to_le_bytes(); // the first of `mlp/w`
    let found = bytes.windows(4).position(|window| window == value).unwrap();
    bytes[found] ^= 1;
    store.write(NEWEST[0], &[&bytes]).unwrap();
    let problem = passed_over(&store);
    assert!(
        problem.contains(NEWEST[0]) && problem.contains("`mlp/w` has the checksum"),
        "{problem}"
    );
}

#[test]
fn where_nothing_is_whole_all_is_told() {
    let store = two();
    for step in [1, 2] {
        store.write(&format!("model.ckpt-{step}.index.json"), &[b"{}"]).unwrap();
    }
    let found = saver(store).latest().unwrap();
    assert!(found.checkpoint.is_none());
    assert_eq!(found.rejected.len(), 2);
}

/// Forges the index of the newest checkpoint: applies `change` to it, and gives it a matching
/// checksum.
fn forge(store: &Memory, change: impl FnOnce(&mut Vec<u8>)) {
    let text = String::from_utf8(store.read(NEWEST[2]).unwrap()).unwrap();
    let mut inner = text
        .split_once(",\"index\":")
        .unwrap()
        .1
        .trim_end()
        .strip_suffix('}')
        .unwrap()
        .as_bytes()
        .to_vec();
    change(&mut inner);
    let checksum = format!("{:016x}", xxh3_64(&inner));
    let parts = [b"{\"checksum\":\"", checksum.as_bytes(), b"\",\"index\":", &inner, b"}\n"];
    store.write(NEWEST[2], &parts).unwrap();
}

#[test]
fn an_index_that_lies_is_refused_with_the_lie() {
    for (from, to, words) in [
        ("\"format\": 1", "\"format\": 2", "it has format 2, and this program reads format 1"),
        ("\"global_step\": 2", "\"global_step\": 3", "it is of step 3"),
        (
            "model.ckpt-2-00001-of-00002.safetensors",
            "../../../etc/passwd",
            "names the file \"../../../etc/passwd\"",
        ),
        ("\"shard\": 1", "\"shard\": 2", "is in shard 2, of 2 shards"),
        ("\"begin\": 3", "\"begin\": 2", "rows 2 to 3 are in two parts"),
        ("\"begin\": 3", "\"begin\": 18446744073709551615", "no part of `table`"),
        ("\"is_warm\"", "\"is_cold\"", "it has no `is_cold`"),
        ("\"I64\"", "\"F64\"", "its index has no `global_step` i64[]"),
        ("\"I64\"", "\"I63\"", "unknown variant `I63`"),
        ("\"edition\": 0", "\"edition\": 0, \"more\": 1", "unknown field `more`"),
    ] {
        let store = two();
        forge(&store, |inner| {
            let text = String::from_utf8(inner.clone()).unwrap();
            assert!(text.contains(from), "{text}");
            *inner = text.replacen(from, to, 1).into_bytes();
        });
        let problem = passed_over(&store);
        assert!(problem.contains(words), "{problem}");
    }
}

proptest! {
    #[test]
    fn a_bit_that_is_flipped_anywhere_is_noticed_and_the_file_named(
        file in prop::sample::select(NEWEST.to_vec()),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let store = two();
        let mut bytes = store.read(file).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        store.write(file, &[&bytes]).unwrap();
        let problem = passed_over(&store);
        prop_assert!(problem.contains(file), "{problem}");
    }

    #[test]
    fn an_index_that_says_anything_under_a_right_checksum_is_refused_or_of_the_files_that_are_there(
        at in any::<prop::sample::Index>(),
        length in 0usize..4,
        bytes in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let store = two();
        forge(&store, |inner| {
            let at = at.index(inner.len());
            let end = (at + length).min(inner.len());
            inner.splice(at..end, bytes);
        });
        let mut saver = saver(store);
        let restored = saver.latest().unwrap().checkpoint.unwrap();
        prop_assert!(is_of(&restored, &snapshot(1, 0)) || is_of(&restored, &snapshot(2, 0)));
        save(&mut saver, [9]);
    }

    #[test]
    fn any_bytes_as_an_index_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let store = two();
        store.write(NEWEST[2], &[&bytes]).unwrap();
        passed_over(&store);
    }
}
