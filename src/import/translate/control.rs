//! Conditions and loops of TensorFlow's second kind, whose branches and bodies are functions of the
//! graph's library.

mod inner;

use super::cells::ChangedIn;
use super::list::is_zero;
use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::graph::{Output, TensorType};
use crate::import::listed::Listed;
use crate::import::value::Value;
use crate::import::wire::{Argument, FunctionDef};
use crate::operations::{Array, Change, Dynamic, If, Logical, While};
use crate::tensor::{DType, PartialShape};
pub(super) use inner::MOST_NODES;
use inner::{Given, Inner, inner};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "If" | "StatelessIf" => Box::new(condition),
        "While" | "StatelessWhile" => Box::new(repetition),
        "PartitionedCall" | "StatefulPartitionedCall" => Box::new(call),
        "OptionalNone" => {
            Box::new(|_, _| Ok(vec![Value { list: Some(Listed::Nothing), ..Value::default() }]))
        }
        "OptionalFromValue" | "OptionalGetValue" => {
            Box::new(|_, node| Ok(vec![node.value(0)?.clone()]))
        }
        _ => return None,
    })
}

/// The most times that a function is imported until the types of its arguments fit its results.
const MOST_ROUNDS: usize = 6;

/// `(condition, inputs…)`
fn condition(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let condition = importer.input(node, 0)?;
    let mut arguments = arguments(importer, node, 1)?;
    let branches = [node.def.function("then_branch")?, node.def.function("else_branch")?];
    if importer.roles.is_of_first_values(&node.def.name)
        && importer.is_whether_initialised(condition.edge())
    {
        // `initialized_value()`: the variable has no other value yet.
        return called(importer, node, branches[1], 1);
    }
    let counter = importer.counter_for(node, &branches)?;
    arguments.extend(counter.iter().cloned().map(Value::from));
    for round in 0.. {
        let branch = |side: usize| {
            let has_counter = counter.is_some();
            let given = Given { arguments: &arguments, has_counter, side: Some(side) };
            inner(importer, node, branches[side], given)
        };
        let (mut then, mut otherwise) = (branch(0)?, branch(1)?);
        let (in_then, in_else) = (changed(&then), changed(&otherwise));
        then.unite(&mut otherwise)?;
        let both = || then.results.iter().zip(&otherwise.results);
        let is_one_open = both().any(|(a, b)| a.is_static() != b.is_static());
        if is_one_open && round < MOST_ROUNDS {
            for (a, b) in both() {
                bind_as(importer, node, &mut arguments, a, b)?;
                bind_as(importer, node, &mut arguments, b, a)?;
            }
            continue;
        }
        let given = then.results.len();
        let in_one = (0..arguments.len()).filter(|i| in_then.contains(i) || in_else.contains(i));
        let all: Vec<usize> = in_one.collect();
        then.return_left(&all);
        otherwise.return_left(&all);
        let op = If { then: then.function()?, otherwise: otherwise.function()? };
        let inputs = [vec![condition.clone()], values(importer, node, &arguments)?].concat();
        let outputs = importer.emit(node, op, &inputs)?;
        let mut results = laid_out(&then.results, outputs);
        let left = results.split_off(given);
        let mut changes = Vec::new();
        for (i, left) in all.into_iter().zip(left) {
            let changed_in = match (in_then.contains(&i), in_else.contains(&i)) {
                (true, true) => ChangedIn::Both,
                (true, false) => ChangedIn::Only(condition.clone()),
                _ => ChangedIn::Only(importer.helper(node, "not", Logical::Not, &[&condition])?),
            };
            changes.push((&arguments[i], importer.value(node, &left)?, changed_in));
        }
        return importer.write_back(node, changes, results);
    }
    unreachable!("a round returns or goes on")
}

/// `(inputs…)`
fn call(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    for hint in ["config", "config_proto", "executor_type"] {
        node.def.text(hint).ok();
    }
    called(importer, node, node.def.function("f")?, 0)
}

