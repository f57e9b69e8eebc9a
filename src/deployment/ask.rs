//! Asks a running task, or all tasks of a cluster, for their status: cluster, devices, waiting
//! actors, the peers that they can't reach.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::client::{bind, run_client};
use super::network::{Message, TaskStatus};
use super::{Certificates, DeploymentError};
use crate::cluster::{ClusterSpec, ConfigErrors, TaskName};
use crate::transport::{
    ASKER, Identity, Inbox, Loss, Messages, Obstacle, PeerId, Peers, Quic, Transport,
};

/// The time limit of each answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often to look whether a task refuses to answer.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The time limit for closing the connections.
const FLUSH: Duration = Duration::from_millis(500);

/// A question to a task, and the certificate of the asker.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The task that is asked; it has to prove its name.
    pub task: &'a TaskName,
    /// The address on which it listens, `host:port`.
    pub address: &'a str,
    /// The name of its training.
    pub run: &'a str,
    /// The folder of the asker's certificate, from the same authority.
    pub certificates: &'a Path,
    /// The asker's name in that certificate, `client:N`.
    pub client: &'a TaskName,
}

/// The answers of a cluster's tasks, each the task's status or the reason why there is none.
pub type Answers = BTreeMap<TaskName, Result<TaskStatus, Obstacle>>;

/// Asks a running task for its status.
///
/// # Errors
/// If it does not answer within some seconds, with the reason as far as it is known; if the
/// question itself is wrong.
pub fn ask(question: &Question<'_>) -> Result<TaskStatus, DeploymentError> {
    let Question { task, address, run, certificates, client } = *question;
    let one = [(task.index(), address.to_owned())];
    let cluster = ClusterSpec::sparse([(task.job(), one)]).map_err(|error| {
        let origin = format!("the address of {task}");
        DeploymentError::Cluster { origin, mistakes: problems(&error) }
    })?;
    let mut answers = ask_cluster(&cluster, &Certificates::new(certificates, run).named(client)?)?;
    let (task, answer) = answers.pop_first().expect("the cluster is one task");
    answer.map_err(|Obstacle { why, refused }| DeploymentError::Unanswered {
        task,
        address: address.to_owned(),
        why,
        refused,
    })
}

/// Asks all tasks of a cluster for their status, at the same time. None is waited for longer than
/// some seconds.
///
/// # Errors
/// If the asker's certificate can't be read, or no socket can be had.
pub fn ask_cluster(
    cluster: &ClusterSpec,
    certificates: &Certificates,
) -> Result<Answers, DeploymentError> {
    run_client(async {
        let client = certificates.client();
        let identity = Identity::load(certificates.folder(), client)?;
        let own = TaskName::new(ASKER, client.index());
        let quic = bind(&own, certificates.run(), identity).await?;
        let ear = Rc::new(Ear::default());
        quic.listen(Rc::<Ear>::clone(&ear));
        let (asker, ear) = (&*quic, &*ear);
        let answers = cluster.tasks().map(|task| async move {
            let address = cluster.task_address(&task).expect("it is one of the cluster's");
            let answer = answer(asker, ear, &task, address).await;
            (task, answer)
        });
        let answers = join_all(answers).await.into_iter().collect();
        if !quic.shut_down(FLUSH).await {
            tracing::debug!("a task may not know that nobody asks any more");
        }
        Ok(answers)
    })
}

/// Asks `task` by `quic`, whose answers `ear` receives.
async fn answer(
    quic: &Quic<Message>,
    ear: &Ear,
    task: &TaskName,
    address: &str,
) -> Result<TaskStatus, Obstacle> {
    let nothing = |why: &str| Obstacle { why: why.to_owned(), refused: None };
    let Some(peer) = quic.know(task, address) else {
        return Err(nothing("it has the asker's name; ask with the certificate of another client"));
    };
    let (reply, told) = oneshot::channel();
    ear.replies.borrow_mut().insert(peer, reply);
    quic.send(peer, vec![Message::Ask]);
    let refused = pin!(is_refused(quic, peer));
    match timeout(PATIENCE, select(told, refused)).await {
        Ok(Either::Left((Ok(status), _))) => Ok(status),
        _ => Err(quic.obstacle(peer).unwrap_or_else(|| nothing("it does not answer"))),
    }
}

/// Completes once the task `peer` and the asker refuse each other: they would do so again.
async fn is_refused(quic: &Quic<Message>, peer: PeerId) {
    while quic.obstacle(peer).is_none_or(|obstacle| obstacle.refused.is_none()) {
        sleep(LOOK_EVERY).await;
    }
}

/// What is wrong with the one address that was typed; it has no path.
fn problems(errors: &ConfigErrors) -> String {
    let problems = errors.as_slice().iter().map(|error| error.problem.to_string());
    problems.collect::<Vec<_>>().join("\n")
}

/// Receives the answers.
#[derive(Default)]
struct Ear {
    /// The tasks that have not answered, each with who waits for that.
    replies: RefCell<BTreeMap<PeerId, oneshot::Sender<TaskStatus>>>,
}

impl Inbox<Message> for Ear {
    fn deliver(&self, from: PeerId, messages: Messages<Message>) {
        for message in messages {
            let Message::Status(status) = message else { continue };
            let reply = self.replies.borrow_mut().remove(&from);
            if reply.is_some_and(|reply| reply.send(status).is_err()) {
                tracing::debug!("the answer came too late");
            }
        }
    }

    fn lost(&self, peer: PeerId, loss: Loss) {
        tracing::debug!(%loss, "the task is gone");
        self.replies.borrow_mut().remove(&peer);
    }

    fn broken(&self, _: &(dyn Any + Send)) {
        self.replies.borrow_mut().clear(); // no answer will come
    }
}
