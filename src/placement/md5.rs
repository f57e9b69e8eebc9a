//! The MD5 digest, by which TensorFlow's `RandomStrategy` chooses; it protects nothing.

/// The digest of `text` as a big-endian number (RFC 1321).
pub(super) fn md5(text: &[u8]) -> u128 {
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut message = text.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend((text.len() as u64 * 8).to_le_bytes());
    for block in message.chunks_exact(64) {
        add_block(&mut state, block);
    }
    let bytes: Vec<u8> = state.iter().flat_map(|word| word.to_le_bytes()).collect();
    u128::from_be_bytes(bytes.try_into().expect("four words are sixteen bytes"))
}

fn add_block(state: &mut [u32; 4], block: &[u8]) {
    const SHIFTS: [[u32; 4]; 4] =
        [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let word = |k: usize| {
        u32::from_le_bytes(block[4 * k..4 * k + 4].try_into().expect("a word is four bytes"))
    };
    let [mut a, mut b, mut c, mut d] = *state;
    for i in 0..64usize {
        let (mixed, k) = match i / 16 {
            0 => ((b & c) | (!b & d), i),
            1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
            2 => (b ^ c ^ d, (3 * i + 5) % 16),
            _ => (c ^ (b | !d), 7 * i % 16),
        };
        // 2^32 |sin(i + 1)|, as the RFC defines its table.
        let sine = (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(mixed).wrapping_add(sine).wrapping_add(word(k));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
    }
    for (kept, new) in state.iter_mut().zip([a, b, c, d]) {
        *kept = kept.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_are_those_of_the_rfc() {
        assert_eq!(format!("{:032x}", md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(format!("{:032x}", md5(b"abc")), "900150983cd24fb0d6963f7d28e17f72");
        let digits = b"1234567890".repeat(8);
        assert_eq!(format!("{:032x}", md5(&digits)), "57edf4a22be3c955ac49da2e2107b67a");
    }
}
