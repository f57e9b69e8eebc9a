//! `LoggingTensor`: logs the values of tensors as the training goes on.

use std::future::ready;
use std::time::Duration;

use crate::graph::Output;
use crate::runtime::Result;
use crate::tensor::{DType, Tensor};

use super::super::task::Task;
use super::{Hook, HookContext, HookFuture, RunArgs, RunValues, SecondOrStepTimer};

/// Logs the values of tensors: every so many runs of this worker, every so often, or at the end
/// (TensorFlow: `LoggingTensorHook`). The first run is always logged.
///
/// Lines are of the level `info`, which the command line shows with `-v`, and begin with the task's
/// name. Those of `launch` are in each task's log, which `--out` keeps.
pub struct LoggingTensor {
    tensors: Vec<(String, Output)>,
    /// When runs are logged. None: only the end is.
    timer: Option<SecondOrStepTimer>,
    tells_end: bool,
    formatter: Formatter,
    /// Where lines go; none for the log.
    sink: Option<Sink>,
    /// The number of this worker's runs.
    runs: u64,
    /// Whether the run under way is to be logged.
    is_due: bool,
}

shown!(LoggingTensor, tensors);

type Formatter = Box<dyn Fn(&[(&str, &Tensor)], Option<Duration>) -> String>;
type Sink = Box<dyn FnMut(&str)>;

impl LoggingTensor {
    /// Logs a run when `timer` says so. Its steps are this worker's runs, not global steps.
    pub fn new(timer: SecondOrStepTimer) -> Self {
        Self::with(Some(timer), false)
    }

    /// Logs only the end.
    pub fn only_at_end() -> Self {
        Self::with(None, true)
    }

    fn with(timer: Option<SecondOrStepTimer>, tells_end: bool) -> Self {
        let (tensors, formatter) = (Vec::new(), Box::new(names_and_values));
        Self { tensors, timer, tells_end, formatter, sink: None, runs: 0, is_due: false }
    }

    /// Logs the value of `tensor` under `name`.
    #[must_use]
    pub fn tensor(mut self, name: &str, tensor: &Output) -> Self {
        self.tensors.push((name.to_owned(), tensor.clone()));
        self
    }

    /// Logs the end as well.
    #[must_use]
    pub fn at_end(mut self) -> Self {
        self.tells_end = true;
        self
    }

    /// Formats lines with `formatter`, which gets the names and values in the order in which they
    /// were added.
    #[must_use]
    pub fn formatter(mut self, formatter: impl Fn(&[(&str, &Tensor)]) -> String + 'static) -> Self {
        self.formatter = Box::new(move |values, _| formatter(values));
        self
    }

    /// Sends the lines to `sink` instead of the log, without the task's name.
    #[must_use]
    pub fn sink(mut self, sink: impl FnMut(&str) + 'static) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    /// Logs the values of `task`; `since` is the time since the last time.
    fn tell<'a>(
        &mut self,
        task: &Task,
        values: impl Iterator<Item = &'a Tensor>,
        since: Option<Duration>,
    ) {
        let named: Vec<(&str, &Tensor)> =
            self.tensors.iter().map(|(name, _)| name.as_str()).zip(values).collect();
        let line = (self.formatter)(&named, since);
        match &mut self.sink {
            Some(sink) => sink(&line),
            None => tracing::info!("{}: {line}", task.name()),
        }
    }

    async fn tell_end(&mut self, context: &HookContext<'_>) -> Result<()> {
        let run =
            self.tensors.iter().fold(context.session.run(), |run, (_, tensor)| run.fetch(tensor));
        let values = run.await?;
        self.tell(context.task, (0..self.tensors.len()).map(|index| &values[index]), None);
        Ok(())
    }
}

impl Hook for LoggingTensor {
    fn before_run(&mut self, context: &HookContext<'_>, run: &mut RunArgs<'_>) -> Result<()> {
        self.is_due =
            self.timer.is_some_and(|timer| timer.should_trigger(self.runs, context.now()));
        if self.is_due {
            self.tensors.iter().for_each(|(_, tensor)| run.fetch(tensor));
        }
        Ok(())
    }

    fn after_run<'a>(
        &'a mut self,
        context: &'a HookContext<'_>,
        run: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        if self.is_due {
            let before =
                self.timer.as_mut().and_then(|timer| timer.triggered(self.runs, context.now()));
            self.tell(context.task, run.results.iter(), before.map(|(_, time)| time));
        }
        self.runs += 1;
        Box::pin(ready(Ok(())))
    }

    fn end<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        if !self.tells_end {
            return Box::pin(ready(Ok(())));
        }
        Box::pin(self.tell_end(context))
    }
}

/// `loss = 0.5, step = 10 (0.250 sec)`
fn names_and_values(values: &[(&str, &Tensor)], since: Option<Duration>) -> String {
    let shown: Vec<String> =
        values.iter().map(|(name, value)| format!("{name} = {}", shown(value))).collect();
    let since = since.map(|time| format!(" ({:.3} sec)", time.as_secs_f64())).unwrap_or_default();
    format!("{}{since}", shown.join(", "))
}

/// A scalar as its number, any other tensor with its type.
fn shown(value: &Tensor) -> String {
    let number = match value.dtype() {
        DType::F32 => value.item::<f32>().map(|number| number.to_string()),
        DType::F64 => value.item::<f64>().map(|number| number.to_string()),
        DType::I32 => value.item::<i32>().map(|number| number.to_string()),
        DType::I64 => value.item::<i64>().map(|number| number.to_string()),
        DType::Bool => value.item::<bool>().map(|is_true| is_true.to_string()),
        DType::BF16 | DType::I8 => return format!("{value:?}"),
    };
    match number {
        Ok(number) if value.shape().rank() == 0 => number,
        _ => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_scalars_as_numbers_and_other_values_with_their_types() {
        let (loss, step, row) =
            (Tensor::scalar(0.5f32), Tensor::scalar(10i64), Tensor::full([2], 1f32));
        let values = [("loss", &loss), ("step", &step), ("row", &row)];
        assert_eq!(
            names_and_values(&values, None),
            "loss = 0.5, step = 10, row = f32[2] [1.0, 1.0]"
        );
        let values = [("shapes", &Tensor::hollow(DType::F32, [3]))];
        assert_eq!(
            names_and_values(&values, Some(Duration::from_millis(250))),
            "shapes = f32[3] hollow (0.250 sec)"
        );
    }
}
