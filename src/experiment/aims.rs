//! What the runs of an experiment train, and to which accuracy.

use std::any::{type_name, type_name_of_val};

use super::{Trainer, Trial};
use crate::models::Model;
use crate::report::Aim;
use crate::training::train;

/// The aim of each of `trials`; trials that differ in nothing but the seed have the same.
pub(super) fn aims(trials: &[Trial]) -> Vec<Aim> {
    let mut programs: Vec<&Trial> = Vec::new();
    let mut aims: Vec<Aim> = Vec::new();
    for trial in trials {
        let (run, settings) = (trial.run_name().to_owned(), trial.swept());
        if aims.iter().any(|aim| aim.run == run && aim.settings == settings) {
            continue;
        }
        let known = programs.iter().position(|other| train_alike(trial, other));
        let program = known.unwrap_or_else(|| {
            programs.push(trial);
            programs.len() - 1
        });
        aims.push(Aim { run, settings, program, target: trial.settings.stop.accuracy });
    }
    aims
}

/// Whether two runs train one model on the same data, or to the same accuracy on them by whatever
/// model.
fn train_alike(one: &Trial, other: &Trial) -> bool {
    let (settings, others) = (&one.settings, &other.settings);
    let is_alike = match (&settings.model, &others.model) {
        // Measured times become operations by the rate of each run's device.
        (Model::Layers(_), Model::Layers(_)) => true,
        (model, other) => model == other,
    };
    let has_target = settings.stop.accuracy.is_some();
    one.has_data_like(other)
        && settings.stop.accuracy == others.stop.accuracy
        && (is_alike || has_target)
}

/// The accuracy that all of `trials` are to reach; none if they differ in that, or have none.
pub(super) fn common_target(trials: &[Trial]) -> Option<f64> {
    let targets = trials.iter().map(|trial| trial.settings.stop.accuracy);
    targets.reduce(|one, other| one.filter(|_| one == other)).flatten()
}

/// The model that all of `trials` train; none if they differ in that, or if `trainer` is not the
/// built-in one, which alone reads the scenario's model.
pub(crate) fn model_of<T: Trainer>(trials: &[Trial], trainer: &T) -> Option<String> {
    let mut names = trials.iter().map(|trial| trial.settings.model.name());
    let first = names.next().filter(|_| is_built_in(trainer))?;
    names.all(|name| name == first).then(|| first.to_owned())
}

/// Whether `trainer` is the built-in one.
pub(crate) fn is_built_in<T: Trainer>(_trainer: &T) -> bool {
    type_name::<T>() == type_name_of_val(&train)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::report::{Layout, table};
    use crate::training::Task;

    /// The table of two runs, the second with another `set`, by the built-in trainer.
    fn table_of(stop: &str, set: &str) -> String {
        let text = format!(
            "[cluster]\nps = 1\nworker = 1\n[program]\nmodel = 'softmax'\n[stop]\nsteps = 60\n\
             {stop}\n[[run]]\nname = 'a'\nmode = 'sync'\n[[run]]\nname = 'b'\nmode = 'sync'\n\
             set = {{ {set} }}\n"
        );
        let report = Experiment::parse(text).unwrap().simulate(train).unwrap();
        table::render(&report, Layout::Plain)
    }

    #[test]
    fn runs_of_different_models_or_targets_are_not_ranked_and_show_their_own_target() {
        let verdicts = ["samples a second as", "accuracy", "can't be told apart by their time"];
        let ranked = |line: &str| verdicts.iter().any(|verdict| line.contains(verdict));
        let ranked = |text: String| text.lines().skip(5).any(ranked);
        assert!(ranked(table_of("", "program.batch = 64")));
        let unlike = table_of("", "program.model = 'mlp'");
        let told =
            "\nmodels or data differ, so that only these are compared with each other: `a` | `b`\n";
        assert!(unlike.contains(told), "{unlike}");
        assert!(!table_of("", "program.batch = 64").contains("only these"));
        assert!(!ranked(unlike));
        let targets = table_of("accuracy = 0.1", "stop.accuracy = 0.2");
        assert!(targets.contains("run  target  to target [s]"), "{targets}");
        assert!(targets.contains("\nb       0.2  "), "{targets}");
        assert!(targets.contains("\ntargets differ, so that only these are "), "{targets}");
        assert!(!ranked(targets));
        assert!(ranked(table_of("accuracy = 0.1", "program.model = 'mlp'")));
    }

    #[test]
    fn the_title_names_the_model_that_the_built_in_trainer_trains_and_no_other_does() {
        let text = table_of("", "program.batch = 64");
        assert!(
            text.starts_with("scenario, seed 0, softmax, 650 parameters: simulation"),
            "{text}"
        );
        let other = table_of("", "program.model = 'mlp'");
        assert!(other.starts_with("scenario, seed 0: simulation"), "{other}");
        let text = "[program]\nmodel = 'softmax'\n[stop]\nsteps = 1";
        let report = Experiment::parse(text).unwrap().simulate(own).unwrap();
        assert_eq!((report.model, report.complete), (None, true));
    }

    async fn own(task: Task) -> crate::runtime::Result<()> {
        train(task).await
    }
}
