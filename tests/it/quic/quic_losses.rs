//! Peers that stop, fall silent or come back: each is told once, and nothing of before comes after.

use std::net::UdpSocket;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use trainyard::cluster::{ClusterSpec, TaskName};
use trainyard::prelude::*;
use trainyard::transport::{Authority, Identity, Inbox, Loss, PeerId, Quic, QuicConfig, Transport};

use crate::quic::transport_contract::{Kept, Note};
use crate::support::fixture::{both, loopback, on_actix, quic_config};

const SILENCE: Duration = Duration::from_millis(800);
const WORKER: PeerId = PeerId(1);

/// A parameter server here, and a worker to be started in a thread of its own, as in a process of
/// its own.
struct Pair {
    cluster: ClusterSpec,
    authority: Authority,
    ps: Rc<Quic<Note>>,
    inbox: Rc<Kept>,
    socket: UdpSocket,
    identity: Identity,
}

impl Pair {
    async fn new() -> Self {
        let (cluster, mut sockets) = loopback(&[("ps", 1), ("worker", 1)]);
        let authority = Authority::new("test").unwrap();
        let (socket, at_ps) = (sockets.pop().unwrap(), sockets.pop().unwrap());
        let config = quic_config(&cluster, &TaskName::new("ps", 0), at_ps, &authority);
        let ps = Quic::bind(QuicConfig { silence: SILENCE, ..config }).await.unwrap();
        let inbox = Rc::new(Kept::default());
        ps.listen(Rc::clone(&inbox) as Rc<dyn Inbox<Note>>);
        let identity = authority.issue(&TaskName::new("worker", 0), &[]).unwrap();
        Self { cluster, authority, ps, inbox, socket, identity }
    }

    /// What the worker needs: each life of it has the same socket and the same key.
    fn worker(&self) -> QuicConfig {
        let socket = self.socket.try_clone().unwrap();
        let config =
            quic_config(&self.cluster, &TaskName::new("worker", 0), socket, &self.authority);
        QuicConfig { silence: SILENCE, identity: self.identity.clone(), ..config }
    }

    fn losses(&self) -> Vec<(PeerId, Loss)> {
        self.inbox.losses.borrow().clone()
    }

    async fn until_lost(&self, times: usize) {
        while self.inbox.losses.borrow().len() < times {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Runs a worker in a thread of its own until `live` returns; then nothing of it is left, and
/// nobody was told.
fn in_a_life_of_its_own<F: Future<Output = ()>>(
    config: QuicConfig,
    live: impl FnOnce(Rc<Quic<Note>>) -> F + Send + 'static,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        actix_rt::System::with_tokio_rt(runtime).block_on(async {
            let end = Quic::bind(config).await.unwrap();
            std::mem::forget(Rc::clone(&end));
            live(end).await;
        });
    })
}

#[test]
fn a_peer_that_stops_is_lost_after_all_that_it_sent() {
    on_actix(async {
        let pair = Pair::new().await;
        let worker = Quic::<Note>::bind(pair.worker()).await.unwrap();
        worker.send(
            PeerId(0),
            vec![Note { number: 1, tensors: vec![Tensor::full([4 << 20], 1f32)] }],
        );
        for number in 2..100 {
            worker.send(PeerId(0), vec![Note::new(number)]);
        }
        assert!(worker.shut_down(Duration::from_secs(5)).await);
        assert_eq!(pair.inbox.count(), 99);
        pair.until_lost(1).await;
        drop(worker);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(pair.losses(), [(WORKER, Loss::Stopped)]);
        Ok(())
    });
}

#[test]
fn both_can_stop_at_the_same_moment() {
    on_actix(async {
        let pair = Pair::new().await;
        let worker = Quic::<Note>::bind(pair.worker()).await.unwrap();
        let at_worker = Rc::new(Kept::default());
        worker.listen(Rc::clone(&at_worker) as Rc<dyn Inbox<Note>>);
        worker.send(PeerId(0), vec![Note::new(1)]);
        pair.inbox.until(1).await;
        pair.ps
            .send(WORKER, vec![Note { number: 2, tensors: vec![Tensor::full([4 << 20], 1f32)] }]);
        let began = Instant::now();
        let limit = Duration::from_secs(3);
        let (_, is_received) = both(worker.shut_down(limit), pair.ps.shut_down(limit)).await;
        assert!(began.elapsed() < limit, "neither waited in vain");
        let (has_come, losses) = (at_worker.count() == 1, pair.losses());
        // A worker that has stopped hears of nobody, and takes no message.
        assert!(at_worker.losses.borrow().iter().all(|(_, loss)| *loss == Loss::Stopped));
        assert!(has_come || losses == [(WORKER, Loss::Stopped)], "{losses:?}");
        assert!(losses.iter().all(|(_, loss)| *loss == Loss::Stopped), "{losses:?}");
        assert!(has_come || !is_received, "it says that all was received");
        Ok(())
    });
}

