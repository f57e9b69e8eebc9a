//! A step that is run again and again with other values.

use std::sync::Arc;

use crate::graph::{Output, Target};
use crate::partition::Request;
use crate::runtime::{Answer, Code, Error, Result, RunStep, Values};
use crate::tensor::Tensor;

use super::super::fetched::{Edges, Fetched};
use super::super::run_metadata::RunMetadata;
use super::Session;

/// A step of a session whose feeds, fetches and targets are fixed (TensorFlow:
/// `Session.make_callable`). Calling it saves looking up what is asked for.
#[derive(Clone)]
pub struct Callable<'a> {
    session: &'a Session,
    request: Arc<Request>,
    edges: Edges,
}

shown!(Callable<'_>, edges);

impl Session {
    /// A step that feeds `feeds`, fetches `fetches` and runs `targets` whenever it is called.
    ///
    /// # Errors
    /// If one of them belongs to another graph than the session.
    pub fn make_callable(
        &self,
        feeds: &[&Output],
        fetches: &[&Output],
        targets: &[&Target],
    ) -> Result<Callable<'_>> {
        let request = self.request_of(feeds, fetches, targets)?;
        let edges = Edges::from_slice(&request.fetches);
        Ok(Callable { session: self, request: Arc::new(request), edges })
    }
}

impl Callable<'_> {
    /// Runs the step with `values`, in the order of its feeds. The results are in the order of its
    /// fetches.
    ///
    /// # Errors
    /// If there are more or fewer values than feeds; else as a step of the session.
    pub async fn call(&self, values: &[Tensor]) -> Result<Fetched> {
        let (session, wanted) = (self.session, self.request.feeds.len());
        if values.len() != wanted {
            let given = values.len();
            let message = format!("{given} values are given to a callable with {wanted} feeds");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        session.extend()?;
        let answer = Answer::new();
        session.send(RunStep {
            session: session.id,
            request: Arc::clone(&self.request),
            feeds: Values::from(values),
            deadline: session.deadline(None),
            origin: None,
            is_traced: false,
            reads_ahead: false,
            reply: answer.reply(),
        });
        let done = session.answered(answer.await)?;
        let (values, edges) = (done.fetches, self.edges.clone());
        let graph = session.graph.clone();
        Ok(Fetched { graph, values, edges, metadata: RunMetadata::default() })
    }
}
