//! What every transport keeps to: one body a point, run in memory and over QUIC.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use trainyard::cluster::{ClusterSpec, TaskName};
use trainyard::prelude::*;
use trainyard::transport::{
    InMemoryNetwork, Inbox, Loss, Messages, Payload, PeerId, Quic, QuicConfig, Transport,
};
use trainyard::units::Bytes;

use crate::support::fixture::{on_actix, quic_network_with};

const JOBS: [(&str, usize); 2] = [("ps", 1), ("worker", 2)];

/// A message with a number, and tensors where it has some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) number: u64,
    pub(crate) tensors: Vec<Tensor>,
}

impl Note {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, tensors: Vec::new() }
    }
}

impl Payload for Note {
    fn wire_size(&self) -> Bytes {
        Bytes(8 + self.tensors.iter().map(|tensor| tensor.byte_len() as u64).sum::<u64>())
    }

    fn check(&self) -> Result<(), String> {
        if self.number == u64::MAX { Err("a number that nothing has".to_owned()) } else { Ok(()) }
    }
}

/// An inbox that keeps what comes, and takes its time over each envelope.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) envelopes: RefCell<Vec<(PeerId, Messages<Note>)>>,
    pub(crate) losses: RefCell<Vec<(PeerId, Loss)>>,
    pub(crate) pause: Cell<Duration>,
    panics: Cell<bool>,
    broken_by: RefCell<Option<String>>,
}

impl Inbox<Note> for Kept {
    fn deliver(&self, from: PeerId, messages: Messages<Note>) {
        std::thread::sleep(self.pause.get());
        assert!(!self.panics.get(), "a defect");
        self.envelopes.borrow_mut().push((from, messages));
    }

    fn lost(&self, peer: PeerId, loss: Loss) {
        self.losses.borrow_mut().push((peer, loss));
    }

    fn broken(&self, panic: &(dyn std::any::Any + Send)) {
        self.broken_by.replace(panic.downcast_ref().map(|text: &&str| text.to_string()));
    }
}

impl Kept {
    pub(crate) fn count(&self) -> usize {
        self.envelopes.borrow().len()
    }

