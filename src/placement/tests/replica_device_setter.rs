//! TensorFlow's `device_setter_test.py`: the device that each operation requests.

use super::{Built, asked, asked_of, variable};
use crate::cluster::{ClusterSpec, DeviceSpec};
use crate::graph::{Graph, OperationRequest, Output};
use crate::placement::{Greedy, GreedyByBytes, RandomByName, ReplicaDeviceSetter, RoundRobin};

fn setter() -> ReplicaDeviceSetter {
    ReplicaDeviceSetter::new(&ClusterSpec::simulated([("ps", 2), ("worker", 3)]).unwrap())
}

fn spec(text: &str) -> DeviceSpec {
    text.parse().unwrap()
}

/// The devices of `v`, built on `inner`, of `w`, and of their sum, built on `of_sum`.
fn v_w_sum(setter: ReplicaDeviceSetter, inner: &str, of_sum: &str) -> [String; 3] {
    let g = Graph::new();
    let built: Built<_> = g.with_device_fn(setter, |g| {
        let v = g.with_device(inner, |g| variable(g, "v", [1, 2]))?;
        let w = variable(g, "w", [1, 2])?;
        let sum: Output = g.with_device(of_sum, |_| v.read().add(&w.read()))?;
        Ok((v, w, sum))
    });
    let (v, w, sum) = built.unwrap();
    for name in ["v", "w"] {
        let of = |name: &str| asked(&g, g.operation(name).unwrap().op_id());
        assert_eq!(of(&format!("{name}/Assign")), of(name), "the initializer is with its variable");
    }
    [asked(&g, v.op_id()), asked(&g, w.op_id()), asked_of(&g, &sum)]
}

#[test]
fn variables_go_to_the_parameter_servers_in_turn_and_all_else_to_the_worker() {
    assert_eq!(v_w_sum(setter(), "", ""), ["/job:ps/task:0", "/job:ps/task:1", "/job:worker"]);
    let to_a_worker = setter().worker_device(spec("/job:worker/task:2"));
    assert_eq!(v_w_sum(to_a_worker, "", "")[2], "/job:worker/task:2");
}

#[test]
fn a_device_asked_for_inside_is_merged() {
    let devices = v_w_sum(setter(), "/cpu:0", "/cpu:0");
    assert_eq!(
        devices,
        ["/job:ps/task:0/device:CPU:0", "/job:ps/task:1", "/job:worker/device:CPU:0"]
    );
}

#[test]
fn another_job_asked_for_inside_stays_without_a_task_and_takes_no_turn() {
    assert_eq!(v_w_sum(setter(), "/job:moon", ""), ["/job:moon", "/job:ps/task:0", "/job:worker"]);
}

#[test]
fn the_servers_own_job_asked_for_inside_gets_a_task_in_its_turn() {
    assert_eq!(
        v_w_sum(setter(), "/job:ps", ""),
        ["/job:ps/task:0", "/job:ps/task:1", "/job:worker"]
    );
}

/// TensorFlow's takes a turn here.
#[test]
fn a_task_asked_for_inside_is_kept_and_takes_no_turn() {
    assert_eq!(v_w_sum(setter(), "/job:ps/task:1", "")[..2], ["/job:ps/task:1", "/job:ps/task:0"]);
}

#[test]
fn a_device_without_a_job_gets_no_task() {
    let devices = v_w_sum(setter().ps_device(spec("/cpu:0")), "", "");
    assert_eq!(devices, ["/device:CPU:0", "/device:CPU:0", "/job:worker"]);
}

#[test]
fn the_jobs_may_have_other_names() {
    let cluster = ClusterSpec::simulated([("moon", 2), ("sun", 3)]).unwrap();
    let setter = ReplicaDeviceSetter::new(&cluster)
        .ps_device(spec("/job:moon"))
        .worker_device(spec("/job:sun"));
    assert_eq!(v_w_sum(setter, "", ""), ["/job:moon/task:0", "/job:moon/task:1", "/job:sun"]);
}

#[test]
fn without_parameter_servers_nothing_is_moved() {
    let setter = ReplicaDeviceSetter::new(&ClusterSpec::simulated([("worker", 2)]).unwrap());
    assert_eq!(v_w_sum(setter, "/cpu:0", ""), ["/device:CPU:0", "", ""]);
}

/// The tasks that variables of these shapes go to; `with_slots` builds a slot of each too.
fn tasks(setter: ReplicaDeviceSetter, shapes: &[[usize; 2]], with_slots: bool) -> Vec<u32> {
    let g = Graph::new();
    let build = |(i, shape): (usize, &[usize; 2])| {
        let built = variable(&g, &format!("v{i}"), *shape).unwrap();
        if with_slots {
            let slot =
                g.slot_variable(&format!("v{i}/slot"), (*shape).into(), 0f32, &built).unwrap();
            assert_eq!(asked(&g, slot.op_id()), asked(&g, built.op_id()));
        }
        g.snapshot().unwrap().operation(built.op_id()).device.task().unwrap()
    };
    let built: Built<_> =
        g.with_device_fn(setter, |_| Ok(shapes.iter().enumerate().map(build).collect()));
    built.unwrap()
}

