//! Readers of bytes from outside, tried with what they understand and bytes beside it. What
//! `cargo-fuzz` runs for hours on a nightly compiler, these tests run for a second.

pub(crate) mod server;
mod targets;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use targets::{ALL, Target};

/// A change of bytes: one is replaced, put in or taken out, or all from there on are.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Cut(Index),
}

impl Change {
    fn any() -> impl Strategy<Value = Self> {
        prop_oneof![
            6 => any::<(Index, u8)>().prop_map(|(at, byte)| Self::Set(at, byte)),
            2 => any::<(Index, u8)>().prop_map(|(at, byte)| Self::Insert(at, byte)),
            2 => any::<Index>().prop_map(Self::Remove),
            1 => any::<Index>().prop_map(Self::Cut),
        ]
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Set(at, byte) => *at.get_mut(bytes) = *byte,
            Self::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
            Self::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
        }
    }
}

/// Tries a target with its seeds as they are, then with `cases` changes of them.
fn try_target(name: &str, cases: u32) {
    let found = ALL.iter().find(|target| target.name == name);
    let Target { run, seeds, .. } = found.expect("it is one of the targets");
    let seeds = seeds();
    seeds.iter().for_each(|seed| run(seed));
    let changes = prop::collection::vec(Change::any(), 1..6);
    let max_shrink_time = 10_000; // ms
    let config = Config { cases, max_shrink_time, failure_persistence: None, ..Config::default() };
    let tried = TestRunner::new(config).run(&(any::<Index>(), changes), |(seed, changes)| {
        let mut bytes = seed.get(&seeds).clone();
        changes.iter().for_each(|change| change.apply(&mut bytes));
        run(&bytes);
        Ok(())
    });
    tried.unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn frames_are_understood_and_then_the_same_again_or_refused() {
    try_target("frame", 3000);
}

#[test]
fn a_server_stands_whatever_messages_a_peer_sends() {
    try_target("server", 400);
}

#[test]
fn graphs_of_tensorflow_are_imported_or_refused() {
    try_target("graph_def", 3000);
}

#[test]
fn checkpoints_are_restored_or_refused() {
    try_target("checkpoint", 1000);
}

#[test]
fn scenarios_are_taken_or_refused() {
    try_target("scenario", 1000);
}

#[test]
fn descriptions_of_a_cluster_are_taken_or_refused() {
    try_target("tf_config", 3000);
}

#[test]
fn tapes_are_read_or_refused() {
    try_target("tape", 3000);
}

#[test]
fn data_files_are_read_or_refused() {
    for name in ["csv", "libsvm", "npy", "npz", "idx"] {
        try_target(name, 500);
    }
}

#[test]
fn every_target_of_the_fuzzer_is_one_of_these() {
    let manifest = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/Cargo.toml");
    let Ok(manifest) = std::fs::read_to_string(manifest) else { return }; // a published package
    for target in ALL {
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
    }
}
