//! `RunSettings`: what a program's sessions do where nothing else says so.

use std::num::NonZeroU32;

use crate::checkpoint::{Retention, Store};
use crate::cluster::DeviceSpec;
use crate::runtime::{ServerTarget, SessionOptions};
use crate::units::seconds;

use super::checkpointing::Checkpointing;
use super::hooks::SecondOrStepTimer;

/// What a program's sessions do where their builder, and the scenario, say nothing else
/// (TensorFlow: the arguments of `tf.estimator.RunConfig`; its half that says which task this is is
/// [`RunConfig`](crate::cluster::RunConfig)).
///
/// Its methods are named as `RunConfig`'s arguments. `MonitoredTrainingSession` spells some of them
/// otherwise, and so does the [`Builder`](super::Builder): `save_checkpoint_steps` and
/// `save_summaries_steps`.
///
/// ```
/// # use trainyard::prelude::*;
/// # use trainyard::training::RunSettings;
/// # fn of_program(task: Task) {
/// let settings = RunSettings::new().save_checkpoints_steps(500).keep_checkpoint_max(3);
/// let task = task.with_settings(settings);
/// # let _ = task;
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RunSettings {
    pub(super) tf_random_seed: Option<u64>,
    pub(super) num_cores: Option<NonZeroU32>,
    pub(super) save_summary_steps: Option<u64>,
    /// When checkpoints are written, if the program says so.
    save_checkpoints: Option<SecondOrStepTimer>,
    pub(super) retention: Retention,
    pub(super) log_step_count_steps: Option<u64>,
    /// The options of sessions, if they are the program's.
    session: Option<SessionOptions>,
    device_filters: Option<Vec<DeviceSpec>>,
    log_device_placement: Option<bool>,
    pub(super) model_dir: Option<String>,
    pub(super) evaluation_master: Option<ServerTarget>,
}

impl Default for RunSettings {
    /// As [`RunSettings::new`].
    fn default() -> Self {
        Self::new()
    }
}

impl RunSettings {
    /// TensorFlow's defaults: a checkpoint every 600 seconds, of which the last 5 stay, summaries
    /// and the steps a second every 100 steps. The seed is the run's.
    pub fn new() -> Self {
        Self {
            tf_random_seed: None,
            num_cores: None,
            save_summary_steps: Some(100),
            save_checkpoints: None,
            retention: Retention::default(),
            log_step_count_steps: Some(100),
            session: None,
            device_filters: None,
            log_device_placement: None,
            model_dir: None,
            evaluation_master: None,
        }
    }

    /// Sets what [`Task::seed`](super::Task::seed) says, of which graphs draw.
    #[must_use]
    pub fn tf_random_seed(mut self, seed: u64) -> Self {
        self.tf_random_seed = Some(seed);
        self
    }

    /// Has the task's kernels that spread over threads use so many cores; 0 leaves that to the
    /// machine. In a simulation it counts where the scenario has `[hosts]`.
    #[must_use]
    pub fn num_cores(mut self, cores: u32) -> Self {
        self.num_cores = NonZeroU32::new(cores);
        self
    }

    /// Writes summaries every `steps` global steps; 0 or `None` writes none.
    #[must_use]
    pub fn save_summary_steps(mut self, steps: impl Into<Option<u64>>) -> Self {
        self.save_summary_steps = steps.into();
        self
    }

    /// Writes a checkpoint every `steps` global steps; 0 writes none at all.
    #[must_use]
    pub fn save_checkpoints_steps(mut self, steps: u64) -> Self {
        self.save_checkpoints = Some(SecondOrStepTimer::every_steps_but_0(steps));
        self
    }

    /// Writes a checkpoint every `seconds`; 0 writes none at all. Of this and the steps, the later
    /// call counts; TensorFlow refuses both.
    #[must_use]
    pub fn save_checkpoints_secs(mut self, seconds: u64) -> Self {
        self.save_checkpoints = Some(SecondOrStepTimer::every_seconds_but_0(seconds));
        self
    }

    /// Keeps the last `checkpoints`; 0 keeps all.
    #[must_use]
    pub fn keep_checkpoint_max(mut self, checkpoints: usize) -> Self {
        self.retention.max_to_keep = Some(checkpoints);
        self
    }

    /// Keeps one older checkpoint for each span of so many hours. Default: none stays. (With
    /// TensorFlow's 10,000 hours, one stays of a training that lasts longer than a year.)
    ///
    /// # Panics
    /// If `hours` is not a number above 0.
    #[must_use]
    pub fn keep_checkpoint_every_n_hours(mut self, hours: f64) -> Self {
        assert!(
            hours > 0.0 && hours.is_finite(),
            "a checkpoint is kept for each span of a number of hours above 0, not of {hours}"
        );
        let span = seconds(hours * 3600.0);
        self.retention.keep_every = Some(span);
        self
    }

    /// Tells the steps a second every `steps` global steps; 0 or `None` does not.
    #[must_use]
    pub fn log_step_count_steps(mut self, steps: impl Into<Option<u64>>) -> Self {
        self.log_step_count_steps = steps.into();
        self
    }

