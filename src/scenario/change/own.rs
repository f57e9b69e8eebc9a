//! The scenario of one run, as the run's own `set` and `unset` change it.

use serde::Deserialize;
use toml::{Table, Value};

use super::Change;
use crate::scenario::Scenario;
use crate::scenario::error::{ChangeError, ScenarioError};
use crate::scenario::file::{ScenarioFile, build};
use crate::scenario::key_path::KeyPath;
use crate::scenario::tables::{merge, paths_of, with_paths_spelt_out};

/// The keys that all runs have in common.
const OF_ALL_RUNS: [&str; 3] = ["name", "seed", "run"];

/// The scenario of run `index` in `table`, with the run's own `unset` and `set`.
pub(super) fn own_scenario(
    table: &Table,
    index: usize,
    origin: &str,
    text: Option<&str>,
) -> Result<Scenario, ScenarioError> {
    let mut table = table.clone();
    let place = format!("run[{index}].set");
    let mut run = match table.get_mut("run").and_then(|runs| runs.get_mut(index)) {
        Some(Value::Table(run)) => std::mem::take(run),
        _ => unreachable!("the run has been read from here"),
    };
    for path in run.remove("unset").iter().flat_map(|paths| paths.as_array()).flatten() {
        Change::unset(path.as_str().unwrap_or_default())?.apply(&mut table)?;
    }
    let set = match run.remove("set") {
        Some(Value::Table(set)) => set,
        _ => Table::new(),
    };
    let own = paths_of(&set);
    let set = with_paths_spelt_out(set);
    if let Some(key) = OF_ALL_RUNS.into_iter().find(|key| set.contains_key(*key)) {
        let (at, found) = (key.to_owned(), "the same for all runs".to_owned());
        return Err(ChangeError::NoSuchPlace { setting: place, at, found }.into());
    }
    table.insert("run".to_owned(), Value::Array(vec![Value::Table(run)]));
    let mut changed = table.clone();
    merge(&mut changed, set.clone());
    let file = ScenarioFile::deserialize(changed).map_err(|error| {
        let path = match own.iter().find(|key| is_cause(key, &set, &table, &error)) {
            Some(key) => format!("{place}.{key}"),
            None => place,
        };
        ScenarioError::of_key(origin, text, path, &error)
    })?;
    build(file, origin, None).map_err(|error| error.within(index, text, &own))
}

/// Whether `key` alone, of all that `set` gives values to, makes `error` of the scenario `table`.
fn is_cause(key: &KeyPath, set: &Table, table: &Table, error: &toml::de::Error) -> bool {
    let mut names = key.segments().iter();
    let first = names.next().and_then(|name| set.get(name));
    let Some(value) = names.fold(first, |value, name| value?.get(name)) else { return false };
    let change = Change { path: key.clone(), value: Some(value.clone()), text: key.to_string() };
    let is_error = |table: &Table| {
        let read = ScenarioFile::deserialize(table.clone());
        read.is_err_and(|own| own.message() == error.message())
    };
    let mut changed = table.clone();
    change.apply(&mut changed).is_ok() && is_error(&changed) && !is_error(table)
}
