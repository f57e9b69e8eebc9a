//! `steps.csv`, a row for each worker step, and `evaluations.csv`, a row for each evaluation.

use std::io::{self, Write};

use csv::Writer;

use super::EvaluationRow;
use crate::training::StepStats;

const HEADER: [&str; 11] = [
    "run",
    "worker",
    "local_step",
    "global_step",
    "start_s",
    "end_s",
    "loss",
    "staleness",
    "applied",
    "compute_s",
    "stopped",
];

const EVALUATION_HEADER: [&str; 7] =
    ["run", "seed", "global_step", "samples_computed", "time_s", "loss", "accuracy"];

/// The writer of `steps.csv`. Each run is written out before the next begins, so a crash loses none
/// of it.
pub struct Steps<W: Write> {
    out: Writer<W>,
}

shown!([W: Write] Steps<W>);

impl<W: Write> Steps<W> {
    /// A table with its header and no rows, written to `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let mut out = Writer::from_writer(out);
        out.write_record(HEADER)?;
        Ok(Self { out })
    }

    /// Appends the worker steps of the run called `run`. Times are in seconds since it began; a
    /// loss that was not computed, and a compute time that was not measured, are empty fields.
    pub fn append(
        &mut self,
        run: &str,
        steps: impl IntoIterator<Item = StepStats>,
    ) -> io::Result<()> {
        for step in steps {
            let compute_time = step.compute_time();
            self.out.write_record([
                run,
                &step.worker.to_string(),
                &step.local_step.to_string(),
                &step.global_step.to_string(),
                &step.started.as_secs_f64().to_string(),
                &step.ended.as_secs_f64().to_string(),
                &step.loss.map(|loss| loss.to_string()).unwrap_or_default(),
                &step.staleness.to_string(),
                &step.applied.to_string(),
                &compute_time.map(|took| took.as_secs_f64().to_string()).unwrap_or_default(),
                &step.is_stopped.to_string(),
            ])?;
        }
        self.out.flush()
    }
}

/// The writer of `evaluations.csv`, which is also written run by run.
pub struct Evaluations<W: Write> {
    out: Writer<W>,
}

shown!([W: Write] Evaluations<W>);

impl<W: Write> Evaluations<W> {
    /// A table with its header and no rows, written to `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let mut out = Writer::from_writer(out);
        out.write_record(EVALUATION_HEADER)?;
        Ok(Self { out })
    }

    /// Appends the evaluations of the run called `run`. Times are in seconds since it began.
    pub fn append(&mut self, run: &str, rows: &[EvaluationRow]) -> io::Result<()> {
        for row in rows {
            self.out.write_record([
                run,
                &row.seed.to_string(),
                &row.global_step.to_string(),
                &row.samples.to_string(),
                &row.at.as_secs_f64().to_string(),
                &row.loss.to_string(),
                &row.accuracy.to_string(),
            ])?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_explained_where_scenarios_are() {
        let docs = include_str!("../../docs/scenarios.md");
        for column in HEADER.iter().chain(&EVALUATION_HEADER) {
            let is_plain = ["run", "worker", "seed"].contains(column);
            assert!(is_plain || docs.contains(&format!("`{column}`")), "{column}");
        }
    }
}
