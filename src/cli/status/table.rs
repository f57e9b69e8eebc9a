//! Prints the status of all tasks of a cluster: a table, or one document of JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use serde::Serialize;

use super::{ago, state, without_chief, write_json};
use crate::cli::args::StatusArgs;
use crate::cli::failure::Failure;
use crate::cli::stdout::{fitted, raw_stdout, stdout};
use crate::cluster::TaskName;
use crate::deployment::{
    Answers, Certificates, ExitCode, PeerRefused, TaskStatus, ask_cluster, of_unanswered,
    read_cluster,
};
use crate::report::{Layout, TextTable};

const TITLES: [&str; 7] =
    ["task", "global step", "steps/s", "checkpoint age [s]", "MB sent", "lost workers", "state"];

/// The answer of a task as `--json` prints it: one of the two is there.
#[derive(Serialize)]
struct Answer<'a> {
    task: &'a TaskName,
    status: Option<&'a TaskStatus>,
    /// Why there is no status.
    error: Option<&'a str>,
}

/// Asks the tasks of the cluster in `file`, and prints what they answer.
pub(super) fn run(args: &StatusArgs, file: &Path) -> Result<ExitCode, Failure> {
    let cluster = read_cluster(file)?;
    let certificates = Certificates::new(&args.certs, &args.run_name).named(&args.client)?;
    let answers = ask_cluster(&cluster, &certificates)?;
    let printed = match args.json {
        true => write_json(&BTreeMap::from([("tasks", listed(&answers))]), raw_stdout()),
        false => write!(stdout(), "{}", render(&answers, fitted(Layout::Plain))),
    };
    printed.map_err(Failure::writing("the result"))?;
    Ok(exit_code(&answers))
}

/// That of a task that does not answer; else that of the first that refuses the asker.
fn exit_code(answers: &Answers) -> ExitCode {
    let obstacles = answers.values().filter_map(|answer| answer.as_ref().err());
    let codes = obstacles.map(|obstacle| of_unanswered(obstacle.refused));
    codes.min_by_key(|code| *code != ExitCode::Unanswered).unwrap_or(ExitCode::Done)
}

fn listed(answers: &Answers) -> Vec<Answer<'_>> {
    let mut listed = Vec::new();
    for (task, answer) in answers {
        let (status, error) = (answer.as_ref().ok(), answer.as_ref().err());
        listed.push(Answer { task, status, error: error.map(|obstacle| obstacle.why.as_str()) });
    }
    listed
}

/// The table, a line for each task, and what the tasks tell of each other. Ends with a newline.
fn render(answers: &Answers, layout: Layout) -> String {
    let mut rows = vec![TITLES.map(str::to_owned).into()];
    rows.extend(listed(answers).iter().map(row));
    let table = TextTable::new(rows).words([5, 6]).render(layout);
    let statuses: Vec<&TaskStatus> = answers.values().flatten().collect();
    table + &layout.lines(&remarks(&statuses))
}

fn row(answer: &Answer<'_>) -> Vec<String> {
    let Answer { task, status, error } = answer;
    let known = |cell: fn(&TaskStatus) -> Option<String>| {
        status.and_then(cell).unwrap_or_else(|| "-".to_owned())
    };
    vec![
        task.to_string(),
        known(|it| Some(it.global_step?.to_string())),
        known(|it| Some(format!("{:.1}", it.steps_per_second?))),
        known(|it| Some(format!("{:.0}", it.checkpoint_age_seconds?))),
        known(|it| Some(format!("{:.1}", it.bytes_sent as f64 / 1e6))),
        known(|it| (!it.lost_workers.is_empty()).then(|| it.lost_workers.join(", "))),
        error.or(status.map(state)).unwrap_or_default().to_owned(),
    ]
}

