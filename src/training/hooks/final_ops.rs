//! `FinalOps`: evaluates outputs at the end of a training.

use std::cell::RefCell;
use std::rc::Rc;

use crate::graph::Output;
use crate::runtime::{Code, Error, Result};
use crate::tensor::Tensor;

use super::super::monitored_session::Feeds;
use super::super::session::Session;
use super::{Hook, HookContext, HookFuture};

/// Evaluates outputs when the session ends in good order (TensorFlow: `FinalOpsHook`).
///
/// The session owns its hooks, so take [`FinalValues`] before: the values are read through it.
pub struct FinalOps {
    outputs: Vec<Output>,
    feeds: Feeds,
    values: FinalValues,
}

shown!(FinalOps, outputs);

/// The values of a [`FinalOps`], once the session has ended. Clones share the values.
#[derive(Clone, Debug, Default)]
pub struct FinalValues(Rc<RefCell<Option<Vec<Tensor>>>>);

impl FinalOps {
    /// Evaluates `outputs`.
    pub fn new(outputs: &[&Output]) -> Self {
        let outputs = outputs.iter().map(|output| (*output).clone()).collect();
        Self { outputs, feeds: Feeds::new(), values: FinalValues::default() }
    }

    /// Feeds `value` to `place` in that evaluation.
    #[must_use]
    pub fn feed(mut self, place: &Output, value: impl Into<Tensor>) -> Self {
        self.feeds.push((place.clone(), value.into()));
        self
    }

    /// The handle through which the values are read.
    pub fn values(&self) -> FinalValues {
        self.values.clone()
    }

    async fn evaluate(&self, session: &Session) -> Result<Vec<Tensor>> {
        let run = self.outputs.iter().fold(session.run(), |run, output| run.fetch(output));
        let run = self.feeds.iter().fold(run, |run, (place, value)| run.feed(place, value.clone()));
        let fetched = run.await.map_err(|error| self.hint_at_the_input(error))?;
        Ok((0..self.outputs.len()).map(|index| fetched[index].clone()).collect())
    }

    /// Adds a hint to an `OutOfRange` error: at the end of the input, an operation that reads it
    /// can't be evaluated.
    fn hint_at_the_input(&self, error: Error) -> Error {
        if error.code != Code::OutOfRange {
            return error;
        }
        let names: Vec<String> = self.outputs.iter().map(Output::name).collect();
        let hint = "one of them reads the training's input, which is at its end: evaluate what \
                    does not, or feed it";
        let message = format!(
            "{}; to be evaluated at the end were `{}`: {hint}",
            error.message,
            names.join("`, `")
        );
        Error { code: Code::InvalidArgument, message, ..error }
    }
}

impl FinalValues {
    /// The values, in the order in which they were asked for. None before the session has ended in
    /// good order.
    pub fn get(&self) -> Option<Vec<Tensor>> {
        self.0.borrow().clone()
    }
}

impl Hook for FinalOps {
    fn end<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(async move {
            let values = self.evaluate(context.session).await?;
            self.values.0.replace(Some(values));
            Ok(())
        })
    }
}
