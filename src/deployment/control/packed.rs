//! Values in JSON as numbers of bytes: shorter than names and digits, and exact for all floats, of
//! which JSON has none that is not finite.

use bincode::config::standard;
use bincode::serde::{decode_from_slice, encode_to_vec};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, Serializer};

pub(super) fn serialize<T: Serialize, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    encode_to_vec(value, standard()).map_err(S::Error::custom)?.serialize(serializer)
}

pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let bytes = Vec::<u8>::deserialize(deserializer)?;
    decode_from_slice(&bytes, standard()).map(|(value, _)| value).map_err(D::Error::custom)
}
