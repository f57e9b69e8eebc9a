//! Training operations that TensorFlow has grouped.

use super::*;

fn variable(name: &str, dtype: i32) -> NodeDef {
    node("VariableV2", name, &[])
        .with("dtype", Value::Type(dtype))
        .with("shape", Value::Shape(shape(&[])))
}

/// The constant 1 of i64.
fn one(name: &str) -> NodeDef {
    let tensor = TensorProto {
        dtype: I64,
        tensor_shape: Some(shape(&[])),
        int64_val: vec![1],
        ..TensorProto::default()
    };
    node("Const", name, &[]).with("dtype", Value::Type(I64)).with("value", Value::Tensor(tensor))
}

/// What `tf.group` writes of operations on two devices: a group a device, and a group of these.
#[test]
fn a_training_operation_in_a_group_of_groups_by_device_counts_steps() {
    let nodes = vec![
        variable("global_step", I64),
        variable("v", F32),
        placeholder("x", &[]),
        one("one"),
        node("AssignAdd", "counted", &["global_step", "one"]),
        node("Assign", "kept", &["v", "x"]),
        node("NoOp", "train/on_ps", &["^counted"]),
        node("NoOp", "train/on_worker", &["^kept"]),
        node("NoOp", "train", &["^train/on_worker", "^train/on_ps"]),
    ];
    let imported = import(nodes).unwrap();
    let counted = imported.target("counted").unwrap().output(0).unwrap();
    assert_eq!(imported.train_op("train").unwrap().global_step().edge(), counted.edge());
    assert!(imported.train_op("kept").is_err());
}

/// Why `train`, of `nodes` and the constant `one`, counts no step.
fn why(nodes: Vec<NodeDef>) -> String {
    let imported = import([nodes, vec![one("one")]].concat()).unwrap();
    imported.train_op("train").expect_err("it counts no step").to_string()
}

#[test]
fn what_is_found_of_the_step_counter_is_said_where_no_step_is_counted() {
    let add = |to: &str| node("AssignAdd", "train", &[to, "one"]);
    let by_one = |of: &str| {
        let sum = node("Add", "sum", &[of, "one"]);
        vec![variable(of, I64), sum, node("Assign", "train", &[of, "sum"])]
    };
    let cast = node("Cast", "cast", &["one"]).with("SrcT", Value::Type(I64));
    let cast = cast.with("DstT", Value::Type(I32));
    let of_i32 = node("AssignAdd", "train", &["global_step", "cast"]);
    let says = [
        (vec![variable("global_step", I32), cast, of_i32], "`global_step` is i32, and must be i64"),
        (vec![variable("net/global_step", I64), add("net/global_step")], "`net/global_step` is"),
        (by_one("global_step"), "`train` (Assign) changes `global_step`, and does not add"),
        (vec![variable("v", F32), node("NoOp", "train", &[])], "has no variable `global_step`"),
        (
            vec![
                variable("global_step", I64),
                node("Placeholder", "p", &[])
                    .with("dtype", Value::Type(10))
                    .with("shape", Value::Shape(shape(&[]))),
                node("RefSwitch", "switch", &["global_step", "p"]),
                node("AssignAdd", "inside", &["switch:1", "one"]),
                node("NoOp", "train", &["^inside"]),
            ],
            "`global_step` is counted by `inside`, within a condition",
        ),
    ];
    for (nodes, says) in says {
        let found = why(nodes);
        assert!(found.starts_with("`train` counts no step: ") && found.contains(says), "{found}");
    }
}
