//! The methods of `Graph` that build conditions and loops.

use super::{If, While};
use crate::graph::{Function, Graph, GraphError, GraphProblem, Output, TensorType};

fn types(values: &[&Output]) -> Vec<TensorType> {
    values.iter().map(|value| value.tensor_type()).collect()
}

/// What a branch or a body is built from, and what it gives.
type Built = Result<Vec<Output>, GraphError>;

impl Graph {
    /// The outputs of `then` where `condition`, a bool scalar, holds, else those of `otherwise`
    /// (TensorFlow `tf.cond`). Only one of them runs. Each is built from the `inputs`, which is all
    /// that it can use; its outputs are of the same types as the other's. A part of it may ask for
    /// another device, by scopes of its own graph (`x[0].graph().with_device(…)`).
    ///
    /// ```
    /// # use trainyard::prelude::*;
    /// let g = Graph::new();
    /// let x = g.placeholder("x", DType::F32, [None])?;
    /// let is_large = x.sum().greater(&g.constant(1f32))?;
    /// let y = g.cond(&is_large, &[&x], |x| Ok(vec![x[0].sqrt()]), |x| Ok(vec![x[0].square()]))?;
    /// let dx = gradients(&y[0].sum(), &[x])?;
    /// # Ok::<(), trainyard::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// Those of the two, and if their outputs are of different types or they read a variable, or
    /// the condition or an input belongs to another graph.
    #[track_caller]
    pub fn cond(
        &self,
        condition: &Output,
        inputs: &[&Output],
        then: impl FnOnce(&[Output]) -> Built,
        otherwise: impl FnOnce(&[Output]) -> Built,
    ) -> Built {
        self.check_own("If", condition)?;
        let kinds = types(inputs);
        let seed_of = self.seeds_within("If");
        let then = Function::seeded(seed_of("then"), &kinds, then)?;
        let count = then.outputs().len() as u32;
        let otherwise = Function::seeded(seed_of("otherwise"), &kinds, otherwise)?;
        let op = If { then, otherwise };
        let first = condition.with(inputs, op)?;
        Ok((0..count).map(|output| first.sibling(output)).collect())
    }

    /// The `variables` after the last iteration of a loop: as long as `condition` of them holds,
    /// `body` computes the next ones (TensorFlow `tf.while_loop`). Parts of both may ask for other
    /// devices, as in [`cond`](Self::cond); an iteration is then a step of its own. Both are built
    /// from the variables and then the `constants`, which are the same in each iteration; it is all
    /// that they can use. The loop ends after `maximum` iterations, if one is given. A simulation
    /// charges the time of so many, or of one if there is no maximum: the cost comes before the
    /// run. A loop without one always leaves the message thread of its task.
    ///
    /// Its gradient computes each iteration again, so that memory holds the variables of each
    /// iteration, and nothing else of it.
    ///
    /// ```
    /// # use trainyard::prelude::*;
    /// let g = Graph::new();
    /// let (x, w) = (g.constant(1f32), g.constant(3f32));
    /// let i = g.constant(0i32);
    /// let condition = |v: &[Output]| v[0].less(&v[0].graph().constant(4i32));
    /// let body = |v: &[Output]| {
    ///     Ok(vec![v[0].add(&v[0].graph().constant(1i32))?, v[1].mul(&v[2])?])
    /// };
    /// let end = g.while_loop(&[&i, &x], &[&w], condition, body, None)?; // 3⁴
    /// # Ok::<(), trainyard::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// Those of the two; and if there is no variable, one changes its type, they read a variable
    /// of the graph, or an input belongs to another graph.
    #[track_caller]
    pub fn while_loop(
        &self,
        variables: &[&Output],
        constants: &[&Output],
        condition: impl FnOnce(&[Output]) -> Result<Output, GraphError>,
        body: impl FnOnce(&[Output]) -> Built,
        maximum: Option<usize>,
    ) -> Built {
        let inputs: Vec<&Output> = variables.iter().chain(constants).copied().collect();
        for input in &inputs {
            self.check_own("While", input)?;
        }
        let kinds = types(&inputs);
        let seed_of = self.seeds_within("While");
        let condition =
            Function::seeded(seed_of("condition"), &kinds, |all| Ok(vec![condition(all)?]))?;
        let body = Function::seeded(seed_of("body"), &kinds, body)?;
        let count = body.outputs().len();
        if count != variables.len() || count == 0 {
            let needs = format!("a body of {} outputs, one a variable, from 1", variables.len());
            let problem = GraphProblem::Inputs { needs, inputs: types(variables) };
            return Err(GraphError::new("While", problem));
        }
        let first = inputs[0].with(&inputs[1..], While { condition, body, maximum })?;
        Ok((0..count as u32).map(|output| first.sibling(output)).collect())
    }
}
