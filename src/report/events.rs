//! A run's graph, worker steps and evaluations as a file of events, which TensorBoard shows.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::cluster::TaskName;
use crate::event_file::EventWriter;
use crate::training::{Evaluation, Recording, StepStats};

/// The most stretches of a run, each with its histograms.
const STRETCHES: usize = 50;
/// The number of a worker's first steps that are all written. Of twice as many after them it is
/// every second one, of four times as many after those every fourth, and so on.
const DENSE: u64 = 1024;

/// The name of the event file of a run that began `began` seconds after 1970, or 0 if it was
/// simulated.
pub fn file_name(began: u64) -> String {
    crate::event_file::file_name(began, "trainyard")
}

/// Writes the graph of a run, if it is known, its worker steps and its evaluations, all by the
/// global step: for each worker the loss, the duration of its steps in seconds, and the staleness
/// of its gradients; for each evaluation the loss and the accuracy. Beside them, for each stretch
/// of the run, how the staleness of all gradients that were applied and the durations of all steps
/// are distributed. The run `began` so many seconds after 1970, or at 0 if it was simulated.
///
/// # Errors
/// If `out` can't be written.
pub fn write(recording: &Recording, began: f64, out: impl Write) -> io::Result<()> {
    let mut events = Events::new(out, began)?;
    if let Some(beginning) = &recording.beginning {
        events.graph(beginning.graph.clone())?;
    }
    for step in recording.steps() {
        events.step(&step)?;
    }
    for evaluation in &recording.evaluations {
        events.evaluation(evaluation)?;
    }
    events.histograms(recording)?;
    events.writer.flush()
}

/// Writes the events of a run one by one, as [`write()`] writes all.
pub(crate) struct Events<W: Write> {
    writer: EventWriter<W>,
    began: f64,
    /// The number of steps so far, by worker.
    steps: BTreeMap<TaskName, u64>,
}

impl<W: Write> Events<W> {
    /// Begins the events of a run that `began` so many seconds after 1970.
    pub(crate) fn new(out: W, began: f64) -> io::Result<Self> {
        Ok(Self { writer: EventWriter::new(out, began)?, began, steps: BTreeMap::new() })
    }

    /// Writes a binary GraphDef.
    pub(crate) fn graph(&mut self, graph: Vec<u8>) -> io::Result<()> {
        self.writer.graph(graph, self.began)
    }

    /// Writes a worker's step, or leaves it out where the worker has taken many.
    pub(crate) fn step(&mut self, step: &StepStats) -> io::Result<()> {
        let before = self.steps.entry(step.worker.clone()).or_default();
        let is_left_out = !before.is_multiple_of(apart(*before));
        *before += 1;
        if is_left_out {
            return Ok(());
        }
        let tag = |name: &str| format!("{name}/{}", step.worker);
        let (loss, seconds, staleness) = (tag("loss"), tag("step_seconds"), tag("staleness"));
        let mut values = vec![
            (&*seconds, step.ended.since(step.started).as_secs_f32()),
            (&*staleness, step.staleness as f32),
        ];
        values.extend(step.loss.map(|value| (&*loss, value)));
        self.writer.scalars(&values, step.global_step, self.began + step.ended.as_secs_f64())
    }

    /// Writes an evaluation.
    pub(crate) fn evaluation(&mut self, evaluation: &Evaluation) -> io::Result<()> {
        let Evaluation { global_step, at, loss, accuracy } = *evaluation;
        let values = [("evaluation/loss", loss), ("evaluation/accuracy", accuracy as f32)];
        self.writer.scalars(&values, global_step, self.began + at.as_secs_f64())
    }

    /// Writes the histograms of each stretch of the whole run.
    pub(crate) fn histograms(&mut self, recording: &Recording) -> io::Result<()> {
        let (mut rest, length) = (recording.steps(), recording.log.len().div_ceil(STRETCHES));
        loop {
            let stretch: Vec<StepStats> = rest.by_ref().take(length).collect();
            if stretch.is_empty() {
                return Ok(());
            }
            let applied = stretch.iter().filter(|step| step.applied);
            let staleness: Vec<f64> = applied.map(|step| step.staleness as f64).collect();
            let seconds: Vec<f64> =
                stretch.iter().map(|step| step.ended.since(step.started).as_secs_f64()).collect();
            let last = stretch.iter().map(|step| step.global_step).max().unwrap_or(0);
            let end = stretch.iter().map(|step| step.ended.as_secs_f64()).fold(0.0, f64::max);
            let values: [(&str, &[f64]); 2] =
                [("staleness", &staleness), ("step_seconds", &seconds)];
            self.writer.histograms(&values, last, self.began + end)?;
        }
    }

