//! Variables within functions: the branches of an `If`, the body of a `While`.
//!
//! A function has no state here. Each variable that it is given is a cell, whose value an
//! assignment replaces; what is left in the cell at the function's end is a further result, which
//! the node that runs the function assigns to the variable.

use super::{Importer, Node, NodeProblem, Values};
use crate::graph::{Name, NewOperation, Op, OpId, Output};
use crate::import::value::Value;
use crate::operations::{Binary, Choose, Logical};

/// A variable within a function.
pub(super) struct Cell {
    /// What it is in the graph around: a variable, or a cell of the function around.
    of: CellSource,
    /// Its value for the node that is added next.
    value: Output,
    is_changed: bool,
}

/// What a cell stands for in the graph around.
#[derive(Clone, Copy, PartialEq)]
enum CellSource {
    Variable(OpId),
    Cell(usize),
}

fn cell_source(value: &Value) -> Option<CellSource> {
    let variable = value.variable.map(|(variable, _)| CellSource::Variable(variable));
    value.cell.map(CellSource::Cell).or(variable)
}

/// How a variable changes.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Assign,
    Add,
    Sub,
}

/// The branches of a condition in which a variable changes.
pub(super) enum ChangedIn {
    Both,
    Only(Output),
}

impl Importer<'_> {
    /// The cell that an argument of the function is, of the value `given` in the graph around; two
    /// arguments that refer to one variable are one cell. `None` if it refers to none.
    pub(super) fn cell(&mut self, given: &Value, value: &Value) -> Option<usize> {
        let (of, value) = (cell_source(given)?, value.output.clone()?);
        let known = self.cells.iter().position(|cell| cell.of == of);
        Some(known.unwrap_or_else(|| {
            self.cells.push(Cell { of, value, is_changed: false });
            self.cells.len() - 1
        }))
    }

    /// The value in a cell.
    pub(super) fn value_of(&self, cell: usize) -> Option<Output> {
        self.cells.get(cell).map(|cell| cell.value.clone())
    }

    /// The last value of the cell that `argument` is, if a node has changed it.
    pub(super) fn left(&self, argument: &Value) -> Option<Output> {
        let cell = self.cells.get(argument.cell?)?;
        cell.is_changed.then(|| cell.value.clone())
    }

    /// The value in a step of an input of `node`: of a variable, as it is when the node runs.
    pub(super) fn current(
        &self,
        node: &Node<'_>,
        value: &Value,
        input: usize,
    ) -> Result<Output, NodeProblem> {
        if let Some(cell) = value.cell.and_then(|cell| self.cells.get(cell)) {
            return Ok(cell.value.clone());
        }
        match (&value.output, &value.known, value.variable) {
            (None, None, Some((variable, after))) if !node.controls.is_empty() => {
                let controls: Vec<OpId> = node.controls.iter().copied().chain(after).collect();
                let read = self.graph.add(NewOperation {
                    name: Name::Numbered(&self.free_name(node, "read")),
                    variables: &[variable],
                    control_inputs: &controls,
                    colocated_with: Some(variable),
                    built_at: self.built_at,
                    ..NewOperation::of(Op::ReadVariable)
                })?;
                Ok(self.graph.output(read))
            }
            _ => value.output(self.graph, &node.def.name, input),
        }
    }

    /// Replaces the value of the cell that input 0 is by input 1, or changes it by that.
    pub(super) fn change_cell(&mut self, node: &Node<'_>, cell: usize, change: Change) -> Values {
        let (before, by) = (self.cells[cell].value.clone(), self.input(node, 1)?);
        let after = match change {
            Change::Assign => by,
            Change::Add => self.helper(node, "sum", Binary::Add, &[&before, &by])?,
            Change::Sub => self.helper(node, "difference", Binary::Sub, &[&before, &by])?,
        };
        let after = self.fill(node, cell, after, None)?;
        Ok(vec![Value { cell: Some(cell), ..after.into() }])
    }

    /// Puts `value` into a cell, where `node` is run and `guard` holds.
    fn fill(
        &mut self,
        node: &Node<'_>,
        cell: usize,
        value: Output,
        guard: Option<&Output>,
    ) -> Result<Output, NodeProblem> {
        let before = &self.cells[cell].value;
        let (before, after) = (before.tensor_type(), value.tensor_type());
        if before.dtype != after.dtype || before.shape.merge(&after.shape).is_none() {
            let problem = format!("a variable of {before} within a function is assigned {after}");
            return Err(NodeProblem::unsupported(problem));
        }
        let value = match self.guarded_by(node, guard)? {
            Some(guard) => {
                let before = self.cells[cell].value.clone();
                self.helper(node, "left", Choose, &[&guard, &before, &value])?
            }
            None => value,
        };
        let of = self.cells[cell].of;
        self.cells[cell] = Cell { of, value: value.clone(), is_changed: true };
        Ok(value)
    }

    /// Whether `node` is run and `guard` holds.
    fn guarded_by(
        &self,
        node: &Node<'_>,
        guard: Option<&Output>,
    ) -> Result<Option<Output>, NodeProblem> {
        Ok(match (self.guard(node)?, guard) {
            (Some(own), Some(guard)) => {
                Some(self.helper(node, "and", Logical::And, &[&own, guard])?)
            }
            (own, guard) => own.or_else(|| guard.cloned()),
        })
    }

    /// Assigns the variables that a function of `node` has changed, each a given argument with the
    /// value that is left, and makes what `node` gives wait for that.
    pub(super) fn write_back(
        &mut self,
        node: &Node<'_>,
        changes: Vec<(&Value, Output, ChangedIn)>,
        values: Vec<Value>,
    ) -> Values {
        let (mut done, mut assigns) = (Vec::new(), Vec::new());
        for (argument, value, changed_in) in changes {
            let guard = match &changed_in {
                ChangedIn::Both => None,
                ChangedIn::Only(guard) => Some(guard),
            };
            let Some(of) = cell_source(argument).filter(|of| !done.contains(of)) else { continue };
            done.push(of);
            match of {
                CellSource::Cell(cell) => drop(self.fill(node, cell, value, guard)?),
                CellSource::Variable(variable) => {
                    let guard = self.guarded_by(node, guard)?;
                    let inputs: Vec<_> =
                        std::iter::once(&value).chain(&guard).map(Output::edge).collect();
                    assigns.push(self.graph.add(NewOperation {
                        name: Name::Numbered(&self.free_name(node, "changed")),
                        inputs: &inputs,
                        variables: &[variable],
                        colocated_with: Some(variable),
                        built_at: self.built_at,
                        ..NewOperation::of(Op::Assign)
                    })?);
                }
            }
        }
        if assigns.is_empty() {
            return Ok(values);
        }
        let group = self.graph.add(NewOperation {
            name: Name::Numbered(&self.free_name(node, "done")),
            control_inputs: &assigns,
            ..NewOperation::of(Op::NoOp)
        })?;
        self.operations.insert(node.def.name.clone(), group);
        let after = node.with_controls(assigns);
        let wait = |value: Value| match &value.output {
            Some(output) => {
                let output = self.helper(&after, "result", Op::Identity, &[output])?;
                Ok(Value { output: Some(output), ..value })
            }
            None => Ok(value),
        };
        values.into_iter().map(wait).collect()
    }
}