#[test]
fn a_frozen_peer_is_found_within_the_silence_and_can_come_back() {
    on_actix(async {
        let pair = Pair::new().await;
        let (thaw, frozen) = mpsc::channel::<()>();
        let (until, thawed) = mpsc::channel::<()>();
        let life = in_a_life_of_its_own(pair.worker(), |end| async move {
            let inbox = Rc::new(Kept::default());
            end.listen(Rc::clone(&inbox) as Rc<dyn Inbox<Note>>);
            end.send(PeerId(0), vec![Note::new(1)]);
            inbox.until(1).await;
            frozen.recv().unwrap();
            while inbox.losses.borrow().is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert_eq!(inbox.losses.borrow().len(), 1);
            end.send(PeerId(0), vec![Note::new(3)]);
            while thawed.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        pair.inbox.until(1).await;
        pair.ps.send(WORKER, vec![Note::new(2)]);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        pair.until_lost(1).await;
        assert!(began.elapsed() < SILENCE * 5, "{:?}", began.elapsed());
        assert_eq!(pair.losses(), [(WORKER, Loss::Silent)]);
        thaw.send(()).unwrap();
        pair.inbox.until(2).await;
        assert_eq!(pair.inbox.envelopes.borrow()[1].1, [Note::new(3)]);
        assert_eq!(pair.losses().len(), 1, "the same life of it");
        until.send(()).unwrap();
        life.join().unwrap();
        Ok(())
    });
}

#[test]
fn a_peer_that_comes_back_as_another_is_told_before_anything_of_it() {
    on_actix(async {
        let pair = Pair::new().await;
        for life in 1..=3u64 {
            let (until, told) = mpsc::channel::<()>();
            let running = in_a_life_of_its_own(pair.worker(), move |end| async move {
                end.send(PeerId(0), vec![Note::new(life)]);
                while told.try_recv().is_err() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            });
            pair.inbox.until(life as usize).await;
            let losses = pair.losses();
            let lost = life as usize - 1;
            assert_eq!(losses.len(), lost, "before the first message of life {life}: {losses:?}");
            until.send(()).unwrap();
            running.join().unwrap();
        }
        Ok(())
    });
}

#[test]
fn a_peer_that_comes_back_and_says_nothing_is_found_out_by_what_is_sent_to_it() {
    on_actix(async {
        let pair = Pair::new().await;
        let life = in_a_life_of_its_own(pair.worker(), |end| async move {
            let inbox = Rc::new(Kept::default());
            end.listen(Rc::clone(&inbox) as Rc<dyn Inbox<Note>>);
            inbox.until(1).await;
            end.send(PeerId(0), vec![Note::new(2)]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
        pair.ps.send(WORKER, vec![Note::new(1)]);
        pair.inbox.until(1).await;
        while !life.is_finished() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let worker = Quic::<Note>::bind(pair.worker()).await.unwrap();
        let inbox = Rc::new(Kept::default());
        worker.listen(Rc::clone(&inbox) as Rc<dyn Inbox<Note>>);
        pair.ps.send(WORKER, vec![Note::new(3)]);
        pair.until_lost(1).await;
        pair.ps.send(WORKER, vec![Note::new(4)]);
        inbox.until(1).await;
        assert_eq!(inbox.envelopes.borrow()[0].1, [Note::new(4)]);
        assert_eq!(pair.losses(), [(WORKER, Loss::Restarted)], "once, and not by silence");
        Ok(())
    });
}

#[test]
fn who_tells_of_lives_of_a_peer_that_never_come_is_believed_once() {
    on_actix(async {
        let pair = Pair::new().await;
        let worker = Quic::<Note>::bind(pair.worker()).await.unwrap();
        let inbox = Rc::new(Kept::default());
        worker.listen(Rc::clone(&inbox) as Rc<dyn Inbox<Note>>);
        worker.send(PeerId(0), vec![Note::new(1)]);
        pair.inbox.until(1).await;
        let life = pair.ps.peers().incarnation(WORKER).unwrap();
        pair.ps.peers().has_restarted(WORKER, life + 1);
        pair.until_lost(1).await;
        while inbox.losses.borrow().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        worker.send(PeerId(0), vec![Note::new(2)]);
        pair.inbox.until(2).await;
        pair.ps.peers().has_restarted(WORKER, life + 2);
        worker.send(PeerId(0), vec![Note::new(3)]);
        pair.inbox.until(3).await;
        assert_eq!(pair.losses(), [(WORKER, Loss::Restarted)], "it is in the same life");
        Ok(())
    });
}

#[test]
fn what_is_sent_before_a_peer_is_there_waits_for_it() {
    on_actix(async {
        let pair = Pair::new().await;
        pair.ps.send(WORKER, vec![Note::new(7)]);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let waiting = pair.ps.waiting_for();
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        assert_eq!(waiting[0].0, TaskName::new("worker", 0));
        let worker = Quic::<Note>::bind(pair.worker()).await.unwrap();
        let inbox = Rc::new(Kept::default());
        worker.listen(Rc::clone(&inbox) as Rc<dyn Inbox<Note>>);
        inbox.until(1).await;
        assert!(pair.ps.waiting_for().is_empty() && pair.losses().is_empty());
        Ok(())
    });
}

#[test]
fn more_than_may_wait_is_an_error_and_not_memory() {
    on_actix(async {
        let pair = Pair::new().await;
        let mut config = pair.worker();
        config.limits.queue = 1000;
        let worker = Quic::<Note>::bind(config).await.unwrap();
        let inbox = Rc::new(Kept::default());
        worker.listen(Rc::clone(&inbox) as Rc<dyn Inbox<Note>>);
        worker.send(PeerId(0), vec![Note { number: 1, tensors: vec![Tensor::full([1000], 1f32)] }]);
        while inbox.losses.borrow().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(*inbox.losses.borrow(), [(PeerId(0), Loss::Broken)]);
        worker.send(PeerId(0), vec![Note::new(2)]);
        pair.inbox.until(1).await;
        assert_eq!(pair.inbox.envelopes.borrow()[0].1, [Note::new(2)]);
        Ok(())
    });
}
