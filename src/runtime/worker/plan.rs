//! A partition made ready to run: its bound variables, and the tables of its executor.

mod tables;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::graph::Replica;
use crate::partition::{Node, Partition, ValueSlot};
use crate::sync::Epoch;

use crate::runtime::messages::Scope;
use crate::runtime::state::{Bound, VariableId, is_among};

pub(crate) use tables::{Inferred, Memo, Runs, Tables};

/// A partition, with the tables that its executor looks up at each step.
///
/// The workers of a training have equal graphs: of thousands of plans, only a few have tables of
/// their own.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Its nodes are those of the tables.
    pub(crate) partition: Partition,
    pub(crate) tables: Arc<Tables>,
    /// The worker whose training operations it has; in the nodes it is worker 0. None if it has
    /// none, or those of several workers.
    worker: Option<u32>,
    /// The variables' ids, by position in the partition's `variables`.
    pub(crate) variables: Vec<VariableId>,
    /// The epoch of the task when the partition was made ready.
    pub(crate) epoch: Epoch,
    /// The session, if its state is its own.
    pub(crate) scope: Option<Scope>,
}

thread_local! {
    /// By [`Tables::key`]: the tables of this thread's plans.
    static TABLES: RefCell<BTreeMap<u64, Weak<Tables>>> = const { RefCell::new(BTreeMap::new()) };
}

impl Plan {
    /// Makes `partition` ready with its bound variables; in `scope`, if its session's state is its
    /// own.
    pub(crate) fn new(
        partition: Arc<Partition>,
        Bound { variables, epoch }: Bound,
        scope: Option<Scope>,
    ) -> Self {
        let mut partition = Arc::unwrap_or_clone(partition);
        let worker = partition.take_worker();
        let tables = share(Tables::new(&partition));
        partition.nodes = Arc::clone(&tables.operations);
        Self { partition, tables, worker, variables, epoch, scope }
    }

    pub(crate) fn node(&self, node: u32) -> &Node {
        &self.tables.operations[node as usize]
    }

    /// Whether anything in the step needs the value in `slot`.
    pub(crate) fn is_used(&self, slot: ValueSlot) -> bool {
        self.tables.uses[slot.0 as usize] > 0
    }

    /// Whether it has variables in one of `containers`; if none is named, in the default one.
    pub(crate) fn uses(&self, containers: &[String]) -> bool {
        let variables = &self.partition.variables;
        variables.iter().any(|variable| is_among(&variable.container, containers))
    }

    /// The replica of a training operation of the plan; `replica` is what its node says.
    pub(crate) fn replica(&self, replica: Replica) -> Replica {
        Replica { worker: self.worker.unwrap_or(replica.worker), ..replica }
    }
}

/// The tables of an earlier plan that equal `new`, if there are any, or `new`.
fn share(new: Tables) -> Arc<Tables> {
    TABLES.with_borrow_mut(|all| {
        let key = new.key();
        if let Some(same) = all.get(&key).and_then(Weak::upgrade).filter(|known| **known == new) {
            return same;
        }
        if all.len().is_power_of_two() {
            all.retain(|_, tables| tables.strong_count() > 0);
        }
        let new = Arc::new(new);
        all.insert(key, Arc::downgrade(&new));
        new
    })
}

/// The slots of a node's outputs, in order.
pub(crate) fn slots_of(node: &Node) -> impl Iterator<Item = ValueSlot> + use<> {
    (node.first_output.0..node.first_output.0 + node.outputs).map(ValueSlot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{LocalDevice, TaskName};
    use crate::graph::Op;
    use crate::tensor::Tensor;
    use smallvec::smallvec;

    /// The plan of a constant and a commit of `worker`.
    fn plan(worker: u32, (name, value): (&str, f32)) -> Plan {
        let node = |name: &str, op, outputs| Node {
            name: name.into(),
            op,
            inputs: smallvec![],
            first_output: ValueSlot(0),
            outputs,
            after: smallvec![],
            variables: smallvec![],
        };
        let replica = Replica { worker, workers: 2, ..Replica::ALONE };
        let mut partition = Partition::empty(TaskName::new("ps", 0), LocalDevice::cpu(0));
        partition.nodes = Arc::new(vec![
            node(name, Op::Const(Tensor::scalar(value)), 1),
            node("commit", Op::CommitStep(replica), 0),
        ]);
        partition.slots = 1;
        Plan::new(Arc::new(partition), Bound { variables: Vec::new(), epoch: Epoch(0) }, None)
    }

    #[test]
    fn workers_with_equal_partitions_share_tables_and_stay_who_they_are() {
        let (first, second) = (plan(0, ("c", 1.0)), plan(1, ("c", 1.0)));
        assert!(Arc::ptr_eq(&first.tables, &second.tables));
        let Op::CommitStep(replica) = second.node(1).op else { unreachable!("it was put there") };
        assert_eq!((first.replica(replica).worker, second.replica(replica).worker), (0, 1));
        assert!(!Arc::ptr_eq(&first.tables, &plan(0, ("c", 2.0)).tables), "it has another value");
    }

    #[test]
    fn tables_that_no_plan_has_any_more_are_forgotten() {
        for number in 0..1000 {
            plan(0, (&number.to_string(), 1.0));
        }
        assert!(TABLES.with_borrow(BTreeMap::len) < 10);
    }
}