/// Calls `function` with the inputs of `node`, but for those before `first`.
fn called(importer: &mut Importer<'_>, node: &Node<'_>, function: &str, first: usize) -> Values {
    let mut arguments = arguments(importer, node, first)?;
    let counter = importer.counter_for(node, &[function])?;
    let has_counter = counter.is_some();
    arguments.extend(counter.map(Value::from));
    let given = Given { arguments: &arguments, has_counter, side: None };
    let mut body = inner(importer, node, function, given)?;
    let (given, changed) = (body.results.len(), changed(&body));
    body.return_left(&changed);
    let inputs = values(importer, node, &arguments)?;
    let function = body.function()?;
    // In a scope, since nodes that are yet to come have names of their own.
    let outputs = importer.graph.with_name_scope(&importer.free_name(node, "called"), |graph| {
        function.add_to(graph, &inputs, |call| call.device.clone())
    })?;
    let mut results = laid_out(&body.results, outputs.into_iter().map(Value::from).collect());
    let left = results.split_off(given);
    let of = |(i, left): (usize, Value)| {
        Ok((&arguments[i], importer.value(node, &left)?, ChangedIn::Both))
    };
    let changes = changed.into_iter().zip(left).map(of).collect::<Result<Vec<_>, NodeProblem>>()?;
    importer.write_back(node, changes, results)
}

/// The arguments that refer to variables which the function changes.
fn changed(of: &Inner) -> Vec<usize> {
    of.left.iter().enumerate().filter(|(_, left)| left.is_some()).map(|(i, _)| i).collect()
}

/// Gives the argument that `open` is, a list without a value, the value of a list like `like`.
fn bind_as(
    importer: &Importer<'_>,
    node: &Node<'_>,
    arguments: &mut [Value],
    open: &Value,
    like: &Value,
) -> Result<(), NodeProblem> {
    let (Some(Listed::Open(list)), Some(output)) = (&open.list, &like.output) else {
        return Ok(());
    };
    for argument in arguments {
        if let Some(Listed::Open(own)) = argument.list.clone()
            && own.name == list.name
        {
            let TensorType { dtype, shape } = output.tensor_type();
            let element = (Some(dtype), shape.dims().get(1..).unwrap_or_default());
            let bound = importer.bind(node, &own, element)?;
            *argument = Value { list: like.list.clone(), ..Value::from(bound) };
        }
    }
    Ok(())
}

/// `(variables…)`, or `(variables…, constants…)`. What the body hands on as it is is a constant,
/// but for a variable of the graph that it changes.
fn repetition(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (condition, body) = (node.def.function("cond")?, node.def.function("body")?);
    let kept = handed_on(importer.function(body)?);
    let comes_back = |i: usize| kept.get(i).is_some_and(|is_kept| !is_kept);
    let mut arguments = arguments(importer, node, 0)?;
    let given = arguments.len();
    if let Some(counter) = importer.counter_for(node, &[condition, body])? {
        arguments.push(importer.counter_of_rounds(node, &counter)?.into());
    }
    let has_counter = arguments.len() > given;
    for (i, argument) in arguments.iter_mut().enumerate().filter(|(i, _)| comes_back(*i)) {
        if is_zero(node.value(i)?) {
            argument.list = Some(Listed::Zero);
        }
        (argument.constant, argument.known) = (None, None);
    }
    let mut round = 0;
    let (body, changed) = loop {
        let given = Given { arguments: &arguments, has_counter, side: None };
        let mut body = inner(importer, node, body, given)?;
        let changed = changed(&body);
        body.complete();
        if has_counter {
            body.count_round()?;
        }
        let mut has_changed = false;
        for i in (0..kept.len()).filter(|i| comes_back(*i)) {
            has_changed |= adapt(importer, node, &mut arguments[i], &body.results[i])?;
        }
        round += 1;
        if !has_changed || round == MOST_ROUNDS {
            break (body, changed);
        }
    };
    let (variables, constants): (Vec<usize>, Vec<usize>) =
        (0..arguments.len()).partition(|i| comes_back(*i) || changed.contains(i) || *i >= given);
    let is_another = |i: &&usize| {
        let (before, after) = (arguments[**i].leaves(), body.results[**i].leaves());
        before.len() != after.len()
    };
    if let Some(another) = variables.iter().find(is_another) {
        let problem = format!("its input {another} does not stay a value of one kind");
        return Err(NodeProblem::unsupported(problem));
    }
    let order = [variables.clone(), constants].concat();
    let given_to = Given { arguments: &arguments, has_counter, side: None };
    let condition = inner(importer, node, condition, given_to)?;
    if condition.left.iter().any(Option::is_some) {
        return Err(NodeProblem::unsupported("its condition changes a variable"));
    }
    let op = While {
        condition: condition.function_of(&order, &[0])?,
        body: body.function_of(&order, &variables)?,
        maximum: None,
    };
    let ordered: Vec<Value> = order.iter().map(|i| arguments[*i].clone()).collect();
    let outputs = importer.emit(node, op, &values(importer, node, &ordered)?)?;
    let after: Vec<Value> = variables.iter().map(|i| body.results[*i].clone()).collect();
    let mut results = arguments.clone();
    for (i, value) in variables.iter().zip(laid_out(&after, outputs)) {
        results[*i] = value;
    }
    results.truncate(given);
    let of = |i: usize| Ok((&arguments[i], importer.value(node, &results[i])?, ChangedIn::Both));
    let changes = changed.into_iter().map(of).collect::<Result<Vec<_>, NodeProblem>>()?;
    importer.write_back(node, changes, results)
}

