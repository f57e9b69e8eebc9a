//! The cut: TensorFlow's `graph_partition_test.cc`, and random graphs that must run to their end.

mod random_graphs;

use std::collections::BTreeSet;

use super::{Partition, Request, Sent, split};
use crate::cluster::{DeviceName, LocalDevice, TaskName};
use crate::graph::{Graph, GraphError, Output, Target, prune};

type Built<T = ()> = Result<T, GraphError>;

fn request(feeds: &[&Output], fetches: &[&Output], targets: &[&Target]) -> Request {
    Request {
        feeds: feeds.iter().map(|x| x.edge()).collect(),
        fetches: fetches.iter().map(|x| x.edge()).collect(),
        targets: targets.iter().map(|target| target.op_id()).collect(),
    }
}

/// Cuts the operations of `g` that `request` needs. Each is on the device of the task `t:N` that it
/// requests, or on the first of `t:0` if it requests none.
fn cut(g: &Graph, request: &Request) -> Vec<Partition> {
    let def = g.snapshot().unwrap();
    let feeds: BTreeSet<_> = request.feeds.iter().copied().collect();
    let pruned = prune(&def, &feeds, &request.fetches, &request.targets);
    let device = |operation: &crate::graph::Operation| {
        let asked = &operation.device;
        DeviceName::cpu(
            TaskName::new("t", asked.task().unwrap_or(0)),
            asked.device_index().unwrap_or(0),
        )
    };
    let devices: Vec<DeviceName> = def.operations.iter().map(device).collect();
    split(&def, &pruned, |id| &devices[id.0 as usize], request)
}

/// Builds on task `t:task`.
fn on<T>(g: &Graph, task: u32, build: impl FnOnce(&Graph) -> T) -> T {
    on_device(g, task, 0, build)
}

/// Builds on a device of task `t:task`.
fn on_device<T>(g: &Graph, task: u32, device: u32, build: impl FnOnce(&Graph) -> T) -> T {
    let built: Built<T> =
        g.with_device(&format!("/job:t/task:{task}/device:CPU:{device}"), |g| Ok(build(g)));
    built.unwrap()
}

fn placeholder(g: &Graph, name: &str) -> Output {
    let like = g.zeros([2]).tensor_type();
    g.placeholder(name, like.dtype, like.shape).unwrap()
}

fn names(partition: &Partition) -> Vec<&str> {
    partition.nodes.iter().map(|node| &*node.name).collect()
}

/// The sends, each written `name>task`.
fn sends(partition: &Partition) -> Vec<String> {
    partition.sends.iter().map(|send| format!("{}>{}", send.name, send.to)).collect()
}

/// The receives, each written `task>name`.
fn receives(partition: &Partition) -> Vec<String> {
    partition.receives.iter().map(|receive| format!("{}>{}", receive.from, receive.name)).collect()
}

#[test]
fn more_waits_or_uses_than_the_executor_counts_are_refused() {
    const MANY: usize = 70_000;
    let g = Graph::new();
    let one = g.constant(1f32);
    let all: Vec<Target> = (0..MANY).map(|_| one.identity().target()).collect();
    let group = |name: &str, of: &[Target]| g.group(name, &of.iter().collect::<Vec<_>>()).unwrap();
    let group_of_all = group("all", &all);
    let refused = |request: &Request| cut(&g, request)[0].check_counts().unwrap_err();
    let waits = refused(&request(&[], &[], &[&group_of_all]));
    assert!(waits.contains("waits for 70000 others, more than 65535: group them"), "{waits}");
    let used = refused(&request(&[], &[], &all.iter().collect::<Vec<_>>()));
    assert!(used.starts_with("a value of `") && used.contains("is used 70000 times"), "{used}");
    let (first, second) = all.split_at(MANY / 2);
    let halves = request(&[], &[], &[&group("first", first), &group("second", second)]);
    assert!(refused(&halves).contains("is used"), "the waits are few enough");
}

