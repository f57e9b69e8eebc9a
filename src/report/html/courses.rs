//! The courses of runs: loss and accuracy, steps, speed, durations, staleness, timelines.

use crate::report::plot::{Line, Plot, Point, escape, thinned};
use crate::report::{EvaluationRow, Report, Timeline};
use crate::training::StepStats;

/// The most points of a line.
const POINTS: usize = 200;
/// The number of stretches of a run whose rates are shown.
const STRETCHES: usize = 24;

/// A number of an evaluation.
type Of = fn(&EvaluationRow) -> f64;

/// What is measured on the test split, with the name of its axis.
const MEASURED: [(&str, &str, Of); 2] = [
    ("Accuracy", "accuracy on the test split", |row| row.accuracy),
    ("Loss", "loss on the test split", |row| row.loss as f64),
];

/// What it is drawn over, with the name of that axis.
const OVER: [(&str, &str, Of); 3] = [
    ("time", "s", |row| row.at.as_secs_f64()),
    ("global steps", "global steps", |row| row.global_step as f64),
    ("samples", "samples computed, dropped gradients included", |row| row.samples as f64),
];

/// The course of a run, for the plots.
#[derive(Clone, Debug, Default)]
pub struct Course {
    run: String,
    evaluations: Vec<EvaluationRow>,
    /// The times at which the global step grew \[s\], and the global step.
    progress: Vec<Point>,
    /// The durations of worker steps \[ms\], each with the share of steps that were no longer
    /// \[%\].
    durations: Vec<Point>,
    /// The ends of stretches of the run \[s\], and the global steps a second in them.
    rates: Vec<Point>,
    timeline: Option<Timeline>,
}

impl Course {
    /// The run's name.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The course of the run called `run`.
    pub fn new(
        run: &str,
        steps: impl Iterator<Item = StepStats> + Clone,
        evaluations: &[EvaluationRow],
    ) -> Self {
        let mut ends: Vec<Point> =
            steps.clone().map(|step| (step.ended.as_secs_f64(), step.global_step as f64)).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut durations: Vec<f64> =
            steps.map(|step| step.ended.since(step.started).as_secs_f64() * 1e3).collect();
        durations.sort_by(f64::total_cmp);
        let count = durations.len() as f64;
        let shares: Vec<Point> = durations
            .into_iter()
            .enumerate()
            .map(|(at, duration)| (duration, 100.0 * (at + 1) as f64 / count))
            .collect();
        Self {
            run: run.to_owned(),
            evaluations: thinned(&evaluations.iter().collect::<Vec<_>>(), POINTS)
                .into_iter()
                .cloned()
                .collect(),
            progress: thinned(&ends, POINTS),
            durations: thinned(&shares, POINTS),
            rates: rates(&ends),
            timeline: None,
        }
    }

    /// The course with the timeline of a stretch of its steps.
    #[must_use]
    pub fn with_timeline(self, timeline: Option<Timeline>) -> Self {
        Self { timeline, ..self }
    }
}

/// Global steps a second, in stretches of a run that are equally long; `ends` has the times at
/// which the global step grew, in order.
fn rates(ends: &[Point]) -> Vec<Point> {
    let (Some(first), Some(last)) = (ends.first(), ends.last()) else { return Vec::new() };
    let length = (last.0 - first.0) / STRETCHES as f64;
    if length <= 0.0 {
        return Vec::new();
    }
    let mut points = Vec::with_capacity(STRETCHES);
    let (mut ends, mut before, mut now) = (ends.iter().peekable(), first.1, first.1);
    for stretch in 1..=STRETCHES {
        let until = first.0 + stretch as f64 * length;
        while let Some(end) = ends.next_if(|end| end.0 <= until || stretch == STRETCHES) {
            now = end.1.max(now);
        }
        points.push((until, (now - before) / length));
        before = now;
    }
    points
}

/// The courses of the runs.
pub(super) fn plots(courses: &[Course], report: &Report) -> String {
    type Points<'a> = &'a dyn Fn(&Course) -> Vec<Point>;
    let plot = |title: &str, x, y, of: Points<'_>| {
        let line = |(style, course): (usize, &Course)| Line {
            name: course.run.clone(),
            style,
            is_joined: true,
            points: of(course),
        };
        let lines = courses.iter().enumerate().map(line).collect();
        Plot { title: title.to_owned(), x, y, lines }
    };
    let mut all: Vec<Plot> = Vec::new();
    for (what, y, value) in MEASURED {
        for (over, x, at) in OVER {
            let points = |course: &Course| {
                course.evaluations.iter().map(|row| (at(row), value(row))).collect::<Vec<_>>()
            };
            all.push(plot(&format!("{what} over {over}"), x, y, &points));
        }
    }
    all.push(plot("Global steps over time", "s", "global steps", &|it| it.progress.clone()));
    all.push(plot("Speed over time", "s", "global steps a second", &|it| it.rates.clone()));
    let durations = |course: &Course| course.durations.clone();
    all.push(plot("Worker steps by their time", "ms", "took no longer [%]", &durations));
    let stale = |course: &Course| staleness(report, &course.run);
    all.push(plot("Staleness", "global steps out of date", "gradients [%]", &stale));
    let plots: String = all.iter().enumerate().map(|(id, plot)| plot.render(id)).collect();
    let note = match courses.iter().map(|course| course.evaluations.len()).max() {
        Some(1) => {
            "<p>The model was measured at the end alone: with <code>stop.evaluate_every</code> or \
             <code>stop.evaluate_every_samples</code> it is measured as often as that \
             says.</p>\n"
        }
        _ => "",
    };
    match plots.is_empty() {
        true => plots,
        false => format!(
            "<h2>Courses, with seed {}</h2>\n{note}<div class=\"plots\">\n{plots}</div>\n",
            report.seed
        ),
    }
}

/// The share of the gradients of `run` with each staleness \[%\].
fn staleness(report: &Report, run: &str) -> Vec<Point> {
    let run = report.runs.iter().find(|known| known.name == run);
    let Some(staleness) = run.and_then(|run| run.staleness.as_ref()) else { return Vec::new() };
    let all = staleness.histogram.values().sum::<u64>().max(1) as f64;
    let share = |(value, count): (&u64, &u64)| (*value as f64, 100.0 * *count as f64 / all);
    staleness.histogram.iter().map(share).collect()
}

/// The timelines of the stretches of steps that were asked for.
pub(super) fn timelines(courses: &[Course]) -> String {
    let drawn = courses.iter().enumerate().filter_map(|(at, course)| {
        let svg = course.timeline.as_ref()?.render(200 + at)?;
        Some(format!("<h3>{}</h3>\n{svg}", escape(&course.run)))
    });
    let drawn: String = drawn.collect();
    match drawn.is_empty() {
        true => drawn,
        false => format!(
            "<h2>Timeline</h2>\n<p>What each task did, from the steps that were asked for; \
             <code>timeline.json</code> has all of it, with the messages' ways, for \
             Perfetto.</p>\n{drawn}"
        ),
    }
}
