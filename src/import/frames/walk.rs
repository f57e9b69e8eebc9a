//! Walks over a graph with frames: which frame each node is in, and which nodes are needed.

use std::collections::BTreeMap;

use super::super::wire::Value as Attribute;
use super::stacks::Stacks;
use super::{Frame, FrameId, Frames, NodeDef, kind, parse_input};

/// Kinds that do something beside computing a value, or read a variable: what waits for them must
/// wait.
const EFFECTS: &[&str] =
    &["Assign", "Apply", "Resource", "Scatter", "Sparse", "Assert", "Print", "ReadVariableOp"];

impl Frames {
    /// The graph with its frames; control inputs within them are gone where they order nothing.
    pub(super) fn of(nodes: Vec<NodeDef>) -> Self {
        let by_name = (0..).zip(&nodes).map(|(i, node)| (node.name.clone(), i)).collect();
        let mut all = Self {
            within: vec![None; nodes.len()],
            needed: vec![false; nodes.len()],
            frames: Vec::new(),
            stacks: Stacks::default(),
            functions: Vec::new(),
            nodes,
            by_name,
        };
        let order = all.order();
        let mut numbers = BTreeMap::new();
        for node in &order {
            all.within[*node] = all.frame_of(*node, &mut numbers);
        }
        all.drop_controls(&order);
        all
    }

    /// The node that an input names.
    pub(super) fn source(&self, input: &str) -> Option<usize> {
        self.by_name.get(parse_input(input).0).copied()
    }

    /// The kind of the node that an input names.
    pub(super) fn source_kind(&self, input: &str) -> &str {
        self.source(input).map_or("", |node| kind(&self.nodes[node]))
    }

    /// Whether `input` is the value that comes back from the iteration before.
    pub(super) fn comes_back(&self, node: usize, input: &str) -> bool {
        kind(&self.nodes[node]) == "Merge" && self.source_kind(input) == "NextIteration"
    }

    /// Whether the node is the `Switch` of a loop.
    pub(super) fn ends_loop(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        kind(node) == "Switch"
            && node.input.get(1).is_some_and(|by| self.source_kind(by) == "LoopCond")
    }

    /// All nodes, each after those that it needs, but for what comes back from an iteration.
    fn order(&self) -> Vec<usize> {
        let (mut order, mut is_seen) = (Vec::new(), vec![false; self.nodes.len()]);
        let mut is_done = is_seen.clone();
        for root in 0..self.nodes.len() {
            let mut path = if is_seen[root] { vec![] } else { vec![(root, 0)] };
            while let Some((node, next)) = path.last_mut() {
                let at = *node;
                is_seen[at] = true;
                let Some(input) = self.nodes[at].input.get(*next) else {
                    path.pop();
                    if !std::mem::replace(&mut is_done[at], true) {
                        order.push(at);
                    }
                    continue;
                };
                *next += 1;
                match self.source(input) {
                    Some(needed) if !is_seen[needed] && !self.comes_back(at, input) => {
                        path.push((needed, 0));
                    }
                    _ => {}
                }
            }
        }
        order
    }

    /// The frame of a node whose inputs' frames are known.
    fn frame_of(
        &mut self,
        node: usize,
        numbers: &mut BTreeMap<(Option<FrameId>, String), FrameId>,
    ) -> Option<FrameId> {
        let depth = |frame: &Option<FrameId>| frame.map_or(0, |frame| self.frames[frame].depth);
        let inputs = self.nodes[node].input.iter().filter(|input| !self.comes_back(node, input));
        let around = inputs.filter_map(|input| Some(self.frame_after(self.source(input)?)));
        let around = around.max_by_key(depth).flatten();
        if kind(&self.nodes[node]) != "Enter" {
            return around;
        }
        let name = match self.nodes[node].attr.get("frame_name").and_then(|a| a.value.as_ref()) {
            Some(Attribute::S(name)) => String::from_utf8_lossy(name).into_owned(),
            _ => String::new(),
        };
        let depth = depth(&around) + 1;
        let frames = &mut self.frames;
        Some(*numbers.entry((around, name.clone())).or_insert_with(|| {
            frames.push(Frame { name, parent: around, depth });
            frames.len() - 1
        }))
    }

    /// The frame of what a node gives.
    fn frame_after(&self, node: usize) -> Option<FrameId> {
        match kind(&self.nodes[node]) {
            "Exit" => self.within[node].and_then(|frame| self.frames[frame].parent),
            _ => self.within[node],
        }
    }

    /// Drops the control inputs of nodes in frames that order nothing: those from nodes that only
    /// compute. Those that say which branch of a condition a node is in stay.
    fn drop_controls(&mut self, order: &[usize]) {
        let mut has_effect = vec![false; self.nodes.len()];
        for node in order {
            let def = &self.nodes[*node];
            let controls = def.input.iter().filter(|input| parse_input(input).1.is_none());
            let waits = controls.filter_map(|input| self.source(input)).any(|on| has_effect[on]);
            let reads = def.op == "Identity"
                && def
                    .input
                    .first()
                    .and_then(|input| self.source(input))
                    .is_some_and(|of| self.nodes[of].op == "RefEnter");
            has_effect[*node] =
                waits || reads || EFFECTS.iter().any(|effect| def.op.starts_with(effect));
        }
        let is_branch = |node: usize| {
            let switch = match kind(&self.nodes[node]) {
                "Switch" => Some(node),
                "Identity" => self.nodes[node].input.first().and_then(|input| self.source(input)),
                _ => None,
            };
            switch.is_some_and(|at| kind(&self.nodes[at]) == "Switch" && !self.ends_loop(at))
        };
        let stays = |node: usize| has_effect[node] || is_branch(node);
        let kept = |(node, def): (usize, &NodeDef)| {
            let around = match kind(def) {
                "Enter" => self.within[node].and_then(|frame| self.frames[frame].parent),
                _ => self.within[node],
            };
            let is_kept = |input: &&String| {
                parse_input(input).1.is_some()
                    || around.is_none()
                    || self.source(input).is_some_and(stays)
            };
            def.input.iter().filter(is_kept).cloned().collect()
        };
        let inputs: Vec<Vec<String>> = self.nodes.iter().enumerate().map(kept).collect();
        self.nodes.iter_mut().zip(inputs).for_each(|(node, input)| node.input = input);
    }

    /// Marks the nodes that `wanted` need, and what fills the stacks that they empty. If none is
    /// named, all outside of frames are wanted, and what leaves these: a loop's result may be one
    /// of the graph's.
    pub(super) fn find_needed(&mut self, wanted: &[&str]) {
        let is_root = |node: &usize| match wanted {
            [] => self.frame_after(*node).is_none(),
            // First values of variables may be wanted later.
            _ => self.within[*node].is_none() && self.nodes[*node].name.ends_with("/Assign"),
        };
        let mut roots: Vec<usize> = (0..self.nodes.len()).filter(is_root).collect();
        roots.extend(wanted.iter().filter_map(|name| self.source(name)));
        while !roots.is_empty() {
            self.mark(roots);
            roots = self.fills_needed();
        }
        self.drop_fills();
    }

    fn mark(&mut self, roots: Vec<usize>) {
        let mut left = roots;
        while let Some(node) = left.pop() {
            if !std::mem::replace(&mut self.needed[node], true) {
                left.extend(self.nodes[node].input.iter().filter_map(|input| self.source(input)));
            }
        }
    }
}
