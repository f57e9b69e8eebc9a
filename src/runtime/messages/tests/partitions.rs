//! Partitions that make no sense, and are refused.

use super::*;

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

fn nodes_of(partition: &mut Partition) -> &mut Vec<Node> {
    Arc::make_mut(&mut partition.nodes)
}

/// The replica of the first operation that has one.
fn replica_of(partition: &mut Partition) -> Option<&mut crate::graph::Replica> {
    nodes_of(partition).iter_mut().find_map(|node| match &mut node.op {
        Op::CommitStep(replica) | Op::ApplyGradient { replica: Some(replica), .. } => Some(replica),
        _ => None,
    })
}
