//! Renewal: a running task takes a certificate that has been renewed in its folder, and warns while
//! its own comes to its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::{Duration, SystemTime};

use crate::clock::date;
use crate::cluster::TaskName;
use crate::transport::{Identity, Payload, Quic, QuicError};

/// The time between two looks at the folder.
const LOOK_EVERY: Duration = Duration::from_secs(20);

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The times before the end of a certificate at which a running task warns of it, and the end.
const WARNINGS: [Duration; 9] = [
    DAY.saturating_mul(7),
    DAY.saturating_mul(6),
    DAY.saturating_mul(5),
    DAY.saturating_mul(4),
    DAY.saturating_mul(3),
    DAY.saturating_mul(2),
    DAY,
    HOUR,
    Duration::ZERO,
];

/// The folder of a task's certificate, and the time of the one that was last seen there.
#[derive(Debug)]
pub(super) struct Renewal {
    folder: PathBuf,
    task: TaskName,
    /// When the certificate was written that is in use, or a later one of another authority.
    seen: Option<SystemTime>,
    /// How many of [`WARNINGS`] were due when the end was last looked at. None before the first
    /// look: the task has warned as it read the certificate.
    warned: Option<usize>,
}

impl Renewal {
    /// Watches the certificate of `task` in `folder`, which has just been read.
    pub(super) fn new(folder: &Path, task: &TaskName) -> Self {
        let seen = changed(folder, task);
        Self { folder: folder.to_owned(), task: task.clone(), seen, warned: None }
    }

