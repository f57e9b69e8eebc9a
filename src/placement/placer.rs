//! The placer: groups colocated operations, merges their requested devices, and chooses a device
//! for each group.

use crate::cluster::{DeviceName, DeviceSpec, TaskName};
use crate::graph::{GraphDef, Op, OpId};

/// The devices of the operations of a step.
pub(crate) struct Placement {
    devices: Vec<Option<DeviceName>>,
}

/// Errors of placement.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// No device of the session matches the request.
    #[error(
        "cannot assign a device for operation {operation}, built at {built_at}: it asks for \
         `{asked}`, but available devices are [ {} ]",
        list(available)
    )]
    NoDevice {
        /// The operation's name and kind.
        operation: String,
        /// The place in the program that built it.
        built_at: String,
        /// The requested device, merged with those of all colocated operations.
        asked: Box<DeviceSpec>,
        /// The devices of the session.
        available: Vec<DeviceName>,
    },
    /// Colocated operations request different devices.
    #[error(
        "cannot colocate operation {operation}, built at {built_at}, with `{with}`: {conflict}"
    )]
    Conflict {
        /// The operation's name and kind.
        operation: String,
        /// The place in the program that built it.
        built_at: String,
        /// The operation that it is colocated with.
        with: String,
        /// The parts that differ.
        conflict: String,
    },
}

fn list(devices: &[DeviceName]) -> String {
    devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Placement {
    /// The device of an operation that was placed.
    pub(crate) fn device(&self, id: OpId) -> &DeviceName {
        self.devices[id.0 as usize].as_ref().expect("every operation of a pruned graph is placed")
    }
}

/// Places the operations `pruned` of `graph` on `devices`, which are in the order of their tasks,
/// for a master on the task `home`.
///
/// Open parts of a request are chosen as in TensorFlow: a device of `home` before others, a GPU
/// before a processor, the lower index. Operations on a variable are placed with it. An operation
/// without inputs and without a request is placed with its users. With `is_soft`, what asks for a
/// device that its task does not have is placed on another of that task (TensorFlow:
/// `allow_soft_placement`).
///
/// # Errors
/// The first operation that can't be placed.
pub(crate) fn place(
    graph: &GraphDef,
    pruned: &[OpId],
    devices: &[DeviceName],
    home: &TaskName,
    is_soft: bool,
) -> Result<Placement, PlacementError> {
    let mut groups = Groups::new(graph);
    for id in pruned {
        let operation = graph.operation(*id);
        for other in operation.variables.iter().chain(&operation.colocated_with) {
            groups.unite(graph, *id, *other)?;
        }
    }
    let mut placement = Placement { devices: vec![None; graph.operations.len()] };
    for id in pruned {
        let asked = groups.asked(*id);
        let choose = |asked: &DeviceSpec| choose(asked, devices, home);
        let relaxed = || is_soft.then(|| choose(&asked.on_any_device())).flatten();
        let Some(chosen) = choose(asked).or_else(relaxed) else {
            return Err(no_device(graph, *id, asked.clone(), devices));
        };
        placement.devices[id.0 as usize] = Some(chosen.clone());
    }
    follow_users(graph, pruned, &mut groups, &mut placement);
    Ok(placement)
}

/// The device for what is `asked`. A request of one task looks at the devices of that task alone:
/// a cluster has thousands.
fn choose<'a>(
    asked: &DeviceSpec,
    devices: &'a [DeviceName],
    home: &TaskName,
) -> Option<&'a DeviceName> {
    let best = |devices: &'a [DeviceName]| {
        let fit = devices.iter().filter(|device| asked.matches(device));
        fit.min_by_key(|device| !device.local().is_gpu())
    };
    let at_home = best(of_task(devices, (home.job(), home.index())));
    at_home.or_else(|| match (asked.job(), asked.task()) {
        (Some(job), Some(index)) => best(of_task(devices, (job, index))),
        _ => best(devices),
    })
}

/// The devices of `task` of `job`, of those in the order of their tasks.
fn of_task<'a>(devices: &'a [DeviceName], task: (&str, u32)) -> &'a [DeviceName] {
    let order = |device: &DeviceName| (device.task().job(), device.task().index()).cmp(&task);
    let first = devices.partition_point(|device| order(device).is_lt());
    let count = devices[first..].partition_point(|device| order(device).is_eq());
    &devices[first..first + count]
}

/// Moves an operation without inputs and without a request to its users' device, if they have one
/// in common.
fn follow_users(graph: &GraphDef, pruned: &[OpId], groups: &mut Groups, placement: &mut Placement) {
    let mut only_user: Vec<Option<Option<DeviceName>>> = vec![None; graph.operations.len()];
    for id in pruned {
        let device = placement.device(*id).clone();
        for edge in &graph.operation(*id).inputs {
            let seen = &mut only_user[edge.op.0 as usize];
            *seen = match seen.take() {
                None => Some(Some(device.clone())),
                Some(Some(other)) if other == device => Some(Some(other)),
                Some(_) => Some(None),
            };
        }
    }
    for id in pruned {
        let operation = graph.operation(*id);
        let is_source = operation.inputs.is_empty()
            && !operation.op.is_declaration()
            && operation.op != Op::NoOp;
        let is_free = *groups.asked(*id) == DeviceSpec::default() && groups.is_alone(*id);
        if let (true, Some(Some(device))) = (is_source && is_free, only_user[id.0 as usize].take())
        {
            placement.devices[id.0 as usize] = Some(device);
        }
    }
}

fn no_device(
    graph: &GraphDef,
    id: OpId,
    asked: DeviceSpec,
    devices: &[DeviceName],
) -> PlacementError {
    let operation = graph.operation(id);
    PlacementError::NoDevice {
        operation: operation.to_string(),
        built_at: graph.built_at(id),
        asked: Box::new(asked),
        available: devices.to_vec(),
    }
}

/// Groups of operations that must share a device: a union-find whose roots hold the group's
/// request.
struct Groups {
    parent: Vec<u32>,
    size: Vec<u32>,
    asked: Vec<DeviceSpec>,
}

impl Groups {
    fn new(graph: &GraphDef) -> Self {
        let asked = graph.operations.iter().map(|operation| operation.device.clone()).collect();
        Self {
            parent: (0..graph.operations.len() as u32).collect(),
            size: vec![1; graph.operations.len()],
            asked,
        }
    }

    fn root(&mut self, id: OpId) -> usize {
        let mut node = id.0 as usize;
        while self.parent[node] as usize != node {
            let above = self.parent[node] as usize;
            self.parent[node] = self.parent[above];
            node = above;
        }
        node
    }

    fn unite(&mut self, graph: &GraphDef, id: OpId, with: OpId) -> Result<(), PlacementError> {
        let (a, b) = (self.root(id), self.root(with));
        if a == b {
            return Ok(());
        }
        let asked =
            self.asked[b].unify(&self.asked[a]).map_err(|conflict| PlacementError::Conflict {
                operation: graph.operation(id).to_string(),
                built_at: graph.built_at(id),
                with: graph.operation(with).name.to_string(),
                conflict: conflict.to_string(),
            })?;
        let (root, child) = if self.size[a] < self.size[b] { (b, a) } else { (a, b) };
        self.parent[child] = root as u32;
        self.size[root] += self.size[child];
        self.asked[root] = asked;
        Ok(())
    }

    fn asked(&mut self, id: OpId) -> &DeviceSpec {
        let root = self.root(id);
        &self.asked[root]
    }

    fn is_alone(&mut self, id: OpId) -> bool {
        let root = self.root(id);
        self.size[root] == 1
    }
}
