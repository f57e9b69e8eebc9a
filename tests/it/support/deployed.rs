//! A trial's program over QUIC, all tasks in one process and in real time: on one thread, or each
//! on its own with a role that it finds as a process does.

use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use trainyard::checkpoint::Stores;
use trainyard::cluster::{Flags, RunConfig};
use trainyard::deployment::{Member, Proof, RoleFlags, Seat, StopRequest, require_role, run};
use trainyard::experiment::Trial;
use trainyard::prelude::*;
use trainyard::training::{Recording, SharedRecording, TaskParts};
use trainyard::transport::{Authority, RunId};

use super::binary::{folder, free_address};
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
            let task = task(trial, Rc::new(server), &recording, (None, Stores::in_memory()))?;
            programs.push(program(task));
        }
        all(programs).await?;
        stop(Vec::new(), ends).await
    });
    recording.finish()
}

/// The roles of two parameter servers and two workers, as TensorFlow's flags tell them.
pub(crate) fn roles_by_flags() -> [RunConfig; 4] {
    roles_of([("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)])
}

/// The roles of `tasks`, which are those of the jobs `ps` and `worker`.
pub(crate) fn roles_of<const N: usize>(tasks: [(&str, u32); N]) -> [RunConfig; N] {
    let addresses = |wanted: &str| {
        let of_job = tasks.iter().filter(|(job, _)| *job == wanted);
        of_job.map(|_| free_address()).collect::<Vec<_>>().join(",")
    };
    let [ps, workers] = ["ps", "worker"].map(addresses);
    tasks.map(|(job, index)| {
        let flags = Flags {
            ps_hosts: Some(ps.clone()),
            worker_hosts: Some(workers.clone()),
            job_name: Some(job.to_owned()),
            task_index: Some(index),
            ..Flags::default()
        };
        require_role(&RoleFlags { flags, ..RoleFlags::default() }, None).unwrap()
    })
}

/// Runs `program` as the task of each of the roles, at the addresses that these list; its
/// checkpoints are where the role says. Tells what all of them recorded.
pub(crate) fn deployed_as<F>(
    trial: &Trial,
    test: &str,
    roles: &[RunConfig],
    program: impl Fn(Task) -> F + Sync,
) -> Recording
where
    F: Future<Output = Result<()>> + 'static,
{
    let (recording, ends) = ends_as(trial, test, roles, program);
    ends.into_iter().for_each(Result::unwrap);
    recording
}

/// The same, and how each of them ended.
pub(crate) fn ends_as<F>(
    trial: &Trial,
    test: &str,
    roles: &[RunConfig],
    program: impl Fn(Task) -> F + Sync,
) -> (Recording, Vec<Result<()>>)
where
    F: Future<Output = Result<()>> + 'static,
{
    let (recording, place) = (SharedRecording::default(), folder(test));
    let authority = Authority::new(test).unwrap();
    for role in roles {
        authority.issue(role.task(), &[]).unwrap().save(&place, role.task()).unwrap();
    }
    let ends = thread::scope(|scope| {
        let begin = |role| {
            let (place, recording, program) = ((&*place, test), &recording, &program);
            scope.spawn(move || take_part(trial, (role, place), recording, program))
        };
        let begun: Vec<_> = roles.iter().map(begin).collect();
        begun.into_iter().map(|task| task.join().unwrap()).collect()
    });
    (recording.finish(), ends)
}

/// Runs `program` as the task of `role`, with the certificates in a folder of the named run.
fn take_part<F>(
    trial: &Trial,
    (role, (place, name)): (&RunConfig, (&Path, &str)),
    recording: &SharedRecording,
    program: impl Fn(Task) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>> + 'static,
{
    let proof = Some(Proof::Folder(place));
    let seat = Seat::new(role, trial.cluster.spec.clone(), proof, RunId::new(name)).unwrap();
    let mut member = Member::new(seat);
    member.busy_poll = Duration::ZERO;
    let ended = run(member, StopRequest::never(), |server| {
        let told = (Some(role.clone()), Stores::Lasting);
        program(task(trial, server, recording, told).unwrap())
    });
    ended.unwrap().result.map(drop)
}

fn task(
    trial: &Trial,
    server: Rc<Server>,
    recording: &SharedRecording,
    (config, stores): (Option<RunConfig>, Stores),
) -> Result<Task> {
    Task::new(TaskParts {
        server,
        mode: trial.mode,
        seed: trial.cluster.seed,
        run_folder: "run".to_owned(),
        settings: trial.settings.clone(),
        dataset: trial.dataset.clone(),
        checkpointing: trial.checkpointing.clone(),
        stores,
        recorder: recording.recorder(),
        config,
        arguments: Vec::new(),
    })
}
