//! `Profiler`: writes the times of a run and its operations as a timeline for a browser.

use std::collections::BTreeMap;
use std::future::ready;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cluster::TaskName;
use crate::runtime::{OperationTime, Result};
use crate::units::Time;

use super::super::summary::unwritable;
use super::{
    Hook, HookContext, HookFuture, RunArgs, RunOptions, RunValues, SecondOrStepTimer, TraceLevel,
};

/// Writes `timeline-<step>.json` into a folder every so often (TensorFlow: `ProfilerHook`), but not
/// for the first run, in which the graph is placed and partitioned. The file is a Chrome trace, for
/// `chrome://tracing` and Perfetto.
///
/// It shows the run as this worker saw it, with the span of its kernels, and each operation of the
/// run as a span of its device, on any task. Deployed, each task has its own clock. The timeline of
/// a scenario's report shows all runs of all tasks.
#[derive(Debug)]
pub struct Profiler {
    folder: PathBuf,
    timer: SecondOrStepTimer,
    /// Whether the run under way is to be written.
    is_due: bool,
}

impl Profiler {
    /// Writes into `folder`, which is made if it is missing, as often as `timer` says.
    pub fn new(folder: impl Into<PathBuf>, timer: SecondOrStepTimer) -> Self {
        Self { folder: folder.into(), timer, is_due: false }
    }

    fn write(&self, context: &HookContext<'_>, run: &RunValues<'_>) -> Result<()> {
        let path = self.folder.join(format!("timeline-{}.json", context.global_step));
        let trace = trace(context.task.name(), context.global_step, run);
        let written = std::fs::create_dir_all(&self.folder)
            .and_then(|()| std::fs::write(&path, trace.to_string()));
        written.map_err(|error| unwritable(&path, &error))
    }
}

impl Hook for Profiler {
    fn before_run(&mut self, context: &HookContext<'_>, run: &mut RunArgs<'_>) -> Result<()> {
        let (step, now) = (context.global_step, context.now());
        if self.timer.last_step().is_none() {
            self.timer.triggered(step, now);
        }
        self.is_due = self.timer.should_trigger(step + 1, now);
        if self.is_due {
            run.options(RunOptions { trace: TraceLevel::Full, ..RunOptions::default() });
        }
        Ok(())
    }

    fn after_run<'a>(
        &'a mut self,
        context: &'a HookContext<'_>,
        run: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        if !self.is_due {
            return Box::pin(ready(Ok(())));
        }
        self.timer.triggered(context.global_step, context.now());
        Box::pin(ready(self.write(context, run)))
    }
}

type Span = (Time, Time);

