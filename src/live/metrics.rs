//! The numbers of a board in the text format of Prometheus, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use super::board::{Board, Shown};
use super::snapshot::{Counts, STALENESS, STEP_SECONDS, Snapshot};
use crate::cluster::TaskName;

/// The type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Board {
    /// All numbers, in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        write(&self.shown(), &mut text);
        text
    }
}

/// One line of a metric: its labels after `run` and `task`, and its value.
type Lines = Vec<(String, f64)>;

/// A metric of one number for each set of labels.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// Whether only tasks that train have it.
    of_trainers: bool,
    /// Its lines for a task.
    lines: fn(&Snapshot) -> Lines,
}

impl Metric {
    /// A number of every task, which rises and falls.
    const fn gauge(name: &'static str, help: &'static str, lines: fn(&Snapshot) -> Lines) -> Self {
        Self { name, kind: "gauge", help, of_trainers: false, lines }
    }

    /// A number of every task, which only rises.
    const fn counter(
        name: &'static str,
        help: &'static str,
        lines: fn(&Snapshot) -> Lines,
    ) -> Self {
        Self { kind: "counter", ..Self::gauge(name, help, lines) }
    }

    const fn of_trainers(self) -> Self {
        Self { of_trainers: true, ..self }
    }
}

const METRICS: [Metric; 18] = [
    Metric::gauge("global_step", "Global step after the task's last step.", |task| {
        one(task.global_step)
    })
    .of_trainers(),
    Metric::counter("steps_total", "Steps taken.", |task| one(task.steps)).of_trainers(),
    Metric::counter("examples_total", "Samples in the batches of the steps taken.", |task| {
        one(task.examples)
    })
    .of_trainers(),
    Metric::counter(
        "gradients_applied_total",
        "Gradients that were applied, with those that a return to a checkpoint has undone since.",
        |task| one(task.applied),
    )
    .of_trainers(),
    Metric::counter("gradients_dropped_total", "Gradients late, or stopped.", |task| {
        one(task.dropped)
    })
    .of_trainers(),
    Metric::gauge("loss", "Loss of the last step.", |task| {
        task.loss().map(|loss| (String::new(), f64::from(loss))).into_iter().collect()
    })
    .of_trainers(),
    Metric::gauge("checkpoint_step", "Global step of the chief's last checkpoint.", |task| {
        task.saves.last.map(|(step, _)| one(step)).unwrap_or_default()
    })
    .of_trainers(),
    Metric::gauge(
        "checkpoint_age_seconds",
        "Time since the chief's last checkpoint was saved, or the training went on from it.",
        |task| task.checkpoint_age().map(|age| (String::new(), age)).into_iter().collect(),
    )
    .of_trainers(),
    Metric::counter(
        "checkpoints_failed_total",
        "Checkpoints that the chief could not save.",
        |task| one(task.saves.failed),
    )
    .of_trainers(),
    Metric::counter(
        "restores_total",
        "Returns of the training to a checkpoint, or to first values.",
        |task| one(task.saves.restores),
    )
    .of_trainers(),
    Metric::counter("sent_bytes_total", "Data sent, by the receiver's job.", |task| {
        by_job(&task.activity.sent)
    }),
    Metric::counter("received_bytes_total", "Data received, by the sender's job.", |task| {
        by_job(&task.activity.received)
    }),
    Metric::gauge(
        "waiting",
        "Actors that wait, by the task that they wait for, or for `other` things.",
        waiting,
    ),
    Metric::gauge(
        "unreached",
        "Tasks that messages wait for, since they can't be reached.",
        |task| task.activity.unreached.iter().map(|peer| (label("peer", peer), 1.0)).collect(),
    ),
    Metric::gauge("sessions", "Sessions on the task.", |task| one(task.activity.sessions)),
    Metric::gauge("running_steps", "Steps of sessions that are under way.", |task| {
        one(task.activity.running_steps)
    }),
    Metric::gauge(
        "certificate_expiry_timestamp_seconds",
        "When the task's certificate ends, in seconds since 1970.",
        |task| task.activity.certificate_end.map(one).unwrap_or_default(),
    ),
    Metric::gauge("trains", "1 for a task that trains.", |_| one(1)).of_trainers(),
];

/// A metric of numbers of many steps, counted in buckets.
struct Histogram {
    name: &'static str,
    help: &'static str,
    /// What was counted for a task.
    counts: fn(&Snapshot) -> &Counts,
    /// The upper ends of the buckets, without the last, which is infinity.
    ends: &'static [f64],
}

