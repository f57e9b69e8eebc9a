//! A node's attributes, each read as the type that it must have. An attribute that nobody has read
//! is refused by its name: it may change what the node computes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Deref;

use super::error::{ImportError, NodeProblem};
use super::known::Known;
use super::tensor;
use super::value::{Branch, Value};
use super::wire::{ListValue, NodeDef, Value as Attribute};
use crate::graph::{Edge, OpId};
use crate::tensor::{DType, PartialShape, Tensor};

/// The error that `node` has this problem.
pub(super) fn fail(node: &NodeDef, problem: NodeProblem) -> ImportError {
    ImportError::Node { node: node.name.clone(), kind: node.op.clone(), problem }
}

/// A node of the wire, which notes the attributes that are read.
pub(super) struct Def<'a> {
    def: &'a NodeDef,
    read: RefCell<BTreeSet<String>>,
}

impl Deref for Def<'_> {
    type Target = NodeDef;

    fn deref(&self) -> &NodeDef {
        self.def
    }
}

/// Attributes that change no number: how many inputs there are, locks, names, hints for speed. The
/// types of a node follow from its inputs.
const HARMLESS: &[&str] = &[
    "N",
    "num",
    "num_split",
    "shape",
    "use_locking",
    "validate_shape",
    "validate_indices",
    "use_cudnn_on_gpu",
    "allowed_devices",
    "debug_name",
    "container",
    "shared_name",
    "grad_a",
    "grad_b",
    "grad_x",
    "grad_y",
    "message",
    "parallel_iterations",
    "swap_memory",
    "output_shapes",
    "sorted",
    "summarize",
    "first_n",
];

/// Whether the value is a type, a list of types or an empty list.
fn is_of_types(value: Option<&Attribute>) -> bool {
    match value {
        None | Some(Attribute::Type(_)) => true,
        Some(Attribute::List(list)) => {
            let others = ListValue { types: Vec::new(), ..list.clone() };
            others == ListValue::default()
        }
        Some(_) => false,
    }
}

impl<'a> Def<'a> {
    pub(super) fn new(def: &'a NodeDef) -> Self {
        Self { def, read: RefCell::default() }
    }

