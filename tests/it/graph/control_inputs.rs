//! Operations that wait for others only through the control inputs of a constant: in each order the
//! variables end as TensorFlow's do, whoever built the graph, by reference or by handle, on one
//! task or over two.

use std::collections::BTreeMap;

use trainyard::import;
use trainyard::prelude::*;
use trainyard::tensor::Shape;

use crate::support::fixture::{cluster, on_actix};

/// One command of an order; each waits for the one before it, by its constant alone.
#[derive(Clone, Copy)]
enum Command {
    /// `a = x² + b`, computed where `b` is: comes first, and takes longer than a constant.
    Compute,
    /// `variable = number`
    Store(&'static str, f32),
    /// `variable = number`, a constant that waits for another that waits.
    Relay(&'static str, f32),
    /// `variable += number`
    Add(&'static str, f32),
    /// `to = 2 · from`, read after the command before.
    Double { from: &'static str, to: &'static str },
}

use Command::{Add, Compute, Double, Relay, Store};

/// Each order, and what `a` and `b` hold after it where they held 7 and 11, and x is 3.
const ORDERS: [(&[Command], [f32; 2]); 4] = [
    (&[Compute, Store("a", -1.0)], [-1.0, 11.0]),
    (&[Compute, Add("a", 2.0)], [22.0, 11.0]),
    (&[Compute, Double { from: "a", to: "b" }, Store("a", -1.0)], [-1.0, 40.0]),
    (&[Compute, Relay("a", 5.0), Add("b", 0.5)], [5.0, 11.5]),
];

const VARIABLES: [(&str, f32); 2] = [("a", 7.0), ("b", 11.0)];

/// Where things are: each variable, with its constants, on a task of its own; or all on one.
#[derive(Clone, Copy, Debug)]
enum Tasks {
    One,
    Two,
}

impl Tasks {
    fn of(self, name: &str) -> &'static str {
        match (self, name) {
            (Self::One, _) => "",
            (Self::Two, "a") => "/job:ps/task:0",
            (Self::Two, _) => "/job:worker/task:0",
        }
    }
}

/// A graph of an order: what is fed, run first, run, and looked at.
struct Built {
    graph: Graph,
    x: Output,
    init: Target,
    last: Target,
    variables: Vec<Output>,
}

fn built_here(order: &[Command], tasks: Tasks) -> Result<Built> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, Shape::SCALAR)?;
    let mut variables = BTreeMap::new();
    for (name, value) in VARIABLES {
        let variable = g.with_device(tasks.of(name), |g| g.variable(name, &g.constant(value)))?;
        variables.insert(name, variable);
    }
    let mut before: Vec<Target> = Vec::new();
    let constant = |before: &[Target], variable: &str, number: f32| {
        let before: Vec<&Target> = before.iter().collect();
        g.with_device(tasks.of(variable), |g| {
            g.with_control_dependencies(&before, |g| Ok(g.constant(number)))
        })
    };
    for command in order {
        let after = match *command {
            Compute => {
                let sum =
                    g.with_device(tasks.of("b"), |_| x.square().add(&variables["b"].read_again()))?;
                variables["a"].assign(&sum)?
            }
            Store(name, number) => variables[name].assign(&constant(&before, name, number)?)?,
            Relay(name, number) => {
                let first = constant(&before, name, 0.0)?;
                let relayed =
                    g.with_control_dependencies(&[&first.target()], |g| Ok(g.constant(number)))?;
                variables[name].assign(&relayed)?
            }
            Add(name, number) => variables[name].assign_add(&constant(&before, name, number)?)?,
            Double { from, to } => {
                let two = constant(&before, to, 2.0)?;
                let before: Vec<&Target> = before.iter().collect();
                let read =
                    g.with_control_dependencies(&before, |_| Ok(variables[from].read_again()))?;
                variables[to].assign(&read.mul(&two)?)?
            }
        };
        before = vec![after];
    }
    let reads = VARIABLES.iter().map(|(name, _)| variables[name].read()).collect();
    Ok(Built { init: g.initializer(), last: before.remove(0), variables: reads, x, graph: g })
}

