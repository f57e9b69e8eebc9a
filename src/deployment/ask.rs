//! Asks a running task for its status: its cluster, its devices, its waiting actors, the peers that
//! it can't reach.

use std::any::Any;
use std::cell::RefCell;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::DeploymentError;
use super::client::{bind, check_client, run_client};
use super::network::{Message, TaskStatus};
use crate::cluster::{ClusterSpec, ConfigErrors, TaskName};
use crate::transport::{
    ASKER, Identity, Inbox, Loss, Messages, Obstacle, PeerId, Quic, RunId, Transport,
};

/// The time limit of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often to look whether the task refuses to answer.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The time limit for closing the connection.
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

/// Asks a running task for its status.
///
/// # Errors
/// If it does not answer within some seconds, with the reason as far as it is known; if the
/// question itself is wrong.
pub fn ask(question: &Question<'_>) -> Result<TaskStatus, DeploymentError> {
    run_client(answer(question))
}

async fn answer(args: &Question<'_>) -> Result<TaskStatus, DeploymentError> {
    let task = args.task;
    let address = [(task.index(), args.address.to_owned())];
    ClusterSpec::sparse([(task.job(), address)]).map_err(|error| DeploymentError::Cluster {
        origin: format!("the address of {task}"),
        mistakes: problems(&error),
    })?;
    check_client(args.client)?;
    let identity = Identity::load(args.certificates, args.client)?;
    let own = TaskName::new(ASKER, args.client.index());
    let quic = bind(&own, &RunId::new(args.run), identity).await?;
    let (reply, told) = oneshot::channel();
    quic.listen(Rc::new(Ear { reply: RefCell::new(Some(reply)) }));
    let peer = quic.know(task, args.address).expect("a new client knows no other task");
    quic.send(peer, vec![Message::Ask]);
    let refused = pin!(is_refused(&quic));
    let told = timeout(PATIENCE, select(told, refused)).await;
    let obstacles: Vec<Obstacle> = quic.waiting_for().into_iter().map(|(_, it)| it).collect();
    if !quic.shut_down(FLUSH).await {
        tracing::debug!("the task may not know that nobody asks any more");
    }
    match told {
        Ok(Either::Left((Ok(status), _))) => Ok(status),
        _ => {
            let reasons: Vec<&str> = obstacles.iter().map(|it| it.why.as_str()).collect();
            let why = if reasons.is_empty() {
                "it does not answer".to_owned()
            } else {
                reasons.join("; ")
            };
            Err(DeploymentError::Unanswered {
                task: task.clone(),
                address: args.address.to_owned(),
                refused: obstacles.iter().find_map(|it| it.refused),
                why,
            })
        }
    }
}

/// Completes once the task and the asker refuse each other: they would do so again.
async fn is_refused(quic: &Quic<Message>) {
    while quic.waiting_for().iter().all(|(_, obstacle)| obstacle.refused.is_none()) {
        sleep(LOOK_EVERY).await;
    }
}

/// What is wrong with the one address that was typed; it has no path.
fn problems(errors: &ConfigErrors) -> String {
    let problems = errors.as_slice().iter().map(|error| error.problem.to_string());
    problems.collect::<Vec<_>>().join("\n")
}

/// Receives the answer.
struct Ear {
    reply: RefCell<Option<oneshot::Sender<TaskStatus>>>,
}

impl Inbox<Message> for Ear {
    fn deliver(&self, _: PeerId, messages: Messages<Message>) {
        for message in messages {
            if let (Message::Status(status), Some(reply)) = (message, self.reply.take())
                && reply.send(status).is_err()
            {
                tracing::debug!("the answer came too late");
            }
        }
    }

    fn lost(&self, _: PeerId, loss: Loss) {
        tracing::debug!(%loss, "the task is gone");
        self.reply.take();
    }

    fn broken(&self, _: &(dyn Any + Send)) {
        self.reply.take(); // no answer will come
    }
}
