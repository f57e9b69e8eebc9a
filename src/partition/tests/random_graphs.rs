//! Properties of partitions of any graph on any devices: each send matches its receives, and all
//! partitions together run to their end.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use super::cut;
use crate::graph::{Edge, Graph, GraphDef, NewOperation, Op, OpId, Output, Target, prune};
use crate::partition::{CrossingId, Node, Partition, Request, Send, Sent, ValueSlot};

/// An operation of a random graph: its place, two to a task, and its inputs and controls among the
/// operations before it.
type Built = (u32, Vec<Index>, Vec<Index>);

fn graph(operations: &[Built]) -> Graph {
    let g = Graph::new();
    let mut built: Vec<Output> = Vec::new();
    for (place, inputs, controls) in operations {
        let edges: Vec<Edge> =
            inputs.iter().filter(|_| !built.is_empty()).map(|i| i.get(&built).edge()).collect();
        let op = if edges.is_empty() {
            Op::Fill { shape: [2].into(), value: 1f32.into() }
        } else {
            crate::operations::Broadcast::AddN.into()
        };
        let controls: Vec<OpId> = controls
            .iter()
            .filter(|_| !built.is_empty())
            .map(|i| i.get(&built).edge().op)
            .collect();
        let id = super::on_device(&g, place / 2, place % 2, |g| {
            g.add(NewOperation {
                inputs: &edges,
                control_inputs: &controls,
                ..NewOperation::of(op)
            })
            .unwrap()
        });
        built.push(g.output(id));
    }
    g
}

/// The pruned operations with their inputs, and the edges between devices.
struct Expected {
    names: BTreeMap<String, Vec<String>>,
    /// By name of an edge and the task to which it crosses: the devices there that use it.
    crossings: BTreeMap<(String, u32), BTreeSet<u32>>,
}

fn expected(def: &GraphDef, request: &Request) -> Expected {
    let fed: BTreeSet<Edge> = request.feeds.iter().copied().collect();
    let pruned = prune(def, &fed, &request.fetches, &request.targets);
    let place = |id: OpId| {
        let device = &def.operation(id).device;
        (device.task().unwrap(), device.device_index().unwrap())
    };
    let name = |id: OpId| def.operation(id).name.to_string();
    let mut expected = Expected { names: BTreeMap::new(), crossings: BTreeMap::new() };
    for id in pruned {
        let operation = def.operation(id);
        expected
            .names
            .insert(name(id), operation.inputs.iter().map(|edge| name(edge.op)).collect());
        let data = operation
            .inputs
            .iter()
            .filter(|edge| !fed.contains(edge))
            .map(|edge| (edge.op, name(edge.op)));
        let controls = operation
            .control_inputs
            .iter()
            .map(|control| (*control, format!("^{}", name(*control))));
        let crossing = data.chain(controls).filter(|(from, _)| place(*from) != place(id));
        let (task, device) = place(id);
        for (_, name) in crossing {
            expected.crossings.entry((name, task)).or_default().insert(device);
        }
    }
    expected
}

/// A partition as it runs: each slot holds the name of the operation whose value is in it.
struct Running {
    partition: Partition,
    slots: Vec<Option<String>>,
    ran: Vec<bool>,
    received: Vec<bool>,
    sent: Vec<bool>,
}

impl Running {
    fn new(partition: Partition, def: &GraphDef, request: &Request) -> Self {
        let mut slots = vec![None; partition.slots as usize];
        for (feed, slot) in &partition.feeds {
            slots[slot.0 as usize] =
                Some(def.operation(request.feeds[*feed as usize].op).name.to_string());
        }
        let (ran, received) =
            (vec![false; partition.nodes.len()], vec![false; partition.receives.len()]);
        Self { slots, ran, received, sent: vec![false; partition.sends.len()], partition }
    }

    fn value(&self, slot: ValueSlot) -> Option<String> {
        self.slots[slot.0 as usize].clone()
    }

    fn is_ready(&self, index: usize, node: &Node) -> bool {
        let waits = |(at, receive): (usize, &crate::partition::Receive)| {
            receive.before.contains(&(index as u32)) && !self.received[at]
        };
        node.inputs.iter().all(|slot| self.value(*slot).is_some())
            && node.after.iter().all(|before| self.ran[*before as usize])
            && !self.partition.receives.iter().enumerate().any(waits)
    }

    /// Runs one node that is ready; false if there is none.
    fn run_one(&mut self, expected: &Expected) -> bool {
        let nodes = self.partition.nodes.iter().enumerate();
        let ready = nodes
            .into_iter()
            .find(|(index, node)| !self.ran[*index] && self.is_ready(*index, node));
        let Some((index, node)) = ready else { return false };
        let inputs: Vec<String> = node.inputs.iter().filter_map(|slot| self.value(*slot)).collect();
        assert_eq!(inputs, expected.names[&*node.name], "the inputs of {}", node.name);
        self.slots[node.first_output.0 as usize] = Some(node.name.to_string());
        self.ran[index] = true;
        true
    }

