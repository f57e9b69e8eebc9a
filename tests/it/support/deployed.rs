//! A trial's program over QUIC, all tasks in one process and in real time.

use std::future::Future;
use std::rc::Rc;

use trainyard::checkpoint::Stores;
use trainyard::clock::WallClock;
use trainyard::experiment::Trial;
use trainyard::prelude::*;
use trainyard::training::{Recording, SharedRecording, TaskParts};

use super::fixture::{all, on_actix, quic_network};
use crate::quic::over_quic::{servers, stop};

/// Runs `program` as every task of the trial's cluster, and tells what its workers recorded.
pub(crate) fn deployed<F>(trial: &Trial, program: impl Fn(Task) -> F) -> Recording
where
    F: Future<Output = Result<()>>,
{
    let recording = SharedRecording::default();
    on_actix(async {
        let spec = &trial.cluster.spec;
        let jobs: Vec<_> = spec.jobs().map(|job| (job, spec.num_tasks(job).unwrap())).collect();
        let (servers, ends) = servers(quic_network(&jobs).await);
        let mut programs = Vec::new();
        for server in servers {
            let task = Task::new(TaskParts {
                server: Rc::new(server),
                clock: Rc::new(WallClock::new()),
                mode: trial.mode,
                seed: trial.cluster.seed,
                settings: trial.settings.clone(),
                dataset: trial.dataset.clone(),
                checkpointing: trial.checkpointing.clone(),
                stores: Stores::in_memory(),
                recorder: Rc::new(recording.clone()),
                config: None,
                arguments: Vec::new(),
            })?;
            programs.push(program(task));
        }
        all(programs).await?;
        stop(Vec::new(), ends).await
    });
    recording.finish()
}
