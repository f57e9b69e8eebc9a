//! Readers of event files, for tests: scalars, histograms and graphs.

use prost::Message;

use super::{Event, VERSION, masked_checksum};

/// An event's step and time, and its values by their tags.
pub(crate) type Scalars = (u64, f64, Vec<(String, f32)>);

/// A histogram's step and tag, its least and greatest value, and its buckets.
pub(crate) type Histograms = (u64, String, (f64, f64), Vec<f64>);

/// The scalars in `file`.
pub(crate) fn read_scalars(file: &[u8]) -> Vec<Scalars> {
    let mut all = Vec::new();
    for event in read(file) {
        let values = event.summary.unwrap_or_default().value.into_iter();
        let values: Vec<_> = values.filter_map(|it| Some((it.tag, it.simple_value?))).collect();
        if !values.is_empty() {
            all.push((event.step as u64, event.wall_time, values));
        }
    }
    all
}

/// The histograms in `file`.
pub(crate) fn read_histograms(file: &[u8]) -> Vec<Histograms> {
    let of = |event: Event| {
        let values = event.summary.unwrap_or_default().value.into_iter();
        values.filter_map(move |value| {
            let histogram = value.histo?;
            let range = (histogram.min, histogram.max);
            Some((event.step as u64, value.tag, range, histogram.bucket))
        })
    };
    read(file).into_iter().flat_map(of).collect()
}

/// The graphs in `file`.
pub(crate) fn read_graphs(file: &[u8]) -> Vec<Vec<u8>> {
    read(file).into_iter().filter_map(|event| event.graph_def).collect()
}

/// The events of `file` after the first. Every checksum must be right.
fn read(mut file: &[u8]) -> Vec<Event> {
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
    assert_eq!(events.remove(0).file_version.as_deref(), Some(VERSION));
    events
}
