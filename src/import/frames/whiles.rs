//! One frame as a `While` with two functions.

use std::collections::{BTreeMap, BTreeSet};

use super::super::wire::{Argument, AttrValue, FunctionName, Signature, Value as Attribute};
use super::{
    FrameId, Frames, FunctionDef, GraphDef, ImportError, Library, NodeDef, NodeProblem, fail, kind,
    parse_input,
};

/// A variable of a loop.
struct Variable {
    /// The node that stands for it in the loop: its `Merge` or, of a stack, its `Enter`.
    inner: usize,
    enter: usize,
    /// Its value after an iteration.
    next: String,
    /// Whether it is a stack that the loop fills.
    is_filled: bool,
}

/// The nodes that one of a loop's functions needs.
#[derive(Default)]
struct FunctionNodes {
    nodes: BTreeSet<usize>,
    /// The arguments and values from outside that they use.
    uses: BTreeSet<String>,
}

impl Frames {
    /// Makes a `While` of the needed nodes of a frame. The frames within it are made already.
    pub(super) fn make_loop(&mut self, frame: FrameId) -> Result<(), ImportError> {
        let is_member = |node: &usize| self.needed[*node] && self.within[*node] == Some(frame);
        let members: Vec<usize> = (0..self.nodes.len()).filter(is_member).collect();
        let Some(first) = members.first() else { return Ok(()) };
        let condition = members.iter().find(|node| kind(&self.nodes[**node]) == "LoopCond");
        let Some(condition) = condition.copied() else {
            return Err(self.refuse(*first, "the frame that it is in is no loop: no LoopCond"));
        };
        let mut variables = self.variables(&members)?;
        variables.extend(self.stacks_of(&members)?);
        let condition_of = self.nodes[condition].input.first().cloned().unwrap_or_default();
        let results: Vec<String> = variables.iter().map(|v| v.next.clone()).collect();
        let inner: BTreeSet<usize> = variables.iter().map(|variable| variable.inner).collect();
        let before = self.part(frame, &inner, std::slice::from_ref(&condition_of));
        let body = self.part(frame, &inner, &results);
        let names: Vec<String> =
            variables.iter().map(|variable| self.nodes[variable.inner].name.clone()).collect();
        let own: BTreeSet<&String> = names.iter().collect();
        let outside: BTreeSet<&String> = before.uses.union(&body.uses).collect();
        let constants: Vec<String> =
            outside.into_iter().filter(|name| !own.contains(name)).cloned().collect();
        let arguments: Vec<String> = names.iter().chain(&constants).cloned().collect();
        let named: BTreeMap<&str, String> = arguments
            .iter()
            .enumerate()
            .map(|(i, of)| (of.as_str(), self.argument(of, i)))
            .collect();
        let name = self.free_name(&self.frames[frame].name.clone());
        let functions = [
            self.function(&format!("{name}/cond"), &before, &arguments, &named, &[condition_of]),
            self.function(&format!("{name}/body"), &body, &arguments, &named, &results),
        ];
        self.functions.extend(functions);
        self.add_loop(frame, name, condition, &variables, &constants);
        self.leave(frame, &members, &variables)
    }

    fn refuse(&self, node: usize, problem: &str) -> ImportError {
        fail(&self.nodes[node], NodeProblem::unsupported(problem))
    }

    /// The variables that come back after each iteration.
    fn variables(&self, members: &[usize]) -> Result<Vec<Variable>, ImportError> {
        let mut variables = Vec::new();
        for merge in members.iter().copied().filter(|node| kind(&self.nodes[*node]) == "Merge") {
            let inputs = &self.nodes[merge].input;
            let of_kind = |wanted: &str| {
                let found = inputs.iter().find(|input| self.source_kind(input) == wanted);
                found.and_then(|input| self.source(input))
            };
            let Some(back) = of_kind("NextIteration") else { continue };
            let enter = of_kind("Enter").ok_or_else(|| {
                self.refuse(merge, "it must have an Enter and a NextIteration as its inputs")
            })?;
            let next = self.nodes[back].input.first().cloned().unwrap_or_default();
            let next = self.inner(&next);
            variables.push(Variable { inner: merge, enter, next, is_filled: false });
        }
        Ok(variables)
    }

    /// The stacks that the nodes of a loop, or of a loop within, fill or empty.
    fn stacks_of(&self, members: &[usize]) -> Result<Vec<Variable>, ImportError> {
        let mut stacks: Vec<Variable> = Vec::new();
        for node in members.iter().copied() {
            let def = &self.nodes[node];
            let (enter, next) = match kind(def) {
                "StackPushV2" | "StackPopV2" => {
                    let enter = self.entered_stack(def).ok_or_else(|| {
                        self.refuse(node, "its stack must be made outside of its loop")
                    })?;
                    (enter, format!("{}:1", def.name))
                }
                _ => match self.stacks.next.get(&node) {
                    Some(next) => (node, next.clone()),
                    None => continue,
                },
            };
            if stacks.iter().any(|stack| stack.enter == enter) {
                return Err(self.refuse(node, "a second node of its loop changes its stack"));
            }
            let is_filled = kind(def) != "StackPopV2";
            stacks.push(Variable { inner: enter, enter, next, is_filled });
        }
        Ok(stacks)
    }

