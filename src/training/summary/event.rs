//! An event of TensorBoard's: the fields of `event.proto` and `summary.proto` that are written here.

use prost::Message;

/// Something at a time and, mostly, at a step.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    /// Since 1970 \[s\].
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(oneof = "What", tags = "3, 5")]
    what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
}

/// Values of one step.
#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Value>,
}

/// A value of a curve.
#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(oneof = "Kind", tags = "2")]
    kind: Option<Kind>,
}

#[derive(Clone, Copy, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(float, tag = "2")]
    SimpleValue(f32),
}

impl Event {
    /// The first of a file: by it TensorBoard knows what the file is.
    pub(super) fn version(wall_time: f64) -> Self {
        Self { wall_time, step: 0, what: Some(What::FileVersion("brain.Event:2".to_owned())) }
    }

    /// `values` by their tags.
    pub(super) fn scalars(wall_time: f64, step: u64, values: &[(&str, f32)]) -> Self {
        let value = |&(tag, value): &(&str, f32)| Value { tag: tag.to_owned(), kind: Some(Kind::SimpleValue(value)) };
        let summary = Summary { value: values.iter().map(value).collect() };
        Self { wall_time, step: step as i64, what: Some(What::Summary(summary)) }
    }

    pub(super) fn encoded(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As protocol buffers are written: field number and wire type in one byte, then the value.
    #[test]
    fn an_event_has_the_bytes_of_tensorflows_protocol_buffers() {
        let version = [&[0x09][..], &1.5f64.to_le_bytes(), &[0x1a, 13], b"brain.Event:2"].concat();
        assert_eq!(Event::version(1.5).encoded(), version);
        let value = [&[0x0a, 4][..], b"loss", &[0x15], &0.25f32.to_le_bytes()].concat();
        let summary = [&[0x0a, value.len() as u8][..], &value].concat();
        let scalar =
            [&[0x09][..], &1.5f64.to_le_bytes(), &[0x10, 0xac, 0x02, 0x2a, summary.len() as u8], &summary].concat();
        assert_eq!(Event::scalars(1.5, 300, &[("loss", 0.25)]).encoded(), scalar);
    }
}
