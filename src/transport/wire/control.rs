//! The control part of a frame. The one place that knows bincode.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::serde::{decode_from_slice, encode_into_std_write};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::WireError;

/// The most memory that a decoder allocates, whatever lengths it is told \[bytes\].
pub(super) const MAX_CONTROL: usize = 64 << 20;

type Config = Configuration<LittleEndian, Varint, Limit<MAX_CONTROL>>;

fn config() -> Config {
    bincode::config::standard().with_limit::<MAX_CONTROL>()
}

/// Appends `value` to `bytes`.
pub(crate) fn encode<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<(), WireError> {
    encode_into_std_write(value, bytes, config())?;
    Ok(())
}

/// The value that `bytes` encode, all of them.
pub(crate) fn decode<T: DeserializeOwned>(mut bytes: &[u8]) -> Result<T, WireError> {
    let value = decode_next(&mut bytes)?;
    match bytes.len() {
        0 => Ok(value),
        left => Err(WireError::LeftOver(left, 0)),
    }
}

/// The value that `bytes` begin with, which are then those after it.
pub(crate) fn decode_next<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, WireError> {
    let (value, read) = decode_from_slice(bytes, config())?;
    *bytes = &bytes[read..];
    Ok(value)
}
