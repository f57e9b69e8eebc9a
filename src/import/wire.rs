//! TensorFlow's protocol buffers on the wire, as far as a graph needs them: the fields' numbers and
//! types.
//!
//! Field numbers are those of `graph.proto`, `function.proto`, `op_def.proto`, `node_def.proto`,
//! `attr_value.proto`, `tensor.proto` and `tensor_shape.proto`. Fields that are not listed are
//! skipped when they are read.

use std::collections::BTreeMap;

/// A graph: nodes in any order.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<NodeDef>,
    #[prost(message, optional, tag = "2")]
    pub(super) library: Option<Library>,
}

/// The functions that nodes name.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Library {
    #[prost(message, repeated, tag = "1")]
    pub(super) function: Vec<FunctionDef>,
}

/// A function: a node's input is an argument's name, or `node:output:index`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FunctionDef {
    #[prost(message, optional, tag = "1")]
    pub(super) signature: Option<Signature>,
    #[prost(message, repeated, tag = "3")]
    pub(super) node_def: Vec<NodeDef>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(super) ret: BTreeMap<String, String>,
}

/// A function's name, arguments and results.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Signature {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) input_arg: Vec<Argument>,
    #[prost(message, repeated, tag = "3")]
    pub(super) output_arg: Vec<Argument>,
}

/// An argument or a result.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Argument {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    pub(super) dtype: i32,
}

/// A function as an attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FunctionName {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

/// An operation; inputs are `name`, `name:output` or, for a control input, `^name`.
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

/// The value of an attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AttrValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6, 7, 8, 10")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Value {
    #[prost(message, tag = "1")]
    List(ListValue),
    #[prost(bytes = "vec", tag = "2")]
    S(Vec<u8>),
    #[prost(int64, tag = "3")]
    I(i64),
    #[prost(float, tag = "4")]
    F(f32),
    #[prost(bool, tag = "5")]
    B(bool),
    #[prost(int32, tag = "6")]
    Type(i32),
    #[prost(message, tag = "7")]
    Shape(TensorShapeProto),
    #[prost(message, tag = "8")]
    Tensor(TensorProto),
    #[prost(message, tag = "10")]
    Function(FunctionName),
}

/// A list of values of one kind.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListValue {
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(super) s: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "3")]
    pub(super) i: Vec<i64>,
    #[prost(float, repeated, tag = "4")]
    pub(super) f: Vec<f32>,
    #[prost(bool, repeated, tag = "5")]
    pub(super) b: Vec<bool>,
    #[prost(int32, repeated, tag = "6")]
    pub(super) types: Vec<i32>,
    #[prost(message, repeated, tag = "7")]
    pub(super) shape: Vec<TensorShapeProto>,
}

/// A shape; -1 for an unknown dimension.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TensorShapeProto {
    #[prost(message, repeated, tag = "2")]
    pub(super) dim: Vec<Dim>,
    #[prost(bool, tag = "3")]
    pub(super) unknown_rank: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Dim {
    #[prost(int64, tag = "1")]
    pub(super) size: i64,
}

/// A tensor: its bytes, or values; the last value is repeated to fill the shape.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TensorProto {
    #[prost(int32, tag = "1")]
    pub(super) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) tensor_shape: Option<TensorShapeProto>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) tensor_content: Vec<u8>,
    #[prost(float, repeated, tag = "5")]
    pub(super) float_val: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    pub(super) double_val: Vec<f64>,
    #[prost(int32, repeated, tag = "7")]
    pub(super) int_val: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(super) string_val: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "10")]
    pub(super) int64_val: Vec<i64>,
    #[prost(bool, repeated, tag = "11")]
    pub(super) bool_val: Vec<bool>,
    /// The bits of each value of a `DT_BFLOAT16`.
    #[prost(int32, repeated, tag = "13")]
    pub(super) half_val: Vec<i32>,
}
