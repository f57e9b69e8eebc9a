//! Loops of TensorFlow's first kind as loops with functions: the nodes of each frame, from `Enter`
//! to `Exit`, become the condition and the body of one `While` (TensorFlow
//! `functionalize_control_flow`).
//!
//! A stack, which a loop fills for the gradient of its body, becomes a variable of the loop; so
//! does one that the loop back empties. Nodes keep their names.

mod stacks;
mod walk;
mod whiles;

use std::collections::BTreeMap;

use super::NodeProblem;
use super::error::ImportError;
use super::node::fail;
use super::order::parse_input;
use super::wire::{FunctionDef, GraphDef, Library, NodeDef};
use stacks::Stacks;

/// The number of a frame.
type FrameId = usize;

/// A frame: the nodes between its `Enter` and its `Exit` nodes.
struct Frame {
    name: String,
    parent: Option<FrameId>,
    depth: usize,
}

/// A graph whose loops become functions.
struct Frames {
    nodes: Vec<NodeDef>,
    by_name: BTreeMap<String, usize>,
    /// By node: the innermost frame that it is in.
    within: Vec<Option<FrameId>>,
    frames: Vec<Frame>,
    /// By node: whether it is needed.
    needed: Vec<bool>,
    stacks: Stacks,
    functions: Vec<FunctionDef>,
}

/// The graph without frames, as far as `wanted` need it; all of it if none is named.
///
/// # Errors
/// If the nodes of a frame are no loop as TensorFlow writes it: which node.
pub(super) fn functionalized(def: GraphDef, wanted: &[&str]) -> Result<GraphDef, ImportError> {
    if !def.node.iter().any(|node| kind(node) == "Enter") {
        return Ok(def);
    }
    let GraphDef { node: nodes, library } = def;
    let mut frames = Frames::of(nodes);
    frames.find_needed(wanted);
    let mut order: Vec<FrameId> = (0..frames.frames.len()).collect();
    order.sort_by_key(|frame| std::cmp::Reverse(frames.frames[*frame].depth));
    for frame in order {
        frames.make_loop(frame)?;
    }
    Ok(frames.finish(library))
}

/// The kind of a node; that of an operation on references is that of the operation on values.
fn kind(node: &NodeDef) -> &str {
    match node.op.as_str() {
        "RefEnter" => "Enter",
        "RefExit" => "Exit",
        "RefSwitch" => "Switch",
        "RefMerge" => "Merge",
        "RefNextIteration" => "NextIteration",
        "RefIdentity" => "Identity",
        kind => kind,
    }
}
