//! The progress of a run: one line on stderr that is redrawn or, if stderr is no terminal, a line
//! every 2 seconds.
//!
//! Only this module reads the wall clock for its own use; nothing from here goes back into a run.
#![expect(clippy::disallowed_methods, reason = "a person watches the bar in real time")]

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::experiment::Trial;
use crate::report::number;
use crate::say::{escaped, say};
use crate::training::{Evaluation, Restore, Watch};
use crate::units::Time;

const REDRAW_EVERY: Duration = Duration::from_millis(100);
const PRINT_EVERY: Duration = Duration::from_secs(2);
/// The number of steps from which on their speed tells how long the others take: the first are
/// slow.
const ENOUGH: u64 = 10;

/// The progress of one run.
pub(crate) struct Progress {
    run: String,
    /// The last global step, once the program has said at which it stops.
    total_steps: Option<u64>,
    /// `stop.time`, on the run's clock.
    limit: Option<Duration>,
    /// The first step that was seen of this life: those before it are of a checkpoint.
    first: Option<Sample>,
    /// The latest time on the run's clock, which begins at 0 again when the chief is started again.
    newest: Time,
    began: Instant,
    next: Instant,
    line: Line,
    /// Whether each evaluation has a line of its own.
    tells_evaluations: bool,
}

/// Where a run is at a moment.
#[derive(Clone, Copy)]
struct Sample {
    /// By the wall clock, since the progress began.
    elapsed: Duration,
    global_step: u64,
    /// By the run's clock.
    now: Time,
}

/// Counts what is done of several runs, one after the other.
pub(crate) struct Counter {
    what: &'static str,
    next: Mutex<Instant>,
    line: Line,
}

impl Counter {
    /// `sync: 120/1000 timelines`, now and then.
    pub(crate) fn show(&self, run: &str, done: u64, total: u64) {
        let mut next = self.next.lock().expect("nothing panics while it holds the time");
        let now = Instant::now();
        if now < *next {
            return;
        }
        *next = now + self.line.interval();
        self.line.show(format!("{run}: {done}/{total} {}", self.what));
    }

    /// Removes the line.
    pub(crate) fn finish(self) {
        self.line.finish();
    }
}

/// The progress of several runs, some of them at once.
pub(crate) struct Several {
    total: usize,
    begun: AtomicUsize,
    lines: MultiProgress,
    quiet: bool,
}

impl Several {
    /// The progress of `total` runs, which is shown unless it is to be quiet.
    pub(crate) fn new(total: usize, quiet: bool) -> Self {
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Self { total, begun: AtomicUsize::new(0), lines, quiet }
    }

    /// The progress of `trial`, which begins now: of several, the line says which it is.
    pub(crate) fn next(&self, trial: &Trial) -> Progress {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let run = match self.total {
            1 => trial.name.clone(),
            total => format!("[{number} of {total}] {}", trial.name),
        };
        let progress = Progress::new(run, trial.settings.stop.time, self.quiet);
        if let Line::Redrawn(bar) = &progress.line {
            self.lines.add(bar.clone());
        }
        progress
    }
}

/// How the line is shown.
enum Line {
    Redrawn(ProgressBar),
    Printed,
    Hidden,
}

