//! `status`: prints the status of a running task (how far its training is, its cluster, its
//! devices, its sessions, its waiting actors, the peers that it can't reach), or of all tasks of a
//! cluster.

mod table;

use std::io::{self, Write};

use serde::Serialize;

use super::args::StatusArgs;
use super::cluster::write_replicas;
use super::failure::Failure;
use super::stdout::{raw_stdout, stdout};
use crate::deployment::{ExitCode, PeerRefused, Question, TaskStatus, ask};
use crate::runtime::SessionStatus;

/// Runs the command.
pub(super) fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    if let Some(file) = &args.cluster {
        return table::run(args, file);
    }
    let one = args.address.as_deref().zip(args.task.as_ref());
    let (address, task) = one.expect("both are required without --cluster");
    let status = ask(&Question {
        task,
        address,
        run: &args.run_name,
        certificates: &args.certs,
        client: &args.client,
    })?;
    let printed = match args.json {
        true => write_json(&status, raw_stdout()),
        false => write_text(&status, stdout()),
    };
    printed.map_err(Failure::writing("the result"))?;
    Ok(ExitCode::Done)
}

fn write_json(answer: &impl Serialize, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, answer)?;
    writeln!(out)
}

fn write_text(status: &TaskStatus, mut out: impl Write) -> io::Result<()> {
    let sent = status.bytes_sent as f64 / 1e6;
    writeln!(out, "{}: {}, {sent:.1} MB sent", status.task, state(status))?;
    write_progress(status, &mut out)?;
    for device in &status.devices {
        writeln!(out, "device   {device}")?;
    }
    for (task, address) in &status.cluster {
        writeln!(out, "{task:<8} {}", address.as_deref().unwrap_or("address not known"))?;
    }
    write_replicas(&status.replicas, &mut out)?;
    for session in &status.sessions {
        let SessionStatus { number, operations, steps, running, .. } = session;
        let client = session.client.as_ref().map(ToString::to_string);
        let client = client.as_deref().unwrap_or("its own program");
        let away = if session.is_away { ", which is away" } else { "" };
        writeln!(
            out,
            "session {number} of {client}{away}: {operations} operations, {steps} steps, \
             {running} under way"
        )?;
    }
    for (task, why) in &status.unreached {
        writeln!(out, "can't reach {task}: {why}")?;
    }
    for PeerRefused { who, why, seconds_ago } in &status.refused {
        writeln!(out, "no connection with {who}: {why}{}", ago(*seconds_ago))?;
    }
    for (who, what) in status.waits() {
        writeln!(out, "{who} waits for {what}")?;
    }
    Ok(())
}

/// How long ago a refusal last happened, if that is known.
fn ago(seconds: Option<f64>) -> String {
    seconds.map_or_else(String::new, |seconds| format!(" ({seconds:.0} s ago)"))
}

fn without_chief(chief: &str) -> String {
    format!("no checkpoint is written until the chief, {chief}, is back")
}

/// What the task does.
fn state(status: &TaskStatus) -> &'static str {
    match status {
        TaskStatus { serves_sessions: true, .. } => "it serves sessions",
        TaskStatus { is_training_over: true, .. } => "its training is over",
        _ => "it trains",
    }
}

/// Writes how far the training is, if the task knows.
fn write_progress(status: &TaskStatus, mut out: impl Write) -> io::Result<()> {
    if let Some(step) = status.global_step {
        let pace = status.steps_per_second.map(|pace| format!(", {pace:.1} steps/s of late"));
        writeln!(out, "training at global step {step}{}", pace.unwrap_or_default())?;
    }
    if let (Some(step), Some(age)) = (status.checkpoint_step, status.checkpoint_age_seconds) {
        writeln!(out, "checkpoint of global step {step}, {age:.0} s old")?;
    }
    if !status.lost_workers.is_empty() {
        writeln!(out, "lost     {}", status.lost_workers.join(", "))?;
    }
    if let Some(chief) = &status.missing_chief {
        writeln!(out, "{}", without_chief(chief))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::TaskName;

    fn session() -> SessionStatus {
        let client = Some(TaskName::new("client", 0));
        SessionStatus { number: 7, client, is_away: true, operations: 12, steps: 5, running: 1 }
    }

    #[test]
    fn a_session_names_its_client_in_json_as_users_do() {
        let expected = "{\"number\":7,\"client\":\"client:0\",\"is_away\":true,\
                        \"operations\":12,\"steps\":5,\"running\":1}";
        assert_eq!(serde_json::to_string(&session()).unwrap(), expected);
    }

    #[test]
    fn a_status_tells_how_far_the_training_is_and_who_waits_for_what() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let status = TaskStatus {
            task: "worker:1".to_owned(),
            devices: vec!["/job:worker/task:1/device:CPU:0".to_owned()],
            cluster: vec![
                ("ps:0".to_owned(), Some("a:1".to_owned())),
                ("worker:0".to_owned(), None),
            ],
            replicas: vec![vec!["worker:0".to_owned(), "worker:1".to_owned()]],
            global_step: Some(13_925),
            steps_per_second: Some(1204.28),
            checkpoint_step: Some(13_000),
            checkpoint_age_seconds: Some(12.4),
            lost_workers: vec!["worker:2".to_owned()],
            missing_chief: Some("worker:0".to_owned()),
            bytes_sent: 28_302_732,
            sessions: vec![session()],
            waiting: vec![
                pair("master of worker:1", "ps:0"),
                pair("parameter server of worker:1", "2 of 2 workers to leave"),
            ],
            unreached: vec![pair("ps:0", "it has not answered yet")],
            ..TaskStatus::default()
        };
        let mut text = Vec::new();
        write_text(&status, &mut text).unwrap();
        let expected = "worker:1: it trains, 28.3 MB sent\n\
                        training at global step 13925, 1204.3 steps/s of late\n\
                        checkpoint of global step 13000, 12 s old\n\
                        lost     worker:2\n\
                        no checkpoint is written until the chief, worker:0, is back\n\
                        device   /job:worker/task:1/device:CPU:0\n\
                        ps:0     a:1\n\
                        worker:0 address not known\n\
                        replica  worker:0 trains with worker:1\n\
                        session 7 of client:0, which is away: 12 operations, 5 steps, 1 under \
                        way\n\
                        can't reach ps:0: it has not answered yet\n\
                        master of worker:1 waits for ps:0\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        let over = TaskStatus { is_training_over: true, ..status };
        assert!(over.waits().any(|(_, what)| what == "2 of 2 workers to leave"), "it is no news");
    }
}