#[test]
fn a_graph_on_one_task_is_one_partition_that_sends_and_receives_nothing() {
    let g = Graph::new();
    let y = g.zeros([2]).relu();
    let parts = cut(&g, &request(&[], &[&y], &[]));
    assert_eq!(parts.len(), 1);
    assert_eq!(names(&parts[0]), ["Fill", "Relu"]);
    assert_eq!((parts[0].sends.len(), parts[0].receives.len()), (0, 0));
    assert_eq!(parts[0].nodes[1].inputs[0], parts[0].nodes[0].first_output);
}

#[test]
fn a_value_goes_to_a_task_once_however_many_users_it_has_there() {
    let g = Graph::new();
    let x = on(&g, 0, |g| g.zeros([2]));
    let users: Vec<Output> = [1, 1, 2].into_iter().map(|task| on(&g, task, |_| x.relu())).collect();
    let parts = cut(&g, &request(&[], &users.iter().collect::<Vec<_>>(), &[]));
    assert_eq!(sends(&parts[0]), ["Fill>t:1", "Fill>t:2"]);
    assert_eq!(
        (receives(&parts[1]), receives(&parts[2])),
        (vec!["t:0>Fill".into()], vec!["t:0>Fill".into()])
    );
    assert_eq!(parts[1].nodes[0].inputs, parts[1].nodes[1].inputs);
    assert_eq!(parts[0].sends[0].what, Sent::Value(parts[0].nodes[0].first_output));
    assert_eq!(parts[1].receives[0].slot, Some(parts[1].nodes[0].inputs[0]));
    assert_eq!(parts[0].sends[0].crossing, parts[1].receives[0].crossing);
    assert_ne!(parts[0].sends[1].crossing, parts[1].receives[0].crossing);
}

#[test]
fn a_value_for_several_devices_of_a_task_is_sent_there_once_and_received_on_each() {
    let g = Graph::new();
    let x = on(&g, 0, |g| g.zeros([2]));
    let users: Vec<Output> = [0, 1, 1].map(|device| on_device(&g, 1, device, |_| x.relu())).into();
    let parts = cut(&g, &request(&[], &users.iter().collect::<Vec<_>>(), &[]));
    assert_eq!(
        parts.iter().map(|part| (part.task.index(), part.device)).collect::<Vec<_>>(),
        [(0, LocalDevice::cpu(0)), (1, LocalDevice::cpu(0)), (1, LocalDevice::cpu(1))]
    );
    assert_eq!(
        (sends(&parts[0]), parts[0].sends[0].devices.as_slice()),
        (vec!["Fill>t:1".into()], [0, 1].map(LocalDevice::cpu).as_slice())
    );
    for part in &parts[1..] {
        assert_eq!(receives(part), ["t:0>Fill"]);
        assert_eq!(part.receives[0].crossing, parts[0].sends[0].crossing);
    }
}

#[test]
fn an_edge_between_two_devices_of_a_task_crosses() {
    let g = Graph::new();
    let x = on_device(&g, 0, 1, |g| g.zeros([2]));
    let y = on_device(&g, 0, 0, |_| x.relu());
    let parts = cut(&g, &request(&[], &[&y], &[]));
    assert_eq!((names(&parts[0]), names(&parts[1])), (vec!["Relu"], vec!["Fill"]));
    assert_eq!(
        (sends(&parts[1]), parts[1].sends[0].devices.as_slice()),
        (vec!["Fill>t:0".into()], [LocalDevice::cpu(0)].as_slice())
    );
    assert_eq!(receives(&parts[0]), ["t:0>Fill"]);
}

