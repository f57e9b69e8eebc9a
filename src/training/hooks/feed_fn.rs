//! `FeedFn`: feeds every run the values of a function.

use crate::runtime::Result;

use super::super::monitored_session::Feeds;
use super::{Hook, HookContext, RunArgs};

/// Feeds every run of the session the values of a function (TensorFlow: `FeedFnHook`).
///
/// The function is called once a run, and again if the training goes back to a checkpoint and the
/// run is taken anew. A run that is only repeated after a lost task is fed the same values.
pub struct FeedFn<F> {
    feeds: F,
}

shown!([F] FeedFn<F>);

impl<F: FnMut() -> Result<Feeds>> FeedFn<F> {
    /// Feeds the values that `feeds` returns. Its error ends the run.
    pub fn new(feeds: F) -> Self {
        Self { feeds }
    }
}

impl<F: FnMut() -> Result<Feeds>> Hook for FeedFn<F> {
    fn before_run(&mut self, _: &HookContext<'_>, run: &mut RunArgs<'_>) -> Result<()> {
        (self.feeds)()?.into_iter().try_for_each(|(place, value)| run.feed(&place, value))
    }
}
