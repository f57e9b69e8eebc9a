//! Stacks, which hold what the gradient of a loop's body needs of each iteration.

use std::collections::{BTreeMap, BTreeSet};

use super::{Frames, NodeDef, kind};

/// What is known of stacks.
#[derive(Default)]
pub(super) struct Stacks {
    /// By the `Enter` of a stack that an inner loop changes: the name of its value after an
    /// iteration.
    pub(super) next: BTreeMap<usize, String>,
}

/// The node that a stack comes from.
#[derive(Clone, Copy, PartialEq)]
enum StackSource {
    Stack(usize),
    /// It was on another stack: one of each iteration of a loop around.
    Popped(usize),
}

impl Frames {
    /// The node that the stack `input` comes from.
    fn stack_source(&self, input: &str) -> Option<StackSource> {
        let mut node = self.source(input)?;
        for _ in 0..self.nodes.len() {
            match kind(&self.nodes[node]) {
                "StackV2" => return Some(StackSource::Stack(node)),
                "StackPopV2" => return Some(StackSource::Popped(node)),
                "Enter" | "Switch" | "Identity" => {
                    node = self.source(self.nodes[node].input.first()?)?;
                }
                _ => return None,
            }
        }
        None
    }

    fn of_kind(&self, wanted: &'static str) -> impl Iterator<Item = (usize, &NodeDef)> {
        self.nodes.iter().enumerate().filter(move |(_, node)| kind(node) == wanted)
    }

    /// Maps each stack to the nodes that push onto it, each with the stack it pushes, if the pushed
    /// value is a stack.
    fn fills(&self) -> BTreeMap<usize, Vec<(usize, Option<StackSource>)>> {
        let mut fills: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for (push, def) in self.of_kind("StackPushV2") {
            if let [stack, value, ..] = def.input.as_slice()
                && let Some(StackSource::Stack(stack)) = self.stack_source(stack)
            {
                fills.entry(stack).or_default().push((push, self.stack_source(value)));
            }
        }
        fills
    }

    /// The stacks that a needed node empties.
    fn emptied(&self) -> BTreeSet<usize> {
        let (fills, mut emptied) = (self.fills(), BTreeSet::new());
        let pops = self.of_kind("StackPopV2").filter(|(pop, _)| self.needed[*pop]);
        let mut left: Vec<StackSource> =
            pops.filter_map(|(_, def)| self.stack_source(def.input.first()?)).collect();
        while let Some(source) = left.pop() {
            match source {
                StackSource::Stack(stack) => drop(emptied.insert(stack)),
                StackSource::Popped(pop) => {
                    let outer =
                        self.nodes[pop].input.first().and_then(|input| self.stack_source(input));
                    if let Some(StackSource::Stack(outer)) = outer {
                        let put = fills.get(&outer).into_iter().flatten();
                        left.extend(put.filter_map(|(_, inner)| *inner));
                    }
                }
            }
        }
        emptied
    }

    /// The nodes that fill stacks which a needed node empties, and are not needed yet.
    pub(super) fn fills_needed(&self) -> Vec<usize> {
        let (fills, emptied) = (self.fills(), self.emptied());
        let of_emptied = fills.iter().filter(|(stack, _)| emptied.contains(stack));
        let nodes = of_emptied.flat_map(|(_, fills)| fills.iter().map(|(push, _)| *push));
        nodes.filter(|push| !self.needed[*push]).collect()
    }

    /// Makes the nodes that fill stacks which no needed node empties hand on their values.
    pub(super) fn drop_fills(&mut self) {
        let emptied = self.emptied();
        let is_idle = |stack: &str| match self.stack_source(stack) {
            Some(StackSource::Stack(stack)) => !emptied.contains(&stack),
            _ => false,
        };
        let pushes = self.of_kind("StackPushV2");
        let idle = pushes.filter(|(_, def)| def.input.first().is_some_and(|stack| is_idle(stack)));
        let idle: Vec<usize> = idle.map(|(push, _)| push).collect();
        for push in idle {
            let node = &mut self.nodes[push];
            node.op = "Identity".to_owned();
            node.attr.clear();
            node.input.remove(0);
        }
    }

    /// The `Enter` of the stack that a node fills or empties.
    pub(super) fn entered_stack(&self, node: &NodeDef) -> Option<usize> {
        let mut at = self.source(node.input.first()?)?;
        for _ in 0..self.nodes.len() {
            match kind(&self.nodes[at]) {
                "Switch" | "Identity" => at = self.source(self.nodes[at].input.first()?)?,
                "Enter" => return Some(at),
                _ => break,
            }
        }
        None
    }
}
