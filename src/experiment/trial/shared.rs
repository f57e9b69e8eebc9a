//! The settings that all tasks of a deployed run have to be told alike.

use std::collections::BTreeMap;
use std::fmt::Debug;

use super::Trial;
use crate::models::Model;

/// The length of a value beyond which its end is told by a checksum.
const LONG: usize = 80;

impl Trial {
    /// What all its tasks have to be told alike, by the keys of a scenario. Tasks that differ in
    /// one of these would train on without a word: with shares of the data that overlap, or to
    /// another end. Files are left out: each machine may have them elsewhere.
    pub(crate) fn shared_settings(&self) -> BTreeMap<String, String> {
        let own = &self.settings;
        let (optimizer, stop) = (&own.optimizer, &own.stop);
        let model = match &own.model {
            files @ (Model::GraphDef(_) | Model::Layers(_)) => files.name().to_owned(),
            other => short(other),
        };
        let always = [
            ("seed", self.cluster.seed.to_string()),
            ("mode", self.mode.to_string()),
            ("program.batch", own.batch.to_string()),
            ("program.model", model),
            ("program.optimizer.rule", short(&optimizer.rule)),
            ("program.optimizer.learning_rate", short(&optimizer.learning_rate)),
            ("program.towers", own.towers.to_string()),
            ("stop.evaluate_every", stop.evaluate_every.to_string()),
        ];
        let maybe = [
            ("program.optimizer.clip", optimizer.clip.as_ref().map(short)),
            ("compression.top_k", optimizer.top_k.as_ref().map(short)),
            ("stop.steps", stop.steps.map(|it| it.to_string())),
            ("stop.accuracy", stop.accuracy.map(|it| it.to_string())),
            ("stop.time", stop.time.map(|it| short(&it))),
        ];
        let given = maybe.into_iter().filter_map(|(key, value)| Some((key, value?)));
        always.into_iter().chain(given).map(|(key, value)| (key.to_owned(), value)).collect()
    }
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
            let text = "[cluster]\nps = 1\nworker = 2\n[[run]]\nname = 'a'\nmode = 'sync'\n";
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
            ("program.optimizer.learning_rate", "0.3"),
            ("run.a.mode", "'async'"),
        ] {
            let other = shared(&[(path, value)]);
            let differ =
                plain.keys().chain(other.keys()).find(|key| plain.get(*key) != other.get(*key));
            assert_eq!(differ.map(String::as_str), Some(path.trim_start_matches("run.a.")));
        }
    }

    #[test]
    fn a_long_value_tells_its_end_by_a_checksum() {
        let [one, other] = [8, 9].map(|last| short(&[vec![1; 60], vec![last]]));
        assert!(one != other && one.chars().count() <= LONG, "{one} {other}");
    }
}
