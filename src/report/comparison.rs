//! The predicted figures of a run beside the measured ones.

use serde::Serialize;

use super::{Layout, TextTable};

/// A prediction of a run, held against the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The figures that both worlds have; none of a run that had nothing left to do.
    pub figures: Vec<Figure>,
    /// The keys of the scenario that the prediction leaves out, since no launch has what they say.
    pub left_out: Vec<&'static str>,
    /// What a worker step waits for, by the prediction: each cause with its seconds in the mean
    /// step, the greatest first.
    pub causes: Vec<TimeSpent>,
    /// The phase of a worker step in which prediction and measurement differ most.
    pub differs_most: Option<PhaseComparison>,
}

/// A figure of a run in both worlds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is, with its unit.
    pub name: &'static str,
    /// Of the simulation.
    pub predicted: f64,
    /// Of the deployment.
    pub measured: f64,
    /// How much more was predicted \[%\]; none if nothing was measured.
    pub error_percent: Option<f64>,
}

/// A cause of a step's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeSpent {
    /// The cause.
    pub name: &'static str,
    /// The time \[s\].
    pub seconds: f64,
}

/// A phase of a worker step: the wait for its parameters, its kernels, or the wait for coordination
/// after them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhaseComparison {
    /// The phase.
    pub name: &'static str,
    /// Its mean length in the prediction \[s\].
    pub predicted: f64,
    /// Its mean length as measured \[s\].
    pub measured: f64,
}

impl Figure {
    /// A figure with its error; none if either world lacks it.
    pub fn new(name: &'static str, predicted: Option<f64>, measured: Option<f64>) -> Option<Self> {
        let (predicted, measured) = (predicted?, measured?);
        let error_percent = (measured != 0.0).then(|| 100.0 * (predicted / measured - 1.0));
        Some(Self { name, predicted, measured, error_percent })
    }
}

impl Comparison {
    /// The first figure of every comparison, which a prediction is judged by.
    pub const STEP: &str = "step, median [ms]";

    /// That of a run that had nothing left to do.
    pub(crate) fn of_nothing() -> Self {
        let (figures, left_out, causes) = (Vec::new(), Vec::new(), Vec::new());
        Self { figures, left_out, causes, differs_most: None }
    }

    /// The error of the median step \[%\].
    pub fn step_error(&self) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == Self::STEP)?.error_percent
    }

    /// The table of the run called `name`. Ends with a newline.
    pub fn render(&self, name: &str, layout: Layout) -> String {
        if self.figures.is_empty() {
            let line = format!("{name} had nothing left to do, so nothing is compared with it");
            return layout.lines(&[line]);
        }
        let titles = [name, "predicted", "measured", "error"].map(str::to_owned).to_vec();
        let row = |figure: &Figure| {
            let Figure { name, predicted, measured, error_percent } = figure;
            let error = error_percent.map_or("-".to_owned(), |error| format!("{error:+.1} %"));
            vec![format!("  {name}"), format!("{predicted:.4}"), format!("{measured:.4}"), error]
        };
        let rows = std::iter::once(titles).chain(self.figures.iter().map(row)).collect();
        let mut lines = Vec::new();
        if !self.left_out.is_empty() {
            let keys = self.left_out.join("`, `");
            lines.push(format!("left out of the prediction, as no launch has it: `{keys}`"));
        }
        let sum: f64 = self.causes.iter().map(|cause| cause.seconds).sum();
        if let Some(TimeSpent { name, seconds }) = self.causes.first() {
            lines.push(format!(
                "the largest cause of a step's time: {name}, {:.0} %",
                100.0 * seconds / sum.max(f64::MIN_POSITIVE)
            ));
        }
        if let Some(PhaseComparison { name, predicted, measured }) = &self.differs_most {
            lines.push(format!(
                "of a step's phases (waiting for parameters, kernels, coordination after them) \
                 {name} differs most: {:.4} ms predicted, {:.4} ms measured",
                predicted * 1e3,
                measured * 1e3
            ));
        }
        TextTable::new(rows).render(layout) + &layout.lines(&lines)
    }
}

/// A line on the median steps of several comparisons; none if there are none.
pub fn summary<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Option<String> {
    let errors: Vec<f64> =
        comparisons.into_iter().filter_map(|it| Some(it.step_error()?.abs())).collect();
    let greatest =
        errors.iter().copied().fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))))?;
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    Some(format!("median step: an error of {mean:.1} % on average, of {greatest:.1} % at most"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(predicted: f64) -> Comparison {
        let figure = |name, predicted, measured| Figure::new(name, Some(predicted), Some(measured));
        Comparison {
            figures: [
                figure(Comparison::STEP, predicted, 2.0),
                figure("staleness, mean", 0.0, 0.0),
            ]
            .into_iter()
            .flatten()
            .collect(),
            left_out: vec!["compute.straggler", "gpus"],
            causes: vec![
                TimeSpent { name: "the loopback", seconds: 3e-3 },
                TimeSpent { name: "the workers' kernels", seconds: 1e-3 },
            ],
            differs_most: Some(PhaseComparison {
                name: "kernels",
                predicted: 1e-3,
                measured: 2e-3,
            }),
        }
    }

    #[test]
    fn a_comparison_is_shown_side_by_side_with_its_error_and_causes() {
        let expected = "\
async                predicted  measured    error
  step, median [ms]     1.5000    2.0000  -25.0 %
  staleness, mean       0.0000    0.0000        -

left out of the prediction, as no launch has it: `compute.straggler`, `gpus`
the largest cause of a step's time: the loopback, 75 %
of a step's phases (waiting for parameters, kernels, coordination after them) kernels differs \
most: 1.0000 ms predicted, 2.0000 ms measured
";
        assert_eq!(comparison(1.5).render("async", Layout::Plain), expected);
    }

    #[test]
    fn a_comparison_without_figures_says_that_there_was_nothing_to_do() {
        let text = Comparison::of_nothing().render("async", Layout::Plain);
        assert_eq!(text.trim(), "async had nothing left to do, so nothing is compared with it");
    }

    #[test]
    fn several_comparisons_are_summed_up_by_their_median_steps() {
        let line = "median step: an error of 15.0 % on average, of 25.0 % at most";
        assert_eq!(summary(&[comparison(1.5), comparison(2.1)]).as_deref(), Some(line));
        assert_eq!(summary(&[]), None);
    }
}
