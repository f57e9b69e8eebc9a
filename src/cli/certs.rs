//! `certs`: the authority of a run, and the certificates that it issues to the run's tasks.

use std::collections::BTreeSet;
use std::path::Path;

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

/// Issues certificates where there are none: a task that runs with one would lose its key.
fn issue(args: &IssueArgs) -> Result<(), Failure> {
    let issued = issued(args)?;
    let path = |task| Identity::path(out(args), task);
    if let Some(path) = args.tasks.iter().map(path).find(|path| path.exists()) {
        return Err(CertificateError::Issued(path).into());
    }
    save(args, &issued)
}

/// The certificates, by task.
fn issued(args: &IssueArgs) -> Result<Vec<Identity>, Failure> {
    check_distinct(&args.tasks)?;
    let authority = Authority::load(&args.folder)?;
    let issue = |task| authority.issue_for(task, &args.hosts, args.lifetime());
    Ok(args.tasks.iter().map(issue).collect::<Result<_, _>>()?)
}

fn save(args: &IssueArgs, issued: &[Identity]) -> Result<(), Failure> {
    let out = out(args);
    for (task, identity) in args.tasks.iter().zip(issued) {
        identity.save(out, task)?;
        say!("{} has the certificate and the key of {task} now", out.display());
    }
    Ok(())
}

/// The folder that certificates are written to.
fn out(args: &IssueArgs) -> &Path {
    args.out.as_deref().unwrap_or(&args.folder)
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
    let path = |task| Identity::path(out(args), task);
    let absent = args.tasks.iter().map(path).find(|path| !path.exists());
    if let Some(path) = absent {
        return Err(CertificateError::NotIssued(path).into());
    }
    save(args, &issued(args)?)?;
    say!("tasks that run take the new ones from there within half a minute");
    Ok(())
}
