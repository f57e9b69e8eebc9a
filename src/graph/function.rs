//! A part of a graph as a value: what a branch or the body of a loop computes from its inputs.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use smallvec::SmallVec;

use super::error::{GraphError, GraphProblem};
use super::op::Op;
use super::prune::prune;
use super::shape_inference::infer;
use super::state::NewOperation;
use super::{Edge, Graph, Output, OutputTypes, TensorType};
use crate::cluster::DeviceSpec;

/// The deepest nesting of functions in functions that a message may have.
const DEEPEST: u32 = 16;
/// The most operations whose types are inferred for one of a function and those within it. A loop
/// whose sizes change infers its body several times, and one in its body those times as often: what
/// another process sends must not keep this one busy.
const MOST_INFERRED: u64 = 64;

/// Operations without state that compute outputs from inputs (TensorFlow: `FunctionDef`).
///
/// Its values are numbered: the inputs, then the outputs of each operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Function {
    inputs: Vec<TensorType>,
    calls: Vec<Call>,
    outputs: Vec<u32>,
}

/// An operation of a function; inputs are numbers of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) op: Op,
    pub(crate) inputs: SmallVec<[u32; 3]>,
    /// The device it must run on, as far as the function's builder requested one.
    pub(crate) device: DeviceSpec,
}

/// The types of a function's values, as far as they have been inferred.
type Types = Vec<TensorType>;

impl Function {
    /// The function that a program builds from placeholders for inputs of these types.
    ///
    /// # Errors
    /// Those of `build`, and if what it builds has state or needs values from elsewhere.
    #[track_caller]
    pub(crate) fn build(
        inputs: &[TensorType],
        build: impl FnOnce(&[Output]) -> Result<Vec<Output>, GraphError>,
    ) -> Result<Self, GraphError> {
        Self::seeded(0, inputs, build)
    }

    /// As [`build`](Self::build), where `seed` seeds the random operations (TensorFlow: `FuncGraph`
    /// takes the seed of the graph around it).
    ///
    /// # Errors
    /// As [`build`](Self::build).
    #[track_caller]
    pub(crate) fn seeded(
        seed: u64,
        inputs: &[TensorType],
        build: impl FnOnce(&[Output]) -> Result<Vec<Output>, GraphError>,
    ) -> Result<Self, GraphError> {
        let graph = Graph::new();
        graph.set_random_seed(seed);
        let mut placeholders = Vec::with_capacity(inputs.len());
        for TensorType { dtype, shape } in inputs {
            let placeholder = Op::Placeholder { dtype: *dtype, shape: *shape };
            placeholders.push(graph.output(graph.add(NewOperation::of(placeholder))?));
        }
        let outputs = build(&placeholders)?;
        Self::of(&graph, &placeholders, &outputs)
    }

    /// The part of `graph` that computes `outputs` from `inputs`, which are placeholders.
    ///
    /// # Errors
    /// If an operation has state, waits for another without its value, or is a placeholder that is
    /// no input, or an output is of another graph.
    #[track_caller]
    pub(crate) fn of(
        graph: &Graph,
        inputs: &[Output],
        outputs: &[Output],
    ) -> Result<Self, GraphError> {
        for output in outputs {
            graph.check_own("function", output)?;
        }
        let def = graph.snapshot()?;
        let mut numbers: BTreeMap<Edge, u32> =
            (0..).zip(inputs).map(|(number, input)| (input.edge(), number)).collect();
        let mut next = inputs.len() as u32;
        let mut calls = Vec::new();
        let ends: Vec<Edge> = outputs.iter().map(Output::edge).collect();
        for id in prune(&def, &BTreeSet::new(), &ends, &[]) {
            let operation = def.operation(id);
            let is_input = numbers.contains_key(&Edge { op: id, output: 0 });
            if is_input || operation.op.is_declaration() {
                continue; // what touches a declaration is refused
            }
            let refused = |problem| GraphError {
                operation: operation.to_string(),
                built_at: operation.built_at,
                problem,
            };
            if !may_be_called(&operation.op) {
                return Err(refused(GraphProblem::NotInFunction));
            }
            let number = |edge: &Edge| numbers[edge];
            calls.push(Call {
                op: operation.op.clone(),
                inputs: operation.inputs.iter().map(number).collect(),
                device: operation.device.clone(),
            });
            for output in 0..operation.outputs.len() as u32 {
                numbers.insert(Edge { op: id, output }, next);
                next += 1;
            }
        }
        let types = inputs.iter().map(Output::tensor_type).collect();
        let outputs = outputs.iter().map(|output| numbers[&output.edge()]).collect();
        Ok(Self { inputs: types, calls, outputs })
    }