    /// The place that they were written to.
    pub(crate) fn into_out(self) -> W {
        self.writer.into_out()
    }
}

/// The distance between two steps that are written, after so many of a worker. A training may take
/// millions of steps, and TensorBoard draws 1,000 points of a curve by default.
fn apart(steps: u64) -> u64 {
    1 << (steps / DENSE + 1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_file::reading::{Scalars, read_graphs, read_histograms, read_scalars};
    use crate::training::{Beginning, Fact, SharedRecording};
    use crate::units::Time;

    /// A recording of `facts`.
    fn recording(facts: impl IntoIterator<Item = Fact>) -> Recording {
        let shared = SharedRecording::default();
        facts.into_iter().for_each(|fact| shared.record(fact));
        shared.finish()
    }

    #[test]
    fn each_worker_step_is_an_event_for_each_of_its_numbers() {
        let times = (Time(500_000_000), Time(750_000_000));
        let step =
            StepStats { loss: Some(0.125), staleness: 2, ..StepStats::applied(1, (3, 9), times) };
        let at = Time(1_000_000_000);
        let recording = recording([
            Fact::Began(Beginning { parameters: 1, graph: b"graph".to_vec() }),
            Fact::Step(step.clone()),
            Fact::Step(StepStats { loss: None, ..step }),
            Fact::Evaluated(Evaluation { global_step: 9, at, loss: 0.25, accuracy: 0.5 }),
        ]);
        let mut file = Vec::new();
        write(&recording, 0.0, &mut file).unwrap();
        let named = |values: &[(&str, f32)]| {
            values.iter().map(|(tag, x)| (format!("{tag}/worker:1"), *x)).collect()
        };
        let without = named(&[("step_seconds", 0.25), ("staleness", 2.0)]);
        let with = named(&[("step_seconds", 0.25), ("staleness", 2.0), ("loss", 0.125)]);
        let evaluated = [("evaluation/loss", 0.25), ("evaluation/accuracy", 0.5)]
            .map(|(tag, value)| (tag.to_owned(), value));
        let expected =
            [(9, 0.75, with), (9, 0.75, without), (9, 1.0, evaluated.into_iter().collect())];
        assert_eq!(read_scalars(&file), expected);
        assert_eq!(read_graphs(&file), [b"graph"]);
        let of = |tag: &str, value: f64| (9, tag.to_owned(), (value, value), vec![1.0]);
        let each = [of("staleness", 2.0), of("step_seconds", 0.25)];
        assert_eq!(read_histograms(&file), [each.clone(), each].concat());
    }

    #[test]
    fn of_many_steps_of_a_worker_some_thousands_are_written_and_all_of_another_with_few() {
        let step =
            |worker, n: u64| Fact::Step(StepStats::applied(worker, (n, n), (Time(n), Time(n + 1))));
        let few = (0..1000).map(|n| step(1, n));
        let recording = recording(few.chain((0..100_000).map(|n| step(0, n))));
        let mut file = Vec::new();
        write(&recording, 0.0, &mut file).unwrap();
        let scalars = read_scalars(&file);
        let of = |worker: &str| -> Vec<u64> {
            let is_its = |(_, _, values): &&Scalars| values[0].0.ends_with(worker);
            scalars.iter().filter(is_its).map(|(step, ..)| *step).collect()
        };
        assert!(of("worker:1").into_iter().eq(0..1000));
        let many = of("worker:0");
        assert!((6_000..7_000).contains(&many.len()), "{}", many.len());
        assert!(many[..1024].iter().copied().eq(0..1024), "its first ones are all there");
        assert!(many.windows(2).all(|two| two[1] - two[0] <= 64), "and no stretch is left out");
        assert!(many.last().is_some_and(|last| *last > 99_900));
    }
}