    /// Waits until so many envelopes are here.
    pub(crate) async fn until(&self, count: usize) {
        while self.count() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn numbers(&self) -> Vec<u64> {
        self.envelopes
            .borrow()
            .iter()
            .flat_map(|(_, messages)| messages.iter().map(|note| note.number))
            .collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    InMemory,
    Quic,
    /// Large envelopes go over lanes, as soon as these are open.
    QuicWithLanes,
}

/// The ends of three tasks, `ps:0` first, each with an inbox.
struct Ends {
    ends: Vec<Rc<dyn Transport<Note>>>,
    inboxes: Vec<Rc<Kept>>,
    quic: Vec<Rc<Quic<Note>>>,
}

impl Ends {
    async fn new(kind: Kind) -> Self {
        let mut quic = Vec::new();
        let ends: Vec<Rc<dyn Transport<Note>>> = match kind {
            Kind::InMemory => {
                let cluster =
                    ClusterSpec::simulated(JOBS.map(|(job, tasks)| (job, tasks as u32))).unwrap();
                let network = InMemoryNetwork::new(&cluster);
                cluster.tasks().map(|task| network.endpoint(&task).unwrap()).collect()
            }
            Kind::Quic | Kind::QuicWithLanes => {
                let lanes = if kind == Kind::QuicWithLanes { 3 } else { 0 };
                quic = quic_network_with(&JOBS, |config| QuicConfig { lanes, ..config }).await.1;
                quic.iter().map(|end| Rc::clone(end) as Rc<dyn Transport<Note>>).collect()
            }
        };
        let inboxes: Vec<Rc<Kept>> = ends.iter().map(|_| Rc::default()).collect();
        for (end, inbox) in ends.iter().zip(&inboxes) {
            end.listen(Rc::clone(inbox) as Rc<dyn Inbox<Note>>);
        }
        Self { ends, inboxes, quic }
    }

    fn send(&self, from: usize, to: usize, messages: Messages<Note>) {
        self.ends[from].send(PeerId(to as u32), messages);
    }

    /// The end: whatever is left is flushed.
    async fn shut_down(self) -> Result<()> {
        for end in &self.quic {
            assert!(end.shut_down(Duration::from_secs(5)).await, "all was taken");
        }
        Ok(())
    }
}

macro_rules! contract {
    ($($point:ident),* $(,)?) => {
        mod in_memory {
            $(#[test] fn $point() { super::on_actix(super::$point(super::Kind::InMemory)); })*
        }
        mod quic {
            $(#[test] fn $point() { super::on_actix(super::$point(super::Kind::Quic)); })*
        }
        mod quic_with_lanes {
            $(#[test] fn $point() { super::on_actix(super::$point(super::Kind::QuicWithLanes)); })*
        }
    };
}

contract!(
    peers_are_the_tasks_of_the_cluster,
    an_envelope_arrives_together_and_in_its_order,
    tensors_of_every_type_and_size_arrive_bit_for_bit,
    many_small_envelopes_arrive_once_each,
    everybody_talks_to_everybody_at_once,
    a_large_tensor_does_not_delay_a_small_message,
    a_large_envelope_does_not_delay_the_larger_one_before_it,
    a_closed_end_takes_nothing_and_still_sends,
    a_slow_reader_loses_nothing,
    what_is_sent_to_oneself_arrives,
);

#[test]
fn an_inbox_that_panics_is_told_of_it_and_the_transport_does_not_go_on_in_silence() {
    on_actix(async {
        let ends = Ends::new(Kind::Quic).await;
        ends.inboxes[1].panics.set(true);
        ends.send(0, 1, vec![Note::new(1)]);
        while ends.inboxes[1].broken_by.borrow().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ends.inboxes[1].broken_by.take().as_deref(), Some("a defect"));
        Ok(())
    });
}

async fn peers_are_the_tasks_of_the_cluster(kind: Kind) -> Result<()> {
    let ends = Ends::new(kind).await;
    for (index, end) in ends.ends.iter().enumerate() {
        let (peers, local) = (end.peers(), PeerId(index as u32));
        assert_eq!((peers.local(), peers.resolve(&peers.name(local))), (local, Some(local)));
        assert_eq!(peers.resolve(&TaskName::new("worker", 9)), None);
    }
    ends.shut_down().await
}

async fn an_envelope_arrives_together_and_in_its_order(kind: Kind) -> Result<()> {
    let ends = Ends::new(kind).await;
    let messages: Messages<Note> = (0..100).map(Note::new).collect();
    ends.send(1, 0, messages.clone());
    ends.inboxes[0].until(1).await;
    assert_eq!(*ends.inboxes[0].envelopes.borrow(), [(PeerId(1), messages)]);
    ends.shut_down().await
}

fn tensors() -> Vec<Tensor> {
    let real: Vec<f32> = (0..70_001).map(|i| i as f32 * 0.5).collect();
    let large: Vec<f64> = (0..1 << 20).map(f64::from).collect();
    let bf16 = [half::bf16::from_f32(1.5), half::bf16::NAN];
    vec![
        Tensor::scalar(7i64),
        Tensor::new([0, 3], &[] as &[f32]).unwrap(),
        Tensor::new([70_001], &real).unwrap(),
        Tensor::new([1 << 10, 1 << 10], &large).unwrap(),
        Tensor::new([2], &bf16).unwrap(),
        Tensor::new([1, 1, 1, 1, 1, 3], &[1i32, -1, i32::MIN]).unwrap(),
        Tensor::new([5], &[true, false, true, true, false]).unwrap(),
        Tensor::new([3], &[f32::NAN, -0.0, f32::INFINITY]).unwrap(),
    ]
}

async fn tensors_of_every_type_and_size_arrive_bit_for_bit(kind: Kind) -> Result<()> {
    let ends = Ends::new(kind).await;
    let together =
        vec![Note { number: 1, tensors: tensors() }, Note { number: 2, tensors: tensors() }];
    ends.send(0, 1, together.clone());
    for (number, tensor) in (3..).zip(tensors()) {
        ends.send(0, 1, vec![Note { number, tensors: vec![tensor] }]);
    }
    ends.inboxes[1].until(1 + tensors().len()).await;
    let mut envelopes = ends.inboxes[1].envelopes.borrow().clone();
    envelopes.sort_by_key(|(_, messages)| messages[0].number);
    assert_eq!(envelopes[0].1, together);
    for ((_, messages), tensor) in envelopes[1..].iter().zip(tensors()) {
        assert_eq!(messages[0].tensors, [tensor]);
        assert_eq!(messages[0].tensors[0].bytes().as_ptr() as usize % 64, 0, "aligned");
    }
    ends.shut_down().await
}

async fn many_small_envelopes_arrive_once_each(kind: Kind) -> Result<()> {
    let ends = Ends::new(kind).await;
    let count = 10_000;
    for number in 0..count {
        ends.send(2, 0, vec![Note { number, tensors: vec![Tensor::scalar(number as i64)] }]);
    }
    ends.inboxes[0].until(count as usize).await;
    let mut numbers = ends.inboxes[0].numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>());
    ends.shut_down().await
}

async fn everybody_talks_to_everybody_at_once(kind: Kind) -> Result<()> {
    let ends = Ends::new(kind).await;
    for number in 0..300 {
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
            ends.send(
                from,
                to,
                vec![Note { number, tensors: vec![Tensor::full([number as usize * 100], 1f32)] }],
            );
        }
        if number % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for inbox in &ends.inboxes {
        let all = tokio::time::timeout(Duration::from_secs(20), inbox.until(600)).await;
        let losses = inbox.losses.borrow().clone();
        assert!(all.is_ok(), "{} of 600 came, and these are lost: {losses:?}", inbox.count());
        let mut numbers = inbox.numbers();
        numbers.sort_unstable();
        assert!(
            numbers.chunks(2).zip(0..).all(|(pair, number)| pair == [number, number]),
            "once from each"
        );
        assert!(inbox.losses.borrow().is_empty());
    }
    ends.shut_down().await
}

async fn a_large_tensor_does_not_delay_a_small_message(kind: Kind) -> Result<()> {
    let ends = Ends::new(kind).await;
    ends.send(1, 0, vec![Note::new(0)]);
    ends.inboxes[0].until(1).await;
    ends.send(1, 0, vec![Note { number: 1, tensors: vec![Tensor::full([32 << 20], 1f32)] }]);
    let is_instant = ends.inboxes[0].count() == 2;
    let mut overtook = false;
    for number in 2..12 {
        let sent = Instant::now();
        ends.send(1, 0, vec![Note::new(number)]);
        while !ends.inboxes[0].numbers().contains(&number) {
            tokio::task::yield_now().await;
        }
        overtook |= !ends.inboxes[0].numbers().contains(&1);
        assert!(sent.elapsed() < Duration::from_secs(5), "{:?}", sent.elapsed());
    }
    assert!(is_instant || overtook, "128 MiB take longer than a round trip");
    ends.inboxes[0].until(12).await;
    ends.shut_down().await
}

async fn a_large_envelope_does_not_delay_the_larger_one_before_it(kind: Kind) -> Result<()> {
    let ends = Ends::new(kind).await;
    let send = |number, values| {
        ends.send(1, 0, vec![Note { number, tensors: vec![Tensor::full([values], 1f32)] }]);
    };
    // The first one has lanes opened.
    send(0, 1 << 20);
    ends.inboxes[0].until(1).await;
    for (number, values) in [(1, 16 << 20), (2, 4 << 20), (3, 1 << 20)] {
        send(number, values);
    }
    ends.inboxes[0].until(4).await;
    assert_eq!(ends.inboxes[0].numbers(), [0, 1, 2, 3]);
    ends.shut_down().await
}

async fn a_closed_end_takes_nothing_and_still_sends(kind: Kind) -> Result<()> {
    let ends = Ends::new(kind).await;
    ends.send(1, 0, vec![Note::new(1)]);
    ends.inboxes[0].until(1).await;
    ends.ends[0].close();
    ends.send(1, 0, vec![Note::new(2)]);
    ends.send(0, 1, vec![Note::new(3)]);
    ends.inboxes[1].until(1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ends.inboxes[0].numbers(), [1]);
    ends.shut_down().await
}

async fn a_slow_reader_loses_nothing(kind: Kind) -> Result<()> {
    let ends = Ends::new(kind).await;
    ends.inboxes[0].pause.set(Duration::from_millis(2));
    let count = 200;
    for number in 0..count {
        let len = if number % 4 == 0 { 100_000 } else { 10 };
        ends.send(1, 0, vec![Note { number, tensors: vec![Tensor::full([len], number as i64)] }]);
    }
    ends.inboxes[0].until(count as usize).await;
    let mut numbers = ends.inboxes[0].numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>());
    ends.inboxes[0].pause.set(Duration::ZERO);
    ends.shut_down().await
}

async fn what_is_sent_to_oneself_arrives(kind: Kind) -> Result<()> {
    let ends = Ends::new(kind).await;
    ends.send(2, 2, vec![Note::new(5)]);
    ends.inboxes[2].until(1).await;
    assert_eq!(*ends.inboxes[2].envelopes.borrow(), [(PeerId(2), vec![Note::new(5)])]);
    ends.shut_down().await
}