    /// Takes one send whose value is there.
    fn send_one(&mut self) -> Option<(Send, Option<String>)> {
        let sends = self.partition.sends.iter().enumerate().filter(|(index, _)| !self.sent[*index]);
        let (index, send, value) = sends.into_iter().find_map(|(index, send)| match send.what {
            Sent::Value(slot) => self.value(slot).map(|value| (index, send, Some(value))),
            Sent::Done(node) => self.ran[node as usize].then_some((index, send, None)),
        })?;
        let send = send.clone();
        self.sent[index] = true;
        Some((send, value))
    }

    fn receive(&mut self, crossing: CrossingId, value: Option<String>) -> bool {
        let Some(at) =
            self.partition.receives.iter().position(|receive| receive.crossing == crossing)
        else {
            return false;
        };
        assert!(!std::mem::replace(&mut self.received[at], true), "one value a crossing");
        assert_eq!(self.partition.receives[at].slot.is_some(), value.is_some());
        if let Some(slot) = self.partition.receives[at].slot {
            self.slots[slot.0 as usize] = value;
        }
        true
    }

    fn is_finished(&self) -> bool {
        [&self.ran, &self.received, &self.sent].into_iter().flatten().all(|done| *done)
    }
}

/// Runs all partitions until nothing moves.
fn run(parts: &mut [Running], expected: &Expected) {
    loop {
        let mut moved = false;
        for from in 0..parts.len() {
            while parts[from].run_one(expected) {
                moved = true;
            }
            while let Some((send, value)) = parts[from].send_one() {
                let takers =
                    parts.iter_mut().map(|part| part.receive(send.crossing, value.clone()));
                assert_eq!(
                    takers.filter(|taken| *taken).count(),
                    send.devices.len(),
                    "one receive a device"
                );
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}

/// Checks that each edge is sent once, to the devices that use it, each with one receive, and that
/// no other edge is sent.
fn check_crossings(parts: &[Partition], expected: &Expected) {
    let mut sent = BTreeMap::new();
    for (part, send) in
        parts.iter().flat_map(|part| part.sends.iter().map(move |send| (part, send)))
    {
        let devices: BTreeSet<u32> = send.devices.iter().map(|device| device.index).collect();
        assert_eq!(devices.len(), send.devices.len(), "each device once");
        let crossing = (part.task.clone(), send.to.clone(), send.name.to_string(), devices);
        assert!(sent.insert(send.crossing, crossing).is_none(), "one send a crossing");
    }
    let mut received = BTreeMap::new();
    for (part, receive) in
        parts.iter().flat_map(|part| part.receives.iter().map(move |receive| (part, receive)))
    {
        let new =
            || (receive.from.clone(), part.task.clone(), receive.name.to_string(), BTreeSet::new());
        let (from, to, _, devices) = received.entry(receive.crossing).or_insert_with(new);
        assert_eq!((&*from, &*to), (&receive.from, &part.task), "a crossing goes to one task");
        assert!(devices.insert(part.device.index), "one receive a device");
    }
    assert_eq!(sent, received);
    let crossings = sent.into_values().map(|(_, to, name, devices)| ((name, to.index()), devices));
    assert_eq!(crossings.collect::<BTreeMap<_, _>>(), expected.crossings);
}

proptest! {
    #[test]
    fn every_crossing_has_one_send_and_a_receive_on_each_device_and_the_partitions_run_to_their_end(
        operations in prop::collection::vec(
            (
                0..4u32,
                prop::collection::vec(any::<Index>(), 0..4),
                prop::collection::vec(any::<Index>(), 0..3),
            ),
            1..24,
        ),
        (feeds, fetches, targets) in (
            prop::collection::btree_set(0..24usize, 0..3),
            prop::collection::vec(any::<Index>(), 1..4),
            prop::collection::vec(any::<Index>(), 0..3),
        ),
    ) {
        let g = graph(&operations);
        let def = g.snapshot().unwrap();
        let op = |at: usize| g.operation(&def.operations[at].name).unwrap();
        let outputs: Vec<Output> =
            (0..def.operations.len()).map(|at| op(at).output(0).unwrap()).collect();
        let some =
            |picks: &[Index]| picks.iter().map(|pick| pick.get(&outputs)).collect::<Vec<_>>();
        let fed: Vec<&Output> = feeds.iter().filter_map(|at| outputs.get(*at)).collect();
        let run_too: Vec<Target> = some(&targets).into_iter().map(Output::target).collect();
        let request = super::request(&fed, &some(&fetches), &run_too.iter().collect::<Vec<_>>());
        let (parts, expected) = (cut(&g, &request), expected(&def, &request));
        check_crossings(&parts, &expected);
        prop_assert_eq!(
            parts.iter().map(|part| part.nodes.len()).sum::<usize>(),
            expected.names.len()
        );
        let mut running: Vec<Running> =
            parts.into_iter().map(|part| Running::new(part, &def, &request)).collect();
        run(&mut running, &expected);
        prop_assert!(running.iter().all(Running::is_finished));
        for part in &running {
            for (fetch, slot) in &part.partition.fetches {
                let edge = request.fetches[*fetch as usize];
                prop_assert_eq!(part.value(*slot), Some(def.operation(edge.op).name.to_string()));
            }
        }
    }
}