const HISTOGRAMS: [Histogram; 2] = [
    Histogram {
        name: "staleness",
        help: "Updates between a step's reading of the variables and its gradient's application.",
        counts: |task| &task.staleness,
        ends: &STALENESS,
    },
    Histogram {
        name: "step_seconds",
        help: "Time of a step.",
        counts: |task| &task.step_seconds,
        ends: &STEP_SECONDS,
    },
];

fn write(shown: &Shown, out: &mut String) {
    for Metric { name, kind, help, of_trainers, lines } in METRICS {
        heading(name, kind, help, out);
        for (task, numbers) in tasks(shown, of_trainers) {
            for (labels, value) in lines(numbers) {
                line(name, &format!("{}{labels}", of(shown, task)), value, out);
            }
        }
    }
    for Histogram { name, help, counts, ends } in HISTOGRAMS {
        heading(name, "histogram", help, out);
        for (task, numbers) in tasks(shown, true) {
            histogram(name, &of(shown, task), (counts(numbers), ends), out);
        }
    }
}

/// The tasks, or those that train alone.
fn tasks(shown: &Shown, of_trainers: bool) -> impl Iterator<Item = (&TaskName, &Snapshot)> {
    shown.tasks.iter().filter(move |(task, _)| !of_trainers || shown.trains(task))
}

fn heading(name: &str, kind: &str, help: &str, out: &mut String) {
    append!(out, "# HELP trainyard_{name} {help}\n# TYPE trainyard_{name} {kind}\n");
}

fn line(name: &str, labels: &str, value: f64, out: &mut String) {
    append!(out, "trainyard_{name}{{{labels}}} {}\n", Number(value));
}

fn histogram(name: &str, labels: &str, (counts, ends): (&Counts, &[f64]), out: &mut String) {
    let mut sum = 0;
    for (at, end) in ends.iter().copied().chain([f64::INFINITY]).enumerate() {
        sum += counts.buckets.get(at).copied().unwrap_or(0);
        let labels = format!("{labels}{}", label("le", &Number(end).to_string()));
        line(&format!("{name}_bucket"), &labels, sum as f64, out);
    }
    line(&format!("{name}_sum"), labels, counts.sum, out);
    line(&format!("{name}_count"), labels, sum as f64, out);
}

/// The labels that each line of a task has.
fn of(shown: &Shown, task: &TaskName) -> String {
    format!("run=\"{}\"{}", escaped(&shown.about.run), label("task", &task.to_string()))
}