#[test]
fn a_control_edge_that_crosses_is_a_pair_that_carries_nothing() -> Built {
    let g = Graph::new();
    let x = on(&g, 0, |g| g.zeros([2]));
    let after = |g: &Graph| g.with_control_dependencies(&[&x.target()], |g| Ok(g.zeros([1])));
    let (a, b) = on(&g, 1, |g| (after(g), after(g)));
    let (a, b) = (a?, b?);
    let parts = cut(&g, &request(&[], &[&a, &b], &[]));
    assert_eq!(sends(&parts[0]), ["^Fill>t:1"]);
    assert_eq!(parts[0].sends[0].what, Sent::Done(0));
    let receive = &parts[1].receives[0];
    assert_eq!((receive.slot, receive.before.as_slice()), (None, [0, 1].as_slice()));
    Ok(())
}

#[test]
fn a_control_edge_within_a_task_is_an_order_of_its_nodes() -> Built {
    let g = Graph::new();
    let x = g.zeros([2]);
    let controls = [&x.target(), &x.target()];
    let after = g.with_control_dependencies(&controls, |g| Ok(g.zeros([1])))?;
    let parts = cut(&g, &request(&[], &[&after], &[]));
    assert_eq!(parts[0].nodes[1].after.as_slice(), [0], "once, though it was said twice");
    Ok(())
}

#[test]
fn a_data_edge_and_a_control_edge_between_the_same_two_are_two_pairs() -> Built {
    let g = Graph::new();
    let x = on(&g, 0, |g| g.zeros([2]));
    let y = on(&g, 1, |g| g.with_control_dependencies(&[&x.target()], |_| Ok(x.relu())))?;
    let parts = cut(&g, &request(&[], &[&y], &[]));
    assert_eq!(sends(&parts[0]), ["Fill>t:1", "^Fill>t:1"]);
    assert_eq!(receives(&parts[1]), ["t:0>Fill", "t:0>^Fill"]);
    Ok(())
}

#[test]
fn a_feed_goes_from_the_client_to_each_task_that_uses_it_and_is_never_sent_between_tasks() {
    let g = Graph::new();
    let (x, unused) = (placeholder(&g, "x"), placeholder(&g, "unused"));
    let h = on(&g, 1, |_| x.relu());
    let fetched: Vec<Output> =
        [(0, &x), (2, &x), (2, &h), (2, &h)].map(|(task, x)| on(&g, task, |_| x.tanh())).into();
    let parts = cut(&g, &request(&[&unused, &x, &h], &fetched.iter().collect::<Vec<_>>(), &[]));
    let feeds =
        |partition: &Partition| partition.feeds.iter().map(|(feed, _)| *feed).collect::<Vec<_>>();
    assert_eq!(
        parts.iter().map(feeds).collect::<Vec<_>>(),
        [vec![1], vec![1, 2]],
        "no part is left on t:1"
    );
    assert!(
        parts.iter().all(|partition| partition.sends.is_empty() && partition.receives.is_empty())
    );
    assert_eq!(parts[1].nodes[0].inputs[0], parts[1].feeds[0].1);
    assert_eq!(parts[1].nodes[1].inputs, parts[1].nodes[2].inputs);
}

#[test]
fn a_feed_stands_for_its_edge_also_where_the_operation_runs_for_another_reason() {
    let g = Graph::new();
    let h = g.zeros([2]).relu();
    let y = h.tanh();
    let parts = cut(&g, &request(&[&h], &[&y], &[&h.target()]));
    assert_eq!(names(&parts[0]), ["Fill", "Relu", "Tanh"]);
    assert_eq!(parts[0].nodes[2].inputs[0], parts[0].feeds[0].1);
    assert_ne!(parts[0].nodes[1].first_output, parts[0].feeds[0].1);
}

#[test]
fn a_fetch_comes_from_the_task_that_computes_it_in_the_clients_numbering() {
    let g = Graph::new();
    let x = placeholder(&g, "x");
    let a = on(&g, 0, |_| x.relu());
    let b = on(&g, 1, |_| a.tanh());
    let parts = cut(&g, &request(&[&x], &[&b, &x, &a, &b], &[]));
    let fetches = |partition: &Partition| partition.fetches.clone();
    assert_eq!(
        fetches(&parts[0]),
        [(2, parts[0].nodes[0].first_output)],
        "the client has what it feeds"
    );
    let of_b = parts[1].nodes[0].first_output;
    assert_eq!(fetches(&parts[1]), [(0, of_b), (3, of_b)]);
}

