//! A step that is fed and fetched in pieces.

use std::sync::Arc;

use futures_util::FutureExt;

use crate::graph::{Edge, Output, Target};
use crate::runtime::{
    Answer, Code, Error, MasterMail, Result, RunPiece, RunStep, StepDone, Values, stopped, tell,
};
use crate::tensor::Tensor;

use super::super::fetched::{Edges, Fetched};
use super::super::run_metadata::RunMetadata;
use super::Session;

/// A step that runs as far as it has been fed (TensorFlow: `Session.partial_run`). Each operation
/// runs once, however many pieces there are: what one piece has read, the next goes on with.
///
/// It is over once everything has been fetched. Dropping it before cancels it.
pub struct PartialRun<'a> {
    session: &'a Session,
    handle: u64,
    feeds: Vec<Edge>,
    fetches: Edges,
    /// Told when the whole step ends.
    whole: Answer<Result<StepDone>>,
    /// The error that the step has ended with.
    failed: Option<Error>,
}

shown!(PartialRun<'_>, handle, feeds, fetches);

impl Session {
    /// Sets up a step whose `feeds` and `fetches` come in pieces, and which also runs `targets`.
    /// The session's time limit is that of the whole step.
    ///
    /// # Errors
    /// If one of them belongs to another graph, or the step can't be placed.
    pub async fn partial_run_setup(
        &self,
        feeds: &[&Output],
        fetches: &[&Output],
        targets: &[&Target],
    ) -> Result<PartialRun<'_>> {
        let request = self.request_of(feeds, fetches, targets)?;
        self.extend()?;
        let handle = self.partial_runs.get();
        self.partial_runs.set(handle + 1);
        let (set_up, whole) = (Answer::new(), Answer::new());
        let (feeds, fetches) = (request.feeds.clone(), Edges::from_slice(&request.fetches));
        let reply = whole.reply();
        // Dropped with this future, it gives the step up, which may still wait for its plan.
        let mut run = PartialRun { session: self, handle, feeds, fetches, whole, failed: None };
        self.send(RunStep {
            session: self.id,
            request: Arc::new(request),
            feeds: Values::new(),
            deadline: self.deadline(None),
            origin: None,
            is_traced: false,
            reads_ahead: false,
            pieces: Some((handle, set_up.reply())),
            reply,
        });
        match set_up.await {
            Some(()) => Ok(run),
            None => match (&mut run.whole).await {
                Some(Err(error)) => Err(error),
                _ => Err(stopped().on(self.target.task())),
            },
        }
    }
}

impl PartialRun<'_> {
    /// Feeds and fetches a piece: values that were not fed before, and outputs that were not
    /// fetched before and need nothing that is not fed yet.
    ///
    /// # Errors
    /// If a feed or a fetch is none of the step's, or comes twice; if a fetch needs more; if the
    /// step has failed, its error.
    pub async fn run(
        &mut self,
        feeds: &[(&Output, Tensor)],
        fetches: &[&Output],
    ) -> Result<Fetched> {
        self.look();
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let edges: Edges = fetches.iter().map(|fetch| fetch.edge()).collect();
        let at = |all: &[Edge], output: &Output| {
            let is_it =
                |edge: &Edge| *edge == output.edge() && self.session.graph.same_as(output.graph());
            let found = all.iter().position(is_it);
            let none = || {
                let message =
                    format!("`{}` is not what the partial run is set up for", output.name());
                Error::new(Code::InvalidArgument, message)
            };
            found.map(|position| position as u32).ok_or_else(none)
        };
        let feeds =
            feeds.iter().map(|(output, value)| Ok((at(&self.feeds, output)?, value.clone())));
        let feeds = feeds.collect::<Result<Vec<_>>>()?;
        let fetches = fetches.iter().map(|output| at(&self.fetches, output));
        let fetches = fetches.collect::<Result<Vec<_>>>()?;
        let (answer, session, handle) = (Answer::new(), self.session.id, self.handle);
        let piece = RunPiece { session, handle, feeds, fetches, reply: answer.reply() };
        tell(&self.session.target.master, MasterMail::RunPiece(piece));
        let values = self.session.answered(answer).await?;
        let graph = self.session.graph.clone();
        Ok(Fetched { graph, values, edges, metadata: RunMetadata::default() })
    }

    /// Notes whether the step has failed since the last piece.
    fn look(&mut self) {
        if let Some(Some(Err(error))) = (&mut self.whole).now_or_never() {
            self.failed = Some(error);
        }
    }
}

impl Drop for PartialRun<'_> {
    fn drop(&mut self) {
        let (session, handle) = (self.session.id, self.handle);
        tell(&self.session.target.master, MasterMail::GiveUpPieces { session, handle });
    }
}