/// A label after others.
fn label(name: &str, value: &str) -> String {
    format!(",{name}=\"{}\"", escaped(value))
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn one(value: u64) -> Lines {
    vec![(String::new(), value as f64)]
}

fn by_job(bytes: &BTreeMap<String, u64>) -> Lines {
    let mut by_job: BTreeMap<&str, u64> = BTreeMap::new();
    for (task, bytes) in bytes {
        *by_job.entry(task.split(':').next().unwrap_or_default()).or_default() += bytes;
    }
    by_job.iter().map(|(job, bytes)| (label("peer_job", job), *bytes as f64)).collect()
}

/// The number of actors that wait, by task. Waits for anything but a task are counted as `other`.
/// Their text contains step numbers, which would create unbounded label values.
fn waiting(task: &Snapshot) -> Lines {
    let line = |(of, actors): (Option<TaskName>, u64)| {
        let of = of.map_or_else(|| "other".to_owned(), |task| task.to_string());
        (label("for", &of), actors as f64)
    };
    task.waits_for().into_iter().map(line).collect()
}

/// A number as Prometheus reads it.
struct Number(f64);

impl Display for Number {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value == f64::INFINITY => to.write_str("+Inf"),
            value if value == f64::NEG_INFINITY => to.write_str("-Inf"),
            value => write!(to, "{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cluster::ClusterSpec;
    use crate::live::{About, TaskActivity};
    use crate::training::StepStats;
    use crate::units::Time;

    fn board() -> std::sync::Arc<Board> {
        let cluster = ClusterSpec::dense([("ps", ["a:1"]), ("worker", ["b:1"])]).unwrap();
        let about = About { run: "sync \"1\"".to_owned(), ..About::default() };
        let board = Board::new(about, &cluster, cluster.tasks());
        let step = StepStats {
            worker: TaskName::new("worker", 0),
            local_step: 0,
            global_step: 7,
            started: Time(1_000_000_000),
            ended: Time(1_003_000_000),
            computed: None,
            loss: Some(f32::INFINITY),
            staleness: 3,
            applied: true,
            is_stopped: false,
            is_local: false,
        };
        board.count(&step, 32, None);
        board.count(&StepStats { applied: false, ..step }, 32, None);
        let waits = |what: &str| ("master of ps:0".to_owned(), what.to_owned());
        let activity = TaskActivity {
            sent: [("worker:0".to_owned(), 1000), ("worker:1".to_owned(), 24)].into(),
            received: [("worker:0".to_owned(), 10)].into(),
            waiting: vec![waits("step 5 of worker:0, ps:0"), waits("step 6 of worker:0")],
            unreached: vec!["worker:0".to_owned()],
            certificate_end: Some(1_800_000_000),
            ..TaskActivity::default()
        };
        board.note(&TaskName::new("ps", 0), activity);
        let chief = TaskName::new("worker", 0);
        board.save(&chief, (6, Time(2_000_000_000)));
        board.note(&chief, TaskActivity { now: 5.5, ..TaskActivity::default() });
        board
    }

    #[test]
    fn each_task_has_its_numbers_and_only_those_that_train_have_steps() {
        let text = board().metrics();
        let has = |line: &str| assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        has("# TYPE trainyard_steps_total counter");
        has(r#"trainyard_steps_total{run="sync \"1\"",task="worker:0"} 2"#);
        has(r#"trainyard_examples_total{run="sync \"1\"",task="worker:0"} 64"#);
        has(r#"trainyard_gradients_applied_total{run="sync \"1\"",task="worker:0"} 1"#);
        has(r#"trainyard_gradients_dropped_total{run="sync \"1\"",task="worker:0"} 1"#);
        has(r#"trainyard_loss{run="sync \"1\"",task="worker:0"} +Inf"#);
        has(r#"trainyard_staleness_bucket{run="sync \"1\"",task="worker:0",le="2"} 0"#);
        has(r#"trainyard_staleness_bucket{run="sync \"1\"",task="worker:0",le="4"} 1"#);
        has(r#"trainyard_staleness_bucket{run="sync \"1\"",task="worker:0",le="+Inf"} 1"#);
        has(r#"trainyard_step_seconds_bucket{run="sync \"1\"",task="worker:0",le="0.0025"} 0"#);
        has(r#"trainyard_step_seconds_bucket{run="sync \"1\"",task="worker:0",le="0.005"} 2"#);
        has(r#"trainyard_step_seconds_sum{run="sync \"1\"",task="worker:0"} 0.006"#);
        has(r#"trainyard_sent_bytes_total{run="sync \"1\"",task="ps:0",peer_job="worker"} 1024"#);
        has(r#"trainyard_waiting{run="sync \"1\"",task="ps:0",for="worker:0"} 2"#);
        has(r#"trainyard_unreached{run="sync \"1\"",task="ps:0",peer="worker:0"} 1"#);
        let end = "trainyard_certificate_expiry_timestamp_seconds";
        has(&format!(r#"{end}{{run="sync \"1\"",task="ps:0"}} 1800000000"#));
        let none = format!(r#"{end}{{run="sync \"1\"",task="worker:0"}}"#);
        assert!(!text.contains(&none), "who has no certificate has no line: {text}");
        assert!(!text.contains(r#"trainyard_steps_total{run="sync \"1\"",task="ps:0"}"#), "{text}");
    }

    #[test]
    fn the_last_checkpoint_has_its_step_and_its_age_and_failures_and_returns_are_counted() {
        let board = board();
        let has = |name: &str, value: &str| {
            let line = format!(r#"trainyard_{name}{{run="sync \"1\"",task="worker:0"}} {value}"#);
            let text = board.metrics();
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        };
        has("checkpoint_step", "6");
        has("checkpoint_age_seconds", "3.5");
        has("checkpoints_failed_total", "0");
        has("restores_total", "0");
        let chief = TaskName::new("worker", 0);
        board.count_failed_save(&chief);
        board.restore(6, Some(&chief));
        has("checkpoints_failed_total", "1");
        has("restores_total", "1");
        has("global_step", "6");
    }

    #[test]
    fn the_grafana_dashboard_asks_for_metrics_that_exist() {
        let text = board().metrics();
        let name = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
        let known: BTreeSet<String> =
            text.lines().filter(|line| !line.starts_with('#')).map(name).collect();
        let grafana = include_str!("../../sims/deploy/grafana.json");
        let grafana: serde_json::Value = serde_json::from_str(grafana).unwrap();
        let panels = grafana["panels"].as_array().unwrap();
        let mut asked = BTreeSet::new();
        for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
            let query = target["expr"].as_str().unwrap();
            let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let names = words.filter(|word| word.starts_with("trainyard_"));
            asked.extend(names.map(str::to_owned));
        }
        let unknown: Vec<_> = asked.difference(&known).collect();
        assert!(unknown.is_empty() && asked.len() >= 10, "{unknown:?} of {asked:?}");
    }
}
