//! Frames: there and back, in pieces, and bytes that are no frame.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::tensor::{DType, FillingTensor, MAX_RANK, Shape};
use crate::units;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    text: String,
    tensors: Vec<Tensor>,
    more: Option<Box<Self>>,
}

impl Payload for Note {
    fn wire_size(&self) -> units::Bytes {
        units::Bytes(self.text.len() as u64)
    }

    fn check(&self) -> Result<(), String> {
        if self.text == "bad" { Err("it says so".to_owned()) } else { Ok(()) }
    }
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let dims = prop::collection::vec(0usize..5, 0..=MAX_RANK);
    (dims, 1u8..=7, any::<u8>()).prop_map(|(dims, code, byte)| {
        let dtype = DType::of_code(code).unwrap();
        let byte = if dtype == DType::Bool { byte % 2 } else { byte };
        let mut filling = FillingTensor::new(dtype, Shape::new(&dims));
        let bytes = vec![byte; filling.missing()];
        filling.push(&mut &bytes[..]);
        filling.full().unwrap()
    })
}

fn note() -> impl Strategy<Value = Note> {
    let leaf = || {
        let parts = ("[a-z]{0,9}", prop::collection::vec(tensor(), 0..4));
        parts.prop_map(|(text, tensors)| Note { text: text + "!", tensors, more: None })
    };
    (leaf(), prop::option::of(leaf()))
        .prop_map(|(note, more)| Note { more: more.map(Box::new), ..note })
}

fn encoded(notes: &Messages<Note>) -> Vec<u8> {
    encode_envelope(notes, WireLimits::default()).unwrap()
}

fn decoded(bytes: &[u8]) -> Result<Messages<Note>, WireError> {
    decode_envelope(bytes, WireLimits::default())
}

proptest! {
    #[test]
    fn messages_come_back_as_they_were_in_pieces_of_any_size(
        notes in prop::collection::vec(note(), 0..4),
        piece in 1usize..300,
    ) {
        let bytes = [encoded(&notes), encoded(&notes)].concat();
        let mut decoder = FrameDecoder::new(WireLimits::default());
        let mut frames = Vec::new();
        for mut bytes in bytes.chunks(piece) {
            while let Some(frame) = decoder.push(&mut bytes).unwrap() {
                frames.push(frame.messages::<Note>().unwrap());
            }
        }
        prop_assert!(decoder.is_between_frames());
        prop_assert_eq!(frames, [notes.clone(), notes]);
    }

    #[test]
    fn what_is_cut_short_or_has_more_at_its_end_is_an_error(
        notes in prop::collection::vec(note(), 1..3),
        at in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(&notes);
        prop_assert!(decoded(&bytes[..at.index(bytes.len())]).is_err());
        bytes.push(0);
        prop_assert!(decoded(&bytes).is_err());
    }

    #[test]
    fn a_flipped_bit_is_an_error_or_another_message(
        notes in prop::collection::vec(note(), 1..3),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let mut bytes = encoded(&notes);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let _no_panic = decoded(&bytes);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        is_envelope: bool,
    ) {
        if is_envelope && bytes.len() >= 12 {
            bytes[..12].copy_from_slice(&[2, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0]);
        }
        let _no_panic = decoded(&bytes);
    }
}

#[test]
fn lengths_beyond_the_limits_are_refused_before_memory_is_set_aside() {
    let limits = WireLimits { control: 100, tensor: 1000, envelope: 1500 };
    let refused = |bytes: &[u8]| match decode_envelope::<Note>(bytes, limits) {
        Err(WireError::TooLong { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&[2, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0]), "a control part");
    assert_eq!(refused(&[2, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255]), "a list of tensors");
    let begun = [2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0];
    let header = |len: usize| tensor_header(&Tensor::zeros(DType::Bool, [len])).unwrap();
    assert_eq!(refused(&[&begun[..], &header(1001)].concat()), "a tensor");
    let two = [&begun[..], &header(1000), &[0; 1000], &header(1000)].concat();
    assert_eq!(refused(&two), "the tensors of an envelope");
    let own = Note { text: "x".repeat(101), tensors: vec![], more: None };
    assert!(matches!(encode_envelope(&vec![own], limits), Err(WireError::TooLong { .. })));
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let good = tensor_header(&Tensor::zeros(DType::F32, [2, 3])).unwrap();
    assert_eq!(good[..8], [24, 0, 0, 0, 0, 0, 1, 2]);
    let reasons = [
        (0, 25, "length"),
        (6, 9, "element type"),
        (7, 7, "dimensions"),
        (16, 1, "beyond its rank"),
    ];
    for (at, byte, reason) in reasons {
        let mut header = good;
        header[at] = byte;
        let error = tensors::parse(&header).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let mut huge = [0xff; TENSOR_HEADER];
    (huge[6], huge[7]) = (1, 6);
    assert!(tensors::parse(&huge).is_err());
    let mut nothing_of_much = huge;
    nothing_of_much[..6].fill(0);
    nothing_of_much[28..].fill(0);
    assert!(tensors::parse(&nothing_of_much).is_err(), "a dimension of 0 hides no overflow");
}

#[test]
fn tensors_without_numbers_stay_at_home() {
    let note =
        Note { text: String::new(), tensors: vec![Tensor::hollow(DType::F32, [8])], more: None };
    let error = encode_envelope(&vec![note], WireLimits::default()).unwrap_err().to_string();
    assert!(error.contains("can't leave its process"), "{error}");
}

#[test]
fn a_message_that_can_not_be_is_refused() {
    let bad = Note { text: "bad".to_owned(), tensors: vec![], more: None };
    let error = decoded(&encoded(&vec![bad])).unwrap_err();
    assert!(matches!(&error, WireError::Message(why) if why == "it says so"), "{error}");
}

#[test]
fn tensors_that_nobody_takes_or_that_are_missing_are_errors() {
    let one = Note { text: String::new(), tensors: vec![Tensor::scalar(1f32)], more: None };
    let mut frame = Outgoing::envelope(&vec![one], &WireLimits::default()).unwrap();
    frame.tensors.push(Tensor::scalar(2f32));
    frame.write_header(Kind::Envelope);
    let mut bytes = Vec::new();
    frame.write_to(&mut bytes);
    assert!(matches!(decoded(&bytes), Err(WireError::LeftOver(0, 1))));
    frame.tensors.clear();
    frame.write_header(Kind::Envelope);
    assert!(matches!(decoded(&frame.head), Err(WireError::Decode(_))));
}
