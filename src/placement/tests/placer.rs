//! The placer: from the operations' requests to their devices.

use super::{Built, cpu, place, snapshot, variable};
use crate::cluster::{DeviceName, LocalDevice, TaskName};
use crate::graph::{Graph, GraphError, NewOperation, Op, OpId, Output};
use crate::placement::PlacementError;

fn devices() -> Vec<DeviceName> {
    vec![cpu("ps", 0), cpu("ps", 1), cpu("worker", 0), cpu("worker", 1)]
}

/// Places all of `g` with `worker:1` as the default, and returns the tasks of `ops`.
fn tasks<const N: usize>(g: &Graph, ops: [OpId; N]) -> Result<[String; N], PlacementError> {
    let def = snapshot(g);
    let all: Vec<OpId> = def.iter().map(|(id, _)| id).collect();
    let placement = place(&def, &all, &devices(), &TaskName::new("worker", 1), false)?;
    Ok(ops.map(|op| placement.device(op).task().to_string()))
}

fn id(output: &Output) -> OpId {
    output.edge().op
}

#[test]
fn what_asks_for_nothing_is_on_the_default_device() {
    let g = Graph::new();
    let x = g.zeros([2]);
    assert_eq!(tasks(&g, [id(&x), id(&x.relu())]).unwrap(), ["worker:1", "worker:1"]);
}

#[test]
fn what_asks_for_a_job_is_on_the_default_device_if_that_is_of_the_job_and_else_on_its_first()
-> Built {
    let g = Graph::new();
    let at = |device: &str| g.with_device(device, |g| Ok(id(&g.zeros([2]).relu())));
    let ops = [at("/job:ps")?, at("/job:worker")?, at("/task:0")?, at("/job:worker/task:0/cpu:0")?];
    assert_eq!(tasks(&g, ops).unwrap(), ["ps:0", "worker:1", "ps:0", "worker:0"]);
    Ok(())
}

#[test]
fn a_source_follows_its_users_only_where_they_are_all_on_one_device() -> Built {
    let g = Graph::new();
    let at = |device: &str, x: &Output| g.with_device(device, |_| Ok(x.relu()));
    let (followed, torn, own) =
        (g.zeros([2]), g.zeros([2]), g.with_device("/job:worker", |g| Ok(g.zeros([2])))?);
    for x in [&followed, &own] {
        at("/job:ps/task:1", x)?;
        at("/job:ps/task:1", x)?;
    }
    at("/job:ps/task:0", &torn)?;
    at("/job:ps/task:1", &torn)?;
    assert_eq!(
        tasks(&g, [id(&followed), id(&torn), id(&own)]).unwrap(),
        ["ps:1", "worker:1", "worker:1"]
    );
    Ok::<(), GraphError>(())
}

#[test]
fn an_operation_with_inputs_does_not_follow_its_users() -> Built {
    let g = Graph::new();
    let moved = g.zeros([2]).relu();
    g.with_device("/job:ps", |_| Ok(moved.tanh()))?;
    assert_eq!(tasks(&g, [id(&moved)]).unwrap(), ["worker:1"]);
    Ok(())
}

#[test]
fn what_touches_a_variable_and_its_slots_are_on_its_device_though_it_asks_for_a_job_only() -> Built
{
    let g = Graph::new();
    let v = g.with_device("/job:ps", |g| variable(g, "v", [1, 2]))?;
    let slot = g.slot_variable("v/slot", [1, 2].into(), 0f32, &v)?;
    let assign = g.with_device("/job:worker/task:0", |g| v.assign(&g.zeros([1, 2])))?;
    let ops = [v.op_id(), slot.op_id(), id(&v.read()), assign.op_id(), id(&slot.read())];
    assert_eq!(tasks(&g, ops).unwrap(), ["ps:0"; 5]);
    Ok(())
}

#[test]
fn an_unknown_job_or_task_is_told_with_the_devices_there_are_and_the_users_line() -> Built {
    for asked in ["/job:foo/replica:0", "/job:worker/task:7", "/job:ps/replica:1", "/gpu:0"] {
        let g = Graph::new();
        let (x, line) = (g.with_device(asked, |g| Ok(g.zeros([2])))?, line!());
        let error = tasks(&g, [id(&x)]).unwrap_err().to_string();
        let of_gpu = if asked == "/gpu:0" { "/device:GPU:0" } else { asked };
        for part in [
            "Fill (Fill)",
            &format!("placement/tests/placer.rs:{line}:"),
            &format!("`{of_gpu}`"),
            "but available devices are [ /job:ps/replica:0/task:0/device:CPU:0,",
            "/job:worker/replica:0/task:1/device:CPU:0 ]",
        ] {
            assert!(error.contains(part), "`{error}` does not say `{part}`");
        }
    }
    Ok(())
}

