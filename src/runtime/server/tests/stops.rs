//! Workers that leave before the end of their training, and come back.

use std::any::Any;
use std::io::Write;
use std::sync::Mutex;

use super::ending::{CHIEF, OTHER, SHARD, gradient_of, hear_from, servers};
use super::*;
use crate::sync::{Epoch, Progress};
use crate::transport::Messages;

fn stopped(worker: u32) -> ParameterServerMessage {
    ParameterServerMessage::Leave { worker, why: Leaving::Stopped, training: 1 }
}

/// Has the parameter server that counts the steps make worker 1 ready to train, with its graph of
/// that `number`, and change the view if that is due.
async fn train_other(counter: &Server, number: u64) {
    let message = register_of(number, 1, 3);
    tell(&counter.actors.worker, WorkerMail::FromPeer { from: OTHER, message });
    for _ in 0..4 {
        settle().await;
    }
}

#[test]
fn a_chief_that_had_stopped_takes_part_again_once_it_gives_the_variables_other_values() {
    on_actix(async {
        let servers = servers().await;
        let (shard, other) = (&servers[1], &servers[3]);
        for server in [shard, other] {
            server.actors.deliver(CHIEF, vec![stopped(0).into()]);
        }
        let reset = ParameterServerMessage::Reset {
            number: 0,
            containers: vec!["weights".to_owned()],
            within_training: true,
            incarnations: Vec::new(),
        };
        hear_from(shard, CHIEF, reset).await;
        assert_eq!(other.training().chief_left(), None, "it was told that the chief is back");
        gradient_of(shard, 1, Epoch(2)).await;
        let waits = waits(shard).await.concat();
        assert!(waits.contains("worker 0's gradient of `v`"), "{waits}");
    });
}

#[test]
fn who_counts_the_steps_and_has_met_a_worker_before_it_hears_of_its_stop_has_it_let_in() {
    on_actix(async {
        let servers = servers().await;
        let (counter, shard) = (&servers[0], &servers[1]);
        hear_from(shard, OTHER, stopped(1)).await;
        let partition = Arc::new(Partition::empty(TaskName::new("ps", 0), LocalDevice::cpu(0)));
        let message = WorkerMessage::RegisterGraph(order(0, partition));
        tell(&counter.actors.worker, WorkerMail::FromPeer { from: OTHER, message });
        settle().await;
        hear_from(counter, CHIEF, stopped(1)).await;
        train_other(counter, 1).await;
        gradient_of(shard, 0, Epoch(1)).await;
        let waits = waits(shard).await.concat();
        assert!(waits.contains("worker 1's gradient of `v`"), "{waits}");
    });
}

/// The place of a task that answers nothing.
struct Deaf;

impl Inbox<PeerMessage> for Deaf {
    fn deliver(&self, _: PeerId, _: Messages<PeerMessage>) {}

    fn lost(&self, _: PeerId, _: Loss) {}

    fn broken(&self, _: &(dyn Any + Send)) {}
}

/// What is logged. Clones share it.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_worker_that_left_between_two_steps_is_not_said_to_be_lost_in_the_midst_of_one() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    on_actix(async {
        let servers = servers().await;
        let counter = &servers[0];
        train_other(counter, 0).await;
        servers[1].world.transport.listen(Rc::new(Deaf)); // in the shard's place
        hear_from(counter, OTHER, stopped(1)).await;
        train_other(counter, 1).await;
        // Its last gradient is in a variable that has had 4 rounds, and another has had 3.
        let progress = vec![(1, Progress { least: 3, most: 4, made: 4 })];
        let flushed = ParameterServerMessage::Flushed { number: 1, progress, is_cut_off: false };
        hear_from(counter, SHARD, flushed).await;
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(log.matches("is about to change").count(), 2, "it goes, and is let in: {log}");
    assert!(!log.contains("in the midst of a step"), "{log}");
}