    /// Looks from time to time, for as long as `quic` is there.
    pub(super) async fn watch<M: Payload>(mut self, quic: Weak<Quic<M>>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(quic) = quic.upgrade() else { return };
            self.look(&quic);
            if let Some(warning) = self.warning(quic.certificate_end(), date()) {
                tracing::warn!("{warning}");
            }
        }
    }

    /// What to warn of at the time `now`, if another of [`WARNINGS`] before the certificate's `end`
    /// has come since the last look.
    fn warning(&mut self, end: Option<SystemTime>, now: SystemTime) -> Option<String> {
        let left = end?.duration_since(now).unwrap_or_default();
        let due = WARNINGS.iter().filter(|before| left <= **before).count();
        let is_new = self.warned.replace(due).is_some_and(|warned| warned < due);
        let (path, task) = (Identity::path(&self.folder, &self.task), &self.task);
        let (path, end) = (path.display(), humantime::format_rfc3339_seconds(end?));
        let renew = format!("`trainyard certs renew DIR --task {task}` makes another");
        is_new.then(|| match left.is_zero() {
            true => format!("{path} was valid until {end}; nobody connects to {task} now: {renew}"),
            false => format!("{path} is valid until {end} only: {renew}"),
        })
    }

    /// Has `quic` take a certificate that is new in the folder. One that is not whole yet is looked
    /// at again: its two files are written one after the other. One of another authority would cut
    /// the task off from the others: it is told once, and left.
    fn look<M: Payload>(&mut self, quic: &Rc<Quic<M>>) {
        let found = changed(&self.folder, &self.task);
        if found.is_none() || found == self.seen {
            return;
        }
        let loaded = Identity::load(&self.folder, &self.task).map_err(QuicError::from);
        match loaded.and_then(|new| quic.renew(&new)) {
            Ok(()) => {
                tracing::info!(task = %self.task, "the certificate is renewed");
                self.seen = found;
            }
            Err(error @ QuicError::OtherAuthority { .. }) => {
                tracing::warn!("{error}");
                self.seen = found;
            }
            Err(error) => {
                tracing::warn!(task = %self.task, %error, "the new certificate is not taken yet")
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
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::cluster::ClusterSpec;
    use crate::deployment::Message;
    use crate::transport::{Authority, QuicConfig, RunId};

    #[test]
    fn a_running_task_warns_each_day_of_the_last_week_in_the_last_hour_and_at_the_end() {
        let mut renewal = Renewal::new(Path::new("certs"), &TaskName::new("ps", 0));
        let end = UNIX_EPOCH + 1000 * DAY;
        let mut warnings = |from: Duration, to: Duration| {
            let mut warnings = Vec::new();
            let mut left = from;
            while left >= to && left >= LOOK_EVERY {
                warnings.extend(renewal.warning(Some(end), end - left));
                left -= LOOK_EVERY;
            }
            warnings
        };
        assert_eq!(warnings(8 * DAY, 7 * DAY + HOUR), [""; 0]);
        let daily = warnings(7 * DAY, 2 * HOUR);
        let says =
            "certs/ps-0.pem is valid until 1972-09-27T00:00:00Z only: `trainyard certs renew";
        assert!(daily.len() == 7 && daily[0].starts_with(says), "{daily:?}");
        assert_eq!(warnings(2 * HOUR, LOOK_EVERY).len(), 1);
        let mut at = |now| renewal.warning(Some(end), now);
        assert!(at(end).unwrap().contains("was valid until"));
        assert_eq!(at(end + DAY), None, "it has been said");
        assert_eq!(renewal.warning(Some(end + 300 * DAY), end + DAY), None, "it is renewed");
        let next = renewal.warning(Some(end + 300 * DAY), end + 294 * DAY);
        assert!(next.is_some(), "the new one ends, too");
    }

    /// An empty folder for the certificates of the test of that name.
    fn empty_folder(test: &str) -> PathBuf {
        let name = format!("trainyard-renewal-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _absent = fs::remove_dir_all(&folder);
        folder
    }

    /// Runs `test` with the running `task`, whose certificate is in `folder`.
    fn with_running<F: Future<Output = ()>>(
        folder: &Path,
        task: &TaskName,
        test: impl FnOnce(Rc<Quic<Message>>, Renewal) -> F,
    ) {
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().build().unwrap()
        };
        actix_rt::System::with_tokio_rt(runtime).block_on(async {
            let cluster = ClusterSpec::dense([("ps", ["127.0.0.1:1"])]).unwrap();
            let identity = Identity::load(folder, task).unwrap();
            let config = QuicConfig::new(cluster, task.clone(), RunId::new("run"), identity);
            let listen = Some("127.0.0.1:0".parse().unwrap());
            let quic = Quic::<Message>::bind(QuicConfig { listen, ..config }).await.unwrap();
            test(quic, Renewal::new(folder, task)).await;
        });
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_certificate_of_another_authority_is_not_taken_and_a_later_one_of_the_same_is() {
        let (folder, task) = (empty_folder("other"), TaskName::new("ps", 0));
        let [own, other] = [(); 2].map(|()| Authority::new("run").unwrap());
        let issue = |authority: &Authority, days| {
            fs::remove_dir_all(&folder).unwrap_or_default();
            let identity = authority.issue_for(&task, &[], days * DAY).unwrap();
            identity.save(&folder, &task).unwrap();
        };
        issue(&own, 100);
        let (folder, task) = (&folder, &task);
        with_running(folder, task, |quic, mut renewal| async move {
            let first_end = quic.certificate_end();
            issue(&other, 200);
            let stranger = Identity::load(folder, task).unwrap();
            let refused = quic.renew(&stranger).unwrap_err().to_string();
            assert!(refused.contains("restart all tasks"), "{refused}");
            renewal.look(&quic);
            assert_eq!(quic.certificate_end(), first_end, "the one in use is kept");
            assert_eq!(renewal.seen, changed(folder, task), "it is told once");
            issue(&own, 300);
            renewal.look(&quic);
            assert!(quic.certificate_end() > first_end);
        });
    }

    #[test]
    fn a_renewed_certificate_is_taken_once_it_is_whole() {
        let folder = empty_folder("whole");
        let (task, authority) = (TaskName::new("ps", 0), Authority::new("run").unwrap());
        let issue = |days| authority.issue_for(&task, &[], days * DAY).unwrap();
        let (folder, task) = (&folder, &task);
        issue(100).save(folder, task).unwrap();
        with_running(folder, task, |quic, mut renewal| async move {
            let first = renewal.seen;
            let end = || quic.certificate_end().unwrap();
            let first_end = end();
            let key = fs::read(folder.join("ps-0.key")).unwrap();
            issue(200).save(folder, task).unwrap();
            let new_key = fs::read(folder.join("ps-0.key")).unwrap();
            fs::write(folder.join("ps-0.key"), &key).unwrap();
            renewal.look(&quic);
            assert_eq!(renewal.seen, first, "its key is still the old one");
            fs::write(folder.join("ps-0.key"), &new_key).unwrap();
            renewal.look(&quic);
            assert_ne!(renewal.seen, first);
            assert_eq!(renewal.seen, changed(folder, task));
            assert!(end() > first_end);
        });
    }
}
