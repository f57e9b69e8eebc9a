//! Event files, which TensorBoard shows: records of TFRecord, each of which is an `Event` of `event.proto`.

use std::io::{self, Write};

use prost::Message;

use super::StepRow;

/// What the first event of a file says.
const VERSION: &str = "brain.Event:2";
/// What a checksum is masked with, so that one of a record that holds checksums is no weaker (`crc32c.h`).
const MASK: u32 = 0xa282_ead8;

/// Writes events to a file (TensorFlow: `tf.summary.FileWriter`).
pub struct EventWriter<W: Write> {
    out: W,
}

impl<W: Write> EventWriter<W> {
    /// An event file that was begun at `wall_time` seconds, written to `out`.
    ///
    /// # Errors
    /// If `out` refuses.
    pub fn new(out: W, wall_time: f64) -> io::Result<Self> {
        let mut writer = Self { out };
        writer.event(&Event { wall_time, file_version: Some(VERSION.to_owned()), ..Event::default() })?;
        Ok(writer)
    }

    /// Appends the value of `tag` at `step`, as it was `wall_time` seconds after the epoch, or after a run began.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn scalar(&mut self, tag: &str, value: f32, step: u64, wall_time: f64) -> io::Result<()> {
        let value = Value { tag: tag.to_owned(), simple_value: Some(value) };
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        self.event(&Event { wall_time, step, file_version: None, summary: Some(Summary { value: vec![value] }) })
    }

    /// Brings what was appended on its way.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let data = event.encode_to_vec();
        let length = (data.len() as u64).to_le_bytes();
        for part in [&length[..], &masked_checksum(&length), &data, &masked_checksum(&data)] {
            self.out.write_all(part)?;
        }
        Ok(())
    }
}

/// The name of an event file that was begun at `seconds`, on the machine `host`.
pub fn file_name(seconds: u64, host: &str) -> String {
    format!("events.out.tfevents.{seconds:010}.{host}")
}

/// Writes the worker steps of a run: of each worker its loss, how long its steps took \[s\], and how stale its
/// gradients were, by the global step. Times are those since the run began.
///
/// # Errors
/// If `out` can't be written.
pub fn write(rows: &[StepRow], out: impl Write) -> io::Result<()> {
    let mut writer = EventWriter::new(out, 0.0)?;
    for row in rows {
        let (worker, step, at) = (&row.worker, row.global_step, row.end.as_secs_f64());
        if let Some(loss) = row.loss {
            writer.scalar(&format!("loss/{worker}"), loss, step, at)?;
        }
        let seconds = row.end.since(row.start).as_secs_f32();
        writer.scalar(&format!("step_seconds/{worker}"), seconds, step, at)?;
        writer.scalar(&format!("staleness/{worker}"), row.staleness as f32, step, at)?;
    }
    writer.flush()
}

fn masked_checksum(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK).to_le_bytes()
}

/// `Event` of `event.proto`, as far as it is written.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

/// `Summary` of `summary.proto`.
#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Value>,
}

/// `Summary.Value` of `summary.proto`, as far as it is written.
#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::TaskName;
    use crate::units::VirtualTime;

    /// The records of a file, of which every checksum is right.
    fn records(mut file: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some((length, rest)) = file.split_first_chunk::<8>() {
            let (checksum, rest) = rest.split_first_chunk::<4>().unwrap();
            assert_eq!(*checksum, masked_checksum(length));
            let (data, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
            let (checksum, rest) = rest.split_first_chunk::<4>().unwrap();
            assert_eq!(*checksum, masked_checksum(data));
            events.push(Event::decode(data).unwrap());
            file = rest;
        }
        assert!(file.is_empty());
        events
    }

    /// The bytes are those of the formats' definitions; every event file of TensorFlow's begins with the first 12.
    #[test]
    fn a_file_has_the_bytes_that_tensorboard_reads() {
        let mut file = Vec::new();
        let mut writer = EventWriter::new(&mut file, 0.25).unwrap();
        writer.scalar("loss", 0.5, 7, 1.5).unwrap();
        let first = b"\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09\0\0\0\0\0\0\xd0\x3f\x1a\x0dbrain.Event:2";
        assert_eq!(&file[..first.len()], first);
        let second = b"\x1a\0\0\0\0\0\0\0\x12\x9b\xd8\x2d\
                       \x09\0\0\0\0\0\0\xf8\x3f\x10\x07\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f\x79\xe1\x8f\xbb";
        assert_eq!(&file[first.len() + 4..], second);
        assert_eq!(file_name(1_700_000_000, "host"), "events.out.tfevents.1700000000.host");
    }

    #[test]
    fn each_worker_step_is_an_event_for_each_of_its_numbers() {
        let row = StepRow {
            worker: TaskName::new("worker", 1),
            local_step: 3,
            global_step: 9,
            start: VirtualTime(500_000_000),
            end: VirtualTime(750_000_000),
            loss: Some(0.125),
            staleness: 2,
            applied: true,
        };
        let mut file = Vec::new();
        write(&[row.clone(), StepRow { loss: None, ..row }], &mut file).unwrap();
        let events = records(&file);
        assert_eq!(events[0].file_version.as_deref(), Some(VERSION));
        let scalars: Vec<(String, f32)> = events[1..]
            .iter()
            .inspect(|event| assert_eq!((event.step, event.wall_time), (9, 0.75)))
            .flat_map(|event| event.summary.clone().unwrap().value)
            .map(|value| (value.tag, value.simple_value.unwrap()))
            .collect();
        let expected =
            [("loss", 0.125), ("step_seconds", 0.25), ("staleness", 2.0), ("step_seconds", 0.25), ("staleness", 2.0)];
        assert_eq!(scalars, expected.map(|(tag, value)| (format!("{tag}/worker:1"), value)));
    }
}
