//! Placement: TensorFlow's `device_setter_test.py`, and `placer_test.cc` without its tests of
//! device types.

mod partitioned;
mod placer;
mod replica_device_setter;

use std::sync::Arc;

use super::place;
use crate::cluster::{DeviceName, TaskName};
use crate::graph::{Graph, GraphDef, GraphError, OpId, Output, Variable};

type Built<T = ()> = Result<T, GraphError>;

fn variable(g: &Graph, name: &str, shape: [usize; 2]) -> Built<Variable> {
    g.variable(name, &g.zeros(shape))
}

fn snapshot(g: &Graph) -> Arc<GraphDef> {
    g.snapshot().unwrap()
}

fn asked(g: &Graph, op: OpId) -> String {
    snapshot(g).operation(op).device.to_string()
}

fn asked_of(g: &Graph, output: &Output) -> String {
    asked(g, output.edge().op)
}

fn cpu(job: &str, task: u32) -> DeviceName {
    DeviceName::cpu(TaskName::new(job, task), 0)
}
