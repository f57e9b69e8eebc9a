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
