//! `tf.train.Example`: named features of a record, each a list of floats, of integers or of bytes.

use std::collections::BTreeMap;

use prost::Message;

use super::DataError;
use super::tfrecord::{Record, RecordLocation};

/// A record's features by their names (TensorFlow: `tf.train.Example`).
#[derive(Clone, Debug)]
pub struct Example {
    features: BTreeMap<String, Feature>,
    location: RecordLocation,
}

impl Example {
    /// The example in `record`.
    ///
    /// # Errors
    /// If it holds none.
    pub fn decode(record: &Record) -> Result<Self, DataError> {
        let location = record.location.clone();
        let wire = ExampleProto::decode(&*record.data).map_err(|error| {
            location.malformed("record", format!("it is no `tf.train.Example`: {error}"))
        })?;
        Ok(Self { features: wire.features.unwrap_or_default().feature, location })
    }

    /// The floats of a feature (TensorFlow: `FixedLenFeature`, of `tf.float32`).
    ///
    /// # Errors
    /// If there is no such feature, of another type, or not of `count` values.
    pub fn floats(&self, name: &str, count: usize) -> Result<&[f32], DataError> {
        self.of_count(name, self.float_list(name)?, count)
    }

    /// The integers of a feature (TensorFlow: `FixedLenFeature`, of `tf.int64`).
    ///
    /// # Errors
    /// As [`Self::floats`].
    pub fn ints(&self, name: &str, count: usize) -> Result<&[i64], DataError> {
        self.of_count(name, self.int_list(name)?, count)
    }

    /// The bytes of a feature, a single string of them (TensorFlow: `FixedLenFeature`, of
    /// `tf.string`).
    ///
    /// # Errors
    /// As [`Self::floats`].
    pub fn bytes(&self, name: &str) -> Result<&[u8], DataError> {
        Ok(&self.of_count(name, self.bytes_list(name)?, 1)?[0])
    }

    /// The floats of a feature, however many (TensorFlow: `VarLenFeature`, of `tf.float32`).
    ///
    /// # Errors
    /// If there is no such feature, or it is of another type.
    pub fn float_list(&self, name: &str) -> Result<&[f32], DataError> {
        match self.kind(name)? {
            Kind::Floats(list) => Ok(&list.value),
            other => Err(self.other_type(name, "floats", other)),
        }
    }

    /// The integers of a feature, however many (TensorFlow: `VarLenFeature`, of `tf.int64`).
    ///
    /// # Errors
    /// As [`Self::float_list`].
    pub fn int_list(&self, name: &str) -> Result<&[i64], DataError> {
        match self.kind(name)? {
            Kind::Ints(list) => Ok(&list.value),
            other => Err(self.other_type(name, "integers", other)),
        }
    }

    /// The strings of bytes of a feature, however many (TensorFlow: `VarLenFeature`, of
    /// `tf.string`).
    ///
    /// # Errors
    /// As [`Self::float_list`].
    pub fn bytes_list(&self, name: &str) -> Result<&[Vec<u8>], DataError> {
        match self.kind(name)? {
            Kind::Bytes(list) => Ok(&list.value),
            other => Err(self.other_type(name, "bytes", other)),
        }
    }

    /// Whether there is such a feature, for one with a default (TensorFlow: `default_value` of
    /// `FixedLenFeature`).
    pub fn has(&self, name: &str) -> bool {
        self.features.get(name).is_some_and(|feature| feature.kind.is_some())
    }

    /// The values of the feature, whatever their type, as numbers: bytes as pixels from 0 to 1, or
    /// what `decode` makes of them where they are not `count`.
    pub(super) fn numbers(
        &self,
        name: &str,
        count: usize,
        decode: impl Fn(&[u8]) -> Result<Vec<f32>, String>,
    ) -> Result<Vec<f32>, DataError> {
        match self.kind(name)? {
            Kind::Floats(_) => {
                let floats = self.floats(name, count)?;
                match floats.iter().find(|value| !value.is_finite()) {
                    Some(value) => {
                        let problem = format!("{value} is no number: leave the record out");
                        Err(self.malformed(name, &problem))
                    }
                    None => Ok(floats.to_vec()),
                }
            }
            Kind::Ints(_) => {
                Ok(self.ints(name, count)?.iter().map(|value| *value as f32).collect())
            }
            Kind::Bytes(_) => match self.bytes(name)? {
                raw if raw.len() == count => {
                    Ok(raw.iter().map(|pixel| f32::from(*pixel) / 255.0).collect())
                }
                encoded => decode(encoded).map_err(|why| self.malformed(name, &why)),
            },
        }
    }

    pub(super) fn malformed(&self, name: &str, problem: &str) -> DataError {
        self.location.malformed("record", format!("feature `{name}`: {problem}"))
    }

    /// The error that the feature is not what it is asked to be.
    pub(super) fn mistaken(&self, name: &str, problem: &str) -> DataError {
        self.location.mistaken(format!("feature `{name}`: {problem}"))
    }

    fn kind(&self, name: &str) -> Result<&Kind, DataError> {
        if let Some(kind) = self.features.get(name).and_then(|feature| feature.kind.as_ref()) {
            return Ok(kind);
        }
        let names: Vec<&str> = self.features.keys().map(String::as_str).collect();
        let problem = format!("it has no feature `{name}`; it has {}", names.join(", "));
        Err(self.location.mistaken(problem))
    }

    fn of_count<'a, T>(
        &self,
        name: &str,
        values: &'a [T],
        count: usize,
    ) -> Result<&'a [T], DataError> {
        if values.len() == count {
            return Ok(values);
        }
        Err(self.malformed(name, &format!("{} values, where {count} are asked for", values.len())))
    }

    fn other_type(&self, name: &str, wanted: &str, found: &Kind) -> DataError {
        let found = match found {
            Kind::Bytes(_) => "bytes",
            Kind::Floats(_) => "floats",
            Kind::Ints(_) => "integers",
        };
        self.malformed(name, &format!("it has {found}, where {wanted} are asked for"))
    }
}

/// `Example` of `example.proto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExampleProto {
    #[prost(message, optional, tag = "1")]
    pub(super) features: Option<Features>,
}

/// `Features` of `feature.proto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) feature: BTreeMap<String, Feature>,
}

/// `Feature` of `feature.proto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Feature {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    pub(super) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Kind {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "2")]
    Floats(FloatList),
    #[prost(message, tag = "3")]
    Ints(Int64List),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FloatList {
    #[prost(float, repeated, tag = "1")]
    pub(super) value: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Int64List {
    #[prost(int64, repeated, tag = "1")]
    pub(super) value: Vec<i64>,
}
