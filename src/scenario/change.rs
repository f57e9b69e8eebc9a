//! Changes to a scenario: `--set path=value`, `--unset path`, `--sweep path=a,b,c`, and a run's own
//! `set` and `unset`.

mod own;
mod simulated;

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use toml::{Table, Value};

use super::error::{ChangeError, ScenarioError, in_words, suggestion};
use super::file::{ScenarioFile, build};
use super::key_path::KeyPath;
use super::{RunSpec, Scenario};
use own::own_scenario;
pub(crate) use simulated::LEFT_OUT;

/// A change of one key of a scenario: its new value, written `path=value`, or its removal.
///
/// The path is `run.0.mode` or `run[0].mode`; a name with a dot in it is quoted. The value is TOML
/// (`0.1`, `true`, `{ sync = { backups = 1 } }`); anything else is a string (`50us`, `async`).
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    path: KeyPath,
    /// The new value; none if the key is removed.
    value: Option<Value>,
    text: String,
}

/// One key of a scenario with its values in turn, written `path=a,b,c`; commas in quotes or
/// brackets do not separate values.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep(Vec<Change>);

impl Sweep {
    /// Whether both give values to one key.
    pub(crate) fn is_of_same_key(&self, other: &Self) -> bool {
        let path = |sweep: &Self| sweep.0.first().map(|change| change.path.clone());
        path(self) == path(other)
    }

    /// Whether it gives values to the key at `path`.
    pub(crate) fn is_of(&self, path: &str) -> bool {
        self.0.first().is_some_and(|change| change.path.to_string() == path)
    }