/// The events of a run, in Chrome's trace format.
fn trace(task: &TaskName, step: u64, run: &RunValues<'_>) -> Value {
    let mut events = vec![
        label("process_name", 0, 0, &task.to_string()),
        label("thread_name", 0, 0, "run"),
        label("thread_name", 0, 1, "kernels"),
        event(&format!("step {step}"), "step", step, (0, 0), run.span),
    ];
    events.extend(run.computed.map(|span| event("kernels", "step", step, (0, 1), span)));
    let mut devices: BTreeMap<&str, Vec<&OperationTime>> = BTreeMap::new();
    for operation in &run.metadata.operations {
        devices.entry(&operation.device).or_default().push(operation);
    }
    for (process, (device, operations)) in (1..).zip(devices) {
        events.push(label("process_name", process, 0, device));
        for (thread, operation) in in_threads(operations) {
            let span = (operation.began, operation.ended);
            let place = (process, thread);
            events.push(event(&operation.operation, "operation", step, place, span));
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

/// The operations by their beginning, each with the first thread that is free then.
fn in_threads(mut operations: Vec<&OperationTime>) -> Vec<(usize, &OperationTime)> {
    operations.sort_by_key(|operation| (operation.began, operation.ended));
    let mut free_at: Vec<Time> = Vec::new();
    let mut threaded = Vec::with_capacity(operations.len());
    for operation in operations {
        let free = free_at.iter().position(|end| *end <= operation.began);
        let thread = free.unwrap_or(free_at.len());
        match free_at.get_mut(thread) {
            Some(end) => *end = operation.ended,
            None => free_at.push(operation.ended),
        }
        threaded.push((thread, operation));
    }
    threaded
}

/// What lasts for a span, in a thread of a process.
fn event(
    name: &str,
    category: &str,
    step: u64,
    (process, thread): (usize, usize),
    (begin, end): Span,
) -> Value {
    let microseconds = |time: Time| time.0 as f64 / 1e3;
    json!({
        "name": name, "cat": category, "ph": "X", "pid": process, "tid": thread,
        "ts": microseconds(begin), "dur": microseconds(end) - microseconds(begin),
        "args": { "global_step": step }
    })
}

/// The name of a process or of a thread.
fn label(what: &str, process: usize, thread: usize, name: &str) -> Value {
    json!({ "name": what, "ph": "M", "pid": process, "tid": thread, "args": { "name": name } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::RunMetadata;

    fn timed(operation: &str, device: &str, began: u64, ended: u64) -> OperationTime {
        let (began, ended) = (Time(began), Time(ended));
        OperationTime { operation: operation.into(), device: device.into(), began, ended }
    }

    /// By event: its process's name, its thread, its name, when it began and how long it took
    /// \[us\].
    fn shown(trace: &Value) -> Vec<(String, u64, String, f64, f64)> {
        let events = trace["traceEvents"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let process = |event: &Value| {
            let of =
                |label: &&Value| label["name"] == "process_name" && label["pid"] == event["pid"];
            text(&events.iter().find(of).unwrap()["args"]["name"])
        };
        let spans = events.iter().filter(|event| event["ph"] == "X");
        let row = |event: &Value| {
            let number = |key: &str| event[key].as_f64().unwrap();
            let thread = event["tid"].as_u64().unwrap();
            (process(event), thread, text(&event["name"]), number("ts"), number("dur"))
        };
        spans.map(row).collect()
    }

    #[test]
    fn a_timeline_has_the_run_the_kernels_and_each_operation_by_its_device_in_microseconds() {
        let (ps, worker) = ("/job:ps/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0");
        let operations = vec![
            timed("MatMul", worker, 2_000, 3_000),
            timed("w/read", ps, 1_500, 1_800),
            timed("b/read", ps, 1_600, 1_900),
            timed("update", ps, 4_000, 4_500),
        ];
        let run = RunValues {
            results: &[],
            step: None,
            options: RunOptions::default(),
            span: (Time(1_000), Time(9_500)),
            computed: Some((Time(2_000), Time(3_000))),
            metadata: &RunMetadata { operations },
        };
        let trace = trace(&TaskName::new("worker", 1), 4, &run);
        let row = |process: &str, thread, name: &str, began, took| {
            (process.to_owned(), thread, name.to_owned(), began, took)
        };
        let close = |(a, b): (f64, f64)| (a - b).abs() < 1e-9;
        let expected = [
            row("worker:1", 0, "step 4", 1.0, 8.5),
            row("worker:1", 1, "kernels", 2.0, 1.0),
            row(ps, 0, "w/read", 1.5, 0.3),
            row(ps, 1, "b/read", 1.6, 0.3),
            row(ps, 0, "update", 4.0, 0.5),
            row(worker, 0, "MatMul", 2.0, 1.0),
        ];
        let shown = shown(&trace);
        assert_eq!(shown.len(), expected.len(), "{shown:?}");
        for (shown, expected) in shown.iter().zip(&expected) {
            assert_eq!((&shown.0, shown.1, &shown.2), (&expected.0, expected.1, &expected.2));
            assert!(close((shown.3, expected.3)) && close((shown.4, expected.4)), "{shown:?}");
        }
    }
}
