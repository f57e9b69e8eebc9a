//! Graphs that `tests/graphdefs/random_graphs.py` has drawn: each is right or refused, none is
//! wrong in silence.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{check, file};
use crate::support::fixture::on_actix;

/// The environment variable that names a folder of more graphs.
const FOLDER: &str = "TRAINYARD_GRAPHDEFS";

/// What came of the graphs of a folder.
#[derive(Default)]
struct Outcome {
    right: usize,
    /// By graph: the error that refused it.
    refused: BTreeMap<String, String>,
    /// By graph: the first number that is not TensorFlow's.
    wrong: BTreeMap<String, String>,
}

impl Outcome {
    fn all(&self) -> usize {
        self.right + self.refused.len() + self.wrong.len()
    }
}

/// The graphs of a folder, in the order of their names.
fn graphs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut graphs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    graphs.retain(|path| path.extension().is_some_and(|extension| extension == "pb"));
    graphs.sort();
    graphs
}

/// Imports and runs the graphs of a folder.
fn outcome(folder: PathBuf) -> Outcome {
    let mut outcome = Outcome::default();
    for path in graphs(&folder) {
        let bytes = fs::read(&path).unwrap();
        let told = fs::read(path.with_extension("json")).unwrap();
        let told: Value = serde_json::from_slice(&told).unwrap();
        let case = &told["cases"][0];
        let name = case["name"].as_str().unwrap().to_owned();
        // Each has the time of a test for itself: there may be a thousand.
        on_actix(async {
            match check(&bytes, case).await {
                Ok(wrong) if wrong.is_empty() => outcome.right += 1,
                Ok(wrong) => drop(outcome.wrong.insert(name, wrong[0].clone())),
                Err(error) => drop(outcome.refused.insert(name, error.to_string())),
            }
            Ok(())
        });
    }
    outcome
}

#[test]
fn graphs_drawn_by_seed_give_the_numbers_of_tensorflow() {
    let outcome = outcome(file("random"));
    assert!(outcome.all() >= 12, "only {} graphs are there", outcome.all());
    assert!(outcome.wrong.is_empty(), "these are wrong: {:#?}", outcome.wrong);
    assert!(outcome.refused.is_empty(), "these are refused: {:#?}", outcome.refused);
}

#[test]
fn of_a_folder_of_drawn_graphs_97_percent_are_right_and_the_others_refused_by_their_node() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        println!("skipped: {FOLDER} names no folder of graphs that random_graphs.py has written");
        return;
    };
    let outcome = outcome(PathBuf::from(folder));
    for (name, error) in &outcome.refused {
        println!("refused {name}: {error}");
    }
    let (right, all) = (outcome.right, outcome.all());
    println!(
        "{right} of {all} right, {} refused, {} wrong",
        outcome.refused.len(),
        outcome.wrong.len()
    );
    assert!(outcome.wrong.is_empty(), "these are wrong: {:#?}", outcome.wrong);
    let is_named = |error: &&String| error.contains('`') || error.contains("(operation ");
    assert!(outcome.refused.values().all(|error| is_named(&error)), "an error names no node");
    assert!(right * 100 >= all * 97, "only {right} of {all} are right");
}
