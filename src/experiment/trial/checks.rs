//! What a trial refuses: settings that a run can't have together, and what can't be deployed.

use crate::experiment::ExperimentError;
use crate::kernels::Numerics;
use crate::models::Model;
use crate::optimizer::misfit;
use crate::scenario::RunSpec;
use crate::sync::Mode;
use crate::training::Settings;

use super::Trial;

/// Checks that `run` can have these settings.
///
/// # Errors
/// The first of them that it can't.
pub(super) fn check(
    run: &RunSpec,
    settings: &Settings,
    numerics: Numerics,
) -> Result<(), ExperimentError> {
    check_own_coordination(run, settings)?;
    check_tokens_have_numbers(run, settings, numerics)?;
    let misfit = misfit(&settings.optimizer.rule, run.mode);
    misfit.map_or(Ok(()), |why| Err(impossible(&run.name, &why)))
}

impl Trial {
    /// Checks that the devices that the scenario names are there when it is deployed.
    ///
    /// # Errors
    /// If tasks have GPUs, and soft placement is not allowed; or if the model or its images only
    /// have costs.
    pub(in crate::experiment) fn check_deployable(&self) -> Result<(), ExperimentError> {
        if matches!(self.settings.model, Model::Layers(_)) {
            let why = "of a table of layers only the costs are known, so there is nothing to \
                       compute; simulate it";
            return Err(impossible(&self.name, why));
        }
        if let (Model::Published(_), Numerics::Shapes) =
            (&self.settings.model, self.cluster.numerics)
        {
            let why = "with `numerics = \"shapes\"` its images have no numbers to compute with; \
                       simulate it, or deploy it with `--unset compute.numerics`";
            return Err(impossible(&self.name, why));
        }
        let first = self.cluster.hardware.gpus.keys().next();
        let Some(task) = first.filter(|_| !self.settings.allow_soft_placement) else {
            return Ok(());
        };
        let why = format!(
            "the scenario gives {task} GPUs, but a deployed task has the device CPU:0 alone; \
             simulate it, or set `program.allow_soft_placement = true` to run on CPU:0 what asks \
             for a GPU"
        );
        Err(impossible(&self.name, &why))
    }
}

/// Checks that a training that coordinates its workers by itself is run as it must be.
fn check_own_coordination(run: &RunSpec, settings: &Settings) -> Result<(), ExperimentError> {
    let why = if settings.sync_replicas.is_some() {
        "`program.sync_replicas` coordinates the workers by TensorFlow's tokens, which takes \
         `mode = \"async\"` and no `top_k`"
            .to_owned()
    } else if let Some(train) = settings.model.own_train_op() {
        format!(
            "`{train}`, the graph's own operation, applies each gradient by itself and whole, \
             which takes `mode = \"async\"` and no `top_k`; without `program.train`, the \
             gradients of `program.loss` are applied as the run says"
        )
    } else {
        return Ok(());
    };
    if run.mode == Mode::Async && settings.optimizer.top_k.is_none() {
        return Ok(());
    }
    Err(impossible(&run.name, &why))
}

/// Checks that the rows of a table's gradients, which tokens are to sum, are numbers.
fn check_tokens_have_numbers(
    run: &RunSpec,
    settings: &Settings,
    numerics: Numerics,
) -> Result<(), ExperimentError> {
    let is_table =
        matches!(settings.model, Model::Embedding(_)) && settings.sync_replicas.is_some();
    if !is_table || numerics == Numerics::Real {
        return Ok(());
    }
    let why = "the updates of `program.sync_replicas` sum the gradients of a table row by row, and \
               with `numerics = \"shapes\"` there are no numbers of rows; use `mode = \"sync\"`, \
               or compute real numbers";
    Err(impossible(&run.name, why))
}

/// The error of the run of this name.
fn impossible(run: &str, why: &str) -> ExperimentError {
    ExperimentError::Impossible(format!("run `{run}`: {why}"))
}
