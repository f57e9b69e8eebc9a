//! Carries the datagrams between the tasks of a launch, so that faults can lose and delay them.
//!
//! Each pair of tasks has two sockets here: one is the address of the second for the first, the
//! other that of the first for the second. So neither needs a privilege, and QUIC meets a network
//! that loses packets as a real one does.

mod disturbed_path;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket as StdUdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::clock::{Clock, WallClock};
use crate::deployment::DeploymentError;
use crate::random;
use crate::units::Time;

pub(crate) use disturbed_path::Disturbance;
use disturbed_path::DisturbedPath;

/// The greatest length of a datagram \[bytes\].
const LONGEST: usize = 1 << 16;
/// A wait that never ends by itself: there is nothing to send later.
const IDLE: Duration = Duration::from_secs(3600);

/// The relay between tasks, until it is dropped.
pub(super) struct Relay {
    /// By task, the addresses of all tasks as that task is to know them.
    seen: Vec<Vec<SocketAddr>>,
    /// By sender, then by receiver.
    paths: Vec<Vec<Arc<Mutex<DisturbedPath>>>>,
    disturbances: usize,
    /// The ways under way.
    _carriers: JoinSet<()>,
}

/// One direction between two tasks.
struct RelayDirection {
    /// Where the sender's datagrams come in.
    entry: Arc<UdpSocket>,
    /// Where they go out to the receiver.
    exit: Arc<UdpSocket>,
    receiver: SocketAddr,
    path: Arc<Mutex<DisturbedPath>>,
    clock: WallClock,
    draws: [String; 2],
}

impl Relay {
    /// A relay between tasks at `addresses`.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn new(addresses: &[SocketAddr]) -> Result<Self, DeploymentError> {
        let tasks = addresses.len();
        let (clock, mut carriers) = (WallClock::new(), JoinSet::new());
        let paths: Vec<Vec<_>> =
            (0..tasks).map(|_| (0..tasks).map(|_| Arc::default()).collect()).collect();
        let mut seen = vec![addresses.to_vec(); tasks];
        let pairs = (0..tasks).flat_map(|one| (one + 1..tasks).map(move |other| (one, other)));
        for (one, other) in pairs {
            let (of_other, of_one) = (socket()?, socket()?);
            let failed = || DeploymentError::system("open a socket");
            seen[one][other] = of_other.local_addr().map_err(failed())?;
            seen[other][one] = of_one.local_addr().map_err(failed())?;
            for (from, to, entry, exit) in
                [(one, other, &of_other, &of_one), (other, one, &of_one, &of_other)]
            {
                let direction = RelayDirection {
                    entry: Arc::clone(entry),
                    exit: Arc::clone(exit),
                    receiver: addresses[to],
                    path: Arc::clone(&paths[from][to]),
                    clock,
                    draws: [from.to_string(), to.to_string()],
                };
                carriers.spawn(direction.carry());
            }
        }
        Ok(Self { seen, paths, disturbances: 0, _carriers: carriers })
    }

    /// The addresses of all tasks as the task `index` is to know them.
    pub(super) fn seen_by(&self, index: usize) -> &[SocketAddr] {
        &self.seen[index]
    }

    /// Disturbs `ways`, each from one task to another; returns the disturbance's number.
    pub(super) fn disturb(&mut self, ways: &[(usize, usize)], how: Disturbance) -> usize {
        self.disturbances += 1;
        for (from, to) in ways {
            lock(&self.paths[*from][*to]).disturb(self.disturbances, how);
        }
        self.disturbances
    }

    /// Ends the disturbance of this number.
    pub(super) fn settle(&self, number: usize) {
        self.paths.iter().flatten().for_each(|path| lock(path).settle(number));
    }
}

impl RelayDirection {
    /// Carries what comes in, in its order, for as long as the relay is there.
    async fn carry(self) {
        let draws = ["relay", &self.draws[0], &self.draws[1]];
        let mut draws = random::stream(0, &draws);
        let mut later: VecDeque<(Time, Vec<u8>)> = VecDeque::new();
        let mut datagram = vec![0; LONGEST];
        loop {
            while later.front().is_some_and(|(at, _)| *at <= self.clock.now())
                && let Some((_, due)) = later.pop_front()
            {
                self.send(&due).await;
            }
            let left = later.front().map_or(IDLE, |(at, _)| at.since(self.clock.now()));
            let Ok(came) = timeout(left, self.entry.recv_from(&mut datagram)).await else {
                continue;
            };
            let Ok((length, _)) = came else { continue };
            let now = self.clock.now();
            let arrives = lock(&self.path).carry(now, length, draws.random());
            match arrives {
                Some(at) if at > now || !later.is_empty() => {
                    later.push_back((at, datagram[..length].to_vec()));
                }
                Some(_) => self.send(&datagram[..length]).await,
                None => {}
            }
        }
    }

    async fn send(&self, datagram: &[u8]) {
        if let Err(error) = self.exit.send_to(datagram, self.receiver).await {
            tracing::debug!(%error, "a datagram is lost"); // as on any network
        }
    }
}

fn socket() -> Result<Arc<UdpSocket>, DeploymentError> {
    let failed = || DeploymentError::system("open a socket");
    let socket = StdUdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
    socket.set_nonblocking(true).map_err(failed())?;
    Ok(Arc::new(UdpSocket::from_std(socket).map_err(failed())?))
}

fn lock(path: &Mutex<DisturbedPath>) -> std::sync::MutexGuard<'_, DisturbedPath> {
    path.lock().expect("nothing panics while it holds a path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_comes_from_the_address_that_its_sender_has_for_the_receiver() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (one, other) = (socket().unwrap(), socket().unwrap());
            let addresses = [one.local_addr().unwrap(), other.local_addr().unwrap()];
            let mut relay = Relay::new(&addresses).unwrap();
            let (other_for_one, one_for_other) = (relay.seen_by(0)[1], relay.seen_by(1)[0]);
            assert_eq!((relay.seen_by(0)[0], relay.seen_by(1)[1]), (addresses[0], addresses[1]));
            let mut datagram = [0; 8];
            let soon = Duration::from_secs(5);
            for _ in 0..2 {
                one.send_to(b"hello", other_for_one).await.unwrap();
                let came = timeout(soon, other.recv_from(&mut datagram)).await.unwrap().unwrap();
                assert_eq!(came, (5, one_for_other));
            }
            let cut = relay.disturb(&[(0, 1)], Disturbance::Cut);
            one.send_to(b"lost", other_for_one).await.unwrap();
            other.send_to(b"back", one_for_other).await.unwrap();
            let came = timeout(soon, one.recv_from(&mut datagram)).await.unwrap().unwrap();
            assert_eq!(came, (4, other_for_one), "the other way is open");
            let short = Duration::from_millis(50);
            assert!(timeout(short, other.recv_from(&mut datagram)).await.is_err());
            relay.settle(cut);
            one.send_to(b"again", other_for_one).await.unwrap();
            timeout(soon, other.recv_from(&mut datagram)).await.unwrap().unwrap();
            assert_eq!(&datagram[..5], b"again");
        });
    }
}
