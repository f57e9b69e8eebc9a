//! What is odd about a trial's data: that it tests on what it trains on, that one class is nearly
//! all there is, that a step has more samples than there are.

use super::Form;
use crate::data::{Dataset, Split};
use crate::experiment::Trial;
use crate::kernels::Numerics;

impl Trial {
    /// What its author may not expect of its data; nothing where nothing is learnt.
    pub(crate) fn cautions_of_data(&self) -> Vec<String> {
        let (Some(data), Some(key)) = (&self.dataset, &self.data_key) else { return Vec::new() };
        let source = match &key.form {
            Form::Rows(source) | Form::Sparse { source, .. } => source,
            Form::Images { .. } => return Vec::new(),
        };
        if self.cluster.numerics == Numerics::Shapes {
            return Vec::new();
        }
        let again = source.file_of_both().map(|file| {
            format!(
                "program.dataset: {} is trained on and tested on, so that the accuracy says \
                 nothing of new samples: name another file for testing, or none, and a fifth is \
                 held out",
                file.display()
            )
        });
        let counts = counts(&data.test);
        let cautions = [
            again,
            missing_classes(data),
            one_class(&counts, self.settings.stop.accuracy),
            self.large_step(data.train.len()),
        ];
        cautions.into_iter().flatten().collect()
    }

    /// What to say of a step that has samples twice, of `all` in memory.
    fn large_step(&self, all: usize) -> Option<String> {
        let (batch, workers) = (self.settings.batch as u64, self.cluster.spec.workers().count());
        let of_a_step = self.settings.samples_of_a_step(self.mode, workers as u32);
        // Steps of workers that go on by themselves follow one another, and repeat nothing.
        let is_of_one_round = of_a_step <= batch.saturating_mul(workers as u64);
        let samples = if is_of_one_round { of_a_step.max(batch) } else { batch };
        let is_large = all > 0 && samples > all as u64;
        is_large.then(|| {
            format!(
                "program.batch: a step has {samples} samples, and there are {all} to train on: it \
                 counts some of them several times; take a smaller batch, or fewer workers"
            )
        })
    }
}

/// How many samples of each class are in memory; empty if the data have only shapes.
fn counts(split: &Split) -> Vec<usize> {
    let whole = split.whole();
    let mut counts = vec![0; split.classes()];
    for label in whole.labels.values::<i32>().unwrap_or_default() {
        if let Some(count) = usize::try_from(*label).ok().and_then(|class| counts.get_mut(class)) {
            *count += 1;
        }
    }
    counts
}

/// What to say of a test split with `counts` samples of each class, where always answering one of
/// them reaches `accuracy`.
fn one_class(counts: &[usize], accuracy: Option<f64>) -> Option<String> {
    let (all, most) = (counts.iter().sum::<usize>(), *counts.iter().max()?);
    let class = counts.iter().position(|count| *count == most)?;
    let share = most as f64 / all.max(1) as f64;
    if most == all && all > 0 {
        return Some(format!(
            "program.dataset: all {all} samples to test on are of the class {class}, which can be \
             answered without having learnt anything: test on samples of all classes"
        ));
    }
    let accuracy = accuracy.filter(|accuracy| share >= *accuracy)?;
    Some(format!(
        "stop.accuracy: {:.1} % of the samples to test on are of the class {class}, so that always \
         answering it reaches {accuracy}: ask for more, or test on as many samples of each class",
        100.0 * share
    ))
}

/// What to say of classes of which there is no sample.
fn missing_classes(data: &Dataset) -> Option<String> {
    if data.train.stream().is_some() {
        return None; // its samples are not known yet
    }
    let both = counts(&data.train).into_iter().zip(counts(&data.test));
    let empty: Vec<usize> =
        both.enumerate().filter(|(_, (train, test))| train + test == 0).map(|(at, _)| at).collect();
    let (first, classes) = (*empty.first()?, data.train.classes());
    let have = if empty.len() == 1 { "has" } else { "have" };
    Some(format!(
        "program.dataset: {} of {classes} classes {have} no sample, such as class {first}, and \
         each makes the model larger: number the classes from 0 without a gap",
        empty.len()
    ))
}

#[cfg(test)]
mod tests {
    use crate::experiment::Experiment;

    /// What is said of a table with the labels `y`, with more keys of `[program]` and of `[stop]`.
    fn cautions(y: &[u32], mode: &str, [program, stop]: [&str; 2]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let (train, test) = (folder.path().join("train.csv"), folder.path().join("test.csv"));
        let rows: String = y.iter().map(|label| format!("1,{label}\n")).collect();
        std::fs::write(&train, format!("x,y\n{rows}")).unwrap();
        std::fs::write(&test, format!("x,y\n{rows}")).unwrap();
        let text = format!(
            "[cluster]\nps = 1\nworker = 3\n[program]\nmodel = 'softmax'\n{program}\n\
             dataset = {{ csv = '{}', test = '{}', label = 'y' }}\n[stop]\nsteps = 3\n{stop}\n\
             [[run]]\nname = 'a'\nmode = {mode}\n",
            train.display(),
            test.display()
        );
        Experiment::parse(text).unwrap().trials().unwrap()[0].cautions_of_data()
    }

    #[test]
    fn an_accuracy_that_always_answering_one_class_reaches_is_told_with_its_share() {
        let of = |y: &[u32], stop| cautions(y, "'sync'", ["batch = 1", stop]);
        let mostly_0 = [0, 0, 0, 1];
        let said = of(&mostly_0, "accuracy = 0.75");
        assert!(
            said[0].contains("75.0 % of the samples to test on are of the class 0"),
            "{said:?}"
        );
        assert_eq!(of(&mostly_0, "accuracy = 0.8"), [""; 0]);
        assert_eq!(of(&mostly_0, ""), [""; 0]);
        let said = of(&[0, 0, 0, 0], "");
        assert!(said[0].contains("all 4 samples to test on are of the class 0"), "{said:?}");
    }

    #[test]
    fn classes_without_a_sample_are_told_with_their_number() {
        let said = cautions(&[0, 3, 0, 3], "'sync'", ["batch = 1", ""]);
        assert!(said[0].contains("2 of 4 classes have no sample, such as class 1"), "{said:?}");
    }

    #[test]
    fn a_step_of_more_samples_than_there_are_is_told_of() {
        let of = |batch, mode| cautions(&[0, 1, 0, 1, 0, 1], mode, [batch, ""]);
        let said = of("batch = 3", "'sync'");
        assert!(said[0].contains("a step has 9 samples, and there are 6 to train on"), "{said:?}");
        for (batch, mode) in [
            ("batch = 2", "'sync'"),
            ("batch = 3", "'async'"),
            ("batch = 2", "{ local_sgd = { every = 4 } }"),
        ] {
            assert_eq!(of(batch, mode), [""; 0], "{batch}, {mode}");
        }
        assert!(of("batch = 7", "'async'")[0].contains("a step has 7 samples"));
        assert!(of("batch = 7", "{ local_sgd = { every = 4 } }")[0].contains("has 7 samples"));
    }
}
