//! Renewal: a running task takes a certificate that has been renewed in its folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::{Duration, SystemTime};

use crate::cluster::TaskName;
use crate::transport::{Identity, Payload, Quic};

/// The time between two looks at the folder.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// The folder of a task's certificate, and the time of the one that is in use.
#[derive(Debug)]
pub(super) struct Renewal {
    folder: PathBuf,
    task: TaskName,
    taken: Option<SystemTime>,
}

impl Renewal {
    /// Watches the certificate of `task` in `folder`, which has just been read.
    pub(super) fn new(folder: &Path, task: &TaskName) -> Self {
        let taken = changed(folder, task);
        Self { folder: folder.to_owned(), task: task.clone(), taken }
    }

    /// Looks from time to time, for as long as `quic` is there.
    pub(super) async fn watch<M: Payload>(mut self, quic: Weak<Quic<M>>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(quic) = quic.upgrade() else { return };
            self.look(&quic);
        }
    }

    /// Has `quic` take a certificate that is new in the folder. One that is not whole yet is looked
    /// at again: its two files are written one after the other.
    fn look<M: Payload>(&mut self, quic: &Rc<Quic<M>>) {
        let found = changed(&self.folder, &self.task);
        if found.is_none() || found == self.taken {
            return;
        }
        let loaded = Identity::load(&self.folder, &self.task).map_err(|error| error.to_string());
        match loaded.and_then(|new| quic.renew(&new).map_err(|error| error.to_string())) {
            Ok(()) => {
                tracing::info!(task = %self.task, "the certificate is renewed");
                self.taken = found;
            }
            Err(error) => {
                tracing::warn!(task = %self.task, error, "the new certificate is not taken yet")
            }
        }
    }
}

/// When the certificate of `task` in `folder` was last written.
fn changed(folder: &Path, task: &TaskName) -> Option<SystemTime> {
    fs::metadata(Identity::path(folder, task)).and_then(|file| file.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterSpec;
    use crate::deployment::Message;
    use crate::transport::{Authority, QuicConfig, RunId};

    #[test]
    fn a_renewed_certificate_is_taken_once_it_is_whole() {
        let folder = std::env::temp_dir().join(format!("trainyard-renewal-{}", std::process::id()));
        let _absent = fs::remove_dir_all(&folder);
        let (task, authority) = (TaskName::new("ps", 0), Authority::new("run").unwrap());
        let issue = || authority.issue(&task, &[]).unwrap();
        issue().save(&folder, &task).unwrap();
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().build().unwrap()
        };
        actix_rt::System::with_tokio_rt(runtime).block_on(async {
            let cluster = ClusterSpec::dense([("ps", ["127.0.0.1:1"])]).unwrap();
            let identity = Identity::load(&folder, &task).unwrap();
            let config = QuicConfig::new(cluster, task.clone(), RunId::new("run"), identity);
            let listen = Some("127.0.0.1:0".parse().unwrap());
            let quic = Quic::<Message>::bind(QuicConfig { listen, ..config }).await.unwrap();
            let mut renewal = Renewal::new(&folder, &task);
            let first = renewal.taken;
            let key = fs::read(folder.join("ps-0.key")).unwrap();
            issue().save(&folder, &task).unwrap();
            let new_key = fs::read(folder.join("ps-0.key")).unwrap();
            fs::write(folder.join("ps-0.key"), &key).unwrap();
            renewal.look(&quic);
            assert_eq!(renewal.taken, first, "its key is still the old one");
            fs::write(folder.join("ps-0.key"), &new_key).unwrap();
            renewal.look(&quic);
            assert_ne!(renewal.taken, first);
            assert_eq!(renewal.taken, changed(&folder, &task));
        });
        fs::remove_dir_all(folder).unwrap();
    }
}
