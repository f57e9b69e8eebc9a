//! The workers that a parameter server names to the master of a step as not there.

use std::any::Any;

use super::ending::{CHIEF, gradient, servers};
use super::*;
use crate::runtime::messages::StepId;
use crate::runtime::state::{Action, StateRequest, Ticket, VariableId};
use crate::sync::Epoch;
use crate::transport::Messages;

/// The place of a master, which keeps what it hears last of workers that are not there.
#[derive(Default)]
struct Ear(RefCell<Option<Vec<TaskName>>>);

impl Inbox<PeerMessage> for Ear {
    fn deliver(&self, _: PeerId, messages: Messages<PeerMessage>) {
        for message in messages {
            if let PeerMessage::Master(MasterMessage::BlockedWays { absent, .. }) = message {
                *self.0.borrow_mut() = Some(absent);
            }
        }
    }

    fn lost(&self, _: PeerId, _: Loss) {}

    fn broken(&self, _: &(dyn Any + Send)) {}
}

#[test]
fn only_workers_that_a_step_waits_for_are_told_as_not_there() {
    on_actix(async {
        let servers = servers().await;
        let (shard, ear) = (&servers[1], Rc::new(Ear::default()));
        servers[2].world.transport.listen(Rc::<Ear>::clone(&ear)); // in the chief's place
        let step = StepId { master: 5, number: 0, trains: true };
        let absent = async || {
            let message = WorkerMessage::AskForWays { step, graph: graph(0) };
            tell(&shard.actors.worker, WorkerMail::FromPeer { from: CHIEF, message });
            settle().await;
            ear.0.take().expect("it is answered")
        };
        let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
        let action = Action::Await(VariableId(0));
        let request = StateRequest { ticket, epoch: Epoch(1), action };
        tell(&shard.actors.parameter_server, ParameterServerMail::Serve(vec![request]));
        settle().await;
        assert!(!waits(shard).await.is_empty(), "the step waits for a first value");
        assert!(absent().await.is_empty(), "the chief gives it, and is there");
        gradient(shard).await; // of worker 1
        let absent = absent().await;
        assert_eq!(
            absent,
            [TaskName::new("worker", 2)],
            "the round lacks its gradient and that of the chief, which is there"
        );
    });
}