    /// Adds the function's operations to `graph`, on `inputs`, each on the device that `device_of`
    /// requests for it.
    pub(crate) fn add_to(
        &self,
        graph: &Graph,
        inputs: &[Output],
        device_of: impl Fn(&Call) -> DeviceSpec,
    ) -> Result<Vec<Output>, GraphError> {
        let mut values: Vec<Edge> = inputs.iter().map(Output::edge).collect();
        for call in &self.calls {
            let inputs: Vec<Edge> = call.inputs.iter().map(|i| values[*i as usize]).collect();
            let new = NewOperation { inputs: &inputs, ..NewOperation::of(call.op.clone()) };
            let op = graph.with_device_spec(device_of(call), |graph| graph.add(new))?;
            let outputs = graph.with_operation(op, |operation| operation.outputs.len());
            values.extend((0..outputs as u32).map(|output| Edge { op, output }));
        }
        let output = |i: &u32| Output::new(graph.clone(), values[*i as usize]);
        Ok(self.outputs.iter().map(output).collect())
    }

    /// The types of its inputs when it was built.
    pub(crate) fn inputs(&self) -> &[TensorType] {
        &self.inputs
    }

    /// The operations, in the order in which they run.
    pub(crate) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The numbers of the values that are its outputs.
    pub(crate) fn outputs(&self) -> &[u32] {
        &self.outputs
    }

    /// The number of its operations, and of those of the functions within.
    fn size(&self) -> u64 {
        let within = |call: &Call| match &call.op {
            Op::Defined(op) => op.definition().functions().into_iter().map(Self::size).sum(),
            _ => 0,
        };
        self.calls.len() as u64 + self.calls.iter().map(within).sum::<u64>()
    }

    /// The types of all values, for inputs of these types. It also checks a function that another
    /// process has made.
    ///
    /// # Errors
    /// If an input does not fit, an operation has state or refers to a value that is not there.
    pub(crate) fn types(&self, inputs: &[TensorType]) -> Result<Types, GraphProblem> {
        let refuse = |needs: &str| Err(GraphProblem::needs(needs, inputs));
        let fits = |(own, given): (&TensorType, &TensorType)| {
            own.dtype == given.dtype && own.shape.merge(&given.shape).is_some()
        };
        if inputs.len() != self.inputs.len() || !self.inputs.iter().zip(inputs).all(fits) {
            return refuse(&format!("inputs of the types {}", Listed(&self.inputs)));
        }
        let work = Work::begin(self);
        let mut types: Types = inputs.to_vec();
        for call in &self.calls {
            if !work.goes_on() {
                return refuse("functions in functions whose types follow sooner");
            }
            let of = |i: &u32| types.get(*i as usize).copied();
            let given: Option<SmallVec<[TensorType; 3]>> = call.inputs.iter().map(of).collect();
            match given {
                Some(given) if may_be_called(&call.op) => {
                    types.extend(infer(&call.op, &given, &[])?);
                }
                _ => return refuse("a function whose operations have no state and known inputs"),
            }
        }
        if self.outputs.iter().any(|output| *output as usize >= types.len()) {
            return refuse("a function whose outputs are values of its own");
        }
        Ok(types)
    }

