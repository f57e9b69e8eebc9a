//! What parameter servers tell one another of the end of a training.

use super::*;
use crate::graph::VariableSpec;
use crate::optimizer::{Delta, GradientDescent, Optimizer};
use crate::runtime::messages::StepId;
use crate::runtime::state::{Action, ApplyGradient, StateRequest, Ticket, VariableId};
use crate::sync::{Epoch, Version};
use crate::tensor::{DType, Shape, Tensor};

/// The task of worker 0, beside two parameter servers.
const CHIEF: PeerId = PeerId(2);

/// Two parameter servers and two workers. The second server has a variable, and the first counts
/// the steps that train it.
async fn servers() -> Vec<Server> {
    let cluster = ClusterSpec::simulated([("ps", 2), ("worker", 2)]).unwrap();
    let servers = Server::create_cluster(&cluster);
    servers[1].know_cluster();
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
    let (graph, isolated, is_again, functions) = (graph(0), None, false, None);
    let counted_by = Some(Box::new((TaskName::new("ps", 0), 1)));
    let message = WorkerMessage::RegisterGraph {
        graph,
        partition,
        isolated,
        is_again,
        functions,
        counted_by,
    };
    tell(&servers[1].actors.worker, WorkerMail::FromPeer { from: CHIEF, message });
    settle().await;
    servers
}

/// Has `server` hear of `message`, which `from` sends.
async fn hear_from(server: &Server, from: PeerId, message: ParameterServerMessage) {
    tell(&server.actors.parameter_server, ParameterServerMail::FromPeer { from, message });
    settle().await;
}

/// Has a synchronous gradient of worker 1 come to the variable of `server`.
async fn gradient(server: &Server) {
    let step = StepId { master: 9, number: 0, trains: true };
    let mode = Mode::Sync { backups: 0, cancel: false };
    let apply = ApplyGradient {
        variables: smallvec![VariableId(0)],
        rule: Optimizer::from(GradientDescent::new(1.0)).rule,
        learning_rate: 1.0,
        gradient: Delta::Dense(Tensor::scalar(1f32)),
        of: Some((Replica { worker: 1, workers: 2, mode }, Version::default())),
        verdict: None,
        taken: None,
    };
    let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
    let request = StateRequest { ticket, epoch: Epoch(1), action: Action::Apply(apply) };
    tell(&server.actors.parameter_server, ParameterServerMail::Serve(vec![request]));
    settle().await;
}

#[test]
fn who_counts_the_steps_hears_of_a_dropped_gradient_in_the_training_after_a_reset_too() {
    on_actix(async {
        let servers = servers().await;
        let (counter, shard) = (servers[0].training(), &servers[1]);
        for training in ["the first", "the second"] {
            hear_from(shard, CHIEF, ParameterServerMessage::TrainingOver).await;
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
