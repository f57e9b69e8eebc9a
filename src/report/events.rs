//! A run's graph, worker steps and evaluations as a file of events, which TensorBoard shows.

use std::io::{self, Write};

use super::EvaluationRow;
use crate::event_file::EventWriter;
use crate::training::StepStats;

/// The most stretches of a run, each with its histograms.
const STRETCHES: usize = 50;

/// The name of the event file of a run that began `began` seconds after 1970, or 0 if it was
/// simulated.
pub fn file_name(began: u64) -> String {
    crate::event_file::file_name(began, "trainyard")
}

/// Writes a run's `graph` (a binary GraphDef, if it is known), and its worker steps and
/// evaluations, all by the global step: for each worker the loss,
/// the duration of its steps in seconds, and the staleness of its gradients; for each evaluation
/// the loss and the accuracy. Beside them, for each stretch of the run, how the staleness of all
/// gradients that were applied and the durations of all steps are distributed. The run `began` so
/// many seconds after 1970, or at 0 if it was simulated.
///
/// # Errors
/// If `out` can't be written.
pub fn write(
    graph: Option<&[u8]>,
    steps: impl Iterator<Item = StepStats> + Clone,
    evaluations: &[EvaluationRow],
    began: f64,
    out: impl Write,
) -> io::Result<()> {
    let mut writer = EventWriter::new(out, began)?;
    if let Some(graph) = graph {
        writer.graph(graph.to_vec(), began)?;
    }
    for step in steps.clone() {
        let tag = |name: &str| format!("{name}/{}", step.worker);
        let (loss, seconds, staleness) = (tag("loss"), tag("step_seconds"), tag("staleness"));
        let mut values = vec![
            (&*seconds, step.ended.since(step.started).as_secs_f32()),
            (&*staleness, step.staleness as f32),
        ];
        values.extend(step.loss.map(|value| (&*loss, value)));
        writer.scalars(&values, step.global_step, began + step.ended.as_secs_f64())?;
    }
    let (mut rest, length) = (steps.clone(), steps.count().div_ceil(STRETCHES));
    loop {
        let stretch: Vec<StepStats> = rest.by_ref().take(length).collect();
        if stretch.is_empty() {
            break;
        }
        let applied = stretch.iter().filter(|step| step.applied);
        let staleness: Vec<f64> = applied.map(|step| step.staleness as f64).collect();
        let seconds: Vec<f64> =
            stretch.iter().map(|step| step.ended.since(step.started).as_secs_f64()).collect();
        let last = stretch.iter().map(|step| step.global_step).max().unwrap_or(0);
        let end = stretch.iter().map(|step| step.ended.as_secs_f64()).fold(0.0, f64::max);
        let values: [(&str, &[f64]); 2] = [("staleness", &staleness), ("step_seconds", &seconds)];
        writer.histograms(&values, last, began + end)?;
    }
    for row in evaluations {
        let values = [("evaluation/loss", row.loss), ("evaluation/accuracy", row.accuracy as f32)];
        writer.scalars(&values, row.global_step, began + row.at.as_secs_f64())?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_file::reading::{read_graphs, read_histograms, read_scalars};
    use crate::units::Time;

    #[test]
    fn each_worker_step_is_an_event_for_each_of_its_numbers() {
        let times = (Time(500_000_000), Time(750_000_000));
        let step =
            StepStats { loss: Some(0.125), staleness: 2, ..StepStats::applied(1, (3, 9), times) };
        let mut file = Vec::new();
        let evaluation = EvaluationRow {
            seed: 7,
            global_step: 9,
            samples: 288,
            at: Time(1_000_000_000),
            loss: 0.25,
            accuracy: 0.5,
        };
        let steps = [step.clone(), StepStats { loss: None, ..step }];
        write(Some(b"graph"), steps.into_iter(), &[evaluation], 0.0, &mut file).unwrap();
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
}
