//! Device, control-dependency and container scopes: their effect on operations built in them.

use super::{assert_says, floats, operation, snapshot};
use crate::cluster::DeviceSpec;
use crate::graph::{DeviceFunction, Graph, GraphError, OperationRequest, Output};

type Built<T = ()> = Result<T, GraphError>;

/// The device that an operation built here requests.
fn device_here(g: &Graph) -> Built<String> {
    let built: Output = g.constant(1f32);
    Ok(operation(&snapshot(g), &built.name()).device.to_string())
}

/// Requests one device, whatever inner scopes request.
struct Always(&'static str);

impl DeviceFunction for Always {
    fn device(&self, _: &OperationRequest<'_>) -> DeviceSpec {
        self.0.parse().unwrap()
    }
}

/// Fills the parts that inner scopes leave open.
struct Fills(&'static str);

impl DeviceFunction for Fills {
    fn device(&self, request: &OperationRequest<'_>) -> DeviceSpec {
        self.0.parse::<DeviceSpec>().unwrap().merged(request.device)
    }
}

#[test]
fn an_inner_device_wins_part_by_part_and_outer_ones_fill_the_rest() -> Built {
    let g = Graph::new();
    let inner = |device: &'static str| move |g: &Graph| g.with_device(device, device_here);
    assert_eq!(g.with_device("/job:a/task:1", inner("/job:b"))?, "/job:b/task:1");
    assert_eq!(g.with_device("/job:a", inner("/task:2/cpu:0"))?, "/job:a/task:2/device:CPU:0");
    assert_eq!(g.with_device("/job:a", inner(""))?, "/job:a");
    assert_eq!(g.with_device("/gpu:1", inner("/cpu:*"))?, "/device:CPU:*");
    assert_eq!(device_here(&g)?, "");
    Ok(())
}

#[test]
fn a_device_function_replaces_what_inner_scopes_asked_for_unless_it_merges() -> Built {
    let g = Graph::new();
    let in_b = |g: &Graph| g.with_device("/job:b/task:3", device_here);
    assert_eq!(g.with_device_fn(Always("/job:z"), in_b)?, "/job:z");
    assert_eq!(g.with_device_fn(Fills("/job:z/cpu:0"), in_b)?, "/job:b/task:3/device:CPU:0");
    let function_inside = |g: &Graph| g.with_device_fn(Always("/job:z"), device_here);
    assert_eq!(g.with_device("/job:a/task:1", function_inside)?, "/job:z/task:1");
    Ok(())
}

#[test]
fn without_device_forgets_the_scopes_around_it_and_not_those_inside() -> Built {
    let g = Graph::new();
    let device = g.with_device("/job:a", |g| {
        g.with_device_fn(Always("/job:z"), |g| {
            g.without_device(|g| g.with_device("/task:1", device_here))
        })
    })?;
    assert_eq!(device, "/task:1");
    Ok(())
}

#[test]
fn a_malformed_device_is_refused_with_what_is_wrong_with_it() {
    let g = Graph::new();
    let error = g.with_device("/foo:bar", device_here).unwrap_err();
    assert_says(
        &error,
        "scopes.rs",
        &["device scope", "`/foo:bar` is not a device name", "the parts are"],
    );
}

#[test]
fn what_belongs_to_a_variable_is_on_its_device_whatever_the_scopes() -> Built {
    let g = Graph::new();
    let w = g.with_device("/job:ps/task:1", |g| g.variable("w", &g.zeros([2])))?;
    let assign = g.with_device("/job:worker", |g| w.assign(&g.zeros([2])))?;
    let read = g.with_device("/job:worker", |_| Ok(w.read()))?;
    let slot =
        g.with_device("/job:worker", |g| g.slot_variable("w/slot", [2].into(), 0.5f32, &w))?;
    let def = snapshot(&g);
    for name in [assign.name(), read.name(), slot.name(), "w/Assign".into(), "w/slot/Assign".into()]
    {
        let operation = operation(&def, &name);
        assert_eq!(operation.device.to_string(), "/job:ps/task:1", "{name}");
        assert!(operation.colocated_with.is_some(), "{name}");
    }
    Ok(())
}

#[test]
fn operations_wait_for_the_control_dependencies_of_every_scope_around_them() -> Built {
    let g = Graph::new();
    let (a, b) = (floats(&g, "a", [Some(1)]), floats(&g, "b", [Some(1)]));
    let sum = g.with_control_dependencies(&[&a.target()], |g| {
        g.with_control_dependencies(&[&b.target()], |g| Ok(g.zeros([1])))
    })?;
    let after = g.zeros([1]);
    let def = snapshot(&g);
    let waits_for = |x: &Output| operation(&def, &x.name()).control_inputs.to_vec();
    assert_eq!(waits_for(&sum), [a.edge().op, b.edge().op]);
    assert_eq!(waits_for(&after), []);
    Ok(())
}

#[test]
fn variables_their_initializers_and_their_shared_read_do_not_wait_but_a_new_read_does() -> Built {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(1)]);
    let initial = g.zeros([1]);
    let (read, again) = g.with_control_dependencies(&[&x.target()], |g| {
        let w = g.variable("w", &initial)?;
        Ok((w.read(), w.read_again()))
    })?;
    let def = snapshot(&g);
    for name in ["w", "w/Assign", &read.name()] {
        assert!(operation(&def, name).control_inputs.is_empty(), "{name}");
    }
    assert_eq!(operation(&def, &again.name()).control_inputs.to_vec(), [x.edge().op]);
    Ok(())
}