    fn value(&self, name: &str) -> Option<&'a Attribute> {
        self.read.borrow_mut().insert(name.to_owned());
        self.def.attr.get(name)?.value.as_ref()
    }

    /// Checks that every attribute that could change a number has been read.
    pub(super) fn check_all_read(&self) -> Result<(), NodeProblem> {
        let read = self.read.borrow();
        let is_known = |(name, value): &(&String, &super::wire::AttrValue)| {
            name.starts_with('_')
                || is_of_types(value.value.as_ref())
                || HARMLESS.contains(&name.as_str())
                || read.contains(*name)
        };
        match self.def.attr.iter().find(|attribute| !is_known(attribute)) {
            Some((name, _)) => Err(NodeProblem::UnknownAttribute(name.clone())),
            None => Ok(()),
        }
    }

    /// Checks that the truth value `name` is `needed`, which is also its default.
    pub(super) fn must_be(&self, name: &'static str, needed: bool) -> Result<(), NodeProblem> {
        match self.flag_or(name, needed)? == needed {
            true => Ok(()),
            false => Err(NodeProblem::unsupported(format!(
                "its attribute `{name}` must be {needed}: the other has no operation here"
            ))),
        }
    }

    /// The attribute `name` as `read` reads it; `None` if there is no such attribute.
    fn read<T>(
        &self,
        name: &str,
        needs: &'static str,
        read: fn(&'a Attribute) -> Option<T>,
    ) -> Result<Option<T>, NodeProblem> {
        let wrong = || NodeProblem::Attribute { name: name.to_owned(), needs };
        self.value(name).map(|value| read(value).ok_or_else(wrong)).transpose()
    }

    /// An integer; `default` if there is no such attribute.
    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64, NodeProblem> {
        let read =
            |value: &Attribute| if let Attribute::I(value) = value { Some(*value) } else { None };
        Ok(self.read(name, "an integer", read)?.unwrap_or(default))
    }

    /// A number; `default` if there is no such attribute.
    pub(super) fn float(&self, name: &str, default: f32) -> Result<f32, NodeProblem> {
        let read =
            |value: &Attribute| if let Attribute::F(value) = value { Some(*value) } else { None };
        Ok(self.read(name, "a number", read)?.unwrap_or(default))
    }

    /// Numbers; empty if there is no such attribute.
    pub(super) fn floats(&self, name: &str) -> Result<&'a [f32], NodeProblem> {
        let list = self.read(name, "a list of numbers", |value| match value {
            Attribute::List(list) => Some(list.f.as_slice()),
            _ => None,
        });
        Ok(list?.unwrap_or_default())
    }

    /// Integers; empty if there is no such attribute.
    pub(super) fn ints(&self, name: &str) -> Result<&'a [i64], NodeProblem> {
        let list = self.read(name, "a list of integers", |value| match value {
            Attribute::List(list) => Some(list.i.as_slice()),
            _ => None,
        });
        Ok(list?.unwrap_or_default())
    }

    /// A truth value; false if there is no such attribute.
    pub(super) fn flag(&self, name: &str) -> Result<bool, NodeProblem> {
        self.flag_or(name, false)
    }

    /// A truth value; `default` if there is no such attribute.
    pub(super) fn flag_or(&self, name: &str, default: bool) -> Result<bool, NodeProblem> {
        let read =
            |value: &Attribute| if let Attribute::B(value) = value { Some(*value) } else { None };
        Ok(self.read(name, "a truth value", read)?.unwrap_or(default))
    }

    /// A text; empty if there is no such attribute.
    pub(super) fn text(&self, name: &str) -> Result<&'a str, NodeProblem> {
        let text = self.read(name, "a text", |value| match value {
            Attribute::S(text) => std::str::from_utf8(text).ok(),
            _ => None,
        });
        Ok(text?.unwrap_or_default())
    }

    /// An element type.
    pub(super) fn dtype(&self, name: &str) -> Result<DType, NodeProblem> {
        self.optional_dtype(name)?.ok_or_else(|| NodeProblem::Attribute {
            name: name.to_owned(),
            needs: "an element type",
        })
    }

    /// An element type; `None` if there is no such attribute.
    pub(super) fn optional_dtype(&self, name: &str) -> Result<Option<DType>, NodeProblem> {
        let read = |value: &Attribute| {
            if let Attribute::Type(value) = value { Some(*value) } else { None }
        };
        let number = self.read(name, "an element type", read)?;
        number
            .map(|number| tensor::dtype(number).ok_or_else(|| tensor::no_such_type(number)))
            .transpose()
    }

    /// Whether the attribute is the type `variant`, which stands for lists and optional values.
    pub(super) fn is_variant(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Attribute::Type(tensor::VARIANT)))
    }

    /// The name of a function.
    pub(super) fn function(&self, name: &str) -> Result<&'a str, NodeProblem> {
        match self.value(name) {
            Some(Attribute::Function(function)) => Ok(&function.name),
            _ => Err(NodeProblem::Attribute { name: name.to_owned(), needs: "a function" }),
        }
    }

    /// A shape.
    pub(super) fn shape(&self, name: &str) -> Result<PartialShape, NodeProblem> {
        match self.value(name) {
            Some(Attribute::Shape(shape)) => tensor::shape(shape),
            _ => Err(NodeProblem::Attribute { name: name.to_owned(), needs: "a shape" }),
        }
    }

    /// Whether the attribute is a shape of known rank.
    pub(super) fn declares_rank(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Attribute::Shape(shape)) if !shape.unknown_rank)
    }

    /// The texts of a tensor of texts, in one; `None` if it is of another type.
    pub(super) fn text_of_tensor(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Some(Attribute::Tensor(tensor)) if tensor.dtype == tensor::TEXT => {
                let texts = tensor.string_val.iter().map(|text| String::from_utf8_lossy(text));
                Some(texts.collect::<Vec<_>>().join(" "))
            }
            _ => None,
        }
    }

    /// A tensor, whose repeated elements are taken off `repeats_left`.
    pub(super) fn tensor(
        &self,
        name: &str,
        repeats_left: &Cell<usize>,
    ) -> Result<Tensor, NodeProblem> {
        match self.value(name) {
            Some(Attribute::Tensor(tensor)) => tensor::tensor(tensor, repeats_left),
            _ => Err(NodeProblem::Attribute { name: name.to_owned(), needs: "a tensor" }),
        }
    }
}

/// A node, with the values of its inputs.
pub(super) struct Node<'a> {
    pub(super) def: &'a Def<'a>,
    pub(super) inputs: Vec<Value>,
    /// The operations that must run before it: its control inputs.
    pub(super) controls: Vec<OpId>,
    /// The operations that must run before it if the importer computes it: its control inputs, and
    /// the operations that compute its inputs.
    pub(super) needs: Vec<OpId>,
    /// The branches in which TensorFlow runs it.
    pub(super) branches: Vec<Branch>,
}

