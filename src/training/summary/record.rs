//! A record of a file of TensorFlow's (`TFRecordWriter`): its length, its bytes, and a checksum of each.

/// `data` as a record: length, checksum of the length, data, checksum of the data; all numbers little-endian.
pub(super) fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(masked(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked(data).to_le_bytes());
    record
}

/// The checksum, turned and shifted: one of bytes that hold checksums themselves would be weak.
fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every file of events begins with: the length 24 and its checksum, then the version.
    #[test]
    fn a_record_has_the_bytes_that_tensorflow_writes() {
        let version = b"\x09\x00\x00\xc0%\xdd\x75\xd5\x41\x1a\x0dbrain.Event:2";
        let expected = [b"\x18\0\0\0\0\0\0\0\xa3\x7fK\x22", &version[..], b"\x8d\x1a\xdb\xaf"].concat();
        assert_eq!(framed(version), expected);
    }

    /// RFC 3720, appendix B.4: the checksum of 32 zeros is `8a9136aa`.
    #[test]
    fn a_checksum_is_masked_as_tensorflow_masks_it() {
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked(&[0; 32]), 0x0fd7_fffa);
    }
}