    /// Opens sessions with `options`, whatever the scenario and earlier calls say of them.
    #[must_use]
    pub fn session_config(mut self, options: SessionOptions) -> Self {
        (self.device_filters, self.log_device_placement) = (None, None);
        self.session = Some(options);
        self
    }

    /// Has sessions see only the devices that match one of `filters`, and their own task's. Their
    /// other options stay as they are.
    #[must_use]
    pub fn device_filters(mut self, filters: impl IntoIterator<Item = DeviceSpec>) -> Self {
        self.device_filters = Some(filters.into_iter().collect());
        self
    }

    /// Whether sessions write the device of each operation to the log. Their other options stay as
    /// they are.
    #[must_use]
    pub fn log_device_placement(mut self, logs: bool) -> Self {
        self.log_device_placement = Some(logs);
        self
    }

    /// Keeps the checkpoints of `train_and_evaluate` in a folder, or at a URL, if the scenario has
    /// no `[checkpoint]`. Default: `model_dir` of `TF_CONFIG`.
    #[must_use]
    pub fn model_dir(mut self, location: &str) -> Self {
        self.model_dir = Some(location.to_owned());
        self
    }

    /// Has an evaluator measure on the server at `target` instead of its own task.
    #[must_use]
    pub fn evaluation_master(mut self, target: &ServerTarget) -> Self {
        self.evaluation_master = Some(target.clone());
        self
    }

    /// The options of sessions whose options are `standard` where these settings say nothing.
    pub(super) fn session_options(&self, standard: SessionOptions) -> SessionOptions {
        let mut options = self.session.clone().unwrap_or(standard);
        if let Some(filters) = &self.device_filters {
            options.device_filters.clone_from(filters);
        }
        options.log_device_placement =
            self.log_device_placement.unwrap_or(options.log_device_placement);
        options
    }

    /// Checkpoints in `store`, as often and for as long as these settings say.
    pub(super) fn checkpointing(&self, store: std::sync::Arc<dyn Store>) -> Checkpointing {
        let (usual, retention) = (Checkpointing::new(store), self.retention);
        Checkpointing { every: self.save_checkpoints.unwrap_or(usual.every), retention, ..usual }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::checkpoint::Memory;
    use crate::units::Time;

    #[test]
    fn what_sessions_are_opened_with_adds_up() {
        let seen: DeviceSpec = "/job:ps".parse().unwrap();
        let standard = || SessionOptions { allow_soft_placement: true, ..Default::default() };
        let own = SessionOptions { isolate_session_state: true, ..Default::default() };
        let added = |settings: RunSettings| {
            let settings = settings.device_filters([seen.clone()]).log_device_placement(true);
            settings.session_options(standard())
        };
        let with = |options: SessionOptions| {
            let device_filters = vec![seen.clone()];
            SessionOptions { device_filters, log_device_placement: true, ..options }
        };
        assert_eq!(added(RunSettings::new()), with(standard()), "beside the scenario's options");
        assert_eq!(added(RunSettings::new().session_config(own.clone())), with(own.clone()));
        assert_eq!(RunSettings::new().session_options(standard()), standard());
        let later = RunSettings::new().log_device_placement(true).session_config(own.clone());
        assert_eq!(later.session_options(standard()), own, "these are all");
    }

    #[test]
    fn checkpoints_are_written_and_kept_as_the_settings_say() {
        let of = |settings: RunSettings| settings.checkpointing(Arc::new(Memory::default()));
        let is_due = |checkpointing: &Checkpointing, step, seconds| {
            let mut timer = checkpointing.every;
            timer.triggered(0, Time::ZERO);
            timer.should_trigger(step, Time::ZERO.after(Duration::from_secs(seconds)))
        };
        let usual = of(RunSettings::new());
        assert_eq!([599, 600].map(|seconds| is_due(&usual, 1, seconds)), [false, true]);
        assert_eq!((usual.retention.max_to_keep, usual.retention.keep_every), (Some(5), None));
        let settings = RunSettings::new().save_checkpoints_steps(7).keep_checkpoint_max(2);
        let own = of(settings.keep_checkpoint_every_n_hours(0.5));
        assert_eq!([6, 7].map(|step| is_due(&own, step, 9999)), [false, true]);
        let half_an_hour = Some(Duration::from_secs(1800));
        assert_eq!((own.retention.max_to_keep, own.retention.keep_every), (Some(2), half_an_hour));
        let timed = of(RunSettings::new().save_checkpoints_steps(7).save_checkpoints_secs(3));
        assert_eq!([2, 3].map(|seconds| is_due(&timed, 9, seconds)), [false, true]);
    }

    #[test]
    fn a_span_of_hours_that_is_none_is_refused() {
        for hours in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let set = || RunSettings::new().keep_checkpoint_every_n_hours(hours);
            let panic = std::panic::catch_unwind(set).map(drop).unwrap_err();
            let said = panic.downcast_ref::<String>().expect("it is told what is wrong");
            assert!(said.contains(&format!("not of {hours}")), "{said}");
        }
    }
}
