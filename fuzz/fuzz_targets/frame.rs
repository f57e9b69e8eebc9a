//! Any bytes as a frame from another process: refused or understood, and then the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard::runtime::PeerMessage;
use trainyard::transport::wire::{FrameDecoder, WireLimits, decode_envelope, encode_envelope};

const LIMITS: WireLimits = WireLimits { control: 1 << 16, tensor: 1 << 16, envelope: 1 << 17 };

fuzz_target!(|bytes: &[u8]| {
    if let Ok(messages) = decode_envelope::<PeerMessage>(bytes, LIMITS) {
        let again = encode_envelope(&messages, LIMITS).expect("what was decoded can be encoded");
        let same = decode_envelope::<PeerMessage>(&again, LIMITS)
            .expect("what was encoded can be decoded");
        assert_eq!(format!("{messages:?}"), format!("{same:?}"));
    }
    let mut decoder = FrameDecoder::new(LIMITS);
    for mut piece in bytes.chunks(7) {
        while let Ok(Some(frame)) = decoder.push(&mut piece) {
            let _understood_or_refused = frame.messages::<PeerMessage>();
        }
    }
});
