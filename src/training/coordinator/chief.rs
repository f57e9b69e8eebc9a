//! The chief's part of a coordinator: its session looks after the variables, and its hooks see the
//! steps of all executors.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use futures_util::FutureExt;

use crate::runtime::{Result, program_panicked};

use super::super::monitored_session::MonitoredSession;
use super::shared::{Duty, Shared};

/// Leads the training in the session `chief`, which is returned when the coordinator closes; not
/// if it can't go on.
pub(super) async fn lead<M>(
    shared: Rc<Shared<M>>,
    mut chief: MonitoredSession,
) -> Option<MonitoredSession> {
    match AssertUnwindSafe(serve(&shared, &mut chief)).catch_unwind().await {
        Ok(Ok(())) => return Some(chief),
        Ok(Err(error)) => shared.give_up(error),
        Err(panic) => shared.give_up(program_panicked(&*panic)),
    }
    None
}

async fn serve<M>(shared: &Shared<M>, chief: &mut MonitoredSession) -> Result<()> {
    loop {
        match shared.duty().await {
            Duty::Look(asked) => {
                if chief.look().await? {
                    shared.forget_steps();
                }
                shared.has_looked(asked);
            }
            Duty::Show(step) => {
                if chief.show_step(&step).await? {
                    shared.forget_steps();
                }
            }
            Duty::End => return Ok(()),
        }
        if chief.should_stop() {
            shared.end();
        }
    }
}
