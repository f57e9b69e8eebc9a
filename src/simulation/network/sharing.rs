//! Sharing: messages that meet others on their links go through the flows of their connections.

use super::connections::ConnectionId;
use super::event::EventKind;
use super::route::LinkId;
use super::{MessageId, Network};

impl<T> Network<T> {
    /// Puts message `id`, of which so many bytes are left, in the queue of its connection.
    pub(super) fn queue(&mut self, id: MessageId, left: f64) {
        let is_large = self.size(id) > self.connection.large;
        let connection_id = self.messages[id as usize].connection;
        let connection = self.connections.get_mut(connection_id);
        let is_flowing = connection.is_flowing();
        let is_interrupted = connection.is_interrupted_by(is_large);
        if is_flowing {
            let before = self.flows.held_back(self.now, connection_id);
            self.messages[id as usize].held_before = before;
        }
        if is_interrupted {
            connection.interrupt(self.flows.left(self.now, connection_id));
        }
        connection.push(id, left, is_large);
        if is_interrupted {
            self.continue_flow(connection_id);
        } else if !is_flowing && !self.has_to_wait(connection_id) {
            self.begin_flow(connection_id);
        }
    }

    /// Begins a connection's flow, if it has something to send.
    pub(super) fn begin_flow(&mut self, connection_id: ConnectionId) {
        let connection = self.connections.get_mut(connection_id);
        if let Some(bytes) = connection.begin_turn() {
            self.flows.join(self.now, connection_id, connection.route, bytes);
        }
    }

    /// Begins the next turn of a connection's flow, or ends the flow.
    fn continue_flow(&mut self, connection_id: ConnectionId) {
        let connection = self.connections.get_mut(connection_id);
        let Some(bytes) = connection.begin_turn() else {
            return self.flows.leave(self.now, connection_id);
        };
        if let Some(link) = self.flows.set_left(self.now, connection_id, bytes) {
            self.schedule(self.flows.next_end(link), EventKind::End(link));
        }
    }

    /// Ends the turns at `link` whose last byte leaves now; they arrive one latency later.
    pub(super) fn end(&mut self, link: LinkId) {
        let mut ended = std::mem::take(&mut self.ended);
        self.flows.end(self.now, link, &mut ended);
        for connection_id in ended.drain(..) {
            let connection = self.connections.get_mut(connection_id);
            let (id, latency) = (connection.end_turn(), connection.latency);
            let held = self.flows.held_back_by_turn(connection_id);
            self.note_way(id, held, link);
            self.schedule(self.now.after(latency), EventKind::Arrive(id));
            self.continue_flow(connection_id);
        }
        self.ended = ended;
    }

    /// Computes new rates after flows began or ended.
    pub(super) fn settle(&mut self) {
        let mut rescheduled = std::mem::take(&mut self.rescheduled);
        self.flows.settle(self.now, &mut rescheduled);
        for link in rescheduled.drain(..) {
            self.schedule(self.flows.next_end(link), EventKind::End(link));
        }
        self.rescheduled = rescheduled;
        self.drop_stale_events();
    }
}
