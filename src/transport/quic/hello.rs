//! Introductions: the first messages on a connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connection, RecvStream, SendStream};
use serde::{Deserialize, Serialize};

use super::super::wire::{FrameDecoder, Kind, Outgoing, WireError, WireLimits};
use super::RunId;
use super::priorities::open_small;
use super::refusal::Refusal;
use super::roster::Roster;
use crate::cluster::TaskName;

/// The greatest length of an introduction \[bytes\].
const MAX_HELLO: usize = 8 << 10;

/// The introduction of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) run: String,
    /// The sender's settings of the run: values by name.
    pub(super) settings: Arc<BTreeMap<String, String>>,
    /// The tasks that the sender was told of.
    pub(super) roster: Arc<Roster>,
    pub(super) task: TaskName,
    /// Grows from one incarnation of a task to the next.
    pub(super) incarnation: u64,
    /// The number of times that the two tasks have lost each other, as far as the sender knows.
    pub(super) epoch: u64,
    /// The ports of the sender's lanes.
    pub(super) lanes: Vec<u16>,
    /// Of a lane: its place.
    pub(super) lane: Option<LanePlace>,
}

/// The place of a lane among those of its link, as the one who opens it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LanePlace {
    /// Its number, from 0.
    pub(super) number: u16,
    /// The number of the attempt to open them, from 1.
    pub(super) attempt: u8,
    /// The number of lanes.
    pub(super) count: u16,
    /// Whether the one who opens it has dialed the link that it belongs to.
    pub(super) of_dialed: bool,
}

/// Opens the stream of the small envelopes and introduces this task on it.
pub(super) async fn introduce(
    connection: &Connection,
    hello: &Hello,
) -> Result<SendStream, Refusal> {
    let mut control = open_small(connection).await?;
    control.write_chunk(Outgoing::plain(Kind::Hello, hello)?.head.into()).await?;
    Ok(control)
}

/// Receives the other end's introduction, on the stream of its small envelopes.
pub(super) async fn listen(
    connection: &Connection,
    patience: Duration,
) -> Result<(Hello, RecvStream), Refusal> {
    tokio::time::timeout(patience, hear(connection)).await.map_err(|_| Refusal::Silent)?
}

async fn hear(connection: &Connection) -> Result<(Hello, RecvStream), Refusal> {
    let mut control = connection.accept_uni().await?;
    let mut decoder = FrameDecoder::new(WireLimits { control: MAX_HELLO, tensor: 0, envelope: 0 });
    // The header tells the frame's length, so nothing beyond the introduction is read.
    let mut wanted = super::super::wire::FRAME_HEADER;
    loop {
        let chunk = control.read_chunk(wanted, true).await?.ok_or(Refusal::Silent)?;
        if let Some(frame) = decoder.push(&mut &chunk.bytes[..])? {
            if frame.kind != Kind::Hello {
                return Err(WireError::OutOfPlace(format!("{:?}", frame.kind)).into());
            }
            return Ok((frame.plain()?, control));
        }
        wanted = decoder.missing();
    }
}

impl Hello {
    /// Checks that the sender may connect to the one who says `own`, of `run`.
    pub(super) fn check(&self, own: &Self, run: &RunId) -> Result<(), Refusal> {
        let (sender, task) = (self.task.clone(), own.task.clone());
        if self.run != run.to_string() {
            let its = self.run.escape_debug().to_string();
            return Err(Refusal::Run(sender, its, task, run.clone()));
        }
        if let Some([its, own]) = difference(&self.settings, &own.settings) {
            return Err(Refusal::Setting(sender, its, task, own));
        }
        match self.roster.difference(&own.roster) {
            Some([its, own]) => Err(Refusal::Cluster(sender, its, task, own)),
            None => Ok(()),
        }
    }
}

/// The first setting that differs, in words, as each end has it. None if they agree, or if one end
/// has no settings.
fn difference(
    its: &BTreeMap<String, String>,
    own: &BTreeMap<String, String>,
) -> Option<[String; 2]> {
    if its.is_empty() || own.is_empty() {
        return None;
    }
    let name =
        its.keys().chain(own.keys()).filter(|name| its.get(*name) != own.get(*name)).min()?;
    // They come from the network: no signs that a terminal obeys.
    let told = |settings: &BTreeMap<String, String>| match settings.get(name) {
        Some(value) => format!("{} = {}", name.escape_debug(), value.escape_debug()),
        None => format!("no {}", name.escape_debug()),
    };
    Some([told(its), told(own)])
}
