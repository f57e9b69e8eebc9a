//! `compression`: the part of the values between tasks that a run does not send.

use std::fmt;
use std::num::NonZeroU32;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Unexpected, Visitor};

use super::mistakes::Mistakes;
use crate::runtime::Encoding;

/// The compression of the values that a run's tasks send each other. Written `"none"`, `"bf16"`,
/// `"int8"`, `{ int8 = { block = 256 } }` or `{ top_k = { fraction = 0.01 } }`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Compression {
    /// Everything is sent.
    #[default]
    None,
    /// The lower half of every f32 is left out.
    Bf16,
    /// Every f32 is sent as 8 bits, with a scale for each block of values.
    Int8 {
        /// The number of values in a block. Default: 256, so that the scale adds a 64th.
        block: NonZeroU32,
    },
    /// The smaller elements of every gradient are not sent; the worker keeps them and adds them to
    /// its next gradient.
    TopK {
        /// The share that is sent, above 0 and at most 1.
        fraction: f64,
    },
}

impl Compression {
    /// The encoding of values on the network.
    pub fn encoding(self) -> Encoding {
        match self {
            Self::None | Self::TopK { .. } => Encoding::Exact,
            Self::Bf16 => Encoding::Bf16,
            Self::Int8 { block } => Encoding::Int8 { block },
        }
    }

    /// The share of each gradient that is sent, if not all of it is.
    pub fn top_k(self) -> Option<f64> {
        match self {
            Self::TopK { fraction } => Some(fraction),
            Self::None | Self::Bf16 | Self::Int8 { .. } => None,
        }
    }

    pub(super) fn check(self, path: &str, found: &mut Mistakes) {
        if let Self::TopK { fraction } = self {
            found.unless(
                fraction > 0.0 && fraction <= 1.0,
                format!("{path}.top_k.fraction"),
                || format!("{fraction} must be above 0 and at most 1"),
            );
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Bf16 => f.write_str("bf16"),
            Self::Int8 { block } => write!(f, "int8 in blocks of {block}"),
            Self::TopK { fraction } => write!(f, "top {} %", fraction * 100.0),
        }
    }
}

/// The default number of values in a block.
const BLOCK: NonZeroU32 = NonZeroU32::new(256).expect("it is not 0");

/// The compressions with parameters; exactly one is given.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    int8: Option<Int8>,
    top_k: Option<TopK>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Int8 {
    block: NonZeroU32,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TopK {
    fraction: f64,
}

struct CompressionVisitor;

impl<'de> Visitor<'de> for CompressionVisitor {
    type Value = Compression;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "\"none\", \"bf16\", \"int8\", { int8 = { block = 256 } } or \
             { top_k = { fraction = 0.01 } }",
        )
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Compression, E> {
        match name {
            "none" => Ok(Compression::None),
            "bf16" => Ok(Compression::Bf16),
            "int8" => Ok(Compression::Int8 { block: BLOCK }),
            "top_k" => Err(E::invalid_value(Unexpected::Str(name), &self)),
            other => Err(E::unknown_variant(other, &["none", "bf16", "int8", "top_k"])),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Compression, A::Error> {
        match Table::deserialize(MapAccessDeserializer::new(map))? {
            Table { int8: Some(Int8 { block }), top_k: None } => Ok(Compression::Int8 { block }),
            Table { int8: None, top_k: Some(TopK { fraction }) } => {
                Ok(Compression::TopK { fraction })
            }
            _ => Err(de::Error::invalid_value(
                Unexpected::Other("not exactly one way to compress"),
                &self,
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Compression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CompressionVisitor)
    }
}
