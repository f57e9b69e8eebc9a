//! Two tasks in one process, with lanes: what goes over them, and what their end means.

use std::time::Duration;

use quinn::Connection;
use tokio::time::sleep;

use super::super::super::certificates::task_domain;
use super::super::super::{Loss, PeerId, Transport};
use super::super::hello::{Hello, LanePlace};
use super::super::peer_connection::Side;
use super::super::refusal::{Close, Refusal};
use super::super::tests::{Ends, Note, SILENCE};
use super::threads::LaneThread;
use super::*;
use crate::cluster::TaskName;
use crate::on_actix::on_actix;
use crate::tensor::Tensor;

const MOMENT: Duration = Duration::from_millis(2);
/// The length of the tensors that are sent \[elements of 4 bytes\]: some blocks and a bit.
const LENGTH: usize = 5 * blocks::BLOCK / 4 + 3;

impl Ends {
    /// Sends a large tensor from `from` to the other end, and waits until it is there.
    async fn send(&self, from: usize, number: i32) {
        let (to, tensor) = (1 - from, Tensor::new([LENGTH], &vec![number; LENGTH]).unwrap());
        let before = self.inboxes[to].notes.borrow().len();
        self.quic[from].send(PeerId(to as u32), vec![Note(tensor.clone())]);
        until(|| self.inboxes[to].notes.borrow().len() > before).await;
        assert_eq!(self.inboxes[to].notes.borrow()[before], tensor);
    }

    /// Sends until `from` has lanes to the other end.
    async fn open(&self, from: usize) {
        self.send(from, 0).await;
        until(|| self.lanes(from).is_some_and(|lanes| !lanes.is_empty())).await;
    }

    fn link(&self, from: usize) -> Option<Rc<PeerConnection>> {
        self.quic[from].node.peer(PeerId(1 - from as u32)).way()
    }

    /// The open lanes from `from` to the other end.
    fn lanes(&self, from: usize) -> Option<Vec<Connection>> {
        let link = self.link(from)?;
        let Outbound(lanes) = link.lanes.outbound.get()?;
        Some(lanes.iter().map(|(lane, _)| lane.clone()).collect())
    }

    async fn until_lost(&self) {
        until(|| self.inboxes.iter().all(|inbox| !inbox.losses.borrow().is_empty())).await;
        for inbox in &self.inboxes {
            assert_eq!(*inbox.losses.borrow(), [Loss::Broken]);
        }
    }
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        sleep(MOMENT).await;
    }
}

fn sent(lanes: &[Connection]) -> Vec<u64> {
    lanes.iter().map(|lane| lane.stats().udp_tx.bytes).collect()
}

/// Dials the first lane of the other end of `link` with this introduction.
async fn dial(
    node: &Node<Note>,
    link: &PeerConnection,
    hello: Hello,
) -> Result<Connection, Refusal> {
    let mut address = link.connection.remote_address();
    address.set_port(link.lanes.ports[0]);
    let to = (address, task_domain(&TaskName::new("worker", 1)).unwrap().as_ref().to_owned());
    let LaneThread { endpoint, runtime, .. } = &node.lanes.threads[0];
    let settings = node.client_config(true);
    let dialing = opening::dial(endpoint.clone(), to, settings, hello, node.silence);
    runtime.spawn(dialing).await.unwrap()
}

#[test]
fn large_envelopes_of_either_direction_are_spread_over_the_lanes_that_both_ends_have() {
    on_actix(async {
        let ends = Ends::with([3, 2]).await;
        for from in [0, 1] {
            ends.open(from).await;
            let lanes = ends.lanes(from).unwrap();
            assert_eq!(lanes.len(), 2);
            let (before, on_link) =
                (sent(&lanes), sent(&[ends.link(from).unwrap().connection.clone()]));
            ends.send(from, 7).await;
            for (before, after) in before.iter().zip(sent(&lanes)) {
                assert!(after - before >= 2 * blocks::BLOCK as u64, "{before} to {after}");
            }
            let after = sent(&[ends.link(from).unwrap().connection.clone()]);
            assert!(after[0] - on_link[0] < blocks::BLOCK as u64, "{on_link:?} to {after:?}");
        }
        for end in &ends.quic {
            assert!(end.shut_down(SILENCE).await, "all was taken");
        }
    });
}

