//! Files of events, which TensorBoard shows: records of TFRecord, each an `Event` of `event.proto`.

mod growing;
#[cfg(test)]
pub(crate) mod reading;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use prost::Message;

pub(crate) use growing::GrowingFile;

/// The content of a file's first event.
const VERSION: &str = "brain.Event:2";
/// The mask of a checksum: it keeps the checksum of a record that itself holds checksums strong
/// (`crc32c.h`).
const MASK: u32 = 0xa282_ead8;
/// The number of buckets of a histogram; TensorBoard draws as many.
const BUCKETS: usize = 30;

/// Writes events to a file (TensorFlow: `EventsWriter`), each in one piece.
pub(crate) struct EventWriter<W: Write> {
    out: W,
}

impl<W: Write> EventWriter<W> {
    /// Begins an event file in `out` at `wall_time` seconds.
    pub(crate) fn new(out: W, wall_time: f64) -> io::Result<Self> {
        let mut writer = Self { out };
        writer.event(&Event {
            wall_time,
            file_version: Some(VERSION.to_owned()),
            ..Event::default()
        })?;
        Ok(writer)
    }

    /// Appends the values of some tags at `step`. `wall_time` is in seconds after 1970, or after a
    /// run began.
    pub(crate) fn scalars(
        &mut self,
        values: &[(&str, f32)],
        step: u64,
        wall_time: f64,
    ) -> io::Result<()> {
        let value =
            |&(tag, value): &(&str, f32)| Value { simple_value: Some(value), ..Value::of(tag) };
        self.summary(values.iter().map(value).collect(), step, wall_time)
    }

    /// Appends for some tags how their values are distributed at `step`; nothing for a tag without
    /// a finite value.
    pub(crate) fn histograms(
        &mut self,
        values: &[(&str, &[f64])],
        step: u64,
        wall_time: f64,
    ) -> io::Result<()> {
        let value = |&(tag, values): &(&str, &[f64])| {
            Some(Value { histo: Some(Histogram::of(values)?), ..Value::of(tag) })
        };
        self.summary(values.iter().filter_map(value).collect(), step, wall_time)
    }

    fn summary(&mut self, value: Vec<Value>, step: u64, wall_time: f64) -> io::Result<()> {
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        self.event(&Event { wall_time, step, summary: Some(Summary { value }), ..Event::default() })
    }

    /// Appends a graph: a GraphDef on the wire.
    pub(crate) fn graph(&mut self, graph_def: Vec<u8>, wall_time: f64) -> io::Result<()> {
        self.event(&Event { wall_time, graph_def: Some(graph_def), ..Event::default() })
    }

    /// Flushes the appended events.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The place that the events were written to.
    pub(crate) fn into_out(self) -> W {
        self.out
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.out.write_all(&framed(&event.encode_to_vec()))
    }
}

/// The name of an event file that `whom` began at `seconds`.
pub(crate) fn file_name(seconds: u64, whom: &str) -> String {
    format!("events.out.tfevents.{seconds:010}.{whom}")
}

/// Creates an event file in `folder` that did not exist. If `name` is taken, such as by another
/// life of a task in the same second, the new one is numbered.
///
/// # Errors
/// If it can't be created.
pub(crate) fn create_new(folder: &Path, name: &str) -> io::Result<(File, PathBuf)> {
    let mut path = folder.join(name);
    for number in 1.. {
        match File::create_new(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = folder.join(format!("{name}.{number}"));
            }
            Err(error) => return Err(error),
        }
    }
    unreachable!("a folder has fewer files than there are numbers")
}

/// Frames `data` as a record: length, checksum of the length, data, checksum of the data; all
/// numbers little-endian.
pub(crate) fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_checksum(&length), data, &masked_checksum(data)].concat()
}

/// The checksum of a record's part.
pub(crate) fn masked_checksum(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK).to_le_bytes()
}

/// `Event` of `event.proto`, with the fields that are written.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(bytes = "vec", optional, tag = "4")]
    graph_def: Option<Vec<u8>>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

/// `Summary` of `summary.proto`.
#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Value>,
}

/// `Summary.Value` of `summary.proto`, with the fields that are written.
#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
    #[prost(message, optional, tag = "5")]
    histo: Option<Histogram>,
}

