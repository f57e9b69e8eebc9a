//! The bytes of an envelope in blocks, which go over its streams in turn, and back together.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use quinn::{Connection, ReadExactError, RecvStream, SendStream, VarInt, WriteError};

use super::super::super::wire::{Frame, FrameDecoder, Kind, Outgoing, WireError, WireLimits};
use super::super::priorities::open_large;
use super::super::refusal::Refusal;

/// The length of a block \[bytes\]: well below a stream's window, so that all streams are busy.
pub(super) const BLOCK: usize = 256 << 10;
/// The length of a [`Label`] \[bytes\].
const LABEL: usize = 12;

/// What a stream begins with: which part of which envelope it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label {
    /// The number of the envelope among the large ones of its link.
    envelope: u64,
    /// The number of the stream among those of the envelope, from 0.
    part: u16,
    parts: u16,
}

impl Label {
    fn bytes(self) -> Bytes {
        let Self { envelope, part, parts } = self;
        let mut bytes = Vec::with_capacity(LABEL);
        bytes.extend(envelope.to_le_bytes());
        bytes.extend(part.to_le_bytes());
        bytes.extend(parts.to_le_bytes());
        bytes.into()
    }

    fn of_bytes(bytes: [u8; LABEL]) -> Self {
        let [e0, e1, e2, e3, e4, e5, e6, e7, p0, p1, n0, n1] = bytes;
        Self {
            envelope: u64::from_le_bytes([e0, e1, e2, e3, e4, e5, e6, e7]),
            part: u16::from_le_bytes([p0, p1]),
            parts: u16::from_le_bytes([n0, n1]),
        }
    }

    /// Reads the beginning of `stream`.
    async fn read(stream: &mut RecvStream) -> Result<Self, Refusal> {
        let mut bytes = [0; LABEL];
        match stream.read_exact(&mut bytes).await {
            Ok(()) => Ok(Self::of_bytes(bytes)),
            Err(ReadExactError::FinishedEarly(_)) => Err(cut_short()),
            Err(ReadExactError::ReadError(error)) => Err(error.into()),
        }
    }
}

fn cut_short() -> Refusal {
    WireError::Message("it is cut short".to_owned()).into()
}

/// Writes a frame over a stream of each of `connections`.
pub(super) async fn write(
    connections: Vec<Connection>,
    envelope: u64,
    frame: Outgoing,
) -> Result<(), WriteError> {
    let parts = connections.len() as u16;
    let mut streams = Vec::with_capacity(connections.len());
    for (connection, part) in connections.iter().zip(0..) {
        let mut stream = open_large(connection, envelope).await?;
        stream.write_chunk(Label { envelope, part, parts }.bytes()).await?;
        streams.push(stream);
    }
    let written = write_blocks(&mut streams, frame).await;
    for stream in &mut streams {
        // One that is only dropped would seem to be whole.
        let _closed_connections_say_so_elsewhere = match &written {
            Ok(()) => stream.finish(),
            Err(_) => stream.reset(VarInt::from_u32(0)),
        };
    }
    written
}

async fn write_blocks(streams: &mut [SendStream], frame: Outgoing) -> Result<(), WriteError> {
    let (mut turn, mut left) = (0, BLOCK);
    for mut piece in frame.into_pieces() {
        while !piece.is_empty() {
            let bytes = piece.split_to(piece.len().min(left));
            left -= bytes.len();
            streams[turn].write_chunk(bytes).await?;
            if left == 0 {
                (turn, left) = ((turn + 1) % streams.len(), BLOCK);
            }
        }
    }
    Ok(())
}

/// Reads a frame from the streams that it came over.
async fn read(mut streams: Vec<RecvStream>, limits: WireLimits) -> Result<Frame, Refusal> {
    let mut decoder = FrameDecoder::new(limits);
    let (mut turn, mut left) = (0, BLOCK);
    let frame = loop {
        let chunk = streams[turn].read_chunk(left, true).await?.ok_or_else(cut_short)?;
        left -= chunk.bytes.len();
        if left == 0 {
            (turn, left) = ((turn + 1) % streams.len(), BLOCK);
        }
        let mut bytes = &chunk.bytes[..];
        if let Some(frame) = decoder.push(&mut bytes)? {
            if frame.kind != Kind::Envelope {
                return Err(WireError::OutOfPlace(format!("{:?}", frame.kind)).into());
            }
            if !bytes.is_empty() {
                return Err(WireError::LeftOver(bytes.len(), 0).into());
            }
            break frame;
        }
    };
    for stream in &mut streams {
        if let Some(chunk) = stream.read_chunk(1, true).await? {
            return Err(WireError::LeftOver(chunk.bytes.len(), 0).into());
        }
    }
    Ok(frame)
}

/// The streams of envelopes of which others are missing, by envelope and part.
#[derive(Default)]
pub(super) struct Gathering(BTreeMap<u64, Vec<Option<RecvStream>>>);

/// Takes a stream that has arrived on one of `lanes` lanes. Returns the frame, if all its other
/// streams have arrived before.
pub(super) async fn arrived(
    gathering: &Mutex<Gathering>,
    mut stream: RecvStream,
    (lanes, limits): (usize, WireLimits),
) -> Result<Option<Frame>, Refusal> {
    let label = Label::read(&mut stream).await?;
    let complete = {
        let mut gathering = gathering.lock().unwrap_or_else(PoisonError::into_inner);
        gathering.add(label, stream, lanes)?
    };
    match complete {
        Some(streams) => Ok(Some(read(streams, limits).await?)),
        None => Ok(None),
    }
}

impl Gathering {
    /// Adds a stream. Returns all of the envelope's, if this was the last.
    fn add(
        &mut self,
        label: Label,
        stream: RecvStream,
        lanes: usize,
    ) -> Result<Option<Vec<RecvStream>>, WireError> {
        let wrong = || WireError::Message(format!("{label:?} of {lanes} lanes"));
        let (part, parts) = (usize::from(label.part), usize::from(label.parts));
        if part >= parts || parts > lanes {
            return Err(wrong());
        }
        let here = self.0.entry(label.envelope);
        let here = here.or_insert_with(|| (0..parts).map(|_| None).collect());
        if here.len() != parts || here[part].is_some() {
            return Err(wrong());
        }
        here[part] = Some(stream);
        if here.iter().any(Option::is_none) {
            return Ok(None);
        }
        Ok(self.0.remove(&label.envelope).map(|here| here.into_iter().flatten().collect()))
    }
}
