//! `FeedFn`: feeds every run what a function gives.

use crate::runtime::Result;

use super::super::monitored_session::Feeds;
use super::{Hook, HookContext, RunArgs};

/// Feeds every run of the session what a function gives (TensorFlow: `FeedFnHook`).
///
/// It is called once a run, and again where the training goes back to a checkpoint and the run is
/// taken anew; a run that is taken again after a lost task is fed the same.
pub struct FeedFn<F> {
    feeds: F,
}

impl<F: FnMut() -> Result<Feeds>> FeedFn<F> {
    /// Feeds what `feeds` gives. Its error ends the run.
    pub fn new(feeds: F) -> Self {
        Self { feeds }
    }
}

impl<F: FnMut() -> Result<Feeds>> Hook for FeedFn<F> {
    fn before_run(&mut self, _: &HookContext<'_>, run: &mut RunArgs<'_>) -> Result<()> {
        (self.feeds)()?.into_iter().try_for_each(|(place, value)| run.feed(&place, value))
    }
}
