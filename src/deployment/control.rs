//! What a task tells the launcher that started it, as lines of JSON.
//!
//! A launched task has the socket that it listens on as stdin, and one end of a pair of sockets as
//! stdout. A line of its own begins with a sign that no text has; what else comes is what the
//! user's program printed. That the launcher closes its end, as it does when it dies, asks the task
//! to stop.

mod part;

use std::io::{self, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::deployment::DeploymentError;
use crate::training::Watch;
use crate::units::Time;

pub(crate) use part::Part;

/// The "record separator" of ASCII, which JSON never has as it is.
const SIGN: u8 = 0x1e;
/// How often a task tells how far it is.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What a task tells.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// It is there, and its clock shows `now` \[ns\].
    Hello { now: u64 },
    /// It has come so far.
    Progress { global_step: u64, loss: Option<f32>, now: u64 },
    /// What it has recorded, at its end.
    Part(Part),
}

/// The way to the launcher.
pub(crate) struct Control {
    stream: UnixStream,
    /// When it tells again how far the run is, on the run's clock.
    next: Time,
}

impl Control {
    /// The socket to listen on and the way to the launcher, where `launch` puts them.
    ///
    /// # Errors
    /// If it was not `launch` that started this process.
    pub(crate) fn take() -> Result<(UdpSocket, Self), DeploymentError> {
        let failed =
            || DeploymentError::system("talk to the launcher; --launched is for `launch` alone");
        let socket = UdpSocket::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed())?);
        socket.local_addr().map_err(failed())?;
        let stream = UnixStream::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed())?);
        stream.peer_addr().map_err(failed())?;
        Ok((socket, Self { stream, next: Time::ZERO }))
    }

    /// Another end of the same way.
    pub(crate) fn try_clone(&self) -> Result<Self, DeploymentError> {
        let stream =
            self.stream.try_clone().map_err(DeploymentError::system("talk to the launcher"))?;
        Ok(Self { stream, next: self.next })
    }

    /// What hears that the launcher goes.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Tells the launcher. That it is gone is heard elsewhere.
    pub(crate) fn tell(&mut self, event: &Event) {
        let told = line(event).and_then(|line| self.stream.write_all(&line));
        if let Err(error) = told {
            tracing::debug!(%error, "the launcher does not listen");
        }
    }
}

impl Watch for Control {
    fn update(&mut self, global_step: u64, loss: Option<f32>, now: Time) {
        if now >= self.next {
            self.next = now.after(TELL_EVERY);
            let loss = loss.filter(|loss| loss.is_finite());
            self.tell(&Event::Progress { global_step, loss, now: now.0 });
        }
    }

    fn finish(self: Box<Self>) {}
}

/// What `text` was: an event of a task's, or else what its program printed.
pub(crate) fn parse(text: &[u8]) -> Result<Event, &[u8]> {
    let at = text.iter().position(|byte| *byte == SIGN).ok_or(text)?;
    serde_json::from_slice(&text[at + 1..]).map_err(|_| text)
}

fn line(event: &Event) -> io::Result<Vec<u8>> {
    let mut line = vec![b'\n', SIGN]; // what the program printed may lack the end of its line
    serde_json::to_writer(&mut line, event)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_told_from_what_the_program_prints() {
        let written = line(&Event::Progress { global_step: 7, loss: None, now: 3 }).unwrap();
        let lines: Vec<&[u8]> =
            written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        assert!(matches!(
            parse(lines[0]),
            Ok(Event::Progress { global_step: 7, loss: None, now: 3 })
        ));
        assert!(parse(b"loss 0.3").is_err());
        assert!(parse(b"\x1e{}").is_err());
    }
}