#[test]
fn a_second_output_is_sent_under_its_own_name() -> Built {
    let g = Graph::new();
    let v = on(&g, 0, |g| g.variable("v", &g.zeros([2])))?;
    let seen = on(&g, 1, |_| v.read().target().output(1).unwrap().identity());
    let parts = cut(&g, &request(&[], &[&seen], &[]));
    assert_eq!(sends(&parts[0]), ["v/read:1>t:1"]);
    assert_eq!(
        parts[0].sends[0].what,
        Sent::Value(super::ValueSlot(parts[0].nodes[0].first_output.0 + 1))
    );
    Ok(())
}

#[test]
fn a_variable_is_no_node_and_is_listed_once_for_all_that_touch_it() -> Built {
    let g = Graph::new();
    let (v, w) = (g.variable("v", &g.zeros([2]))?, g.variable("w", &g.zeros([2]))?);
    let (assign, add) = (v.assign(&w.read())?, w.assign_add(&v.read())?);
    let parts = cut(&g, &request(&[], &[], &[&assign, &add]));
    let listed: Vec<&str> = parts[0].variables.iter().map(|spec| &*spec.shared_name).collect();
    assert_eq!(
        (names(&parts[0]), listed),
        (vec!["w/read", "Assign", "v/read", "AssignAdd"], vec!["w", "v"])
    );
    let touched: Vec<u32> = parts[0].nodes.iter().map(|node| node.variables[0]).collect();
    assert_eq!(touched, [0, 1, 1, 0]);
    Ok(())
}

#[test]
fn to_wait_for_a_fed_placeholder_or_a_declaration_is_to_wait_for_nothing() -> Built {
    let g = Graph::new();
    let (x, v) = (placeholder(&g, "x"), on(&g, 1, |g| g.variable("v", &g.zeros([2])))?);
    let declared = g.operation(&v.name()).expect("a variable is an operation");
    let y = g.with_control_dependencies(&[&x.target(), &declared], |g| Ok(g.zeros([1])))?;
    let parts = cut(&g, &request(&[&x], &[&y], &[]));
    assert_eq!(parts.len(), 1);
    assert_eq!((names(&parts[0]), parts[0].nodes[0].after.len()), (vec![y.name().as_str()], 0));
    Ok(())
}

#[test]
fn a_value_answers_a_partition_if_it_depends_on_an_operation_there() {
    let g = Graph::new();
    let fed = on(&g, 1, |g| placeholder(g, "fed"));
    let x = on(&g, 1, |_| fed.negate());
    let y = on(&g, 0, |_| x.negate());
    let z = on(&g, 1, |_| y.negate());
    let w = on(&g, 0, |_| z.negate());
    let partitions = cut(&g, &request(&[&fed], &[&w], &[]));
    let answers = |task: usize| -> Vec<bool> {
        partitions[task].receives.iter().map(|receive| receive.is_answer).collect()
    };
    assert_eq!((answers(0), answers(1)), (vec![false, true], vec![true]));
    // Two that give each other something wait for neither.
    let own = [0, 1].map(|task| on(&g, task, |g| placeholder(g, &format!("own_{task}"))));
    let given = [0, 1].map(|task| on(&g, task, |_| own[task as usize].negate()));
    let taken = [0, 1].map(|task| on(&g, task, |_| given[1 - task as usize].negate()));
    let partitions = cut(&g, &request(&[&own[0], &own[1]], &[&taken[0], &taken[1]], &[]));
    for partition in &partitions {
        assert!(partition.receives.iter().all(|receive| receive.is_answer));
    }
    // A value that is fed depends on nothing.
    let partitions = cut(&g, &request(&[&y], &[&w], &[]));
    assert_eq!(partitions[1].receives.len(), 0);
}
