//! Which certificates a task or a client of this process proves its name with.

use std::path::{Path, PathBuf};

use super::DeploymentError;
use crate::cluster::TaskName;
use crate::transport::{CLIENT, RunId};

/// The proof of identity between a task and its peers: a folder of certificates, as `trainyard
/// certs issue` writes it, and the name of their training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    folder: PathBuf,
    run: RunId,
    client: TaskName,
}

impl Certificates {
    /// The certificates in `folder`, for the training called `run` (as in `trainyard task
    /// --run-name`): tasks of different trainings do not talk.
    pub fn new(folder: impl AsRef<Path>, run: &str) -> Self {
        let (folder, client) = (folder.as_ref().to_owned(), TaskName::new(CLIENT, 0));
        Self { folder, run: RunId::new(run), client }
    }

    /// The same, for `client:N`: which certificate a program takes that is no task. Without this,
    /// that of `client:0`.
    #[must_use]
    pub fn of_client(self, number: u32) -> Self {
        Self { client: TaskName::new(CLIENT, number), ..self }
    }

    /// The same, for the client that a user has named by `--as`.
    ///
    /// # Errors
    /// If `name` is a task's, whose certificate only the task may use.
    pub(crate) fn named(self, name: &TaskName) -> Result<Self, DeploymentError> {
        if name.job() == CLIENT {
            return Ok(self.of_client(name.index()));
        }
        let mistakes = format!(
            "--as {name}: who asks is no task of the cluster: use the certificate of a client, \
             which `trainyard certs issue DIR --task client:0` makes"
        );
        Err(DeploymentError::Cluster { origin: "the flags".to_owned(), mistakes })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    pub(super) fn client(&self) -> &TaskName {
        &self.client
    }
}
