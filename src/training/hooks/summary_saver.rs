//! `SummarySaver`: writes scalars of the graph for TensorBoard, every so often.

use std::future::ready;

use crate::graph::{Graph, Output};
use crate::runtime::{Code, Error, Result};
use crate::tensor::{DType, Tensor};

use super::super::summary::SummaryWriter;
use super::super::task::Task;
use super::{Hook, HookContext, HookFuture, RunArgs, RunValues, SecondOrStepTimer};

/// Writes scalars of the graph at the first run and then every so often (TensorFlow:
/// `SummarySaverHook`). It takes the outputs and their tags; TensorFlow takes summary operations
/// instead.
pub struct SummarySaver {
    writer: SummaryWriter,
    timer: SecondOrStepTimer,
    scalars: Vec<(String, Output)>,
    /// Whether the run under way is to be written.
    is_due: bool,
}

shown!(SummarySaver, timer, scalars);

impl SummarySaver {
    /// Writes to `writer` as often as `timer` says; every 100 steps are usual.
    pub fn new(writer: &SummaryWriter, timer: SecondOrStepTimer) -> Self {
        Self { writer: writer.clone(), timer, scalars: Vec::new(), is_due: false }
    }

    /// Writes the value of `scalar` under `tag` (TensorFlow: `tf.summary.scalar`).
    #[must_use]
    pub fn scalar(mut self, tag: &str, scalar: &Output) -> Self {
        self.scalars.push((tag.to_owned(), scalar.clone()));
        self
    }

    /// Writes the `results` that have values, not those of which only the shape is computed.
    fn write(&self, results: &[Tensor], global_step: u64) -> Result<()> {
        let mut values = Vec::with_capacity(results.len());
        for ((tag, _), result) in
            self.scalars.iter().zip(results).filter(|(_, result)| !result.is_hollow())
        {
            values.push((tag.as_str(), as_f32(result)?));
        }
        if values.is_empty() { Ok(()) } else { self.writer.scalars(&values, global_step) }
    }
}

impl Hook for SummarySaver {
    fn begin(&mut self, _: &Task, _: &Graph) -> Result<()> {
        for (tag, output) in &self.scalars {
            let wanted = output.tensor_type();
            if wanted.shape.rank() != 0 || !wanted.dtype.is_number() {
                let message = format!(
                    "`{}`, to be written as `{tag}`, is {wanted} and no scalar number",
                    output.name()
                );
                return Err(Error::new(Code::InvalidArgument, message));
            }
        }
        Ok(())
    }

    fn after_create_session<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        if context.restored.is_some() {
            self.timer.reset();
        }
        Box::pin(ready(Ok(())))
    }

    fn before_run(&mut self, context: &HookContext<'_>, run: &mut RunArgs<'_>) -> Result<()> {
        self.is_due = self.timer.should_trigger(context.global_step + 1, context.now());
        if self.is_due {
            self.scalars.iter().for_each(|(_, output)| run.fetch(output));
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
        Box::pin(ready(self.write(run.results, context.global_step)))
    }
}

/// The only element, as an f32 for TensorBoard.
fn as_f32(scalar: &Tensor) -> Result<f32> {
    Ok(match scalar.dtype() {
        DType::F64 => scalar.item::<f64>()? as f32,
        DType::I32 => scalar.item::<i32>()? as f32,
        DType::I64 => scalar.item::<i64>()? as f32,
        _ => scalar.item()?,
    })
}
