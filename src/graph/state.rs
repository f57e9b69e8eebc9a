//! The state of a graph under construction: its operations, their unique names, and the scopes they
//! are built in.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::device_scope::{self, DeviceScope};
use super::error::{GraphError, GraphProblem};
use super::op::Op;
use super::partitioner::Partitioner;
use super::shape_inference::infer;
use super::tower_variables::TowerVariables;
use super::variable_part::VariablePart;
use super::{Edge, GraphDef, OpId, Operation, TensorType};

/// The wanted name of an operation, below the name scope in force.
#[derive(Clone, Copy)]
pub(crate) enum Name<'a> {
    /// This name; an error if it is taken.
    Exactly(&'a str),
    /// This name, numbered if it is taken.
    Numbered(&'a str),
}

/// An operation to be added.
pub(crate) struct NewOperation<'a> {
    pub(crate) name: Name<'a>,
    pub(crate) op: Op,
    pub(crate) inputs: &'a [Edge],
    pub(crate) control_inputs: &'a [OpId],
    pub(crate) variables: &'a [OpId],
    /// The operation on whose device it must run, whatever the device scopes say.
    pub(crate) colocated_with: Option<OpId>,
    /// Whether it is named from the root and runs without control dependencies, whatever those
    /// scopes say.
    pub(crate) is_detached: bool,
    pub(crate) built_at: &'static Location<'static>,
}

/// A graph under construction, and the scopes it is being built in.
#[derive(Default)]
pub(super) struct State {
    /// Shared with the snapshots since it was last changed.
    pub(super) def: Arc<GraphDef>,
    pub(super) by_name: BTreeMap<Arc<str>, OpId>,
    /// By name of an operation: the first number that may be free for another one of that name.
    next_numbers: BTreeMap<String, u64>,
    /// By name of a scope: likewise.
    next_scopes: BTreeMap<String, u64>,
    pub(super) device_scopes: Vec<DeviceScope>,
    pub(super) name_scopes: Vec<String>,
    pub(super) controls: Vec<OpId>,
    /// The namespace of new variables; the default one has the empty name, as in TensorFlow.
    pub(super) container: Arc<str>,
    /// The shared read of each variable that has been read.
    pub(super) reads: BTreeMap<OpId, OpId>,
    pub(super) initializers: Vec<OpId>,
    /// The shards of partitioned variables, and the slots beside them.
    pub(super) parts: BTreeMap<OpId, VariablePart>,
    /// Ends of training steps that do not count the step themselves: for each, the global step
    /// after it, its staleness, and whether it counts.
    pub(super) ends: BTreeMap<OpId, [Edge; 3]>,
    /// The values that optimizers minimize.
    pub(super) losses: Vec<Edge>,
    /// The values whose derivatives by variables were built.
    pub(super) differentiated: Vec<Edge>,
    /// The variables that have workers' positions in their inputs.
    pub(super) positions: Vec<OpId>,
    /// Those of them that training steps set as they are counted, each with its value.
    pub(super) counted_with: Vec<(OpId, Edge)>,
    /// By training step: in every how many of a worker's steps an exchange follows it, and the
    /// operation of the exchange.
    pub(super) every_nth: BTreeMap<OpId, (u32, OpId)>,
    /// The operation that sets a worker's own variables to those that all workers share, if workers
    /// train copies of their own.
    pub(super) settle: Option<OpId>,
    /// The first training step in rounds of votes: its end, and the variables that it trains.
    pub(super) trained_in_rounds: Option<(OpId, BTreeSet<OpId>)>,
    /// Whether updates go on while the chief takes no step.
    pub(super) updates_without_chief: bool,
    /// Whether new variables are local to each worker.
    pub(super) is_local: bool,
    /// The rule by which the weights of new layers are cut into shards.
    pub(super) partitioner: Option<Partitioner>,
    /// The variables of towers, while these are built.
    pub(super) towers: Option<TowerVariables>,
    /// The mirrors of variables, by the variable that each is one of and the tower that has it.
    pub(super) mirrors: BTreeMap<(OpId, usize), OpId>,
    /// While a gradient is built: the operation on whose device new ones run, and the user's line
    /// that asked for the gradient.
    pub(super) beside: Option<(OpId, &'static Location<'static>)>,
    pub(super) random_seed: u64,
    /// By name: how many operations that run functions have been begun, such as loops.
    callers: BTreeMap<String, u64>,
    /// The first mistake made by a method that returns no `Result`.
    pub(super) deferred: Option<GraphError>,
}

impl NewOperation<'_> {
    /// An operation without inputs, named after its kind.
    #[track_caller]
    pub(crate) fn of(op: impl Into<Op>) -> Self {
        let op = op.into();
        Self {
            name: Name::Numbered(op.kind()),
            op,
            inputs: &[],
            control_inputs: &[],
            variables: &[],
            colocated_with: None,
            is_detached: false,
            built_at: Location::caller(),
        }
    }
}