impl Line {
    fn new(quiet: bool) -> Self {
        if quiet {
            return Self::Hidden;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Printed;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{wide_msg}").expect("the template is well formed");
        Self::Redrawn(bar.with_style(style))
    }

    fn interval(&self) -> Duration {
        match self {
            Self::Redrawn(_) => REDRAW_EVERY,
            Self::Printed | Self::Hidden => PRINT_EVERY,
        }
    }

    fn show(&self, text: String) {
        match self {
            Self::Redrawn(bar) => bar.set_message(escaped(&text).into_owned()),
            Self::Printed => say!("{text}"),
            Self::Hidden => {}
        }
    }

    /// Shows `text` in a line that stays.
    fn add(&self, text: String) {
        match self {
            Self::Redrawn(bar) => bar.println(escaped(&text)),
            Self::Printed => say!("{text}"),
            Self::Hidden => {}
        }
    }

    fn finish(&self) {
        if let Self::Redrawn(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Progress {
    /// The progress of `trial`.
    pub(crate) fn of(trial: &Trial, quiet: bool) -> Self {
        Self::new(&*trial.name, trial.settings.stop.time, quiet)
    }

    /// A counter of how many `what` of each run are done.
    pub(crate) fn counter(what: &'static str, quiet: bool) -> Counter {
        let line = Line::new(quiet);
        let next = Mutex::new(Instant::now() + line.interval());
        Counter { what, next, line }
    }

    /// The progress of the run called `run`, which has the time `limit`.
    fn new(run: impl Into<String>, limit: Option<Duration>, quiet: bool) -> Self {
        let (run, began, line) = (run.into(), Instant::now(), Line::new(quiet));
        let next = began + line.interval();
        let (total_steps, first, newest, tells_evaluations) = (None, None, Time::ZERO, false);
        Self { run, total_steps, limit, first, newest, began, next, line, tells_evaluations }
    }

    /// The same, with a line for each evaluation: that of an evaluator, which takes no steps.
    pub(crate) fn with_evaluations(self) -> Self {
        Self { tells_evaluations: true, ..self }
    }

    /// `sync: 500/2000 steps, 250.0/s, loss 0.3120, time 1.203s, 6s left`: the speed is by the wall
    /// clock, the time is the run's own.
    fn describe(&self, sample: Sample, loss: Option<f32>) -> String {
        let Sample { global_step, now, .. } = sample;
        let of = self.total_steps.map(|total| format!("/{total}")).unwrap_or_default();
        let loss = loss
            .map(|loss| format!(", loss {}", number::render(loss.into(), 4)))
            .unwrap_or_default();
        let speed = self.speed(sample);
        let rate = speed.map(|(_, rate)| format!(", {rate:.1}/s")).unwrap_or_default();
        let of_steps = self.total_steps.zip(speed).filter(|(_, (taken, _))| *taken >= ENOUGH);
        let of_steps =
            of_steps.map(|(total, (_, rate))| total.saturating_sub(global_step) as f64 / rate);
        let left = of_steps.into_iter().chain(self.left_of_limit(sample)).reduce(f64::min);
        let left = left.map(|left| format!(", {left:.0}s left")).unwrap_or_default();
        format!(
            "{}: {global_step}{of} steps{rate}{loss}, time {:.3}s{left}",
            self.run,
            now.as_secs_f64()
        )
    }

    /// Notes where the run is, and the first step of a life.
    fn note(&mut self, sample: Sample) {
        let is_another_life = sample.now < self.newest;
        self.newest = sample.now;
        if is_another_life || self.first.is_none() {
            self.first = Some(sample);
        }
    }

    /// The number of global steps of which the speed is known, and their number a second of the
    /// wall clock.
    fn speed(&self, sample: Sample) -> Option<(u64, f64)> {
        let origin = self.origin(sample)?;
        let taken = sample.global_step - origin.global_step;
        let seconds = sample.elapsed.saturating_sub(origin.elapsed).as_secs_f64();
        Some((taken, taken as f64 / seconds.max(1e-9)))
    }

    /// What is left of the run's time limit \[s of the wall clock\]: a simulation's clock goes at
    /// another speed.
    fn left_of_limit(&self, sample: Sample) -> Option<f64> {
        let origin = self.origin(sample)?;
        let left = self.limit?.saturating_sub(sample.now.since(Time::ZERO)).as_secs_f64();
        let gone = sample.now.since(origin.now).as_secs_f64();
        let took = sample.elapsed.saturating_sub(origin.elapsed).as_secs_f64();
        (gone > 0.0 && took > 0.0).then(|| left * took / gone)
    }

    /// The origin of the speed's measurement, the first step that was seen; none while there is no
    /// other. Nothing is known of the time before: an earlier life may have taken it.
    fn origin(&self, sample: Sample) -> Option<Sample> {
        self.first.filter(|first| first.global_step < sample.global_step)
    }
}

impl Watch for Progress {
    /// Checks the clock; usually it is too early to do more.
    fn update(&mut self, global_step: u64, loss: Option<f32>, now: Time) {
        let instant = Instant::now();
        let sample = Sample { elapsed: instant - self.began, global_step, now };
        self.note(sample);
        if instant < self.next {
            return;
        }
        self.next = instant + self.line.interval();
        let text = self.describe(sample, loss);
        self.line.show(text);
    }

    fn ends_at(&mut self, last: u64) {
        self.total_steps = Some(last);
    }

    fn evaluation(&mut self, evaluation: &Evaluation) {
        if self.tells_evaluations {
            let Evaluation { global_step, loss, accuracy, .. } = evaluation;
            let run = &self.run;
            let loss = number::render((*loss).into(), 4);
            let measured = format!("loss {loss}, accuracy {accuracy:.4}");
            self.line.add(format!("{run}: step {global_step}: {measured}"));
        }
    }

    /// The training has gone back to a checkpoint. Its speed is measured anew, or the steps that it
    /// repeats would make it look slow.
    fn restored(&mut self, _: &Restore) {
        self.first = None;
    }

    /// Removes the line.
    fn finish(self: Box<Self>) {
        self.line.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::Fact;

    /// Where a run is after 2 s of the wall clock and 1.2034 s of its own.
    fn at(global_step: u64) -> Sample {
        Sample { elapsed: Duration::from_secs(2), global_step, now: Time(1_203_400_000) }
    }

    /// The progress of a run of `steps`, without a line, which has begun with step 0.
    fn of(steps: Option<u64>) -> Progress {
        let first = Some(Sample { elapsed: Duration::ZERO, global_step: 0, now: Time::ZERO });
        Progress { total_steps: steps, first, ..Progress::new("sync", None, true) }
    }

    #[test]
    fn the_line_tells_speed_loss_time_and_what_is_left() {
        let line = of(Some(2000)).describe(at(500), Some(0.312));
        assert_eq!(line, "sync: 500/2000 steps, 250.0/s, loss 0.3120, time 1.203s, 6s left");
    }

    #[test]
    fn the_first_steps_do_not_tell_how_long_a_training_takes() {
        let after = |steps| of(Some(2000)).describe(at(steps), None);
        assert!(!after(1).contains("left") && after(10).ends_with(", 398s left"));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let line = of(None).describe(at(500), None);
        assert_eq!(line, "sync: 500 steps, 250.0/s, time 1.203s");
        let line = of(Some(9)).describe(Sample { now: Time::ZERO, ..at(0) }, None);
        assert_eq!(line, "sync: 0/9 steps, time 0.000s");
    }

    #[test]
    fn the_total_is_the_step_at_which_the_program_says_that_it_ends() {
        let mut progress = of(None);
        progress.fact(&Fact::EndsAt(2000));
        let line = progress.describe(at(500), None);
        assert_eq!(line, "sync: 500/2000 steps, 250.0/s, time 1.203s, 6s left");
    }

    #[test]
    fn the_steps_of_an_earlier_life_do_not_count_for_the_speed() {
        let first = Sample { elapsed: Duration::from_secs(1), global_step: 1000, now: Time(9) };
        let of_another = Sample { elapsed: Duration::ZERO, global_step: 40, now: Time(99) };
        for earlier in [None, Some(of_another)] {
            let mut progress = Progress { first: None, ..of(Some(2000)) };
            earlier.into_iter().chain([first]).for_each(|sample| progress.note(sample));
            let line = progress.describe(first, None);
            assert_eq!(line, "sync: 1000/2000 steps, time 0.000s", "no speed yet");
            progress.note(at(1250));
            let line = progress.describe(at(1250), None);
            assert_eq!(line, "sync: 1250/2000 steps, 250.0/s, time 1.203s, 3s left");
        }
    }

    #[test]
    fn the_first_step_after_a_restore_does_not_tell_the_speed() {
        let mut progress = of(Some(2000));
        progress.note(at(500));
        progress.restored(&Restore { global_step: 400, at: Time::ZERO });
        progress.note(at(401));
        assert_eq!(progress.describe(at(401), None), "sync: 401/2000 steps, time 1.203s");
    }

    #[test]
    fn no_more_time_is_left_than_the_limit_leaves() {
        let limit = Some(Duration::from_nanos(3_008_500_000)); // 2.5 times what is gone of it
        let limited = |steps| Progress { limit, ..of(steps) };
        assert!(limited(Some(2000)).describe(at(500), None).ends_with(", 3s left"));
        assert!(limited(None).describe(at(500), None).ends_with(", 3s left"));
        assert!(limited(Some(600)).describe(at(500), None).ends_with(", 0s left"));
    }
}
