//! The settings that must be equal on all tasks of a deployed run.

use std::collections::BTreeMap;
use std::fmt::Debug;

use super::Trial;
use crate::models::Model;
use crate::optimizer::{LearningRate, Optimizer};
use crate::training::{Looks, Settings, Stop};

/// A longer value is cut, and ends with a checksum of the whole.
const LONG: usize = 80;

impl Trial {
    /// The settings that must be equal on all its tasks, by the keys of a scenario. Tasks that
    /// differ in one of these would train on without a word: with shares of the data that overlap,
    /// or to another end. Files are left out: each machine may have them elsewhere.
    pub(crate) fn shared_settings(&self) -> BTreeMap<String, String> {
        // A new setting has to be named here, so that somebody decides.
        let Settings {
            model,
            partitioner,
            optimizer,
            batch,
            label_concentration,
            towers,
            all_reduce,
            stop,
            sync_replicas,
            read_ahead: _,
            read_rate: _,
            allow_soft_placement: _,
            num_cores: _,
            evaluator: _,
            patience: _,
        } = &self.settings;
        let Optimizer { rule, learning_rate, clip, top_k, replica: _ } = optimizer;
        let Stop {
            steps,
            samples,
            epochs,
            accuracy,
            evaluate_every: _,
            evaluate_every_samples: _,
            time,
        } = stop;
        let looks = stop.looks().map(|looks| match looks {
            Looks::EverySteps(steps) => ("stop.evaluate_every", steps.to_string()),
            Looks::EverySamples(samples) => ("stop.evaluate_every_samples", samples.to_string()),
        });
        let model = match model {
            files @ (Model::GraphDef(_) | Model::Layers(_)) => files.name().to_owned(),
            other => short(other),
        };
        // A task that has the data has counted the steps of so many samples.
        let steps = steps.filter(|_| samples.is_none() && epochs.is_none());
        let always = [
            ("seed", self.cluster.seed.to_string()),
            ("mode", format!("{:?}", self.mode)),
            ("compression", short(&self.cluster.encoding)),
            ("program.batch", batch.to_string()),
            ("program.model", model),
            ("program.optimizer.rule", short(rule)),
            ("program.optimizer.learning_rate", rate(learning_rate)),
            ("program.towers", towers.to_string()),
        ];
        let maybe = [
            ("program.partitioner", partitioner.as_ref().map(short)),
            ("program.label_concentration", label_concentration.as_ref().map(short)),
            ("program.optimizer.clip", clip.as_ref().map(short)),
            ("program.all_reduce", all_reduce.as_ref().map(short)),
            ("program.sync_replicas", sync_replicas.as_ref().map(short)),
            ("compression.top_k", top_k.as_ref().map(short)),
            ("stop.steps", steps.as_ref().map(short)),
            ("stop.samples", samples.as_ref().map(short)),
            ("stop.epochs", epochs.as_ref().map(short)),
            ("stop.accuracy", accuracy.as_ref().map(short)),
            ("stop.time", time.as_ref().map(short)),
        ];
        let given = maybe.into_iter().filter_map(|(key, value)| Some((key, value?)));
        always
            .into_iter()
            .chain(given)
            .chain(looks)
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }
}

/// The learning rate, as a scenario has it where it is constant.
fn rate(rate: &LearningRate) -> String {
    rate.constant().map_or_else(|| short(rate), |rate| rate.to_string())
}

fn short(value: &impl Debug) -> String {
    let whole = format!("{value:?}");
    if whole.len() <= LONG {
        return whole;
    }
    let begin: String = whole.chars().take(LONG - 20).collect();
    format!("{begin}… ({:08x})", crc32c::crc32c(whole.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    #[test]
    fn tasks_share_what_decides_the_training_and_not_what_a_machine_is_told() {
        let shared = |changes: &[(&str, &str)]| {
            let text = "[cluster]\nps = 1\nworker = 2\n[stop]\nsteps = 50\n[program]\n\
                        optimizer = { rule = 'gradient_descent', learning_rate = 0.1 }\n\
                        [[run]]\nname = 'a'\nmode = 'sync'\n";
            let mut experiment = Experiment::parse(text).unwrap();
            for (path, value) in changes {
                experiment = experiment.set(&format!("{path}={value}")).unwrap();
            }
            experiment.trials().unwrap().remove(0).shared_settings()
        };
        let plain = shared(&[]);
        assert_eq!(plain, shared(&[("checkpoint.directory", "'elsewhere'")]));
        for (path, value) in [
            ("seed", "9"),
            ("program.batch", "64"),
            ("program.model", "'mlp'"),
            ("stop.steps", "17"),
            ("stop.time", "'3s'"),
            ("stop.evaluate_every", "7"),
            ("program.optimizer.learning_rate", "0.3"),
            ("run.0.mode", "'async'"),
            ("run.0.mode", "{ sync = { backups = 1 } }"),
        ] {
            let other = shared(&[(path, value)]);
            let differ =
                plain.keys().chain(other.keys()).find(|key| plain.get(*key) != other.get(*key));
            assert_eq!(differ.map(String::as_str), Some(path.trim_start_matches("run.0.")));
        }
    }

    #[test]
    fn the_mode_is_shared_with_all_its_parameters_and_is_shown_whole() {
        let shared = |momentum: &str| {
            let text = format!(
                "[cluster]\nps = 1\nworker = 2\n[[run]]\nname = 'a'\n\
                 mode = {{ diloco = {{ every = 16, outer_momentum = {momentum} }} }}\n"
            );
            let mut trials = Experiment::parse(text).unwrap().trials().unwrap();
            trials.remove(0).shared_settings().remove("mode").unwrap()
        };
        for momentum in ["0.9", "0.1234567"] {
            let mode = shared(momentum);
            assert!(mode.ends_with(&format!("outer_momentum: {momentum} }}")), "{mode}");
        }
    }

    #[test]
    fn a_parameter_server_which_reads_no_data_was_told_the_same() {
        let text = "[cluster]\nps = 1\nworker = 2\n[stop]\nepochs = 2.5\nsteps = 10000\n\
                    [[run]]\nname = 'a'\nmode = 'sync'\n";
        let shared = |task: &str| {
            let experiment = Experiment::parse(text).unwrap();
            let trials = experiment.trials_of_task(&task.parse().unwrap());
            trials.unwrap().remove(0).shared_settings()
        };
        assert_eq!(shared("ps:0"), shared("worker:1"));
        assert_eq!(shared("ps:0").get("stop.epochs").map(String::as_str), Some("2.5"));
    }

    #[test]
    fn long_values_that_differ_at_their_ends_alone_stay_different() {
        let [one, other] = [8, 9].map(|last| short(&[vec![1; 60], vec![last]]));
        assert!(one != other && one.chars().count() <= LONG, "{one} {other}");
    }
}
