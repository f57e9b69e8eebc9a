//! Partitions that make no sense, and are refused.

use super::*;
use crate::graph::Replica;

/// Checks that a partition of a training step with parameter servers is refused with the error
/// `why` once `spoil` has changed it.
#[track_caller]
fn refused(why: &str, spoil: impl Fn(&mut Partition) -> Option<()>) {
    let spoilt = some_partitions()
        .into_iter()
        .filter_map(|mut partition| spoil(&mut partition).map(|()| partition));
    let reasons: Vec<String> = spoilt.map(|partition| partition.check().unwrap_err()).collect();
    assert!(
        !reasons.is_empty() && reasons.iter().all(|reason| reason.contains(why)),
        "{reasons:?}"
    );
}

#[test]
fn partitions_whose_numbers_stand_for_nothing_are_refused() {
    assert!(some_partitions().iter().all(|partition| partition.check() == Ok(())));
    refused("names value", |partition| {
        nodes_of(partition).last_mut()?.inputs.first_mut()?.0 = 1 << 20;
        Some(())
    });
    refused("runs after", |partition| {
        nodes_of(partition).first_mut()?.after.push(0);
        Some(())
    });
    refused("touches variable", |partition| {
        let variables = partition.variables.len() as u32;
        *nodes_of(partition).iter_mut().find_map(|node| node.variables.first_mut())? = variables;
        Some(())
    });
    refused("which another sets", |partition| {
        let slot = partition.feeds.first()?.1;
        partition.feeds.push((0, slot));
        Some(())
    });
    refused("crosses as number", |partition| {
        partition.receives.first_mut()?.crossing.0 = u32::MAX;
        Some(())
    });
    refused("names operation", |partition| {
        let send = partition.sends.first_mut()?;
        send.what = Sent::Done(u32::MAX);
        Some(())
    });
    refused("inputs", |partition| {
        nodes_of(partition)
            .iter_mut()
            .find(|node| node.op.is_stateful() && !node.variables.is_empty())?
            .variables
            .clear();
        Some(())
    });
    refused("operations and", |partition| {
        partition.slots = u32::MAX;
        Some(())
    });
    refused("nothing sets value", |partition| {
        partition.slots += 1;
        Some(())
    });
    refused("waits for", |partition| {
        partition.nodes.first()?;
        let receive = partition.receives.first_mut()?;
        receive.before = smallvec![0; 1 << 16];
        Some(())
    });
    refused("twice", |partition| {
        let receive = partition.receives.first()?.clone();
        partition.receives.push(crate::partition::Receive { slot: None, ..receive });
        Some(())
    });
    refused("twice", |partition| {
        let variable = partition.variables.first()?.clone();
        partition.variables.push(variable);
        Some(())
    });
}

#[test]
fn partitions_with_a_coordination_that_can_not_be_are_refused() {
    refused("worker 2 of 2", |partition| {
        replica_of(partition)?.worker = 2;
        Some(())
    });
    refused("backups", |partition| {
        replica_of(partition)?.mode = Mode::Sync { backups: 2, cancel: false };
        Some(())
    });
    refused("nobody is stopped", |partition| {
        let replica = *replica_of(partition)?;
        let node =
            nodes_of(partition).iter_mut().find(|node| matches!(node.op, Op::CommitStep(_)))?;
        node.op = Op::BeginStep(replica);
        Some(())
    });
}

/// Changes `partition` so that it commits the steps of the first `workers` workers of so many.
fn commit_for_all(partition: &mut Partition, workers: u32) -> Option<()> {
    let replica = *replica_of(partition)?;
    let nodes = nodes_of(partition);
    let at = nodes.iter().position(|node| matches!(node.op, Op::CommitStep(_)))?;
    let commit = nodes[at].clone();
    for worker in 0..workers {
        let op = Op::CommitStep(Replica { worker, workers, ..replica });
        let slot = ValueSlot(partition.slots);
        partition.slots += commit.outputs;
        let name = format!("commit_{worker}").into();
        let node = Node { name, op, first_output: slot, ..commit.clone() };
        nodes_of(partition).push(node);
    }
    Some(())
}

#[test]
fn a_partition_of_a_few_workers_is_taken_and_one_of_many_is_refused() {
    let of_few =
        |mut partition: Partition| commit_for_all(&mut partition, 60).map(|()| partition.check());
    let few: Vec<_> = some_partitions().into_iter().filter_map(of_few).collect();
    assert!(!few.is_empty() && few.iter().all(Result::is_ok), "{few:?}");
    refused("more than 1024 workers", |partition| commit_for_all(partition, 1025));
}

#[test]
fn the_replicas_of_a_partition_are_each_there_once_in_the_order_of_its_operations() {
    // So many that quadratic work would be noticed.
    const WORKERS: u32 = 100_000;
    let mut partition = Partition::empty(TaskName::new("ps", 0), LocalDevice::cpu(0));
    let replica = |worker| Replica { worker, workers: WORKERS, mode: Mode::Async };
    let commit = |number: u32| Node {
        name: "commit".into(),
        op: Op::CommitStep(replica(WORKERS - 1 - number / 2)),
        inputs: smallvec![],
        first_output: ValueSlot(0),
        outputs: 0,
        after: smallvec![],
        variables: smallvec![],
    };
    partition.nodes = Arc::new((0..2 * WORKERS).map(commit).collect());
    let expected: Vec<_> = (0..WORKERS).rev().map(replica).collect();
    assert!(partition.replicas() == expected);
    assert_eq!(partition.take_worker(), None, "they are of several workers");
}

fn nodes_of(partition: &mut Partition) -> &mut Vec<Node> {
    Arc::make_mut(&mut partition.nodes)
}

/// The replica of the first operation that has one.
fn replica_of(partition: &mut Partition) -> Option<&mut Replica> {
    nodes_of(partition).iter_mut().find_map(|node| match &mut node.op {
        Op::CommitStep(replica) | Op::ApplyGradient { replica: Some(replica), .. } => Some(replica),
        _ => None,
    })
}
