//! Two tasks in one process: what one hears as the other stops.

use std::any::Any;
use std::cell::RefCell;
use std::net::UdpSocket;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::certificates::Authority;
use super::super::{Inbox, Loss, Messages, Payload, PeerId, Transport};
use super::{Quic, QuicConfig, RunId};
use crate::cluster::{ClusterSpec, TaskName};
use crate::on_actix::on_actix;
use crate::tensor::Tensor;
use crate::units::Bytes;

pub(super) const SILENCE: Duration = Duration::from_millis(600);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Note(pub(super) Tensor);

impl Payload for Note {
    fn wire_size(&self) -> Bytes {
        Bytes(self.0.byte_len() as u64)
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct Kept {
    pub(super) notes: RefCell<Vec<Tensor>>,
    pub(super) losses: RefCell<Vec<Loss>>,
}

impl Inbox<Note> for Kept {
    fn deliver(&self, _: PeerId, notes: Messages<Note>) {
        self.notes.borrow_mut().extend(notes.into_iter().map(|note| note.0));
    }

    fn lost(&self, _: PeerId, loss: Loss) {
        self.losses.borrow_mut().push(loss);
    }

    fn broken(&self, panic: &(dyn Any + Send)) {
        panic!("the transport has panicked: {panic:?}");
    }
}

/// Two tasks in one process.
pub(super) struct Ends {
    pub(super) quic: [Rc<Quic<Note>>; 2],
    pub(super) inboxes: [Rc<Kept>; 2],
}

impl Ends {
    /// Two ends with so many lanes.
    pub(super) async fn with(lanes: [usize; 2]) -> Self {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let addresses = sockets.each_ref().map(|it| it.local_addr().unwrap().to_string());
        let cluster = ClusterSpec::dense([("worker", addresses)]).unwrap();
        let authority = Authority::new("run").unwrap();
        let (mut quic, inboxes) = (Vec::new(), [Rc::<Kept>::default(), Rc::default()]);
        for ((socket, number), inbox) in sockets.into_iter().zip(0..).zip(&inboxes) {
            let task = TaskName::new("worker", number);
            let identity = authority.issue(&task, &[]).unwrap();
            let config = QuicConfig::new(cluster.clone(), task, RunId::new("run"), identity);
            let lanes = lanes[number as usize];
            let config = QuicConfig { socket: Some(socket), silence: SILENCE, lanes, ..config };
            let end = Quic::bind(config).await.unwrap();
            end.listen(Rc::clone(inbox) as Rc<dyn Inbox<Note>>);
            quic.push(end);
        }
        let Ok(quic) = <[_; 2]>::try_from(quic) else { unreachable!("there are two ends") };
        Self { quic, inboxes }
    }
}

#[test]
fn a_peer_that_stops_while_both_dial_is_not_cut_off_and_has_stopped_after_all_that_it_sent() {
    on_actix(async {
        for round in 0..24 {
            let ends = Ends::with([0, 0]).await;
            let [leaving, staying] = &ends.quic;
            let note = |number: i32| vec![Note(Tensor::new([1], &[number]).unwrap())];
            leaving.send(PeerId(1), note(1));
            tokio::time::sleep(Duration::from_micros(100 * round)).await;
            staying.send(PeerId(0), note(2));
            assert!(leaving.shut_down(SILENCE).await, "{round}: all that it sent was taken");
            let [at_leaving, at_staying] = &ends.inboxes;
            while at_staying.losses.borrow().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(at_staying.notes.borrow().len(), 1, "{round}");
            assert_eq!(*at_staying.losses.borrow(), [Loss::Stopped], "{round}");
            assert_eq!(*at_leaving.losses.borrow(), [], "{round}: it is not cut off");
        }
    });
}

#[test]
fn a_client_that_has_said_goodbye_is_owed_nothing() {
    on_actix(async {
        let (task, inbox) = (TaskName::new("worker", 0), Rc::<Kept>::default());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let authority = Authority::new("run").unwrap();
        let end = async |task: TaskName, address: &str, socket: Option<UdpSocket>| {
            let own = [(task.job(), [(task.index(), address.to_owned())])];
            let identity = authority.issue(&task, &[]).unwrap();
            let cluster = ClusterSpec::sparse(own).unwrap();
            let config = QuicConfig::new(cluster, task, RunId::new("run"), identity);
            let listen = Some("127.0.0.1:0".parse().unwrap());
            Quic::<Note>::bind(QuicConfig { socket, listen, ..config }).await.unwrap()
        };
        let server = end(task.clone(), &address, Some(socket)).await;
        server.listen(Rc::clone(&inbox) as Rc<dyn Inbox<Note>>);
        let client = end(TaskName::new("client", 0), "client.invalid:1", None).await;
        let of_server = client.know(&task, &address).unwrap();
        let note = || vec![Note(Tensor::scalar(1f32))];
        client.send(of_server, note());
        assert!(client.shut_down(SILENCE).await, "all that it sent was taken");
        while inbox.losses.borrow().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let of_client = PeerId(1);
        server.send(of_client, note());
        assert_eq!(server.waiting_for().len(), 0);
        assert!(!server.has_unwritten(of_client));
    });
}