/// The values for a step that `all` are made of.
fn values(
    importer: &Importer<'_>,
    node: &Node<'_>,
    all: &[Value],
) -> Result<Vec<Output>, NodeProblem> {
    all.iter().flat_map(Value::leaves).map(|leaf| importer.value(node, leaf)).collect()
}

/// `results`, with `outputs` for their leaves.
fn laid_out(results: &[Value], outputs: Vec<Value>) -> Vec<Value> {
    let mut outputs = outputs.into_iter();
    results.iter().map(|result| result.with_leaves(&mut outputs)).collect()
}

/// The inputs of a node from `first` on, as a function is given them. A variable is read once all
/// other inputs are there: TensorFlow reads it within the function.
fn arguments(
    importer: &Importer<'_>,
    node: &Node<'_>,
    first: usize,
) -> Result<Vec<Value>, NodeProblem> {
    let begun = node.with_controls(node.needs.clone());
    let argument = |i: usize| {
        let value = node.value(i)?;
        if value.is_static() {
            return Ok(value.clone());
        }
        let output = Some(importer.current(&begun, value, i)?);
        let constant = value.constant.clone();
        let (list, variable, cell) = (value.list.clone(), value.variable, value.cell);
        Ok(Value { output, constant, list, variable, cell, ..Value::default() })
    };
    (first..node.inputs.len()).map(argument).collect()
}

/// Whether each result of a function is the argument at its place.
fn handed_on(def: &FunctionDef) -> Vec<bool> {
    let signature = def.signature.clone().unwrap_or_default();
    let source = |name: &str| {
        let mut name = name.to_owned();
        for _ in 0..=def.node_def.len() {
            let node = name.split(':').next().unwrap_or_default();
            match def.node_def.iter().find(|own| own.name == node) {
                Some(own) if own.op == "Identity" => name.clone_from(&own.input[0]),
                _ => break,
            }
        }
        name
    };
    let is_kept = |(i, result): (usize, &Argument)| {
        let of = def.ret.get(&result.name).map(|name| source(name));
        of.is_some() && of == signature.input_arg.get(i).map(|argument| argument.name.clone())
    };
    signature.output_arg.iter().enumerate().map(is_kept).collect()
}

/// Makes a variable such as the body leaves it: a list with a value, or a value whose sizes change.
/// Returns whether it was another.
fn adapt(
    importer: &Importer<'_>,
    node: &Node<'_>,
    variable: &mut Value,
    after: &Value,
) -> Result<bool, NodeProblem> {
    if let Some(Listed::Either(parts)) = &after.list {
        let mut has_changed = !matches!(variable.list, Some(Listed::Either(_)));
        let mut own = variable.parts();
        for (own, after) in own.iter_mut().zip(parts.iter()) {
            has_changed |= adapt(importer, node, own, after)?;
        }
        *variable = Value::either(own);
        return Ok(has_changed);
    }
    let Some(next) = &after.output else { return Ok(false) };
    let TensorType { dtype, shape } = next.tensor_type();
    let rest = || shape.dims().get(1..).unwrap_or_default();
    let made = match (&variable.list, &after.list, &variable.output) {
        (Some(Listed::Open(list)), ..) => importer.bind(node, list, (Some(dtype), rest()))?,
        (Some(Listed::Zero), Some(Listed::Bound(_)), _) => importer.empty_like(node, next)?,
        (_, _, Some(before)) => {
            let own = before.tensor_type().shape;
            let is_alike = |(a, b): (&Option<usize>, &Option<usize>)| a.is_none() || a == b;
            if own.rank() != shape.rank() || own.dims().iter().zip(shape.dims()).all(is_alike) {
                return Ok(false);
            }
            let both = own.dims().iter().zip(shape.dims());
            let dims: Vec<_> = both.map(|(a, b)| if a == b { *a } else { None }).collect();
            let sizes = importer.helper(node, "sizes", Array::Shape(DType::I32), &[before])?;
            let change = Dynamic { change: Change::Reshape, shape: PartialShape::new(&dims) };
            importer.helper(node, "opened", change, &[before, &sizes])?
        }
        _ => return Ok(false),
    };
    *variable = Value { list: after.list.clone(), ..Value::from(made) };
    Ok(true)
}