#[test]
fn what_no_lane_gets_through_goes_over_the_link() {
    on_actix(async {
        let ends = Ends::with([2, 2]).await;
        for thread in &ends.quic[1].node.lanes.threads {
            thread.endpoint.close(Close::Refused.code(), b"a firewall");
        }
        for number in 0..=ATTEMPTS {
            ends.send(0, number.into()).await;
            let link = ends.link(0).unwrap();
            until(|| !link.lanes.is_opening.get()).await;
        }
        assert_eq!(ends.link(0).unwrap().lanes.attempts.get(), ATTEMPTS);
        assert!(ends.lanes(0).is_none());
        assert!(ends.inboxes.iter().all(|inbox| inbox.losses.borrow().is_empty()));
    });
}

#[test]
fn whose_lane_ends_is_lost_and_comes_back() {
    on_actix(async {
        let ends = Ends::with([2, 2]).await;
        ends.open(0).await;
        ends.lanes(0).unwrap()[1].close(Close::Lost.code(), b"a defect");
        ends.until_lost().await;
        ends.open(0).await;
        ends.send(0, 9).await;
    });
}

#[test]
fn lanes_of_an_attempt_that_has_failed_make_way_for_those_of_the_next_and_lose_nobody() {
    on_actix(async {
        let ends = Ends::with([2, 2]).await;
        ends.send(1, 0).await;
        let (node, link) = (&ends.quic[0].node, ends.link(0).unwrap());
        let of_dialed = link.side == Side::Dialed;
        let hello = |attempt, count| {
            let lane = Some(LanePlace { number: 0, attempt, count, of_dialed });
            Hello { lane, ..node.hello(0) }
        };
        assert!(dial(node, &link, hello(1, 2)).await.is_err(), "the second lane never comes");
        dial(node, &link, hello(2, 1)).await.unwrap();
        assert!(dial(node, &link, hello(1, 2)).await.is_err(), "it is of an earlier attempt");
        assert!(ends.inboxes.iter().all(|inbox| inbox.losses.borrow().is_empty()));
    });
}

#[test]
fn garbage_on_a_lane_ends_its_link() {
    on_actix(async {
        let ends = Ends::with([2, 2]).await;
        ends.open(0).await;
        let mut stream = ends.lanes(0).unwrap()[0].open_uni().await.unwrap();
        stream.write_chunk(vec![0xff; 12].into()).await.unwrap();
        ends.until_lost().await;
        assert!(ends.quic[1].refusals().iter().any(|(_, why)| why.contains("of 2 lanes")));
    });
}

#[test]
fn a_lane_of_an_earlier_incarnation_or_of_more_than_there_are_is_refused() {
    on_actix(async {
        let ends = Ends::with([2, 2]).await;
        ends.open(0).await;
        let (node, link) = (&ends.quic[0].node, ends.link(0).unwrap());
        let hello = |number, of_dialed| {
            let lane = Some(LanePlace { number, attempt: 1, count: 2, of_dialed });
            Hello { lane, ..node.hello(0) }
        };
        let of_dialed = link.side == Side::Dialed;
        let earlier = Hello { incarnation: node.incarnation - 1, ..hello(0, of_dialed) };
        for refused in [earlier, hello(0, of_dialed), hello(2, of_dialed), hello(0, !of_dialed)] {
            let ended = dial(node, &link, refused).await;
            assert!(ended.is_err(), "it has all lanes, or none such");
        }
        assert!(ends.inboxes.iter().all(|inbox| inbox.losses.borrow().is_empty()));
        ends.send(0, 5).await;
    });
}
