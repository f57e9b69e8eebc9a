//! What a client or an asker is told that is refused: it is no task of the cluster, and mends other
//! things.

use super::super::super::{ASKER, CLIENT, taken_by_another};
use super::Refusal;
use super::explanation::{Alert, alert, shown};
use crate::cluster::TaskName;

impl Refusal {
    /// The reason in the words of the end `own` that has dialed. A client or an asker has its
    /// certificates from elsewhere than the task that it dials: either may have another run's.
    pub(in super::super) fn of_dialing(&self, own: &TaskName) -> String {
        let (Self::Connection(error), CLIENT | ASKER) = (self, own.job()) else {
            return self.to_string();
        };
        match alert(error) {
            Some(("its", Alert::OtherAuthority)) => format!(
                "its certificate is of another authority than that of {own}, whose folder of \
                 certificates may be another run's: take that of the task's run: {}",
                shown(error)
            ),
            _ => self.to_string(),
        }
    }
}

/// What to do where `sender` and `task` are of different trainings.
pub(super) fn same_run(sender: &TaskName, task: &TaskName) -> String {
    let has = |job| [sender, task].iter().any(|name| name.job() == job);
    if has(CLIENT) {
        "give the client that of the task, by `Certificates::new`".to_owned()
    } else if has(ASKER) {
        "ask with the --run-name of the task".to_owned()
    } else {
        "give both the same scenario's name, or the same --run-name".to_owned()
    }
}

/// Why `name` can't connect where a later incarnation of it has.
pub(super) fn outlived(name: &TaskName) -> String {
    if name.job() == CLIENT {
        return taken_by_another(name);
    }
    format!(
        "a later incarnation of {name} has connected; if this is the later one, its machine's \
         clock is behind: set it, and start the task again"
    )
}

#[cfg(test)]
mod tests {
    use quinn::{ConnectionError, TransportErrorCode};

    use super::super::super::RunId;
    use super::*;

    #[test]
    fn a_client_and_an_asker_are_told_what_they_can_mend_and_a_task_what_it_can() {
        let name = |job| TaskName::new(job, 0);
        let told = |sender: TaskName, task: TaskName| {
            Refusal::Run(sender, "a".to_owned(), task, RunId::new("b")).to_string()
        };
        let of_client = told(name(CLIENT), name("ps"));
        assert!(of_client.ends_with("by `Certificates::new`"), "{of_client}");
        assert!(told(name("ps"), name(CLIENT)).ends_with("by `Certificates::new`"));
        assert!(told(name(ASKER), name("ps")).ends_with("the --run-name of the task"));
        assert!(told(name("ps"), name("worker")).contains("the same scenario's name"));
        let outlived = Refusal::Outlived(name(CLIENT)).to_string();
        assert!(outlived.contains("one process at a time: take another, such as"), "{outlived}");
        assert!(Refusal::Outlived(name("ps")).to_string().contains("clock is behind"));
    }

    #[test]
    fn who_dials_from_outside_may_have_the_certificates_of_another_run_itself() {
        let unknown_authority = TransportErrorCode::crypto(48).into();
        let refusal = Refusal::Connection(ConnectionError::TransportError(unknown_authority));
        for job in [CLIENT, ASKER] {
            let told = refusal.of_dialing(&TaskName::new(job, 0));
            assert!(told.contains("take that of the task's run"), "{told}");
        }
        let told = refusal.of_dialing(&TaskName::new("worker", 0));
        assert!(told.starts_with("its certificate is not one of this run"), "{told}");
    }
}