/// Whether the chief is away, who waits for whom, who can't reach whom, and which connections were
/// refused: each once, however many of the tasks tell it.
fn remarks(statuses: &[&TaskStatus]) -> Vec<String> {
    let mut chiefs: BTreeSet<&String> = BTreeSet::new();
    let mut waits = BTreeSet::new();
    // By the two and the reason: the last time.
    let mut refused: BTreeMap<_, Option<f64>> = BTreeMap::new();
    let mut unreached: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for status in statuses {
        let task = &status.task;
        chiefs.extend(&status.missing_chief);
        waits.extend(status.waits());
        for PeerRefused { who, why, seconds_ago } in &status.refused {
            let last = refused.entry((task.min(who), task.max(who), why)).or_default();
            *last = last.iter().chain(seconds_ago).copied().reduce(f64::min);
        }
        // Who was refused can't be reached either, for the same reason.
        let is_refused = |(whom, reason): &(String, String)| {
            status.refused.iter().any(|refused| refused.who == *whom && refused.why == *reason)
        };
        for pair in status.unreached.iter().filter(|pair| !is_refused(pair)) {
            unreached.entry(pair).or_default().push(task);
        }
    }
    let chiefs = chiefs.iter().map(|chief| without_chief(chief));
    let waits = waits.iter().map(|(who, what)| format!("{who} waits for {what}"));
    let unreached = unreached
        .iter()
        .map(|((whom, why), tasks)| format!("{} can't reach {whom}: {why}", tasks.join(", ")));
    let refused = refused.iter().map(|((one, other, why), last)| {
        format!("no connection between {one} and {other}: {why}{}", ago(*last))
    });
    chiefs.chain(waits).chain(unreached).chain(refused).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{Obstacle, Refused};

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.to_owned(), b.to_owned())
    }

    fn refused(who: &str, why: &str, seconds_ago: f64) -> PeerRefused {
        let (who, why) = pair(who, why);
        PeerRefused { who, why, seconds_ago: Some(seconds_ago) }
    }

    fn status(task: &str, more: TaskStatus) -> (TaskName, Result<TaskStatus, Obstacle>) {
        (task.parse().unwrap(), Ok(TaskStatus { task: task.to_owned(), ..more }))
    }

    fn silent(task: &str, refused: Option<Refused>) -> (TaskName, Result<TaskStatus, Obstacle>) {
        (task.parse().unwrap(), Err(Obstacle { why: "it does not answer".to_owned(), refused }))
    }

    /// A training whose second parameter server does not answer.
    fn answers() -> Answers {
        let chief = TaskStatus {
            global_step: Some(13_925),
            checkpoint_age_seconds: Some(12.4),
            bytes_sent: 28_302_732,
            waiting: vec![pair("master of worker:0", "ps:1")],
            unreached: vec![pair("ps:1", "no answer"), pair("worker:1", "other settings")],
            refused: vec![refused("worker:1", "other settings", 61.2)],
            ..TaskStatus::default()
        };
        let other = TaskStatus {
            is_training_over: true,
            unreached: vec![pair("ps:1", "no answer")],
            refused: vec![refused("worker:0", "other settings", 3.1)],
            missing_chief: Some("chief:0".to_owned()),
            ..TaskStatus::default()
        };
        let server = TaskStatus {
            steps_per_second: Some(1204.28),
            lost_workers: vec!["worker:2".to_owned()],
            missing_chief: Some("chief:0".to_owned()),
            waiting: vec![pair("parameter server of ps:0", "2 of 2 workers to leave")],
            ..TaskStatus::default()
        };
        let helper = TaskStatus { serves_sessions: true, ..TaskStatus::default() };
        Answers::from([
            status("worker:0", chief),
            status("worker:1", other),
            status("ps:0", server),
            silent("ps:1", None),
            status("helper:0", helper),
        ])
    }

    #[test]
    fn a_cluster_has_a_line_for_each_task_and_what_several_tell_of_each_other_is_said_once() {
        let expected = "\
task      global step  steps/s  checkpoint age [s]  MB sent  lost workers  state
helper:0            -        -                   -      0.0  -             it serves sessions
ps:0                -   1204.3                   -      0.0  worker:2      it trains
ps:1                -        -                   -        -  -             it does not answer
worker:0        13925        -                  12     28.3  -             it trains
worker:1            -        -                   -      0.0  -             its training is over

no checkpoint is written until the chief, chief:0, is back
master of worker:0 waits for ps:1
worker:0, worker:1 can't reach ps:1: no answer
no connection between worker:0 and worker:1: other settings (3 s ago)
";
        assert_eq!(render(&answers(), Layout::Plain), expected);
    }

    #[test]
    fn a_script_is_told_which_tasks_have_answered() {
        let answers = Answers::from([status("ps:0", TaskStatus::default()), silent("ps:1", None)]);
        let listed = serde_json::to_value(listed(&answers)).unwrap();
        assert_eq!(listed[0]["status"]["task"], "ps:0");
        assert!(listed[0]["error"].is_null() && listed[1]["status"].is_null(), "{listed}");
        assert_eq!(listed[1]["task"], "ps:1");
        assert_eq!(listed[1]["error"], "it does not answer");
    }

    #[test]
    fn the_exit_code_is_of_a_task_that_does_not_answer_before_one_that_refuses() {
        let (here, gone) = (status("ps:0", TaskStatus::default()), silent("ps:1", None));
        let refuses = |task, why| silent(task, Some(why));
        let (run, certificate) =
            (refuses("a:0", Refused::Run), refuses("b:0", Refused::Certificate));
        let code = |all: &[&(TaskName, Result<TaskStatus, Obstacle>)]| {
            exit_code(&all.iter().copied().cloned().collect())
        };
        assert_eq!(code(&[&here]), ExitCode::Done);
        assert_eq!(code(&[&here, &run, &gone]), ExitCode::Unanswered);
        assert_eq!(code(&[&here, &certificate]), ExitCode::CertificateRefused);
        assert_eq!(code(&[&certificate, &run]), ExitCode::Usage);
    }
}
