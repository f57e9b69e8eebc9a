//! `certs`: the authority of a run, and the certificates that it issues to the run's tasks.

use std::collections::BTreeSet;

use super::args::{CertsCommand, IssueArgs, NewArgs};
use super::failure::Failure;
use crate::cluster::TaskName;
use crate::deployment::ExitCode;
use crate::say::say;
use crate::transport::{Authority, CertificateError, Identity};

/// Runs the command.
pub(super) fn run(command: &CertsCommand) -> Result<ExitCode, Failure> {
    match command {
        CertsCommand::New(args) => new(args)?,
        CertsCommand::Issue(args) => issue(args)?,
        CertsCommand::Renew(args) => renew(args)?,
    }
    Ok(ExitCode::Done)
}

fn new(args: &NewArgs) -> Result<(), Failure> {
    Authority::new(&args.run_name)?.save(&args.folder)?;
    say!(
        "{} has the authority of `{}` now: keep authority.key to yourself, no task needs it",
        args.folder.display(),
        args.run_name
    );
    Ok(())
}

fn issue(args: &IssueArgs) -> Result<(), Failure> {
    check_distinct(&args.tasks)?;
    let authority = Authority::load(&args.folder)?;
    let out = args.out.as_deref().unwrap_or(&args.folder);
    for task in &args.tasks {
        authority.issue_for(task, &args.hosts, args.lifetime())?.save(out, task)?;
        say!("{} has the certificate and the key of {task} now", out.display());
    }
    Ok(())
}

/// Checks that no task is named twice, most likely in place of another.
fn check_distinct(tasks: &[TaskName]) -> Result<(), Failure> {
    let mut known = BTreeSet::new();
    match tasks.iter().find(|task| !known.insert(*task)) {
        Some(task) => {
            let problem = format!("--task names {task} twice; name each task once");
            Err(Failure::NotSupported(problem))
        }
        None => Ok(()),
    }
}

fn renew(args: &IssueArgs) -> Result<(), Failure> {
    let out = args.out.as_deref().unwrap_or(&args.folder);
    let absent =
        args.tasks.iter().map(|task| Identity::path(out, task)).find(|path| !path.exists());
    if let Some(path) = absent {
        return Err(CertificateError::NotIssued(path).into());
    }
    issue(args)?;
    say!("tasks that run take the new ones from there within half a minute");
    Ok(())
}
