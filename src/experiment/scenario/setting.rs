//! `--set path=value` and `--sweep path=a,b,c`: changes to a scenario on the command line.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use toml::{Table, Value};

use super::Scenario;
use super::check;
use super::error::{ScenarioError, help, suggestion};
use super::file::ScenarioFile;
use super::key_path::KeyPath;

/// One key of a scenario and its new value, written `path=value`.
///
/// The path is `run.0.mode` or `run[0].mode`; a name with a dot in it is quoted. The value is TOML
/// (`0.1`, `true`, `{ sync = { backups = 1 } }`); what is not TOML is a string (`50us`, `async`).
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    path: KeyPath,
    value: Value,
    text: String,
}

/// One key of a scenario and its values in turn, written `path=a,b,c`; commas in quotes or brackets
/// separate nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep(Vec<Setting>);

/// Why a `--set` or `--sweep` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// It is not written `path=value`.
    #[error(
        "`{0}` is no `path=value`; write, for example, `network.latency=1ms` or `run.0.mode=async`"
    )]
    Unreadable(String),
    /// A value of a sweep is missing.
    #[error("`{0}` has an empty value; write `path=a,b,c`")]
    EmptyValue(String),
    /// The scenario has no such place.
    #[error("`{setting}`: `{at}` is {found}")]
    NoSuchPlace {
        /// The setting.
        setting: String,
        /// How far its path leads.
        at: String,
        /// What is there, and what to write instead.
        found: String,
    },
    /// With it, the file is no scenario any more.
    #[error("`{setting}`: {message}{}", help(.suggestion))]
    Rejected {
        /// The setting.
        setting: String,
        /// What is wrong.
        message: String,
        /// The expected name that is most like the one found.
        suggestion: Option<String>,
    },
}

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let (path, value) = split(text)?;
        Ok(Self::new(path, value.trim()))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Sweep {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let (path, values) = split(text)?;
        let values = split_at_commas(values);
        if values.iter().any(|value| value.is_empty()) {
            return Err(SettingError::EmptyValue(text.to_owned()));
        }
        Ok(Self(values.into_iter().map(|value| Setting::new(path.clone(), value)).collect()))
    }
}

impl Setting {
    fn new(path: KeyPath, value: &str) -> Self {
        let text = format!("{path}={value}");
        Self {
            path,
            value: value.parse().unwrap_or_else(|_| Value::String(value.to_owned())),
            text,
        }
    }

    /// Puts the value into `scenario`, with the tables on the way there that it lacks.
    fn apply(&self, scenario: &mut Table) -> Result<(), SettingError> {
        let (last, way) = self.path.segments().split_last().expect("a path has at least one name");
        let mut root = Value::Table(std::mem::take(scenario));
        let mut place = &mut root;
        for (depth, segment) in way.iter().enumerate() {
            place = self.enter(place, segment, depth, || Value::Table(Table::new()))?;
        }
        *self.enter(place, last, way.len(), || self.value.clone())? = self.value.clone();
        if let Value::Table(changed) = root {
            *scenario = changed;
        }
        Ok(())
    }

    /// What `place` has under the name or index `segment`, the path's one at `depth`; a table
    /// without it gets `new`.
    fn enter<'a>(
        &self,
        place: &'a mut Value,
        segment: &str,
        depth: usize,
        new: impl FnOnce() -> Value,
    ) -> Result<&'a mut Value, SettingError> {
        let no_such_place = |length, found| {
            let at = self.path.prefix(length).to_string();
            SettingError::NoSuchPlace { setting: self.text.clone(), at, found }
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
                let found = format!(
                    "of type {}, with nothing below it; set it as a whole",
                    other.type_str()
                );
                Err(no_such_place(depth, found))
            }
        }
    }

    /// The error of a file that is no scenario any more since this setting.
    fn rejected(&self, error: &toml::de::Error) -> SettingError {
        let message = error.message().to_owned();
        SettingError::Rejected {
            setting: self.text.clone(),
            suggestion: suggestion(&message),
            message,
        }
    }
}

/// The scenario in `text`, after `sets`.
pub(super) fn read(text: &str, origin: &str, sets: &[Setting]) -> Result<Scenario, ScenarioError> {
    let malformed = |error| ScenarioError::malformed(origin, text, &error);
    let typed: ScenarioFile = toml::from_str(text).map_err(malformed)?;
    if sets.is_empty() {
        return check::build(typed, origin, Some(text));
    }
    let mut table: Table = text.parse().map_err(malformed)?;
    let mut outcome = Ok(typed);
    for set in sets {
        set.apply(&mut table)?;
        // A later setting may complete an earlier one, so only what is still wrong at the end
        // counts, and is put down to the setting that broke it.
        outcome = match (ScenarioFile::deserialize(table.clone()), outcome) {
            (Ok(file), _) => Ok(file),
            (Err(_), Err(earlier)) => Err(earlier),
            (Err(error), Ok(_)) => Err(set.rejected(&error)),
        };
    }
    check::build(outcome?, origin, None)
}

/// Every combination of one value of each sweep, the first sweep changing slowest; one, empty, of
/// no sweeps.
pub(super) fn combinations(sweeps: &[Sweep]) -> Vec<Vec<Setting>> {
    sweeps.iter().fold(vec![Vec::new()], |shorter, sweep| {
        let extended = |start: &Vec<Setting>| {
            let start = start.clone();
            sweep
                .0
                .iter()
                .map(move |setting| [start.as_slice(), std::slice::from_ref(setting)].concat())
        };
        shorter.iter().flat_map(extended).collect()
    })
}

fn split(text: &str) -> Result<(KeyPath, &str), SettingError> {
    let unreadable = || SettingError::Unreadable(text.to_owned());
    let mut quoted = false;
    let equals = text.find(|c| {
        quoted ^= c == '"';
        c == '=' && !quoted
    });
    let (path, value) = text.split_at(equals.ok_or_else(unreadable)?);
    Ok((KeyPath::parse(path).ok_or_else(unreadable)?, &value[1..]))
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
