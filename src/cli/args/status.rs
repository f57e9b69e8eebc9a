//! The arguments of `status`.

use std::path::PathBuf;

use clap::ArgGroup;

use crate::cluster::TaskName;

/// The arguments of `status`.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("asked").args(["address", "cluster"]).required(true)))]
pub(crate) struct StatusArgs {
    /// The address of the task, `host:port`.
    #[arg(requires = "task")]
    pub(crate) address: Option<String>,

    /// The task's name, which it has to prove.
    #[arg(long, value_name = "TASK", conflicts_with = "cluster")]
    pub(crate) task: Option<TaskName>,

    /// Instead of one task: ask all tasks of a cluster at the same time. The file (`.toml`,
    /// `.json`) has jobs and their addresses.
    #[arg(long, value_name = "FILE")]
    pub(crate) cluster: Option<PathBuf>,

    /// The name that the task has: what its --run-name says; else the scenario's name of a `task`,
    /// and that which is the default here of a `serve`.
    #[arg(long, alias = "run_name", value_name = "NAME", default_value = "trainyard")]
    pub(crate) run_name: String,

    /// The folder of a certificate of the same authority: `certs issue DIR --task client:0`.
    #[arg(long, value_name = "DIR")]
    pub(crate) certs: PathBuf,

    /// The name in the certificate in that folder.
    #[arg(long = "as", value_name = "TASK", default_value = "client:0")]
    pub(crate) client: TaskName,

    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::cli::args::{Command, read};

    #[test]
    fn either_one_task_is_asked_or_a_cluster() {
        let status = |asked: &str| {
            let words = format!("trainyard status {asked} --certs c");
            match read(words.split_whitespace().map(OsString::from)).map(|args| args.command) {
                Ok(Command::Status(args)) => Some(args.cluster.is_some()),
                _ => None,
            }
        };
        assert_eq!(status("a:1 --task ps:0"), Some(false));
        assert_eq!(status("--cluster c.json"), Some(true));
        for wrong in ["", "a:1", "--task ps:0", "a:1 --cluster c.json", "--task ps:0 --cluster c"] {
            assert_eq!(status(wrong), None, "{wrong}");
        }
        assert_eq!(status("a:1 --task ps:0 --cluster c.json"), None);
    }
}