    /// `input` as the functions of its loop name it: the value before a `Switch` of the loop.
    fn inner(&self, input: &str) -> String {
        let mut input = input;
        for _ in 0..self.nodes.len() {
            match self.source(input).filter(|node| self.ends_loop(*node)) {
                Some(switch) => input = &self.nodes[switch].input[0],
                None => break,
            }
        }
        input.to_owned() // after as many steps, the nodes are a circle, which is refused later
    }

    /// The inputs of a node as the functions of its loop name them. A stack that is emptied in a
    /// branch of a condition still comes through the `Switch` of that: what was on it is in the
    /// branch, too.
    fn inner_inputs(&self, node: usize) -> Vec<String> {
        let def = &self.nodes[node];
        let mut inputs: Vec<String> = def.input.iter().map(|input| self.inner(input)).collect();
        let is_direct = match kind(def) {
            "StackPushV2" => true,
            "StackPopV2" => !inputs.first().is_some_and(|stack| self.is_of_branch(stack)),
            _ => false,
        };
        if is_direct && let Some(enter) = self.entered_stack(def) {
            inputs[0].clone_from(&self.nodes[enter].name);
        }
        inputs
    }

    /// Whether `input` is in a branch of a condition.
    fn is_of_branch(&self, input: &str) -> bool {
        let mut at = self.source(input);
        for _ in 0..self.nodes.len() {
            let Some(node) = at else { break };
            match kind(&self.nodes[node]) {
                "Switch" => return !self.ends_loop(node),
                "Identity" => at = self.nodes[node].input.first().and_then(|of| self.source(of)),
                _ => break,
            }
        }
        false
    }

    /// The nodes of `frame` that `results` need, up to the nodes of `variables`.
    fn part(
        &self,
        frame: FrameId,
        variables: &BTreeSet<usize>,
        results: &[String],
    ) -> FunctionNodes {
        let mut part = FunctionNodes::default();
        let mut left: Vec<String> = results.iter().map(|result| self.inner(result)).collect();
        while let Some(input) = left.pop() {
            let Some(node) = self.source(&input) else { continue };
            let is_inside = self.within[node] == Some(frame) && kind(&self.nodes[node]) != "Enter";
            let (name, output) = parse_input(&input);
            if variables.contains(&node) {
                part.uses.insert(name.to_owned());
            } else if !is_inside {
                if let Some(output) = output {
                    let is_first = output == 0;
                    let of = if is_first { name.to_owned() } else { format!("{name}:{output}") };
                    part.uses.insert(of);
                }
            } else if part.nodes.insert(node) {
                left.extend(self.inner_inputs(node));
            }
        }
        part
    }

    /// The name of argument `i`, which stands for the value `of`.
    fn argument(&self, of: &str, i: usize) -> String {
        match parse_input(of) {
            (name, Some(0)) => name.to_owned(),
            (name, _) => self.free_name(&format!("{name}/argument_{i}")),
        }
    }

    fn free_name(&self, name: &str) -> String {
        let mut name = name.to_owned();
        while self.by_name.contains_key(&name) {
            name.push('_');
        }
        name
    }

    /// A function of the nodes of `part`; `named` has the arguments' names by the values that they
    /// stand for.
    fn function(
        &self,
        name: &str,
        part: &FunctionNodes,
        arguments: &[String],
        named: &BTreeMap<&str, String>,
        results: &[String],
    ) -> FunctionDef {
        let rename = |input: String| {
            let first = input.strip_suffix(":0").unwrap_or(&input);
            named.get(first).cloned().unwrap_or(input)
        };
        let is_known = |input: &String| {
            let own = |node| part.nodes.contains(&node);
            parse_input(input).1.is_some() || self.source(input).is_some_and(own)
        };
        let node_def = part.nodes.iter().map(|node| {
            let inputs = self.inner_inputs(*node).into_iter().filter(is_known);
            let input = inputs.map(rename).collect();
            NodeDef { input, ..self.nodes[*node].clone() }
        });
        let argument = |name: String| Argument { name, dtype: 0 };
        let result = |i: usize| format!("result_{i}");
        let signature = Signature {
            name: name.to_owned(),
            input_arg: arguments.iter().map(|of| argument(named[of.as_str()].clone())).collect(),
            output_arg: (0..results.len()).map(|i| argument(result(i))).collect(),
        };
        let ret = results.iter().map(|of| rename(self.inner(of)));
        FunctionDef {
            signature: Some(signature),
            node_def: node_def.collect(),
            ret: ret.enumerate().map(|(i, of)| (result(i), of)).collect(),
        }
    }

