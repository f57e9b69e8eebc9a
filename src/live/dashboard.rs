//! The dashboard: one page, and the events that keep it up to date.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::board::{Board, Boards, Shown};
use super::http::{Answer, Events};
use super::snapshot::{Counts, Snapshot};
use super::traffic::{PairTraffic, by_job};
use crate::cluster::TaskName;

/// The type of the page.
const HTML: &str = "text/html; charset=utf-8";
/// The most pairs of tasks that are told, the fastest; those of jobs are all told.
const PAIRS: usize = 200;
/// The path of the events of a page; the number of a run may follow.
const EVENTS: &str = "/events";
/// The page with the style of reports.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("dashboard.html").replace("/*STYLE*/", include_str!("../report/html.css"))
});

/// The answer of the dashboard of `boards` at `path`.
pub(crate) fn dashboard(boards: &Arc<Boards>, path: &str) -> Answer {
    let run = match path {
        "/" => return Answer::Text(HTML, PAGE.clone()),
        _ => path.strip_prefix(EVENTS).map(|rest| rest.strip_prefix('/').unwrap_or(rest)),
    };
    let of = |run: Option<usize>| {
        Answer::Events(Box::new(DashboardEvents { boards: Arc::clone(boards), run }))
    };
    match run {
        Some("") => of(None),
        Some(run) => run.parse().map_or(Answer::NotFound, |run| of(Some(run))),
        None => Answer::NotFound,
    }
}

/// What one viewer looks at.
struct DashboardEvents {
    boards: Arc<Boards>,
    /// The number of the run; none for the one that began last.
    run: Option<usize>,
}

impl Events for DashboardEvents {
    fn next(&mut self) -> String {
        let (runs, chosen) = self.boards.choose(self.run);
        chosen.map_or_else(|| "{}".to_owned(), |(at, board)| board.state(&runs, at).to_string())
    }
}

impl Board {
    /// All that the page shows; `runs` are the names of all runs, of which this is the one `at`.
    fn state(&self, runs: &[String], at: usize) -> Value {
        let shown = self.look();
        let traffic = shown.traffic.fastest();
        let jobs = by_job(&traffic);
        let of_jobs = jobs.iter().map(|((from, to), rate)| json!([from, to, rate]));
        let of_tasks = traffic
            .iter()
            .take(PAIRS)
            .map(|PairTraffic { pair: (from, to), sent, rate }| json!([from, to, rate, sent]));
        let tasks: Vec<Value> =
            shown.tasks.iter().map(|(name, task)| of_task(&shown, name, task)).collect();
        json!({
            "run": shown.about.run,
            "runs": runs,
            "at": at,
            "world": shown.about.world,
            "total_steps": shown.about.total_steps,
            "global_step": shown.course.global_step(),
            "tasks": tasks,
            "points": shown.course.points(),
            "evaluations": shown.course.evaluations(),
            "links": of_tasks.collect::<Vec<_>>(),
            "job_links": of_jobs.collect::<Vec<_>>(),
            "waited": shown.waited,
        })
    }
}

fn of_task(shown: &Shown, name: &TaskName, task: &Snapshot) -> Value {
    let mean = |counts: &Counts| match counts.buckets.iter().sum::<u64>() {
        0 => None,
        count => Some(counts.sum / count as f64),
    };
    let step_seconds = mean(&task.step_seconds);
    let compute_seconds = match task.computed {
        0 => None,
        steps => Some(task.compute_seconds / steps as f64),
    };
    let share = |seconds: f64| Some(seconds / step_seconds.filter(|all| *all > 0.0)?);
    let waits_for = task.waits_for().into_keys().flatten();
    let waits_for: Vec<String> = waits_for.map(|task| task.to_string()).collect();
    json!({
        "task": name.to_string(),
        "trains": shown.trains(name),
        "steps": task.steps,
        "global_step": task.global_step,
        "examples": task.examples,
        "applied": task.applied,
        "dropped": task.dropped,
        "loss": task.loss(),
        "staleness": mean(&task.staleness),
        "step_seconds": step_seconds,
        "compute_seconds": compute_seconds,
        "computing": compute_seconds.and_then(share).map(|share| share.min(1.0)),
        "sent": task.activity.sent.values().sum::<u64>(),
        "received": task.activity.received.values().sum::<u64>(),
        "waits_for": waits_for,
        "unreached": task.activity.unreached,
    })
}
