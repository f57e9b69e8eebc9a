//! The progress of a run: one line on stderr that is redrawn or, if stderr is no terminal, a line
//! every 2 seconds.
//!
//! Only this module reads the wall clock for its own use; nothing from here goes back into a run.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::experiment::Trial;
use crate::say::say;
use crate::training::Watch;
use crate::units::Time;

const REDRAW_EVERY: Duration = Duration::from_millis(100);
const PRINT_EVERY: Duration = Duration::from_secs(2);
/// The number of steps from which on their speed tells how long the others take: the first are
/// slow.
const ENOUGH: u64 = 10;

/// The progress of one run.
pub(crate) struct Progress {
    run: String,
    total_steps: Option<u64>,
    began: Instant,
    next: Instant,
    line: Line,
}

/// Counts what is done of several runs, one after the other, each of the same length.
pub(crate) struct Counter {
    what: &'static str,
    total: u64,
    next: Mutex<Instant>,
    line: Line,
}

impl Counter {
    /// `sync: 120/1000 timelines`, now and then.
    pub(crate) fn show(&self, run: &str, done: u64) {
        let mut next = self.next.lock().expect("nothing panics while it holds the time");
        let now = Instant::now();
        if now < *next {
            return;
        }
        *next = now + self.line.interval();
        self.line.show(format!("{run}: {done}/{} {}", self.total, self.what));
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
        let progress = Progress::new(run, trial.settings.stop.steps, self.quiet);
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
            Self::Redrawn(bar) => bar.set_message(text),
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
        Self::new(&*trial.name, trial.settings.stop.steps, quiet)
    }

    /// A counter of what is done of each of several runs, `total` times `what`.
    pub(crate) fn counter(what: &'static str, total: u64, quiet: bool) -> Counter {
        let line = Line::new(quiet);
        let next = Mutex::new(Instant::now() + line.interval());
        Counter { what, total, next, line }
    }

    /// The progress of the run called `run`, which has at most `total_steps` global steps, if the
    /// number is known.
    fn new(run: impl Into<String>, total_steps: Option<u64>, quiet: bool) -> Self {
        let (began, line) = (Instant::now(), Line::new(quiet));
        let mut progress = Self { run: run.into(), total_steps, began, next: began, line };
        progress.next += progress.line.interval();
        progress
    }

    /// `sync: 500/2000 steps, 250.0/s, loss 0.3120, time 1.203s, 6s left`: the speed is by the wall
    /// clock, of which `elapsed` has passed; the time is the run's own.
    fn describe(
        &self,
        elapsed: Duration,
        global_step: u64,
        loss: Option<f32>,
        now: Time,
    ) -> String {
        let rate = global_step as f64 / elapsed.as_secs_f64().max(1e-9);
        let of = self.total_steps.map(|total| format!("/{total}")).unwrap_or_default();
        let loss = loss.map(|loss| format!(", loss {loss:.4}")).unwrap_or_default();
        let left = match self.total_steps {
            Some(total) if global_step >= ENOUGH => {
                format!(", {:.0}s left", total.saturating_sub(global_step) as f64 / rate)
            }
            _ => String::new(),
        };
        format!(
            "{}: {global_step}{of} steps, {rate:.1}/s{loss}, time {:.3}s{left}",
            self.run,
            now.as_secs_f64()
        )
    }
}

impl Watch for Progress {
    /// Checks the clock; usually it is too early to do more.
    fn update(&mut self, global_step: u64, loss: Option<f32>, now: Time) {
        let instant = Instant::now();
        if instant < self.next {
            return;
        }
        self.next = instant + self.line.interval();
        let text = self.describe(self.began.elapsed(), global_step, loss, now);
        self.line.show(text);
    }

    /// Removes the line.
    fn finish(self: Box<Self>) {
        self.line.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_203_400_000);

    #[test]
    fn the_line_tells_speed_loss_time_and_what_is_left() {
        let line = Progress::new("sync", Some(2000), true).describe(
            Duration::from_secs(2),
            500,
            Some(0.312),
            NOW,
        );
        assert_eq!(line, "sync: 500/2000 steps, 250.0/s, loss 0.3120, time 1.203s, 6s left");
    }

    #[test]
    fn the_first_steps_do_not_tell_how_long_a_training_takes() {
        let after = |steps| {
            let progress = Progress::new("sync", Some(2000), true);
            progress.describe(Duration::from_secs(2), steps, None, NOW)
        };
        assert!(!after(1).contains("left") && after(10).ends_with(", 398s left"));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let line =
            Progress::new("sync", None, true).describe(Duration::from_secs(2), 500, None, NOW);
        assert_eq!(line, "sync: 500 steps, 250.0/s, time 1.203s");
        let line = Progress::new("sync", Some(9), true).describe(
            Duration::from_secs(2),
            0,
            None,
            Time::ZERO,
        );
        assert_eq!(line, "sync: 0/9 steps, 0.0/s, time 0.000s");
    }
}
