//! A task at its place in a cluster: it listens, and its server is started and watched.

use std::rc::Rc;

use super::network::{Message, Network};
use super::{DeploymentError, Member, Seat, observation, pace, standstill};
use crate::runtime::{ComputeModel, PeerMessage, Processor, Server, ServerDef, ServerWorld};
use crate::transport::{Quic, Transport};

/// A task that has taken its seat.
pub(super) struct Seated {
    pub(super) quic: Rc<Quic<Message>>,
    /// The server, started.
    pub(super) server: Rc<Server>,
}

/// Has `member` listen at its address and starts its server. The task renews its certificate,
/// answers questions about its status, notes how long it stands still, and shows itself on its
/// board, if it has one.
///
/// # Errors
/// If it can't listen on its address, or its certificate can't be used.
pub(super) async fn take_seat(member: &mut Member) -> Result<Seated, DeploymentError> {
    let quic = Quic::bind(member.seat.network()).await?;
    if let Some(renewal) = member.seat.renewal.take() {
        actix_rt::spawn(renewal.watch(Rc::downgrade(&quic)));
    }
    let Seat { cluster, known, .. } = &member.seat;
    let (cluster, known, sent) = (cluster.clone(), known.clone(), Rc::clone(&member.sent));
    let network = Network::new(Rc::clone(&quic), cluster, known, sent);
    let server = start(member, network.transport());
    network.attach(&server);
    if let Some(board) = member.board.take() {
        observation::watch(&network, &server, board);
    }
    if member.tape.is_none() {
        pace::watch(&network, &server); // a replay is to have what the run alone has
    }
    actix_rt::spawn(standstill::watch(Rc::downgrade(&server), member.clock));
    Ok(Seated { quic, server })
}

/// The task's server, started.
fn start(member: &Member, transport: Rc<dyn Transport<PeerMessage>>) -> Rc<Server> {
    let device = |number| match &member.tape {
        Some(tape) => Rc::new(tape.gated(number)) as Rc<dyn ComputeModel>,
        None => Rc::new(Processor::default()),
    };
    let devices = (0..member.devices.get()).map(device).collect();
    let transport = match &member.tape {
        Some(tape) => tape.over(transport),
        None => transport,
    };
    let (encoding, clock) = (member.encoding, Rc::new(member.clock));
    let world = ServerWorld { transport, encoding, clock, devices };
    let Seat { cluster, task, master, .. } = &member.seat;
    let def = ServerDef { cluster: cluster.clone(), task: task.clone() };
    let server = Rc::new(Server::new(def, world));
    if let Some(tape) = &member.tape {
        tape.wait_for(&server);
    }
    server.start().expect("a new server can be started");
    if let Some(master) = master {
        server.set_session_master(master).expect("it has an address in the cluster");
    }
    server
}