/// As far as a graph needs TensorFlow's protocol buffers here.
mod wire {
    use std::collections::BTreeMap;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct GraphDef {
        #[prost(message, repeated, tag = "1")]
        pub(super) node: Vec<NodeDef>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NodeDef {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) op: String,
        #[prost(string, repeated, tag = "3")]
        pub(super) input: Vec<String>,
        #[prost(string, tag = "4")]
        pub(super) device: String,
        #[prost(btree_map = "string, message", tag = "5")]
        pub(super) attr: BTreeMap<String, AttrValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct AttrValue {
        #[prost(oneof = "Value", tags = "6, 7, 8")]
        pub(super) value: Option<Value>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(super) enum Value {
        #[prost(int32, tag = "6")]
        Type(i32),
        #[prost(message, tag = "7")]
        Shape(Shape),
        #[prost(message, tag = "8")]
        Tensor(Tensor),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Shape {
        #[prost(message, repeated, tag = "2")]
        pub(super) dim: Vec<Dim>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Dim {
        #[prost(int64, tag = "1")]
        pub(super) size: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Tensor {
        #[prost(int32, tag = "1")]
        pub(super) dtype: i32,
        #[prost(message, tag = "2")]
        pub(super) shape: Option<Shape>,
        #[prost(float, repeated, tag = "5")]
        pub(super) floats: Vec<f32>,
        #[prost(int32, repeated, tag = "7")]
        pub(super) ints: Vec<i32>,
    }
}

const F32: i32 = 1;
const I32: i32 = 3;

/// A GraphDef in the making, as TensorFlow writes it.
struct Nodes {
    nodes: Vec<wire::NodeDef>,
    tasks: Tasks,
    by_handle: bool,
}

impl Nodes {
    fn new(tasks: Tasks, by_handle: bool) -> Self {
        let mut new = Self { nodes: Vec::new(), tasks, by_handle };
        new.placeholder("x", &[]);
        for (name, value) in VARIABLES {
            let kind = if by_handle { "VarHandleOp" } else { "VariableV2" };
            let device = tasks.of(name);
            let node = new.add(kind, name, &[], device);
            node.attr.insert("shape".into(), attribute(wire::Value::Shape(shape(&[]))));
            let first = format!("{name}/first");
            new.constant(&first, value, device, &[]);
            new.store(&format!("init_{name}"), "Assign", name, &first);
        }
        new.add("NoOp", "init", &["^init_a", "^init_b"], "");
        new
    }

    fn add(&mut self, op: &str, name: &str, input: &[&str], device: &str) -> &mut wire::NodeDef {
        let input = input.iter().map(|input| (*input).to_owned()).collect();
        let attr = BTreeMap::from([
            ("dtype".to_owned(), attribute(wire::Value::Type(F32))),
            ("T".to_owned(), attribute(wire::Value::Type(F32))),
        ]);
        let (name, op, device) = (name.to_owned(), op.to_owned(), device.to_owned());
        self.nodes.push(wire::NodeDef { name, op, input, device, attr });
        self.nodes.last_mut().expect("it was just added")
    }

    fn placeholder(&mut self, name: &str, dims: &[i64]) {
        let node = self.add("Placeholder", name, &[], "");
        node.attr.insert("shape".into(), attribute(wire::Value::Shape(shape(dims))));
    }

    fn constant(&mut self, name: &str, number: f32, device: &str, after: &[&str]) {
        let floats = vec![number];
        let value = wire::Tensor { dtype: F32, shape: Some(shape(&[])), floats, ints: vec![] };
        let node = self.add("Const", name, after, device);
        node.attr.insert("value".into(), attribute(wire::Value::Tensor(value)));
    }

    /// A vector.
    fn ints(&mut self, name: &str, ints: &[i32], after: &[&str]) {
        let shape = Some(shape(&[ints.len() as i64]));
        let value = wire::Tensor { dtype: I32, shape, floats: vec![], ints: ints.to_vec() };
        let node = self.add("Const", name, after, "");
        node.attr.insert("dtype".into(), attribute(wire::Value::Type(I32)));
        node.attr.insert("value".into(), attribute(wire::Value::Tensor(value)));
    }

    /// `Assign` or `AssignAdd`, as the variables are.
    fn store(&mut self, name: &str, op: &str, variable: &str, value: &str) {
        let op = if self.by_handle { format!("{op}VariableOp") } else { op.to_owned() };
        self.add(&op, name, &[variable, value], self.tasks.of(variable));
    }

    /// What the first of `inputs`, a variable, holds.
    fn read(&mut self, name: &str, inputs: &[&str]) {
        let op = if self.by_handle { "ReadVariableOp" } else { "Identity" };
        self.add(op, name, inputs, self.tasks.of(inputs[0]));
    }

    /// Adds `command`, called `name`, after the one called `before`.
    fn command(&mut self, command: Command, name: &str, before: &str) {
        let (waits, part) = (format!("^{before}"), |part: &str| format!("{name}/{part}"));
        let number = part("number");
        match command {
            Compute => {
                let (square, read, sum) = (part("square"), part("read"), part("sum"));
                self.add("Square", &square, &["x"], "");
                self.read(&read, &["b"]);
                self.add("Add", &sum, &[&square, &read], self.tasks.of("b"));
                self.store(name, "Assign", "a", &sum);
            }
            Store(variable, value) | Add(variable, value) => {
                self.constant(&number, value, self.tasks.of(variable), &[&waits]);
                let op = if matches!(command, Store(..)) { "Assign" } else { "AssignAdd" };
                self.store(name, op, variable, &number);
            }
            Relay(variable, value) => {
                let first = part("first");
                self.constant(&first, 0.0, self.tasks.of(variable), &[&waits]);
                let device = self.tasks.of(variable);
                self.constant(&number, value, device, &[&format!("^{first}")]);
                self.store(name, "Assign", variable, &number);
            }
            Double { from, to } => {
                let (read, twice) = (part("read"), part("twice"));
                self.read(&read, &[from, &waits]);
                self.constant(&number, 2.0, self.tasks.of(to), &[&waits]);
                self.add("Mul", &twice, &[&read, &number], "");
                self.store(name, "Assign", to, &twice);
            }
        }
    }

    fn import(self, last: &str) -> Result<Built> {
        let graph = Graph::new();
        let def = wire::GraphDef { node: self.nodes };
        let imported = import::graph_def(&graph, &prost::Message::encode_to_vec(&def))?;
        let variables = VARIABLES.iter().map(|(name, _)| imported.output(name));
        let variables = variables.collect::<Result<_, _>>()?;
        let (init, last) = (imported.target("init")?, imported.target(last)?);
        Ok(Built { x: imported.output("x")?, init, last, variables, graph })
    }
}

fn attribute(value: wire::Value) -> wire::AttrValue {
    wire::AttrValue { value: Some(value) }
}

fn shape(dims: &[i64]) -> wire::Shape {
    wire::Shape { dim: dims.iter().map(|size| wire::Dim { size: *size }).collect() }
}

fn imported(order: &[Command], tasks: Tasks, by_handle: bool) -> Result<Built> {
    let mut nodes = Nodes::new(tasks, by_handle);
    let name = |i: usize| format!("command_{i}");
    for (i, command) in order.iter().enumerate() {
        nodes.command(*command, &name(i), &name(i.saturating_sub(1)));
    }
    nodes.import(&name(order.len() - 1))
}

/// What `a` and `b` hold after a step of `built`.
async fn run(built: Built, tasks: Tasks) -> Result<[f32; 2]> {
    let servers = match tasks {
        Tasks::One => vec![Server::create_local()],
        Tasks::Two => cluster(1, 1),
    };
    let session = Session::new(&servers[0].target(), &built.graph).await?;
    session.run().target(&built.init).await?;
    session.run().feed(&built.x, Tensor::scalar(3f32)).target(&built.last).await?;
    let fetched = session.run().fetch(&built.variables[0]).fetch(&built.variables[1]).await?;
    Ok([fetched.scalar::<f32>(0)?, fetched.scalar::<f32>(1)?])
}

/// Runs every order on one task and over two; fails with all that end otherwise.
fn assert_kept(build: impl Fn(&[Command], Tasks) -> Result<Built> + 'static) {
    on_actix(async move {
        let mut wrong = Vec::new();
        for (i, (order, expected)) in ORDERS.into_iter().enumerate() {
            for tasks in [Tasks::One, Tasks::Two] {
                let found = run(build(order, tasks)?, tasks).await?;
                if found != expected {
                    wrong.push(format!("order {i}, {tasks:?}: {found:?}, not {expected:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        Ok(())
    });
}

#[test]
fn constants_of_our_own_graph_wait_for_their_control_inputs() {
    assert_kept(built_here);
}

#[test]
fn imported_constants_wait_for_their_control_inputs_with_variables_by_reference() {
    assert_kept(|order, tasks| imported(order, tasks, false));
}

#[test]
fn imported_constants_wait_for_their_control_inputs_with_variables_by_handle() {
    assert_kept(|order, tasks| imported(order, tasks, true));
}

/// A step of `a = x² + b`, and then of `a = -1` in a way that `add` says, called `last`.
fn assert_last_wins(add: impl Fn(&mut Nodes)) {
    let build = |tasks| {
        let mut nodes = Nodes::new(tasks, false);
        nodes.command(Compute, "first", "");
        add(&mut nodes);
        nodes.add("NoOp", "both", &["^first", "^last"], "");
        nodes.import("both")
    };
    for tasks in [Tasks::One, Tasks::Two] {
        let built = build(tasks).unwrap();
        on_actix(async move {
            assert_eq!(run(built, tasks).await?[0], -1.0, "{tasks:?}");
            Ok(())
        });
    }
}

#[test]
fn what_the_importer_takes_as_an_attribute_is_waited_for() {
    assert_last_wins(|nodes| {
        nodes.constant("number", -1.0, "", &[]);
        nodes.ints("shape", &[], &["^first"]);
        nodes.add("Reshape", "shaped", &["number", "shape"], "");
        nodes.store("last", "Assign", "a", "shaped");
    });
}

#[test]
fn what_the_importer_computes_is_waited_for() {
    assert_last_wins(|nodes| {
        nodes.ints("zero", &[0], &[]);
        nodes.ints("one", &[1], &["^first"]);
        nodes.add("Sub", "folded", &["zero", "one"], "");
        let cast = nodes.add("Cast", "cast", &["folded"], "");
        cast.attr.insert("SrcT".into(), attribute(wire::Value::Type(I32)));
        cast.attr.insert("DstT".into(), attribute(wire::Value::Type(F32)));
        nodes.ints("scalar", &[], &[]);
        nodes.add("Reshape", "shaped", &["cast", "scalar"], "");
        nodes.store("last", "Assign", "a", "shaped");
    });
}

#[test]
fn an_operation_that_waits_for_the_shape_of_a_value_waits_for_the_value() {
    assert_last_wins(|nodes| {
        nodes.add("Identity", "read", &["a", "^first"], "");
        nodes.add("Shape", "shape", &["read"], "");
        nodes.constant("number", -1.0, "", &["^shape"]);
        nodes.store("last", "Assign", "a", "number");
    });
}

#[test]
fn an_assignment_to_what_another_assigned_comes_after_it() {
    assert_last_wins(|nodes| {
        nodes.constant("number", -1.0, "", &[]);
        let device = nodes.tasks.of("a");
        nodes.add("Assign", "last", &["first", "number"], device);
    });
}
