//! A server stands whatever a peer of its cluster sends, and answers its own sessions afterwards.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use trainyard::graph::{Op, ResourceAction};
use trainyard::partition::{Node, Partition};
use trainyard::prelude::*;
use trainyard::runtime::{GraphHandle, MasterMessage, PeerMessage, WorkerMessage};
use trainyard::tensor::Shape;
use trainyard::transport::wire::decode_envelope;

use crate::fuzz::server::{LIMITS, Network, PS, WORKER, corpus, stands};
use crate::support::ear::Ear;
use crate::support::fixture::on_actix;

#[test]
fn a_server_stands_if_everything_is_sent_twice_and_backwards() {
    let all = corpus();
    assert!(all.len() > 50, "{} messages", all.len());
    stands(&[all.clone(), all.clone(), all.into_iter().rev().collect()].concat());
}

/// The answers of a new parameter server to what a worker sends.
fn answers(sent: Vec<PeerMessage>) -> Vec<MasterMessage> {
    let ear = Rc::new(Ear::default());
    on_actix(async {
        let network = Network::new();
        let _ps = network.start(PS);
        let worker = network.end(WORKER);
        worker.listen(Rc::<Ear>::clone(&ear));
        for message in sent {
            worker.send(PS, vec![message]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    });
    ear.0.take()
}

/// What a worker's programs send, with the first graph that `spoil` changes.
fn spoilt(spoil: impl Fn(&mut Partition) -> Option<()>) -> (GraphHandle, Vec<PeerMessage>) {
    let mut changed = None;
    let mut all = Vec::new();
    for bytes in corpus() {
        all.extend(decode_envelope::<PeerMessage>(&bytes, LIMITS).unwrap());
    }
    for message in &mut all {
        let PeerMessage::Worker(WorkerMessage::RegisterGraph(order)) = message else {
            continue;
        };
        if changed.is_none() && spoil(Arc::make_mut(&mut order.partition)).is_some() {
            changed = Some(order.graph);
        }
    }
    (changed.expect("one of the graphs is of this kind"), all)
}

/// Asserts that the step of a graph which `spoil` changes fails with `words`, and that the server
/// has answered everything else.
#[track_caller]
fn assert_fails(words: &str, spoil: impl Fn(&mut Partition) -> Option<()>) {
    let (spoilt, sent) = spoilt(spoil);
    let answers = answers(sent);
    let errors: Vec<String> = answers
        .iter()
        .filter_map(|answer| match answer {
            MasterMessage::GraphDone { graph, outcome: Err(error), .. } if *graph == spoilt => {
                Some(error.to_string())
            }
            _ => None,
        })
        .collect();
    assert!(errors.iter().any(|error| error.contains(words)), "no `{words}` in {errors:?}");
    let last = answers.last().expect("it answers");
    assert!(matches!(last, MasterMessage::ResetDone { .. }), "{last:?}");
}

fn find<'a>(partition: &'a mut Partition, kind: &str) -> Option<&'a mut Node> {
    Arc::make_mut(&mut partition.nodes).iter_mut().find(|node| node.op.kind().contains(kind))
}

#[test]
fn operations_on_state_whose_inputs_do_not_fit_fail_their_step_alone() {
    assert_fails("rows of", |partition| {
        let sparse = find(partition, "SparseApply")?.variables.clone();
        for variable in sparse {
            let spec = &mut partition.variables[variable as usize];
            (spec.shape, spec.container) = (Shape::SCALAR, "of its own".into());
        }
        Some(())
    });
    assert_fails("an f32 scalar as learning rate", |partition| {
        let rate = find(partition, "ApplyAdam")?.inputs[0];
        let mut nodes = Arc::make_mut(&mut partition.nodes).iter_mut();
        let given = nodes.find(|node| node.first_output == rate)?;
        given.op = Op::Const(Tensor::new([0], &[0f32; 0]).ok()?);
        Some(())
    });
    assert_fails("no inputs", |partition| {
        let Op::OnResource { action, .. } = &mut find(partition, "QueueDequeueV2")?.op else {
            return None;
        };
        *action = ResourceAction::NumAccumulated;
        Some(())
    });
}

#[test]
fn a_step_that_is_ordered_twice_fails_and_the_server_stands() {
    let (_, sent) = spoilt(|_| Some(()));
    let twice = sent.into_iter().flat_map(|message| {
        let is_run = matches!(message, PeerMessage::Worker(WorkerMessage::RunGraph { .. }));
        std::iter::repeat_n(message, if is_run { 2 } else { 1 })
    });
    let answers = answers(twice.collect());
    let is_refusal = |answer: &MasterMessage| match answer {
        MasterMessage::GraphDone { outcome: Err(error), .. } => error.message.contains("twice"),
        _ => false,
    };
    assert!(answers.iter().any(is_refusal), "{answers:?}");
}

#[test]
fn values_orders_and_departures_of_others_are_not_taken() {
    let (_, sent) = spoilt(|_| Some(()));
    let as_other = |message: PeerMessage| match message {
        PeerMessage::Worker(WorkerMessage::RunGraph(mut order)) => {
            order.graph.master += 1;
            Some(WorkerMessage::RunGraph(order).into())
        }
        _ => None,
    };
    let orders: Vec<PeerMessage> = sent.into_iter().filter_map(as_other).collect();
    assert!(!orders.is_empty() && answers(orders).is_empty());
}