#[test]
fn variables_are_in_the_innermost_container_and_their_slots_beside_them() -> Built {
    let g = Graph::new();
    let named = |g: &Graph, name: &str| g.variable(name, &g.zeros([1]));
    let (inner, outer) = g.with_container("outer", |g| {
        let inner = g.with_container("inner", |g| named(g, "a"))?;
        Ok((inner, named(g, "b")?))
    })?;
    let slot = g.slot_variable("a/slot", [1].into(), 0f32, &inner)?;
    let containers = [&inner, &outer, &slot, &named(&g, "c")?]
        .map(|variable| variable.spec().container.to_string());
    assert_eq!(containers, ["inner", "outer", "inner", ""]);
    Ok(())
}

#[test]
fn a_group_waits_for_all_its_targets() -> Built {
    let g = Graph::new();
    let (a, b) = (floats(&g, "a", [Some(1)]).target(), floats(&g, "b", [Some(1)]).target());
    let both = g.group("both", &[&a, &b])?;
    assert_eq!(
        operation(&snapshot(&g), &both.name()).control_inputs.to_vec(),
        [a.op_id(), b.op_id()]
    );
    Ok(())
}

#[test]
fn local_variables_and_their_slots_are_each_workers_own_and_the_global_step_is_not() -> Built {
    let g = Graph::new();
    let shared = g.variable("shared", &g.zeros([1]))?;
    let (own, step) =
        g.with_local_variables(|g| Ok((g.variable("own", &g.zeros([1]))?, g.global_step()?)))?;
    let slot = g.slot_variable("own/slot", [1].into(), 0f32, &own)?;
    let counter = g.local_variable("counter", &g.constant(0i64))?;
    let is_local = [&shared, &own, &step, &slot, &counter].map(|variable| variable.spec().is_local);
    assert_eq!(is_local, [false, true, false, true, true]);
    let names = |initializers: Vec<(crate::graph::Variable, crate::graph::Target)>| {
        initializers.iter().map(|(v, _)| v.name()).collect::<Vec<_>>()
    };
    assert_eq!(names(g.initializers()), ["shared", "global_step"]);
    assert_eq!(names(g.local_initializers()), ["own", "own/slot", "counter"]);
    assert!(own.spec().trainable && !counter.spec().trainable);
    Ok(())
}
