//! A fault as it is typed: the key of its kind, and those that go with it.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::forms::{FORMS, Form, Says};
use super::recurring::Every;
use crate::faults::FaultDetails;
use crate::units::Span;

/// A fault as it is typed: when, what, and for how long.
#[derive(Default)]
pub(in super::super) struct FaultFile {
    pub(super) at: Option<Span>,
    pub(super) every: Option<Every>,
    /// The kinds whose keys it has, each with the names that the key says.
    pub(super) kinds: Vec<(&'static Form, Vec<String>)>,
    /// What the keys that go with a kind's say.
    pub(super) beside: FaultDetails,
}

static KEYS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let kinds = FORMS.iter().map(|form| form.key);
    let when = ["at", "every"].into_iter();
    when.chain(kinds).chain(["restart_after", "rate", "factor", "for"]).collect()
});

/// A key that a fault may have.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        match KEYS.contains(&key.as_str()) {
            true => Ok(Self(key)),
            false => Err(de::Error::unknown_field(&key, &KEYS)),
        }
    }
}

struct FaultVisitor;

impl<'de> Visitor<'de> for FaultVisitor {
    type Value = FaultFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, such as { key = value }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FaultFile, A::Error> {
        let mut file = FaultFile::default();
        while let Some(Key(key)) = map.next_key()? {
            match key.as_str() {
                "at" => file.at = map.next_value()?,
                "every" => file.every = map.next_value()?,
                "restart_after" => file.beside.restart_after = time(&mut map)?,
                "rate" => file.beside.rate = map.next_value()?,
                "factor" => file.beside.factor = map.next_value()?,
                "for" => file.beside.lasts = time(&mut map)?,
                kind => {
                    let form = FORMS.iter().find(|form| form.key == kind);
                    let form = form.expect("every other key is a kind's");
                    let names = match form.says {
                        Says::Each | Says::Damage => vec![map.next_value()?],
                        Says::Between | Says::FromTo => map.next_value()?,
                        Says::True if map.next_value()? => Vec::new(),
                        Says::True => continue,
                    };
                    file.kinds.push((form, names));
                }
            }
        }
        Ok(file)
    }
}

fn time<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Duration>, A::Error> {
    Ok(map.next_value::<Option<Span>>()?.map(Duration::from))
}

impl<'de> Deserialize<'de> for FaultFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FaultVisitor)
    }
}
