//! `Profiler`: writes the times of a run and its kernels as a timeline for a browser.

use std::future::ready;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cluster::TaskName;
use crate::runtime::Result;
use crate::units::Time;

use super::super::summary::unwritable;
use super::{
    Hook, HookContext, HookFuture, RunArgs, RunOptions, RunValues, SecondOrStepTimer, TraceLevel,
};

/// Writes `timeline-<step>.json` into a folder every so often (TensorFlow: `ProfilerHook`), but not
/// for the first run, in which the graph is placed and partitioned. The file is a Chrome trace, for
/// `chrome://tracing` and Perfetto.
///
/// It shows the run as this worker saw it, with the span of its kernels. The timeline of a
/// scenario's report shows all tasks of the cluster.
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
        let trace = trace(context.task.name(), context.global_step, run.span, run.computed);
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
fn trace(task: &TaskName, step: u64, run: Span, computed: Option<Span>) -> Value {
    let microseconds = |time: Time| time.0 as f64 / 1e3;
    let event = |name: String, thread: u32, (begin, end): Span| {
        let duration = microseconds(end) - microseconds(begin);
        json!({
            "name": name, "cat": "step", "ph": "X", "pid": 0, "tid": thread,
            "ts": microseconds(begin), "dur": duration, "args": { "global_step": step }
        })
    };
    let label = |what: &str, thread: u32, name: String| {
        let arguments = json!({ "name": name });
        json!({ "name": what, "ph": "M", "pid": 0, "tid": thread, "args": arguments })
    };
    let mut events = vec![
        label("process_name", 0, task.to_string()),
        label("thread_name", 0, "run".to_owned()),
        label("thread_name", 1, "kernels".to_owned()),
        event(format!("step {step}"), 0, run),
    ];
    events.extend(computed.map(|span| event("kernels".to_owned(), 1, span)));
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_has_the_run_and_the_kernels_within_it_in_microseconds() {
        let at = |nanoseconds| Time(nanoseconds);
        let trace = trace(
            &TaskName::new("worker", 1),
            4,
            (at(1_000), at(9_500)),
            Some((at(2_000), at(3_000))),
        );
        let events = trace["traceEvents"].as_array().unwrap();
        let spans: Vec<(&str, f64, f64)> = events
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|e| {
                (e["name"].as_str().unwrap(), e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap())
            })
            .collect();
        assert_eq!(spans, [("step 4", 1.0, 8.5), ("kernels", 2.0, 1.0)]);
        assert_eq!(events[0]["args"]["name"], "worker:1");
    }
}
