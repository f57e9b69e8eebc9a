//! Defined operations in messages.
//!
//! An operation of the library is its number and the values of its attributes, whose types the
//! number tells. One of the program is its kind and its attributes, each with its type. All tasks
//! of a cluster run the same program, so all count alike.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeTuple, Serializer};

use super::registry::{of_kind, of_number};
use crate::graph::{Attribute, Defined};

/// In place of a number: an operation that is not the library's follows by its kind.
const BY_KIND: u16 = 0;

/// The most attributes of an operation of the library.
const MOST: usize = 16;

impl Serialize for Defined {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, listed) = (self.definition().kind(), self.listed());
        let values = listed.into_iter().map(|(_, value)| value);
        match of_kind(kind).and_then(|registered| registered.number) {
            Some(number) => {
                let mut message = serializer.serialize_tuple(1 + values.len())?;
                message.serialize_element(&(BY_KIND + 1 + number as u16))?;
                for value in values {
                    message.serialize_element(&Untyped(&value))?;
                }
                message.end()
            }
            None => (BY_KIND, kind, values.collect::<Vec<_>>()).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Defined {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(1 + MOST, Message)
    }
}

/// Reads an operation.
struct Message;

impl<'de> Visitor<'de> for Message {
    type Value = Defined;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an operation")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut message: A) -> Result<Defined, A::Error> {
        let number: u16 = next(&mut message)?;
        let (operation, values) = if number == BY_KIND {
            let kind: String = next(&mut message)?;
            let unknown = || {
                let ask = "is registered here; do all tasks run the same program?";
                A::Error::custom(format!("no operation `{kind}` {ask}"))
            };
            (of_kind(&kind).ok_or_else(unknown)?.op, next(&mut message)?)
        } else {
            let unknown = || A::Error::custom(format!("there is no operation number {number}"));
            let operation =
                of_number(usize::from(number - BY_KIND - 1)).ok_or_else(unknown)?.clone();
            let mut values = Vec::new();
            for (_, like) in operation.listed() {
                values.extend(message.next_element_seed(Like(&like))?);
            }
            (operation, values)
        };
        operation.with(values).ok_or_else(|| {
            let kind = operation.definition().kind();
            A::Error::custom(format!("these are not the attributes of an operation `{kind}`"))
        })
    }
}

fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(message: &mut A) -> Result<T, A::Error> {
    message.next_element()?.ok_or_else(|| A::Error::custom("the operation is incomplete"))
}

/// The value of an attribute, without its type.
struct Untyped<'a>(&'a Attribute);

impl Serialize for Untyped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

/// Reads the value of an attribute of this one's type.
struct Like<'a>(&'a Attribute);

impl<'de> DeserializeSeed<'de> for Like<'_> {
    type Value = Attribute;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Attribute, D::Error> {
        self.0.read_alike(deserializer)
    }
}
