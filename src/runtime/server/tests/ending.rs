//! What parameter servers tell one another of the end of a training.

use std::collections::BTreeMap;

use super::*;
use crate::graph::VariableSpec;
use crate::optimizer::{Delta, GradientDescent, Optimizer};
use crate::runtime::messages::StepId;
use crate::runtime::state::{Action, ApplyGradient, StateRequest, Ticket, VariableId};
use crate::sync::{Epoch, Fate, Return, Version, View};
use crate::tensor::{DType, Shape, Tensor};

/// The parameter server that counts the steps, the other one, and the tasks of workers 0 and 1.
pub(super) const COUNTER: PeerId = PeerId(0);
pub(super) const SHARD: PeerId = PeerId(1);
pub(super) const CHIEF: PeerId = PeerId(2);
pub(super) const OTHER: PeerId = PeerId(3);

/// Two parameter servers and three workers. The second server has a variable, and the first counts
/// the steps that train it.
pub(super) async fn servers() -> Vec<Server> {
    let cluster = ClusterSpec::simulated([("ps", 2), ("worker", 3)]).unwrap();
    let servers = Server::create_cluster(&cluster);
    servers.iter().for_each(Server::know_cluster);
    let spec = VariableSpec {
        shared_name: "v".into(),
        container: "weights".into(),
        dtype: DType::F32,
        shape: Shape::SCALAR,
        trainable: true,
        is_local: false,
    };
    let empty = Partition::empty(TaskName::new("ps", 1), LocalDevice::cpu(0));
    let partition = Arc::new(Partition { variables: vec![spec], ..empty });
    let counted_by = Some(Box::new((TaskName::new("ps", 0), 1)));
    let message = WorkerMessage::RegisterGraph(GraphOrder { counted_by, ..order(0, partition) });
    tell(&servers[1].actors.worker, WorkerMail::FromPeer { from: CHIEF, message });
    settle().await;
    servers
}

/// Has `server` hear of `message`, which `from` sends.
pub(super) async fn hear_from(server: &Server, from: PeerId, message: ParameterServerMessage) {
    tell(&server.actors.parameter_server, ParameterServerMail::FromPeer { from, message });
    settle().await;
}

/// Has a synchronous gradient of worker 1 come to the variable of `server`.
pub(super) async fn gradient(server: &Server) {
    gradient_of(server, 1, Epoch(1)).await;
}

/// The same of `worker`, in that epoch.
pub(super) async fn gradient_of(server: &Server, worker: u32, epoch: Epoch) {
    let step = StepId { master: 9, number: 0, trains: true };
    let mode = Mode::Sync { backups: 0, cancel: false };
    let apply = ApplyGradient {
        variables: smallvec![VariableId(0)],
        rule: Optimizer::from(GradientDescent::new(1.0)).rule,
        learning_rate: 1.0,
        gradient: Delta::Dense(Tensor::scalar(1f32)),
        of: Some((Replica { worker, workers: 3, mode }, Version::default())),
        verdict: None,
        taken: None,
    };
    let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
    let request = StateRequest { ticket, epoch, action: Action::Apply(apply) };
    tell(&server.actors.parameter_server, ParameterServerMail::Serve(vec![request]));
    settle().await;
}

#[test]
fn who_counts_the_steps_hears_of_a_dropped_gradient_in_the_training_after_a_reset_too() {
    on_actix(async {
        let servers = servers().await;
        let (counter, shard) = (servers[0].training(), &servers[1]);
        for training in ["the first", "the second"] {
            hear_from(shard, CHIEF, ParameterServerMessage::TrainingOver { training: 1 }).await;
            assert!(!counter.is_over(), "{training}: nothing is dropped yet");
            gradient(shard).await;
            assert!(counter.is_over(), "{training}");
            counter.begin();
            let reset = ParameterServerMessage::Reset {
                number: 0,
                containers: vec!["weights".to_owned()],
                within_training: false,
                incarnations: Vec::new(),
            };
            hear_from(shard, CHIEF, reset).await;
        }
    });
}

#[test]
fn an_end_cuts_off_no_round_that_is_made_without_its_announcer_until_that_is_let_in() {
    on_actix(async {
        let servers = servers().await;
        let (counter, shard) = (servers[0].training(), &servers[1]);
        let out = BTreeMap::from([(0, Fate::Dropped)]);
        let without = View { number: 1, out, ..View::default() };
        hear_from(shard, COUNTER, ParameterServerMessage::Install(without)).await;
        hear_from(shard, CHIEF, ParameterServerMessage::TrainingOver { training: 1 }).await;
        gradient(shard).await;
        assert!(!counter.is_over(), "the gradient is kept for its round");
        let back = BTreeMap::from([(0, Return { view: 2, round: Version::default() })]);
        let with = View { number: 2, back, ..View::default() };
        hear_from(shard, COUNTER, ParameterServerMessage::Install(with)).await;
        assert!(counter.is_over(), "it is dropped: the round would wait for worker 0");
    });
}

#[test]
fn an_announcer_that_is_being_taken_out_of_the_view_cuts_off_no_round() {
    on_actix(async {
        let servers = servers().await;
        let (counter, shard) = (servers[0].training(), &servers[1]);
        let flush = ParameterServerMessage::Flush { number: 1, out: vec![0] };
        hear_from(shard, COUNTER, flush).await;
        hear_from(shard, CHIEF, ParameterServerMessage::TrainingOver { training: 1 }).await;
        gradient(shard).await;
        assert!(!counter.is_over());
    });
}

/// The same servers; the first counts the steps of a training with rounds.
async fn servers_with_rounds() -> Vec<Server> {
    let servers = servers().await;
    tell(&servers[0].actors.worker, WorkerMail::FromPeer { from: CHIEF, message: register(0) });
    settle().await;
    servers
}

/// The task that counts the steps loses worker 1, and the view changes.
async fn lose_other(counter: &Server) {
    let (masters, loss) = (Vec::new(), Loss::Stopped);
    let lost = ParameterServerMail::Lost { peer: OTHER, masters, loss };
    tell(&counter.actors.parameter_server, lost);
    settle().await;
    settle().await;
}

#[test]
fn a_round_that_is_cut_off_is_told_with_a_change_of_the_view() {
    on_actix(async {
        let servers = servers_with_rounds().await;
        let (counter, shard) = (&servers[0], &servers[1]);
        hear_from(shard, CHIEF, ParameterServerMessage::TrainingOver { training: 1 }).await;
        assert!(!counter.training().is_over());
        lose_other(counter).await;
        assert!(counter.training().is_over(), "by who answers");
    });
    on_actix(async {
        let servers = servers_with_rounds().await;
        let (counter, shard) = (&servers[0], &servers[1]);
        hear_from(counter, CHIEF, ParameterServerMessage::TrainingOver { training: 1 }).await;
        assert!(!shard.training().is_over());
        lose_other(counter).await;
        assert!(shard.training().is_over(), "by who changes the view");
    });
}

#[test]
fn who_answers_a_change_of_an_earlier_training_says_nothing_of_this_one() {
    on_actix(async {
        let servers = servers_with_rounds().await;
        let counter = &servers[0];
        let flushed =
            ParameterServerMessage::Flushed { number: 1, progress: Vec::new(), is_cut_off: true };
        hear_from(counter, SHARD, flushed).await;
        assert!(!counter.training().is_over());
    });
}
