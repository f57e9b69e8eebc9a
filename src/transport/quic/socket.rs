//! The UDP socket: its buffers, and the number of packets in one system call.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use socket2::{Domain, SockRef, Socket, Type};

/// The wanted size of a socket's buffers in each direction \[bytes\]: a burst of packets waits in
/// them while this task computes.
const WANTED: usize = 8 << 20;
/// Linux doubles the requested size for its own bookkeeping, and reports the double.
const BOOKS: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 2 } else { 1 };
/// The most that the system sends in one call, without headers \[bytes\]: the limit of UDP's length
/// field over IPv4. A longer batch fails with the error of an MTU probe, so its packets would be
/// lost silently.
const MAX_BATCH: usize = 65_507;
/// The most that is taken from the system in one call, where packets are as long as the last ones
/// \[bytes\]: more would leave the processor's nearest caches before it is decrypted.
const BURST: usize = 256 << 10;
/// The largest packets that are tried outside of loopback \[bytes\]: a jumbo frame without its
/// headers.
pub(super) const MTU: u16 = 8_952;

/// The sizes of a socket's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketBuffers {
    /// The receive buffer \[bytes\].
    pub receive: usize,
    /// The send buffer \[bytes\].
    pub send: usize,
}

impl SocketBuffers {
    /// The result of [`SocketBuffers::measure`] if the system grants the full request \[bytes\].
    pub const WANTED: usize = WANTED;

    /// Measures the buffers that this machine grants to a task's socket.
    ///
    /// # Errors
    /// If no socket can be opened.
    pub fn measure() -> io::Result<Self> {
        Self::enlarge(&UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?)
    }

    pub(super) fn enlarge(socket: &UdpSocket) -> io::Result<Self> {
        let socket = SockRef::from(socket);
        socket.set_recv_buffer_size(WANTED)?;
        socket.set_send_buffer_size(WANTED)?;
        Ok(Self {
            receive: socket.recv_buffer_size()? / BOOKS,
            send: socket.send_buffer_size()? / BOOKS,
        })
    }

    /// The capacity of the receive buffer: the bytes of packets, and the system's own bookkeeping
    /// for each \[bytes\].
    pub(super) fn room(&self) -> usize {
        BOOKS * self.receive
    }

    /// Whether a burst of packets can overflow them.
    pub fn are_small(&self) -> bool {
        self.receive < WANTED || self.send < WANTED
    }
}

/// A bound socket for `port` on all interfaces, for both IPv6 and IPv4 if the machine has both.
pub(super) fn bind_everywhere(port: u16) -> io::Result<UdpSocket> {
    let both = || {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
        socket.set_only_v6(false)?;
        socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
        Ok(UdpSocket::from(socket))
    };
    both().or_else(|error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
        _ => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)),
    })
}

/// Tells, once in a process, that a task's `buffers` are small, if they are.
pub(super) fn warn_of_small(buffers: &SocketBuffers) {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if buffers.are_small() && !IS_TOLD.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            receive = buffers.receive,
            send = buffers.send,
            wanted = WANTED,
            "the system keeps UDP buffers small, which costs throughput: raise net.core.rmem_max \
             and net.core.wmem_max"
        );
    }
}

/// A socket that never hands the system more than it can send in one call, and takes no more from
/// it than a [`BURST`].
#[derive(Debug)]
pub(super) struct CappedSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    /// The length of the longest of the packets that came last \[bytes\].
    longest: AtomicUsize,
}

impl CappedSocket {
    pub(super) fn new(inner: Arc<dyn AsyncUdpSocket>) -> Self {
        Self { inner, longest: AtomicUsize::new(0) }
    }
}

impl AsyncUdpSocket for CappedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let Some(packet) = transmit.segment_size else { return self.inner.try_send(transmit) };
        for contents in transmit.contents.chunks(MAX_BATCH / packet * packet) {
            let segment_size = (contents.len() > packet).then_some(packet);
            // After a failure in the middle quinn sends all again, and the peer drops what it has.
            self.inner.try_send(&Transmit { contents, segment_size, ..*transmit })?;
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let longest = self.longest.load(Ordering::Relaxed).max(1);
        let few = (BURST / longest).clamp(1, buffers.len());
        let (buffers, meta) = (&mut buffers[..few], &mut meta[..few]);
        let received = self.inner.poll_recv(context, buffers, meta);
        if let Poll::Ready(Ok(packets)) = &received
            && let Some(longest) = meta[..*packets].iter().map(|packet| packet.len).max()
        {
            self.longest.store(longest, Ordering::Relaxed);
        }
        received
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// As many as leave in one call. Of loopback's larger packets, fewer do: see `try_send`.
    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments().min(MAX_BATCH / usize::from(MTU))
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Notes what it is told to send: the bytes of each call, and how long its packets are. It
    /// fills all buffers with packets of 65,400 bytes.
    #[derive(Debug, Default)]
    struct Noted(Mutex<Vec<(usize, Option<usize>)>>);

    impl AsyncUdpSocket for Noted {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            unreachable!("nobody waits to send")
        }

        fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
            self.0.lock().unwrap().push((transmit.contents.len(), transmit.segment_size));
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            buffers: &mut [IoSliceMut<'_>],
            meta: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            meta.iter_mut().for_each(|packet| packet.len = 65_400);
            Poll::Ready(Ok(buffers.len()))
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)))
        }
    }

    #[test]
    fn what_is_too_long_for_one_call_leaves_in_several_of_whole_packets() {
        let sent = |length: usize, packet: Option<usize>| {
            let noted = Arc::new(Noted::default());
            let transmit = Transmit {
                destination: SocketAddr::from((Ipv4Addr::LOCALHOST, 2)),
                ecn: None,
                contents: &vec![0; length],
                segment_size: packet,
                src_ip: None,
            };
            CappedSocket::new(Arc::clone(&noted) as Arc<_>).try_send(&transmit).unwrap();
            noted.0.lock().unwrap().clone()
        };
        assert_eq!(sent(1_200, None), [(1_200, None)]);
        let jumbo = Some(8_952);
        assert_eq!(sent(7 * 8_952, jumbo), [(62_664, jumbo)]);
        assert_eq!(sent(9 * 8_952 + 7, jumbo), [(62_664, jumbo), (17_911, jumbo)]);
        assert_eq!(sent(2 * 65_400 + 7, Some(65_400)), [(65_400, None), (65_400, None), (7, None)]);
    }

    #[test]
    fn no_more_long_packets_are_taken_at_a_time_than_a_burst() {
        let socket = CappedSocket::new(Arc::new(Noted::default()));
        let mut room = [[0; 8]; 32];
        let mut buffers: Vec<_> = room.iter_mut().map(|one| IoSliceMut::new(one)).collect();
        let mut take = || {
            let context = &mut Context::from_waker(std::task::Waker::noop());
            socket.poll_recv(context, &mut buffers, &mut [RecvMeta::default(); 32])
        };
        let taken: Vec<_> = (0..3).map(|_| take().map(Result::ok)).collect();
        assert_eq!(taken, [32, 4, 4].map(|packets| Poll::Ready(Some(packets))));
    }
}