    /// Adds the loop to the graph around its frame.
    fn add_loop(
        &mut self,
        frame: FrameId,
        name: String,
        condition: usize,
        variables: &[Variable],
        constants: &[String],
    ) {
        let is_enter =
            |node: usize| kind(&self.nodes[node]) == "Enter" && self.within[node] == Some(frame);
        let given = |constant: &String| match self.source(constant).filter(|node| is_enter(*node)) {
            Some(enter) => self.nodes[enter].input.clone(),
            None => vec![constant.clone()],
        };
        let entered = variables.iter().map(|variable| self.nodes[variable.enter].input.clone());
        let entered: Vec<Vec<String>> = entered.chain(constants.iter().map(given)).collect();
        let is_value = |input: &&String| parse_input(input).1.is_some();
        let value = |inputs: &Vec<String>| inputs.iter().find(is_value).cloned();
        let mut inputs: Vec<String> = entered.iter().filter_map(value).collect();
        let controls = entered.concat().into_iter().filter(|input| !is_value(&input));
        let mut controls: Vec<String> = controls.collect();
        controls.sort();
        controls.dedup();
        inputs.extend(controls);
        let function = |part: &str| {
            let name = format!("{name}/{part}");
            AttrValue { value: Some(Attribute::Function(FunctionName { name })) }
        };
        let attr = ["cond", "body"].map(|part| (part.to_owned(), function(part)));
        let node = NodeDef {
            op: "While".to_owned(),
            input: inputs,
            device: self.nodes[condition].device.clone(),
            attr: attr.into_iter().collect(),
            name,
        };
        self.by_name.insert(node.name.clone(), self.nodes.len());
        self.nodes.push(node);
        self.within.push(self.frames[frame].parent);
        self.needed.push(true);
    }

    /// Makes each `Exit` the variable that it takes out of the loop that was added last, and hands
    /// on the stacks as the loop leaves them.
    fn leave(
        &mut self,
        frame: FrameId,
        members: &[usize],
        variables: &[Variable],
    ) -> Result<(), ImportError> {
        let added = self.nodes.len() - 1;
        let name = self.nodes[added].name.clone();
        let is_exit = |node: &usize| kind(&self.nodes[*node]) == "Exit";
        let exits: Vec<usize> = members.iter().copied().filter(is_exit).collect();
        for exit in exits {
            let of = self.nodes[exit].input.first().and_then(|input| self.left_by(input));
            let place = variables.iter().position(|variable| Some(variable.inner) == of);
            let place = place.ok_or_else(|| {
                self.refuse(exit, "the value that it takes out of its loop is no variable there")
            })?;
            let node = &mut self.nodes[exit];
            node.op = "Identity".to_owned();
            node.attr.retain(|name, _| name == "T");
            node.input = vec![format!("{name}:{place}")];
            self.within[exit] = self.frames[frame].parent;
        }
        for (place, variable) in variables.iter().enumerate() {
            if variable.inner != variable.enter {
                continue;
            }
            let after = format!("{name}:{place}");
            let Some(before) = self.nodes[variable.enter].input.first().cloned() else { continue };
            match self.source(&before) {
                Some(outer) if kind(&self.nodes[outer]) == "Enter" => {
                    self.stacks.next.insert(outer, after);
                }
                _ if variable.is_filled => self.replace(frame, added, &before, &after),
                _ => {}
            }
        }
        Ok(())
    }

    /// The variable whose value after the loop `input` is.
    fn left_by(&self, input: &str) -> Option<usize> {
        let mut at = self.source(&self.inner(input))?;
        for _ in 0..self.nodes.len() {
            if kind(&self.nodes[at]) != "Identity" {
                return Some(at);
            }
            at = self.source(&self.inner(self.nodes[at].input.first()?))?;
        }
        None
    }

    /// Puts `after` in the place of `before` everywhere but in `frame` and its loop.
    fn replace(&mut self, frame: FrameId, added: usize, before: &str, after: &str) {
        for (i, node) in self.nodes.iter_mut().enumerate() {
            if i != added && self.within[i] != Some(frame) {
                let taken = node.input.iter_mut().filter(|input| *input == before);
                taken.for_each(|input| after.clone_into(input));
            }
        }
    }

    /// The graph, without the nodes of frames.
    pub(super) fn finish(self, library: Option<Library>) -> GraphDef {
        let nodes = self.nodes.into_iter().zip(self.within);
        let node = nodes.filter(|(_, within)| within.is_none()).map(|(node, _)| node).collect();
        let mut library = library.unwrap_or_default();
        library.function.extend(self.functions);
        GraphDef { node, library: Some(library) }
    }
}
