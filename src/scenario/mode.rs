//! A run's mode as it is typed: a name, or a table of one name with its parameters. The table of
//! modes lists the modes and their parameters.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IgnoredAny, MapAccess, Unexpected, Visitor,
};

use crate::sync::Mode;

/// `"async"`, `"sync"`, `"staleness_aware"`, or a table of one mode with its parameters, such as
/// `{ sync = { backups = 1 } }`.
pub(in crate::scenario) struct ModeFile(pub(in crate::scenario) Mode);

/// A mode's name, which is a key.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if Mode::NAMES.contains(&name.as_str()) {
            return Ok(Self(name));
        }
        Err(de::Error::unknown_field(&name, Mode::NAMES))
    }
}

/// The parameters of the mode of this name.
struct Parameters<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Parameters<'_> {
    type Value = Mode;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Mode, D::Error> {
        let parsed = Mode::parse(self.0, deserializer)?;
        parsed.ok_or_else(|| de::Error::unknown_variant(self.0, Mode::NAMES))
    }
}

struct ModeVisitor;

impl<'de> Visitor<'de> for ModeVisitor {
    type Value = Mode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (last, others) = Mode::EXAMPLES.split_last().expect("there are modes");
        write!(f, "one of {} and {last}", others.join(", "))
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Mode, E> {
        let none = MapDeserializer::<_, E>::new(std::iter::empty::<(&str, u32)>());
        match Mode::parse(name, none) {
            Ok(Some(mode)) => Ok(mode),
            Ok(None) => Err(E::unknown_variant(name, Mode::NAMES)),
            Err(_) => Err(E::invalid_value(Unexpected::Str(name), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Mode, A::Error> {
        let expected: &dyn Expected = &self;
        let not_one =
            || de::Error::invalid_value(Unexpected::Other("not exactly one mode"), expected);
        let Name(name) = map.next_key()?.ok_or_else(not_one)?;
        let mode = map.next_value_seed(Parameters(&name))?;
        if map.next_entry::<Name, IgnoredAny>()?.is_some() {
            return Err(not_one());
        }
        Ok(mode)
    }
}

impl<'de> Deserialize<'de> for ModeFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ModeVisitor).map(Self)
    }
}
