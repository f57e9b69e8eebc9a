//! The lanes that peers open: joins them to their link, and takes envelopes off them.

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use quinn::{Connection, ConnectionError};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::super::super::Payload;
use super::super::super::wire::WireLimits;
use super::super::accepting::check_name;
use super::super::hello::{Hello, LanePlace, introduce};
use super::super::node::Node;
use super::super::peer_connection::Side;
use super::super::receiving::{Carried, LaneError, read_lanes};
use super::super::refusal::Refusal;
use super::blocks::{Gathering, arrived};
use super::of_link::{Inbound, LinkLanes};
use super::opening::close;
use super::threads::Arrival;

/// Joins lanes to their links, until this task's endpoints are closed.
pub(in super::super) async fn attend<M: Payload>(
    node: Rc<Node<M>>,
    mut arrivals: mpsc::Receiver<Arrival>,
) {
    while let Some(arrival) = arrivals.recv().await {
        let (connection, who) = (arrival.connection.clone(), arrival.hello.task.clone());
        if let Err(refusal) = join(&node, arrival) {
            tracing::debug!(task = %node.task, peer = %who, %refusal, "a lane is refused");
            connection.close(refusal.close().code(), refusal.to_string().as_bytes());
        }
    }
}

fn join<M: Payload>(node: &Rc<Node<M>>, arrival: Arrival) -> Result<(), Refusal> {
    let Hello { task, incarnation, epoch, lane, .. } = &arrival.hello;
    arrival.hello.check(&node.hello(0), &node.run)?;
    check_name(node, &arrival.connection, &arrival.hello)?;
    let stranger = || Refusal::Stranger(task.clone());
    let (peer, place) = (node.find(task).ok_or_else(stranger)?, lane.ok_or(Refusal::NoSuchLane)?);
    let is_current = peer.epoch() == *epoch && peer.incarnation() == Some(*incarnation);
    let side = if place.of_dialed { Side::Accepted } else { Side::Dialed };
    let link = peer.links().into_iter().find(|link| is_current && link.side == side);
    let link = link.ok_or(Refusal::NoSuchLane)?;
    if let Some(lanes) = link.lanes.add(place, arrival, node.lanes.threads.len())? {
        let carried = receive(lanes, node.hello(peer.epoch()), node.limits.wire);
        read_lanes(node, &peer, &link, carried);
    }
    Ok(())
}

impl LinkLanes {
    /// Adds a lane that the peer has opened. Once the last one of an attempt is added, returns all
    /// of them, each with the thread that drives it.
    fn add(
        &self,
        place: LanePlace,
        arrival: Arrival,
        most: usize,
    ) -> Result<Option<Vec<(Connection, Handle)>>, Refusal> {
        let (number, count) = (usize::from(place.number), usize::from(place.count));
        let Inbound { attempt, lanes } = &mut *self.inbound.borrow_mut();
        if place.attempt > *attempt {
            // The one before has failed.
            lanes.drain(..).flatten().for_each(|(lane, _)| close(&lane));
            *attempt = place.attempt;
        }
        let is_known = lanes.is_empty() || lanes.len() == count;
        if number >= count || count > most || place.attempt < *attempt || !is_known {
            return Err(Refusal::NoSuchLane);
        }
        lanes.resize_with(count, || None);
        if lanes[number].is_some() {
            return Err(Refusal::NoSuchLane);
        }
        lanes[number] = Some((arrival.connection, arrival.thread));
        Ok(lanes.iter().cloned().collect())
    }
}

/// The envelopes of a link that may wait for the actors, so that the next arrives meanwhile.
const MOST_CARRIED: usize = 2;

/// Receives from the lanes of a link, each on its thread, and tells the peer that it does.
fn receive(
    lanes: Vec<(Connection, Handle)>,
    hello: Hello,
    limits: WireLimits,
) -> mpsc::Receiver<Carried> {
    // Lanes accept no more envelopes while so many wait for the actors.
    let (carry, carried) = mpsc::channel(MOST_CARRIED);
    let (gathering, count) = (Arc::new(Mutex::new(Gathering::default())), lanes.len());
    for (connection, thread) in lanes {
        let lane = Lane { connection, gathering: Arc::clone(&gathering), carry: carry.clone() };
        thread.spawn(lane.receive(hello.clone(), (count, limits)));
    }
    carried
}

struct Lane {
    connection: Connection,
    gathering: Arc<Mutex<Gathering>>,
    carry: mpsc::Sender<Carried>,
}

impl Lane {
    /// Receives until the lane is closed.
    async fn receive(self, hello: Hello, bounds: (usize, WireLimits)) {
        let ended = match introduce(&self.connection, &hello).await {
            Ok(_nothing_follows) => self.accept(bounds).await,
            Err(refusal) => refusal,
        };
        let _the_link_has_ended = self.carry.send(Err(LaneError::Refused(ended))).await;
    }

    async fn accept(&self, bounds: (usize, WireLimits)) -> Refusal {
        loop {
            if self.carry.reserve().await.is_err() {
                return Refusal::Connection(ConnectionError::LocallyClosed);
            }
            let stream = match self.connection.accept_uni().await {
                Ok(stream) => stream,
                Err(error) => return error.into(),
            };
            let (gathering, carry) = (Arc::clone(&self.gathering), self.carry.clone());
            tokio::spawn(async move {
                let reading = async move { arrived(&gathering, stream, bounds).await };
                let read = match tokio::spawn(reading).await {
                    Ok(Ok(None)) => return, // others of its streams are missing
                    Ok(Ok(Some(frame))) => Ok(frame),
                    Ok(Err(refusal)) => Err(LaneError::Refused(refusal)),
                    Err(failed) => match failed.try_into_panic() {
                        Ok(panic) => Err(LaneError::Panic(panic)),
                        Err(_ended) => return,
                    },
                };
                let _the_link_has_ended = carry.send(read).await;
            });
        }
    }
}