impl State {
    /// Adds an operation: names it, infers its types, resolves its device.
    pub(super) fn add(&mut self, mut new: NewOperation<'_>) -> Result<OpId, GraphError> {
        if let Some((op, built_at)) = self.beside {
            new.colocated_with.get_or_insert(op);
            new.built_at = built_at;
        }
        let kind = new.op.kind();
        let name = self.name_for(&new)?;
        let fail = |problem| GraphError {
            operation: format!("{name} ({kind})"),
            built_at: new.built_at,
            problem,
        };
        let inputs: SmallVec<[TensorType; 3]> =
            new.inputs.iter().map(|edge| self.def.edge_type(*edge)).collect();
        let outputs = infer(&new.op, &inputs, &self.variable_types(new.variables))
            .map_err(|problem| fail(self.name_variable(problem, new.variables)))?;
        let device = match new.colocated_with {
            Some(other) => self.def.operation(other).device.clone(),
            None => device_scope::resolve(&self.device_scopes, &name, &new.op, &outputs),
        };
        let id = OpId(self.def.operations.len() as u32);
        let mut control_inputs: SmallVec<[OpId; 2]> = new.control_inputs.into();
        if !new.is_detached && !new.op.is_declaration() {
            control_inputs.extend(self.controls.iter().copied());
        }
        self.by_name.insert(Arc::clone(&name), id);
        Arc::make_mut(&mut self.def).operations.push(Operation {
            name,
            op: new.op,
            inputs: new.inputs.into(),
            control_inputs,
            variables: new.variables.into(),
            outputs,
            device,
            colocated_with: new.colocated_with,
            built_at: new.built_at,
        });
        Ok(id)
    }

    fn variable_types(&self, variables: &[OpId]) -> SmallVec<[TensorType; 2]> {
        let spec =
            |id: &OpId| self.def.variable(*id).expect("only variables are touched as variables");
        variables.iter().map(|id| spec(id).tensor_type()).collect()
    }

    /// Puts the variable's name into a problem of shape inference, which knows only types.
    fn name_variable(&self, problem: GraphProblem, variables: &[OpId]) -> GraphProblem {
        match (problem, variables.first()) {
            (GraphProblem::Variable { holds, given, .. }, Some(variable)) => {
                let variable = self.def.operation(*variable).name.to_string();
                GraphProblem::Variable { variable, holds, given }
            }
            (problem, _) => problem,
        }
    }

    fn name_for(&mut self, new: &NewOperation<'_>) -> Result<Arc<str>, GraphError> {
        let (Name::Exactly(name) | Name::Numbered(name)) = new.name;
        let full = if new.is_detached { name.to_owned() } else { self.scoped(name) };
        let fail = |problem| {
            let operation = format!("{full} ({})", new.op.kind());
            Err(GraphError { operation, built_at: new.built_at, problem })
        };
        if !is_legal(&full) {
            return fail(GraphProblem::IllegalName);
        }
        match (new.name, self.by_name.get(full.as_str())) {
            (_, None) => Ok(full.into()),
            (Name::Exactly(_), Some(other)) => {
                fail(GraphProblem::NameTaken(self.def.operation(*other).built_at))
            }
            (Name::Numbered(_), Some(_)) => Ok(self.unique(&full).into()),
        }
    }

    /// The variable called `name` that holds values of type `holds`.
    pub(super) fn variable_of_type(&self, name: &str, holds: TensorType) -> Option<OpId> {
        let op = *self.by_name.get(name)?;
        (self.def.variable(op)?.tensor_type() == holds).then_some(op)
    }

    /// `name` in the innermost name scope.
    pub(super) fn scoped(&self, name: &str) -> String {
        match self.name_scopes.last() {
            Some(scope) => format!("{scope}/{name}"),
            None => name.to_owned(),
        }
    }

    /// `name`, or `name_1`, `name_2` and so on if it is taken.
    fn unique(&mut self, name: &str) -> String {
        let taken = |candidate: &str| self.by_name.contains_key(candidate);
        first_free(name, &mut self.next_numbers, taken)
    }

    /// A seed for each function of an operation of `kind` that is about to be built: by the
    /// function's name, those of another such operation are others.
    pub(super) fn seeds_within(&mut self, kind: &str) -> impl Fn(&str) -> u64 + use<> {
        let (name, seed) = (self.scoped(kind), self.random_seed);
        let number = self.callers.entry(name.clone()).or_insert(0);
        *number += 1;
        let caller = format!("{name}:{number}");
        move |function| xxh3_64_with_seed(format!("{caller}/{function}").as_bytes(), seed)
    }

    /// The scope `name` in the innermost scope, numbered if operations already have that prefix.
    pub(super) fn unique_scope(&mut self, name: &str) -> String {
        let scoped = self.scoped(name);
        let taken = |scope: &str| {
            let prefix = format!("{scope}/");
            self.by_name
                .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
                .next()
                .is_some_and(|(name, _)| name.starts_with(&prefix))
        };
        first_free(&scoped, &mut self.next_scopes, taken)
    }
}

/// The first of `name`, `name_1`, `name_2` and so on that is not taken. What is taken once stays
/// so, and the search begins where that by the same name has ended, which `next` keeps.
fn first_free(
    name: &str,
    next: &mut BTreeMap<String, u64>,
    taken: impl Fn(&str) -> bool,
) -> String {
    if !taken(name) {
        return name.to_owned();
    }
    let number = next.entry(name.to_owned()).or_insert(1);
    loop {
        let candidate = format!("{name}_{number}");
        if !taken(&candidate) {
            return candidate;
        }
        *number += 1;
    }
}

/// Whether an operation or a scope may have the full name `name`: TensorFlow's grammar.
pub(super) fn is_legal(name: &str) -> bool {
    let follows = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.') && name.chars().all(follows)
}