/// TensorFlow's contrib `device_setter_test.py`.
#[test]
fn greedy_balances_bytes_as_tensorflow_does() {
    let shapes = [[2, 2], [2, 1], [2, 2], [1, 3]];
    assert_eq!(tasks(setter().strategy(GreedyByBytes::default()), &shapes, false), [0, 1, 1, 0]);
}

#[test]
fn greedy_balancing_of_equals_is_round_robin() {
    assert_eq!(
        tasks(setter().strategy(GreedyByBytes::default()), &[[1, 1]; 5], false),
        [0, 1, 0, 1, 0]
    );
    assert_eq!(
        tasks(setter().strategy(RoundRobin::default()), &[[1, 1]; 5], false),
        [0, 1, 0, 1, 0]
    );
}

/// TensorFlow's counts each slot as a variable here.
#[test]
fn a_slot_is_with_its_variable_and_takes_no_turn() {
    let shapes = [[2, 2], [2, 1], [2, 2], [1, 3]];
    assert_eq!(tasks(setter(), &shapes, true), [0, 1, 0, 1]);
    assert_eq!(tasks(setter().strategy(GreedyByBytes::default()), &shapes, true), [0, 1, 1, 0]);
}

#[test]
fn a_workers_own_variables_stay_with_the_worker_and_take_no_turn() {
    let g = Graph::new();
    let devices: Built<_> =
        g.with_device_fn(setter().worker_device(spec("/job:worker/task:2")), |g| {
            let v = variable(g, "v", [1, 2])?;
            let own = g.local_variable("own", &g.zeros([1]))?;
            let w = variable(g, "w", [1, 2])?;
            Ok([v, own, w].map(|variable| asked(g, variable.op_id())))
        });
    assert_eq!(devices.unwrap(), ["/job:ps/task:0", "/job:worker/task:2", "/job:ps/task:1"]);
}

#[test]
fn a_number_of_tasks_stands_for_a_cluster() {
    let of_two = ReplicaDeviceSetter::of_tasks(2);
    assert_eq!(v_w_sum(of_two, "", ""), ["/job:ps/task:0", "/job:ps/task:1", "/job:worker"]);
    assert_eq!(v_w_sum(ReplicaDeviceSetter::of_tasks(0), "/cpu:0", "")[0], "/device:CPU:0");
    let without_job = ReplicaDeviceSetter::of_tasks(1).ps_device(spec("/cpu:0"));
    assert_eq!(v_w_sum(without_job, "", "")[..2], ["/device:CPU:0", "/device:CPU:0"]);
}

/// TensorFlow's `testPS2TasksUseCpuForPS` and the tests after it, with `merge_devices=False`.
#[test]
fn devices_that_are_not_merged_stay_as_the_inner_scope_asks_for_them() {
    let devices = v_w_sum(setter().merge_devices(false), "/job:ps", "/cpu:0");
    assert_eq!(devices, ["/job:ps", "/job:ps/task:0", "/device:CPU:0"]);
}

#[test]
fn the_kinds_that_go_to_parameter_servers_can_be_others() {
    let g = Graph::new();
    let setter = setter().ps_ops(["Const", "Variable"]);
    let devices: Built<_> = g.with_device_fn(setter, |g| {
        let v = variable(g, "v", [1, 2])?;
        let own = g.local_variable("own", &g.constant(0f32))?;
        let c = g.constant(1f32);
        let sum = c.add(&c)?;
        Ok([asked(g, v.op_id()), asked(g, own.op_id()), asked_of(g, &c), asked_of(g, &sum)])
    });
    let [v, own, c, sum] = devices.unwrap();
    assert!(v.starts_with("/job:ps/task:") && c.starts_with("/job:ps/task:"), "{v} {c}");
    assert_eq!([own, sum], ["/job:worker", "/job:worker"]);
    let nothing = v_w_sum(self::setter().ps_ops([""; 0]), "", "");
    assert_eq!(nothing, ["/job:worker"; 3]);
}

/// TensorFlow's contrib `device_setter_test.py`: the choices of `RandomStrategy(2, seed=0)` for the
/// variables `Variable`, `Variable_1`, `Variable_2` and `Variable_3`.
#[test]
fn random_choices_are_tensorflows() {
    let g = Graph::new();
    let names = ["Variable", "Variable_1", "Variable_2", "Variable_3"];
    let setter = setter().strategy(RandomByName { seed: 0 });
    let built: Built<Vec<_>> = g.with_device_fn(setter, |g| {
        names.iter().map(|name| Ok(variable(g, name, [2, 2])?.device().task())).collect()
    });
    assert_eq!(built.unwrap(), [1, 0, 1, 1].map(Some));
}

#[test]
fn a_load_and_a_rule_of_ones_own_choose_the_task() {
    let by_rows = Greedy::new(|request: &OperationRequest<'_>| {
        request.variable().map_or(0.0, |spec| spec.shape.dims()[0] as f64)
    });
    let shapes = [[3, 1], [1, 9], [1, 9], [1, 9], [1, 9]];
    assert_eq!(tasks(setter().strategy(by_rows), &shapes, false), [0, 1, 1, 1, 0]);
    let last = |_: &OperationRequest<'_>, servers: u32| servers - 1;
    assert_eq!(tasks(setter().strategy(last), &shapes, false), [1; 5]);
}
