//! The control part of a frame. The one place that knows bincode.

use bincode::config::{Configuration, Limit, LittleEndian, Varint, standard};
use bincode::serde::{decode_from_slice, encode_into_std_write};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::WireError;

/// The most memory that a decoder allocates, whatever lengths it is told \[bytes\].
pub(super) const MAX_CONTROL: usize = 64 << 20;

type Config = Configuration<LittleEndian, Varint, Limit<MAX_CONTROL>>;

fn config() -> Config {
    standard().with_limit::<MAX_CONTROL>()
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

/// As [`decode`], with no limit but the length of `bytes`: of what comes from a process that this
/// one has started, and may be more than any message.
pub(crate) fn decode_unlimited<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    match decode_from_slice(bytes, standard())? {
        (value, read) if read == bytes.len() => Ok(value),
        (_, read) => Err(WireError::LeftOver(bytes.len() - read, 0)),
    }
}

/// The value that `bytes` begin with, which are then those after it.
pub(crate) fn decode_next<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, WireError> {
    let (value, read) = decode_from_slice(bytes, config())?;
    *bytes = &bytes[read..];
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_message_may_have_is_read_where_there_is_no_limit_and_nothing_is_left_over() {
        let mut bytes = Vec::new();
        encode(&"x".repeat(MAX_CONTROL), &mut bytes).unwrap();
        assert!(decode::<String>(&bytes).is_err());
        assert_eq!(decode_unlimited::<String>(&bytes).unwrap().len(), MAX_CONTROL);
        bytes.push(0);
        assert!(matches!(decode_unlimited::<String>(&bytes), Err(WireError::LeftOver(1, 0))));
    }
}