impl<'a> Node<'a> {
    /// The node without its inputs, waiting for `controls`.
    pub(super) fn with_controls(&self, controls: Vec<OpId>) -> Self {
        let branches = self.branches.clone();
        Self { def: self.def, inputs: Vec::new(), controls, needs: Vec::new(), branches }
    }

    /// Whether the program that made the graph told TensorFlow how a gradient passes the node.
    /// Calls, conditions and loops are marked so, too, and have the gradients of their functions.
    pub(super) fn has_custom_gradient(&self) -> Result<bool, NodeProblem> {
        let kind = self.def.op.as_str();
        let is_of_functions = ["Call", "If", "While"].iter().any(|end| kind.ends_with(end));
        Ok(!self.def.text("_gradient_op_type")?.is_empty() && !is_of_functions)
    }

    /// Input `i`.
    pub(super) fn value(&self, i: usize) -> Result<&Value, NodeProblem> {
        self.inputs.get(i).ok_or(NodeProblem::NoInput(i))
    }

    /// Input `i`, which must be the same in every step.
    pub(super) fn constant(&self, i: usize) -> Result<&Tensor, NodeProblem> {
        self.value(i)?.constant.as_ref().ok_or(NodeProblem::NotConstant { input: i })
    }

    /// Input `i` as integers that may be known only in part.
    pub(super) fn known(&self, i: usize) -> Result<&Known, NodeProblem> {
        self.value(i)?.known.as_ref().ok_or(NodeProblem::NotConstant { input: i })
    }

    /// Input `i` as integers.
    pub(super) fn ints(&self, i: usize) -> Result<Vec<i64>, NodeProblem> {
        self.known(i)?.ints().ok_or(NodeProblem::NotConstant { input: i })
    }

    /// Input `i` as one integer.
    pub(super) fn int(&self, i: usize) -> Result<i64, NodeProblem> {
        match self.ints(i)?.as_slice() {
            [one] => Ok(*one),
            _ => Err(NodeProblem::unsupported(format!("its input {i} must be one integer"))),
        }
    }

    /// Input `i` as one number.
    pub(super) fn float(&self, i: usize) -> Result<f32, NodeProblem> {
        let wrong = |what: &str| NodeProblem::unsupported(format!("its input {i} must be {what}"));
        let Some(constant) = &self.value(i)?.constant else {
            return Err(wrong("a number that is the same in every step, and a step computes it"));
        };
        constant.item::<f32>().map_err(|_| wrong("one f32"))
    }

    /// The operations that must run before it if it takes only `taken` as inputs. For its other
    /// inputs, which the importer knows, it waits for their control inputs and for the assignment
    /// of their variable.
    pub(super) fn controls_beside(&self, taken: &[Edge]) -> Vec<OpId> {
        let mut controls = self.controls.clone();
        for value in &self.inputs {
            if value.output.as_ref().is_some_and(|output| taken.contains(&output.edge())) {
                continue;
            }
            let assigned = value.variable.and_then(|(_, assigned)| assigned);
            for id in value.after.iter().copied().chain(assigned) {
                if !controls.contains(&id) {
                    controls.push(id);
                }
            }
        }
        controls
    }

    /// Its control inputs, and those of the constants that it is computed from.
    pub(super) fn known_after(&self) -> Vec<OpId> {
        let mut after = self.controls.clone();
        for id in self.inputs.iter().flat_map(|value| &value.after) {
            if !after.contains(id) {
                after.push(*id);
            }
        }
        after
    }

    /// The first input that is not known before a step.
    pub(super) fn unknown_input(&self) -> usize {
        self.inputs.iter().position(|value| value.known.is_none()).unwrap_or(0)
    }
}

/// The indices of several axes, each of which is named once.
pub(super) fn axes(given: &[i64], rank: usize) -> Result<Vec<usize>, NodeProblem> {
    let axes = given.iter().map(|at| axis(*at, rank)).collect::<Result<Vec<_>, _>>()?;
    if (1..axes.len()).any(|i| axes[..i].contains(&axes[i])) {
        return Err(NodeProblem::unsupported(format!("its axes {given:?} name one twice")));
    }
    Ok(axes)
}

/// The index of `axis` in a value of this rank; a negative `axis` counts from the end.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, NodeProblem> {
    let from_start = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    let found = from_start.and_then(|axis| usize::try_from(axis).ok()).filter(|axis| *axis < rank);
    found.ok_or_else(|| {
        NodeProblem::unsupported(format!("axis {axis} of a value of {rank} dimensions"))
    })
}