    /// Its values as they are written, without the path.
    fn values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|change| {
            change.text.strip_prefix(&change.path.to_string())?.strip_prefix('=')
        })
    }
}

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Self, ChangeError> {
        let (path, value) = split(text, ChangeError::Unreadable)?;
        Ok(Self::new(path, value.trim()))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Sweep {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Self, ChangeError> {
        let (path, values) = split(text, ChangeError::NoSweep)?;
        let values = split_at_commas(values);
        if values.iter().any(|value| value.is_empty()) {
            return Err(ChangeError::EmptyValue(text.to_owned()));
        }
        Ok(Self(values.into_iter().map(|value| Change::new(path.clone(), value)).collect()))
    }
}

impl Change {
    fn new(path: KeyPath, value: &str) -> Self {
        let text = format!("{path}={value}");
        let value = value.parse().unwrap_or_else(|_| Value::String(value.to_owned()));
        Self { path, value: Some(value), text }
    }

    /// The removal of the key at `path`: it then has its default.
    ///
    /// # Errors
    /// If `path` is not the path to a key.
    pub fn unset(path: &str) -> Result<Self, ChangeError> {
        let parsed = parsed(path)?;
        Ok(Self { text: parsed.to_string(), path: parsed, value: None })
    }

    /// The path to the seed of all randomness.
    pub(crate) const SEED: &str = "seed";

    /// The seed set to `seed`.
    pub(crate) fn of_seed(seed: u64) -> Self {
        let path = KeyPath::parse(Self::SEED).expect("it is one name");
        Self::new(path, &seed.to_string())
    }

    /// The path and the new value; null for a removal.
    pub(crate) fn key_and_value(&self) -> (String, serde_json::Value) {
        let value = self.value.as_ref().and_then(|value| serde_json::to_value(value).ok());
        (self.path.to_string(), value.unwrap_or_default())
    }

    /// Checks that the change, one of a sweep, reaches `run`: a run's own value would replace it,
    /// and the run would be labelled with both.
    pub(crate) fn check_reaches(&self, run: &RunSpec) -> Result<(), ChangeError> {
        match run.own_keys.iter().find(|own| own.overlaps(&self.path)) {
            None => Ok(()),
            Some(own) => Err(ChangeError::OfRunItself {
                path: self.path.to_string(),
                run: run.name.clone(),
                own: own.to_string(),
            }),
        }
    }

    /// The warning for a change of all runs that has no effect on `run` (number `index`), because
    /// the run sets that key itself.
    pub(crate) fn overruled_by(&self, run: &RunSpec, index: usize) -> Option<String> {
        let is_around = |own: &&KeyPath| self.path.segments().starts_with(own.segments());
        let own = run.own_keys.iter().find(is_around)?;
        let flag = if self.removes() { "--unset" } else { "--set" };
        let of_run = match own.to_string().as_str() {
            "network.compression" => format!("run.{index}.compression"),
            own => format!("run.{index}.set.{own}"),
        };
        Some(format!(
            "`{flag} {}` changes nothing in run `{}`, which has its own `{own}`; change that by \
             `--set {of_run}=...`, or name the other runs with `--run`",
            self.text, run.name
        ))
    }

    /// Whether it removes a key.
    pub(crate) fn removes(&self) -> bool {
        self.value.is_none()
    }

    /// Applies the change to `scenario`; tables on the way to a key that is set are made if it
    /// lacks them.
    pub(super) fn apply(&self, scenario: &mut Table) -> Result<(), ChangeError> {
        let mut root = Value::Table(std::mem::take(scenario));
        let done = match &self.value {
            Some(value) => self.put(&mut root, value),
            None => self.remove(&mut root),
        };
        if let Value::Table(changed) = root {
            *scenario = changed;
        }
        done
    }

    fn put(&self, root: &mut Value, value: &Value) -> Result<(), ChangeError> {
        let (last, way) = self.path.segments().split_last().expect("a path has at least one name");
        let mut place = root;
        for (depth, segment) in way.iter().enumerate() {
            place = self.enter(place, segment, depth, || Value::Table(Table::new()))?;
        }
        *self.enter(place, last, way.len(), || value.clone())? = value.clone();
        Ok(())
    }

    fn remove(&self, root: &mut Value) -> Result<(), ChangeError> {
        let (last, way) = self.path.segments().split_last().expect("a path has at least one name");
        let mut place = Some(root);
        for segment in way {
            place = place.and_then(|place| match place {
                Value::Table(table) => table.get_mut(segment),
                Value::Array(array) => array.get_mut(segment.parse::<usize>().ok()?),
                _ => None,
            });
        }
        let is_removed = match place {
            Some(Value::Table(table)) => table.remove(last).is_some(),
            Some(Value::Array(array)) => match last.parse::<usize>() {
                Ok(index) if index < array.len() => {
                    array.remove(index);
                    true
                }
                _ => false,
            },
            _ => false,
        };
        if is_removed {
            return Ok(());
        }
        let found = "not set, so that it can't be removed".to_owned();
        Err(ChangeError::NoSuchPlace {
            setting: format!("unset {}", self.text),
            at: self.path.to_string(),
            found,
        })
    }

    /// The value in `place` at the name or index `segment`, which is the path's at `depth`; in a
    /// table without it, first adds `new`.
    fn enter<'a>(
        &self,
        place: &'a mut Value,
        segment: &str,
        depth: usize,
        new: impl FnOnce() -> Value,
    ) -> Result<&'a mut Value, ChangeError> {
        let no_such_place = |length, found| {
            let at = self.path.prefix(length).to_string();
            ChangeError::NoSuchPlace { setting: self.text.clone(), at, found }
        };
        match place {
            Value::Table(table) => Ok(table.entry(segment).or_insert_with(new)),
            Value::Array(array) => {
                let length = array.len();
                let element = segment.parse().ok().and_then(|index: usize| array.get_mut(index));
                element.ok_or_else(|| {
                    no_such_place(
                        depth + 1,
                        format!("not there: `{}` has {length} elements, counted from 0", {
                            self.path.prefix(depth)
                        }),
                    )
                })
            }
            other => {
                let at = self.path.prefix(depth);
                let (kind, below) = (other.type_str(), &self.path.segments()[depth..]);
                let value = self.value.iter().map(Value::to_string).collect::<String>();
                let whole =
                    below.iter().rev().fold(value, |value, key| format!("{{ {key} = {value} }}"));
                let found = format!(
                    "of type {kind}, with nothing below it; set it as a whole: '{at}={whole}'"
                );
                Err(no_such_place(depth, found))
            }
        }
    }
}

/// The error of a file that `change` has made invalid.
fn rejected(change: &str, error: &toml::de::Error) -> ChangeError {
    let suggestion = suggestion(error.message());
    let message = in_words(error.message());
    ChangeError::Rejected { setting: change.to_owned(), suggestion, message }
}