/// `HistogramProto` of `summary.proto`.
#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(double, tag = "1")]
    min: f64,
    #[prost(double, tag = "2")]
    max: f64,
    #[prost(double, tag = "3")]
    num: f64,
    #[prost(double, tag = "4")]
    sum: f64,
    #[prost(double, tag = "5")]
    sum_squares: f64,
    /// The upper end of each bucket.
    #[prost(double, repeated, tag = "6")]
    bucket_limit: Vec<f64>,
    /// The number of values in each bucket.
    #[prost(double, repeated, tag = "7")]
    bucket: Vec<f64>,
}

impl Value {
    fn of(tag: &str) -> Self {
        Self { tag: tag.to_owned(), ..Self::default() }
    }
}

impl Histogram {
    /// The finite ones of `values` in buckets of one width; none if there are none.
    fn of(values: &[f64]) -> Option<Self> {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let (min, max) = (finite().reduce(f64::min)?, finite().reduce(f64::max)?);
        let buckets = if max > min { BUCKETS } else { 1 };
        let width = (max - min) / buckets as f64;
        let mut bucket = vec![0.0; buckets];
        for value in finite() {
            let at = ((value - min) / width) as usize; // of NaN, if all are equal, it is 0
            bucket[at.min(buckets - 1)] += 1.0;
        }
        let limit = |at: usize| if at == buckets { max } else { min + width * at as f64 };
        Some(Self {
            min,
            max,
            num: finite().count() as f64,
            sum: finite().sum(),
            sum_squares: finite().map(|value| value * value).sum(),
            bucket_limit: (1..=buckets).map(limit).collect(),
            bucket,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::reading::{read_histograms, read_scalars};
    use super::*;

    /// The bytes are those of the formats' definitions; every event file of TensorFlow's begins
    /// with the first 12.
    #[test]
    fn a_file_has_the_bytes_that_tensorboard_reads() {
        let mut file = Vec::new();
        let mut writer = EventWriter::new(&mut file, 0.25).unwrap();
        writer.scalars(&[("loss", 0.5)], 7, 1.5).unwrap();
        let first =
            b"\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09\0\0\0\0\0\0\xd0\x3f\x1a\x0dbrain.Event:2";
        assert_eq!(&file[..first.len()], first);
        let second = b"\x1a\0\0\0\0\0\0\0\x12\x9b\xd8\x2d\
                       \x09\0\0\0\0\0\0\xf8\x3f\x10\x07\x2a\x0d\x0a\x0b\x0a\x04\
                       loss\x15\0\0\0\x3f\x79\xe1\x8f\xbb";
        assert_eq!(&file[first.len() + 4..], second);
        assert_eq!(file_name(1_700_000_000, "host"), "events.out.tfevents.1700000000.host");
    }

    #[test]
    fn a_histogram_has_all_finite_values_between_the_least_and_the_greatest() {
        let mut file = Vec::new();
        let mut writer = EventWriter::new(&mut file, 0.0).unwrap();
        let values = [1.0, 31.0, 31.0, f64::NAN, 1.9, f64::INFINITY];
        let all: [(&str, &[f64]); 3] = [("a", &values), ("same", &[5.0, 5.0]), ("none", &[])];
        writer.histograms(&all, 3, 2.5).unwrap();
        let mut buckets = vec![0.0; BUCKETS];
        (buckets[0], buckets[BUCKETS - 1]) = (2.0, 2.0);
        let expected = [
            (3, "a".to_owned(), (1.0, 31.0), buckets),
            (3, "same".to_owned(), (5.0, 5.0), vec![2.0]),
        ];
        assert_eq!(read_histograms(&file), expected);
    }

    /// RFC 3720, appendix B.4: the checksum of 32 zeros is `8a9136aa`.
    #[test]
    fn a_checksum_is_masked_as_tensorflow_masks_it() {
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked_checksum(&[0; 32]), 0x0fd7_fffau32.to_le_bytes());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut file = Vec::new();
        let mut writer = EventWriter::new(&mut file, 0.0).unwrap();
        writer.scalars(&[("a", 1.0), ("b", f32::INFINITY)], 3, 2.5).unwrap();
        let values = vec![("a".to_owned(), 1.0), ("b".to_owned(), f32::INFINITY)];
        assert_eq!(read_scalars(&file), [(3, 2.5, values)]);
    }
}
