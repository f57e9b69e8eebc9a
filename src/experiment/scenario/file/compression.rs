//! What is left out of the values on the network, as it is typed.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Unexpected, Visitor};

/// `"none"`, `"bf16"`, `"int8"`, `{ int8 = { block = 256 } }` or `{ top_k = { fraction = 0.01 } }`.
#[derive(Clone, Copy)]
pub(in crate::experiment::scenario) enum CompressionFile {
    None,
    Bf16,
    Int8 { block: u32 },
    TopK { fraction: f64 },
}

/// The values of a block where none are given: its scale is then a 64th of it.
const BLOCK: u32 = 256;

/// The ways that have parameters, one of which is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    int8: Option<Int8Table>,
    top_k: Option<TopKTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Int8Table {
    block: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopKTable {
    fraction: f64,
}

struct CompressionVisitor;

impl<'de> Visitor<'de> for CompressionVisitor {
    type Value = CompressionFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "\"none\", \"bf16\", \"int8\", { int8 = { block = 256 } } or \
             { top_k = { fraction = 0.01 } }",
        )
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<CompressionFile, E> {
        match name {
            "none" => Ok(CompressionFile::None),
            "bf16" => Ok(CompressionFile::Bf16),
            "int8" => Ok(CompressionFile::Int8 { block: BLOCK }),
            "top_k" => Err(E::invalid_value(Unexpected::Str(name), &self)),
            other => Err(E::unknown_variant(other, &["none", "bf16", "int8", "top_k"])),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CompressionFile, A::Error> {
        match Table::deserialize(MapAccessDeserializer::new(map))? {
            Table { int8: Some(Int8Table { block }), top_k: None } => {
                Ok(CompressionFile::Int8 { block })
            }
            Table { int8: None, top_k: Some(TopKTable { fraction }) } => {
                Ok(CompressionFile::TopK { fraction })
            }
            _ => Err(de::Error::invalid_value(
                Unexpected::Other("not exactly one way to compress"),
                &self,
            )),
        }
    }
}

impl<'de> Deserialize<'de> for CompressionFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CompressionVisitor)
    }
}