/// The keys of the scenario in `text`, after `changes`.
///
/// # Errors
/// If it is no TOML, or a change does not fit it.
pub(super) fn keys(text: &str, origin: &str, changes: &[Change]) -> Result<Table, ScenarioError> {
    let malformed = |error| ScenarioError::malformed(origin, text, &error);
    let mut table: Table = text.parse().map_err(malformed)?;
    changes.iter().try_for_each(|change| change.apply(&mut table))?;
    Ok(table)
}

/// The scenario in `text`, after `changes`, which runs that are not among the names `only` need not
/// fit; empty for all.
pub(super) fn read(
    text: &str,
    origin: &str,
    changes: &[Change],
    only: &[String],
) -> Result<Scenario, ScenarioError> {
    let malformed = |error| ScenarioError::malformed(origin, text, &error);
    let typed: ScenarioFile = toml::from_str(text).map_err(malformed)?;
    let mut table: Table = text.parse().map_err(malformed)?;
    let mut outcome = Ok(typed);
    for change in changes {
        change.apply(&mut table)?;
        // A later change may complete an earlier one, so only mistakes that remain at the end
        // count; each is attributed to the change that made it.
        outcome = match (ScenarioFile::deserialize(table.clone()), outcome) {
            (Ok(file), _) => Ok(file),
            (Err(_), Err(earlier)) => Err(earlier),
            (Err(error), Ok(_)) => Err(rejected(&change.text, &error)),
        };
    }
    let mut file = outcome?;
    file.only = only.to_vec();
    let differing: Vec<usize> = file
        .run
        .iter()
        .flatten()
        .enumerate()
        .filter(|(_, run)| run.differs())
        .map(|(index, _)| index)
        .collect();
    let text = changes.is_empty().then_some(text);
    let mut scenario = build(file, origin, text)?;
    for index in differing {
        let name = &scenario.runs[index].name;
        if !only.is_empty() && !only.contains(name) {
            continue;
        }
        let own = own_scenario(&table, index, origin, text)?;
        scenario.runs[index].own = Some(Box::new(own));
    }
    Ok(scenario)
}

/// Checks that no key is swept twice: the later value would replace the earlier, and a run would be
/// labelled with both.
pub(super) fn check_swept_once(sweeps: &[Sweep]) -> Result<(), ChangeError> {
    for (index, sweep) in sweeps.iter().enumerate() {
        if sweeps[..index].iter().all(|earlier| !earlier.is_of_same_key(sweep)) {
            continue;
        }
        let mut values = Vec::new();
        for value in sweeps.iter().filter(|of| of.is_of_same_key(sweep)).flat_map(Sweep::values) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let path = sweep.0[0].path.to_string();
        return Err(ChangeError::SweptTwice { path, values: values.join(",") });
    }
    Ok(())
}

/// Every combination of one value of each sweep; the first sweep changes slowest. Without sweeps
/// there is one combination, which is empty.
pub(super) fn combinations(sweeps: &[Sweep]) -> Vec<Vec<Change>> {
    sweeps.iter().fold(vec![Vec::new()], |shorter, sweep| {
        let extended = |start: &Vec<Change>| {
            let start = start.clone();
            sweep
                .0
                .iter()
                .map(move |setting| [start.as_slice(), std::slice::from_ref(setting)].concat())
        };
        shorter.iter().flat_map(extended).collect()
    })
}

fn parsed(path: &str) -> Result<KeyPath, ChangeError> {
    KeyPath::parse(path).ok_or_else(|| ChangeError::NoPath(path.to_owned()))
}

/// The path before the `=`, and what follows it.
///
/// # Errors
/// `unreadable`, of the text, if it has no `=`; [`ChangeError::NoPath`] if that is no path.
fn split(
    text: &str,
    unreadable: fn(String) -> ChangeError,
) -> Result<(KeyPath, &str), ChangeError> {
    let mut quoted = false;
    let equals = text.find(|c| {
        quoted ^= c == '"';
        c == '=' && !quoted
    });
    let equals = equals.ok_or_else(|| unreadable(text.to_owned()))?;
    let (path, value) = text.split_at(equals);
    Ok((parsed(path)?, &value[1..]))
}

fn split_at_commas(text: &str) -> Vec<&str> {
    let (mut quoted, mut depth) = (false, 0_u32);
    let separates = |c| {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && !quoted && depth == 0
    };
    text.split(separates).map(str::trim).collect()
}