    /// The types of its outputs, for inputs of these types.
    ///
    /// # Errors
    /// As [`types`](Self::types).
    pub(crate) fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let types = self.types(inputs)?;
        Ok(self.outputs.iter().map(|output| types[*output as usize]).collect())
    }
}

/// Whether an operation may be in a function: it has a kernel or is a constant.
fn may_be_called(op: &Op) -> bool {
    matches!(op, Op::Const(_) | Op::Fill { .. } | Op::NoOp | Op::Identity | Op::Defined(_))
}

struct Listed<'a>(&'a [TensorType]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&types.join(", "))
    }
}

thread_local! {
    /// How many functions are being read, one in the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The operations whose types may still be inferred for the outermost function, if one's are.
    static WORK: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Counts the operations whose types are inferred, from the outermost function on.
struct Work {
    is_outermost: bool,
}

impl Work {
    fn begin(of: &Function) -> Self {
        let is_outermost = WORK.get().is_none();
        if is_outermost {
            WORK.set(Some(MOST_INFERRED.saturating_mul(of.size())));
        }
        Self { is_outermost }
    }

    /// Whether another operation's types may be inferred.
    fn goes_on(&self) -> bool {
        let left = WORK.get().unwrap_or(0);
        WORK.set(Some(left.saturating_sub(1)));
        left > 0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.is_outermost {
            WORK.set(None);
        }
    }
}

/// Counts a function that is being read.
struct Deeper;

impl Deeper {
    fn enter() -> Option<Self> {
        let depth = DEPTH.get();
        (depth < DEEPEST).then(|| {
            DEPTH.set(depth + 1);
            Self
        })
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

impl<'de> Deserialize<'de> for Function {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The fields of a function in a message.
        #[derive(Deserialize)]
        struct Fields {
            inputs: Vec<TensorType>,
            calls: Vec<Call>,
            outputs: Vec<u32>,
        }
        let too_deep = || serde::de::Error::custom("functions in functions are nested too deeply");
        let _deeper = Deeper::enter().ok_or_else(too_deep)?;
        let Fields { inputs, calls, outputs } = Fields::deserialize(deserializer)?;
        Ok(Self { inputs, calls, outputs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Attributes, ComputeError, Defined, OpDef, Outputs};
    use crate::tensor::{DType, Tensor};

    /// An operation that infers the types of its function twice.
    #[derive(Debug)]
    struct Twice(Function);

    impl OpDef for Twice {
        fn kind(&self) -> &'static str {
            "Twice"
        }

        fn attributes(&self, _: &mut Attributes) -> Defined {
            Self(self.0.clone()).into()
        }

        fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
            self.0.infer(inputs)?;
            self.0.infer(inputs)
        }

        fn compute(&self, _: &[&Tensor]) -> Result<Outputs, ComputeError> {
            Err(ComputeError::new("only its types matter"))
        }

        fn functions(&self) -> Vec<&Function> {
            vec![&self.0]
        }
    }

    #[test]
    fn functions_in_functions_are_refused_whose_types_would_take_too_long_to_infer() {
        let scalar = [TensorType::new(DType::F32, crate::tensor::Shape::SCALAR)];
        let mut function = Function::build(&scalar, |x| Ok(vec![x[0].square()])).unwrap();
        let refusal = (1..=DEEPEST).find_map(|depth| {
            let within = function.clone();
            match Function::build(&scalar, |x| Ok(vec![x[0].with(&[], Twice(within))?])) {
                Ok(next) => function = next,
                Err(error) => return Some((depth, error.to_string())),
            }
            None
        });
        let (depth, why) = refusal.expect("each level doubles the work");
        assert!((5..12).contains(&depth), "refused at the depth {depth}");
        assert!(why.contains("whose types follow sooner"), "{why}");
        assert_eq!(WORK.get(), None, "the next one begins anew");
    }
}
