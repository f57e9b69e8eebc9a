//! Mirrored towers on the tasks of a replica: one client, the first task's program, runs them all.

use super::absent::Absent;
use super::{Built, Data, network};
use crate::graph::{Graph, GraphError, Output, mirrored_gradients, stack};
use crate::models::Stages;
use crate::training::settings::AllReduceSettings;
use crate::training::task::Task;

/// The scenario's network in towers, with the operation that trains them all: one tower on each
/// task of the replica that is not `absent` or, where tasks have GPUs, one on each GPU.
pub(super) fn build(
    g: &Graph,
    task: &Task,
    all_reduce: &AllReduceSettings,
    absent: &Absent,
) -> Result<Built, GraphError> {
    let settings = task.settings();
    g.global_step()?;
    let (mut devices, mut tasks) = (Vec::new(), Vec::new());
    for (at, helper) in task.cluster().replica_of(task.name()).iter().enumerate() {
        if absent.contains(helper) {
            continue;
        }
        let of_task = format!("/job:{}/task:{}", helper.job(), helper.index());
        for tower in 0..settings.towers {
            devices.push(match settings.towers {
                1 => of_task.clone(),
                _ => format!("{of_task}/gpu:{tower}"),
            });
            tasks.push(at);
        }
    }
    let stages = Stages::new(vec![task.device()]);
    let built = g.mirrored_towers(&devices, |g, _| network(g, task, &stages))?;
    let (towers, losses): (Vec<_>, Vec<Output>) = built.into_iter().unzip();
    let gradients = mirrored_gradients(&losses, &all_reduce.over(&tasks))?;
    let train_op = task.apply_mirrored_gradients(settings.optimizer.clone(), &gradients)?;
    let loss = stack(&losses.iter().collect::<Vec<_>>(), 0)?.mean();
    Ok(Built::of(&train_op, Some(Data { towers, loss })))
}
