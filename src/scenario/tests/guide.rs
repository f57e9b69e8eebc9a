//! The guide to scenarios has the sizes of models that the code has, with their defaults.

use std::collections::BTreeSet;

use super::super::program::ProgramFile;
use super::*;

/// The cells of each row of the table of models.
fn rows() -> Vec<Vec<&'static str>> {
    let guide = include_str!("../../../docs/scenarios.md");
    let (_, section) = guide.split_once("\n## Models\n").expect("there is such a section");
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches(['|', ' ']).split(" | ").collect()).collect()
}

/// What is first in backticks.
fn quoted(cell: &str) -> &str {
    cell.split('`').nth(1).expect("something is in backticks")
}

#[test]
fn a_size_that_is_left_out_is_what_the_guide_says() {
    let model = |text: &str| example(&format!("[program]\n{text}")).unwrap().settings.model;
    let mut compared = 0;
    for row in rows() {
        let [key, of, _, default] = row[..] else { panic!("{row:?}") };
        let lookups = if of.contains("with `lookups`") { "lookups = 64\n" } else { "" };
        let left_out = format!("model = \"{}\"\n{lookups}", quoted(of));
        if default.starts_with('`') {
            let given = format!("{left_out}{} = {}", quoted(key), quoted(default));
            assert_eq!(model(&given), model(&left_out), "{row:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 8);
}

#[test]
fn the_guide_has_each_key_that_only_some_models_have() {
    let Err(error) = toml::from_str::<ProgramFile>("no_such_key = 1") else { panic!("a key") };
    let keys = error.message().split('`').skip(1).step_by(2).skip(1);
    let is_refused = |key: &&str| {
        ["64", "[64]", "\"1MB\"", "\"full\""].iter().any(|value| {
            let scenario = example(&format!("[program]\nmodel = \"softmax\"\n{key} = {value}"));
            scenario.is_err_and(|error| error.to_string().contains("only the model"))
        })
    };
    let refused: BTreeSet<&str> = keys.filter(is_refused).collect();
    assert_eq!(rows().iter().map(|row| quoted(row[0])).collect::<BTreeSet<_>>(), refused);
}
