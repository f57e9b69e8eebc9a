//! Values in JSON as numbers of bytes: shorter than names and digits, and exact for all floats, of
//! which JSON has none that is not finite.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, Serializer};

use crate::transport::wire;

pub(super) fn serialize<T: Serialize, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut bytes = Vec::new();
    wire::encode(value, &mut bytes).map_err(S::Error::custom)?;
    bytes.serialize(serializer)
}

pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let bytes = Vec::<u8>::deserialize(deserializer)?;
    wire::decode_unlimited(&bytes).map_err(D::Error::custom)
}
