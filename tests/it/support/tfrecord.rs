//! Records of TFRecord files, as TensorFlow writes them.

/// A `tf.train.Example` of the features `x`, floats, and `y`, an integer.
pub(crate) fn example(x: &[f32], y: i32) -> Vec<u8> {
    let floats: Vec<u8> = x.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut ints = Vec::new();
    varint(&mut ints, y as u64);
    let entry = |name: &str, list: u8, values: &[u8]| {
        let feature = field(list, &field(1, values));
        field(1, &[field(1, name.as_bytes()), field(2, &feature)].concat())
    };
    field(1, &[entry("x", 2, &floats), entry("y", 3, &ints)].concat())
}

/// A record: length, checksum of the length, data, checksum of the data.
pub(crate) fn framed(data: &[u8]) -> Vec<u8> {
    let masked = |bytes: &[u8]| {
        crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
    };
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), data, &masked(data)].concat()
}

/// A field of a protocol buffer that has bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    varint(&mut field, bytes.len() as u64);
    field.extend(bytes);
    field
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
