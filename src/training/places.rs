//! The places of the variables that workers share: all replicas must have each on one task, or a
//! worker waits for ever for first values that the chief has given elsewhere.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::cluster::TaskName;
use crate::graph::{Graph, Variable};
use crate::runtime::{Code, Error, Places, Result};

use super::task::Task;

/// How long a worker waits for the first values before it asks the chief where it has them: longer
/// than giving them takes, so that a training in good order sends no message more.
const DOUBT: Duration = Duration::from_secs(1);

/// The tasks on which `graph`, built on `own`, has the variables that workers share.
pub(super) fn places(graph: &Graph, own: &TaskName) -> Places {
    let shared = graph.initializers().into_iter();
    shared.filter_map(|(variable, _)| Some((variable.name(), place(&variable, own)?))).collect()
}

/// The task of `variable`; none if the placer of the session has to choose it.
fn place(variable: &Variable, own: &TaskName) -> Option<TaskName> {
    let device = variable.device();
    match (device.job(), device.task()) {
        (Some(job), Some(index)) => Some(TaskName::new(job, index)),
        (None, None) => Some(own.clone()),
        _ => None,
    }
}

/// Waits for `initialized`, the first values of the variables of `graph`.
///
/// # Errors
/// Its own; if one of the values will never come.
pub(super) async fn unless_misplaced<T>(
    initialized: impl Future<Output = Result<T>>,
    task: &Task,
    graph: &Graph,
) -> Result<T> {
    match select(pin!(initialized), pin!(misplaced(task, graph))).await {
        Either::Left((initialized, _)) => initialized,
        Either::Right((error, _)) => Err(error),
    }
}

/// Completes if the chief has a variable of `graph` on another task than `graph` has it, or not at
/// all: then its first value will never come.
async fn misplaced(task: &Task, graph: &Graph) -> Error {
    task.sleep(DOUBT).await;
    let chief = task.chief();
    if task.limit(DOUBT).is_some() {
        let (own, unreached) = (task.name(), unreached(task));
        match unreached.is_empty() {
            true => {
                tracing::warn!(
                    "{own} waits until the chief, {chief}, gives the variables their values"
                );
            }
            false => tracing::warn!("{own} waits for {unreached}, which has variables"),
        }
    }
    let of_chief = task.server().places_of(&chief).await;
    match difference(&places(graph, task.name()), &of_chief, &chief) {
        Some(error) => error.on(task.name()),
        None => std::future::pending().await,
    }
}

/// The tasks with variables that `task` does not reach, each with the reason.
fn unreached(task: &Task) -> String {
    let told = |(holder, why): (TaskName, String)| format!("{holder} ({why})");
    task.server().unreached_holders().into_iter().map(told).collect::<Vec<_>>().join(", ")
}

/// The first of the variables `own` that the chief does not have in the same place.
fn difference(own: &Places, of_chief: &Places, chief: &TaskName) -> Option<Error> {
    own.iter().find_map(|(name, here)| {
        let there = of_chief.iter().find(|(known, _)| known == name).map(|(_, there)| there);
        let message = match there {
            Some(there) if there == here => return None,
            Some(there) => format!(
                "`{name}` is on /job:{}/task:{} in the graph of this worker, and on \
                 /job:{}/task:{} in the graph of the chief, {chief}: workers share a variable only \
                 where all place it on the same task; build it in the scope of a \
                 `ReplicaDeviceSetter` of a cluster with parameter servers, or on a task that you \
                 name alike in all of them",
                here.job(),
                here.index(),
                there.job(),
                there.index()
            ),
            None => format!(
                "`{name}` is a variable of this worker's graph that the graph of the chief, \
                 {chief}, does not have, and so nobody gives it its first value; build it in both, \
                 or make it a local variable"
            ),
        };
        Some(Error::new(Code::InvalidArgument, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_the_chief_has_elsewhere_or_not_at_all_is_named() {
        let chief = TaskName::new("worker", 0);
        let at = |name: &str, index| (name.to_owned(), TaskName::new("worker", index));
        let of_chief = vec![at("a", 0), at("b", 0)];
        let message = |own: &[(String, TaskName)]| {
            difference(&own.to_vec(), &of_chief, &chief).map(|error| error.message)
        };
        assert_eq!(message(&[at("b", 0), at("a", 0)]), None);
        assert!(
            message(&[at("a", 0), at("b", 1)]).unwrap().contains("`b` is on /job:worker/task:1")
        );
        assert!(message(&[at("c", 0)]).unwrap().contains("`c` is a variable of this worker's"));
    }
}
