//! `NanTensor`: ends a training whose loss is NaN.

use std::future::ready;

use crate::graph::{Graph, Output};
use crate::runtime::{Code, Error, Result};
use crate::tensor::{DType, Tensor};

use super::super::task::Task;
use super::{Hook, HookContext, HookFuture, RunArgs, RunValues};

/// Checks the loss after every run, and ends the training if an element of it is NaN (TensorFlow:
/// `NanTensorHook`). An infinite loss passes.
#[derive(Debug)]
pub struct NanTensor {
    loss: Output,
    fails: bool,
}

impl NanTensor {
    /// Ends the training with an error of code [`Code::NanLoss`] (TensorFlow:
    /// `NanLossDuringTrainingError`).
    pub fn new(loss: &Output) -> Self {
        Self { loss: loss.clone(), fails: true }
    }

    /// Sets whether a NaN is an error; if not, the session stops as if its training were over.
    #[must_use]
    pub fn fail_on_nan_loss(mut self, fails: bool) -> Self {
        self.fails = fails;
        self
    }

    fn look(&self, context: &HookContext<'_>, loss: &Tensor) -> Result<()> {
        if !has_nan(loss)? {
            return Ok(());
        }
        let name = self.loss.name();
        let message = format!("the loss `{name}` is NaN after global step {}", context.global_step);
        if self.fails {
            let message = format!(
                "{message}; begin again with a lower learning rate, or with clipped gradients"
            );
            return Err(Error::new(Code::NanLoss, message).on(context.task.name()));
        }
        tracing::warn!("{message}; stopping");
        context.request_stop();
        Ok(())
    }
}

impl Hook for NanTensor {
    fn begin(&mut self, _: &Task, _: &Graph) -> Result<()> {
        let dtype = self.loss.tensor_type().dtype;
        if dtype.is_real() {
            return Ok(());
        }
        let message = format!(
            "the loss `{}` is {dtype}: only f32 and f64 are looked at for NaN",
            self.loss.name()
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    fn before_run(&mut self, _: &HookContext<'_>, run: &mut RunArgs<'_>) -> Result<()> {
        run.fetch(&self.loss);
        Ok(())
    }

    fn after_run<'a>(
        &'a mut self,
        context: &'a HookContext<'_>,
        run: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        Box::pin(ready(self.look(context, &run.results[0])))
    }
}

/// Whether an element is NaN. If only shapes are computed, none is.
fn has_nan(loss: &Tensor) -> Result<bool> {
    Ok(match loss.dtype() {
        _ if loss.is_hollow() => false,
        DType::F64 => loss.values::<f64>()?.iter().any(|element| element.is_nan()),
        _ => loss.values::<f32>()?.iter().any(|element| element.is_nan()),
    })
}
