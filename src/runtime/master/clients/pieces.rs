//! Steps in pieces of a client's session.

use std::sync::Arc;
use std::time::Duration;

use actix::Context;

use crate::partition::Request;
use crate::tensor::Tensor;

use super::Caller;
use crate::runtime::error::{Result, stopped};
use crate::runtime::mail::{RunPiece, RunStep, StepDone};
use crate::runtime::master::Master;
use crate::runtime::messages::{SessionAnswer, SessionId, Values};
use crate::runtime::reply::Answer;

impl Master {
    /// Begins a step in pieces; the call is answered once it takes them.
    pub(super) fn set_up_for(
        &mut self,
        caller: Caller,
        session: SessionId,
        handle: u64,
        request: Request,
        timeout: Option<Duration>,
        context: &mut Context<Self>,
    ) {
        let (set_up, whole) = (Answer::<()>::new(), Answer::<Result<StepDone>>::new());
        let run = RunStep {
            session,
            request: Arc::new(request),
            feeds: Values::new(),
            deadline: timeout.map(|timeout| self.clock.now().after(timeout)),
            origin: None,
            is_traced: false,
            reads_ahead: false,
            pieces: Some((handle, set_up.reply())),
            reply: whole.reply(),
        };
        self.run_step(run, context);
        let outcome = async move {
            match set_up.await {
                Some(()) => Ok(SessionAnswer::Done),
                None => whole.await.unwrap_or_else(|| Err(stopped())).map(|_| SessionAnswer::Done),
            }
        };
        self.answer_later(caller, outcome, context);
    }

    /// Feeds and fetches a piece; the call is answered with its values.
    pub(super) fn run_piece_for(
        &mut self,
        caller: Caller,
        session: SessionId,
        handle: u64,
        feeds: Vec<(u32, Tensor)>,
        fetches: Vec<u32>,
        context: &mut Context<Self>,
    ) {
        let answer = Answer::<Result<Values>>::new();
        self.run_piece(RunPiece { session, handle, feeds, fetches, reply: answer.reply() });
        let fetched = |values| SessionAnswer::Fetched(values, Vec::new());
        let values = async move { answer.await.unwrap_or_else(|| Err(stopped())).map(fetched) };
        self.answer_later(caller, values, context);
    }
}