#[test]
fn operations_that_must_be_together_and_ask_for_different_devices_are_told_both() -> Built {
    let g = Graph::new();
    let v = g.with_device("/job:ps/task:0", |g| variable(g, "v", [1, 2]))?;
    let other = g.with_device("/job:ps/task:1", |g| variable(g, "other", [1, 2]))?;
    let update = g.add(NewOperation {
        variables: &[v.op_id(), other.op_id()],
        colocated_with: Some(v.op_id()),
        ..NewOperation::of(Op::NoOp)
    })?;
    let error = tasks(&g, [update]).unwrap_err();
    assert!(matches!(error, PlacementError::Conflict { .. }), "{error}");
    let error = error.to_string();
    for part in ["NoOp", "placer.rs:", "with `other`", "/job:ps/task:0", "/job:ps/task:1"] {
        assert!(error.contains(part), "`{error}` does not say `{part}`");
    }
    Ok(())
}

/// The two devices of each kind that `ps:0` and `worker:0` have.
fn with_gpus() -> Vec<DeviceName> {
    let of_task = |job: &str| {
        let locals = [LocalDevice::cpu, LocalDevice::gpu].map(|kind| [kind(0), kind(1)]);
        let task = TaskName::new(job, 0);
        locals.into_iter().flatten().map(move |local| DeviceName::new(task.clone(), local))
    };
    of_task("ps").chain(of_task("worker")).collect()
}

/// The device of an operation on `/job:worker/task:0` that asks for `asked`.
fn placed(asked: &str, devices: &[DeviceName], is_soft: bool) -> Result<String, PlacementError> {
    let g = Graph::new();
    let x = g.with_device(asked, |g| Ok(g.zeros([2]).relu())).unwrap();
    let home = TaskName::new("worker", 0);
    let placement = place(&snapshot(&g), &[id(&x)], devices, &home, is_soft)?;
    Ok(placement.device(id(&x)).to_string())
}

#[test]
fn what_leaves_its_device_open_is_on_the_first_gpu_of_the_masters_task_or_of_the_one_it_asks_for() {
    for (asked, device) in [
        ("", "/job:worker/replica:0/task:0/device:GPU:0"),
        ("/job:ps", "/job:ps/replica:0/task:0/device:GPU:0"),
        ("/cpu:*", "/job:worker/replica:0/task:0/device:CPU:0"),
        ("/device:GPU:1", "/job:worker/replica:0/task:0/device:GPU:1"),
        ("/job:ps/gpu:1", "/job:ps/replica:0/task:0/device:GPU:1"),
    ] {
        assert_eq!(placed(asked, &with_gpus(), false).unwrap(), device, "{asked}");
    }
}

#[test]
fn soft_placement_takes_another_device_of_the_same_task() {
    let gone = placed("/job:ps/gpu:5", &with_gpus(), false).unwrap_err();
    assert!(gone.to_string().contains("`/job:ps/device:GPU:5`"), "{gone}");
    let softly = placed("/job:ps/gpu:5", &with_gpus(), true).unwrap();
    assert_eq!(softly, "/job:ps/replica:0/task:0/device:GPU:0");
    let softly = placed("/job:ps/gpu:0", &devices(), true).unwrap();
    assert_eq!(softly, "/job:ps/replica:0/task:0/device:CPU:0");
    assert!(placed("/job:ps/task:7/gpu:0", &devices(), true).is_err(), "no task is given up");
}

#[test]
fn what_a_step_does_not_need_cannot_fail_it() -> Built {
    let g = Graph::new();
    let x = g.zeros([2]);
    g.with_device("/job:nowhere", |_| Ok(x.relu()))?;
    let placement =
        place(&snapshot(&g), &[id(&x)], &devices(), &TaskName::new("ps", 0), false).unwrap();
    assert_eq!(placement.device(id(&x)), &cpu("ps", 0));
    Ok(())
}
