//! The program that a scenario means: model, data and optimizer.

use std::path::{Path, PathBuf};

use super::Mistakes;
use crate::simulation::scenario::file::{DatasetFile, ModelFile, NpyFile, OptimizerFile, ProgramFile, RuleFile};
use crate::simulation::scenario::{Dataset, Model, Optimizer, Program, Rule};

/// `origin` is the scenario's file: relative paths begin where it is.
pub(super) fn program(file: ProgramFile, origin: &str, found: &mut Mistakes) -> Program {
    let batch = file.batch.unwrap_or(32);
    found.at_least_1(batch as u64, "program.batch");
    let model = match file.model {
        ModelFile::Mlp => Model::Mlp,
        ModelFile::Null => Model::Null,
        ModelFile::Convnet => Model::Convnet,
        ModelFile::Softmax | ModelFile::Embedding => Model::Softmax,
    };
    let hidden = match (model, file.hidden) {
        (Model::Mlp, None) => vec![128],
        (_, given) => given.unwrap_or_default(),
    };
    match model {
        Model::Mlp => found.unless(!hidden.is_empty() && !hidden.contains(&0), "program.hidden", || {
            "the model `mlp` needs at least one hidden layer, each of width 1 or more; without one, it is `softmax`"
                .to_owned()
        }),
        Model::Softmax | Model::Convnet | Model::Null => found.unless(hidden.is_empty(), "program.hidden", || {
            "only the model `mlp` has hidden layers; use it, or remove them".to_owned()
        }),
    }
    let optimizer = optimizer(file.optimizer, found);
    let dataset = dataset(file.dataset, origin, found);
    let has_images = matches!(dataset, Dataset::Digits | Dataset::Idx { .. });
    found.unless(model != Model::Convnet || has_images, "program.dataset", || {
        "the model `convnet` needs images; use the embedded \"digits\", or MNIST's files".to_owned()
    });
    Program { model, hidden, dataset, batch, optimizer }
}

fn dataset(file: DatasetFile, origin: &str, found: &mut Mistakes) -> Dataset {
    let folder = Path::new(origin).parent().unwrap_or(Path::new(""));
    let beside = |path: PathBuf| folder.join(path);
    match file {
        DatasetFile::Digits => Dataset::Digits,
        DatasetFile::Idx { directory } => Dataset::Idx { directory: beside(directory) },
        DatasetFile::Csv { file, label, test } => Dataset::Csv { file: beside(file), label, test: test.map(beside) },
        DatasetFile::LibSvm { file, test } => Dataset::LibSvm { file: beside(file), test: test.map(beside) },
        DatasetFile::Npy(NpyFile { features, labels, test_features, test_labels }) => {
            let train = (beside(features), beside(labels));
            found.unless(test_features.is_some() == test_labels.is_some(), "program.dataset", || {
                "samples for testing need both `test_features` and `test_labels`".to_owned()
            });
            Dataset::Npy { train, test: test_features.map(beside).zip(test_labels.map(beside)) }
        }
    }
}

fn optimizer(file: OptimizerFile, found: &mut Mistakes) -> Optimizer {
    check_parameters(&file, found);
    check_ranges(&file, found);
    Optimizer {
        rule: match file.rule {
            RuleFile::GradientDescent => Rule::GradientDescent,
            RuleFile::Momentum => Rule::Momentum,
            RuleFile::Adagrad => Rule::Adagrad,
            RuleFile::Adam => Rule::Adam,
        },
        learning_rate: file.learning_rate,
        momentum: file.momentum,
        use_nesterov: file.use_nesterov,
        initial_accumulator_value: file.initial_accumulator_value,
        beta1: file.beta1,
        beta2: file.beta2,
        epsilon: file.epsilon,
    }
}

/// Notes the parameters that are given and that the rule has not.
fn check_parameters(file: &OptimizerFile, found: &mut Mistakes) {
    let parameters = [
        ("momentum", file.momentum.is_some(), RuleFile::Momentum),
        ("use_nesterov", file.use_nesterov.is_some(), RuleFile::Momentum),
        ("initial_accumulator_value", file.initial_accumulator_value.is_some(), RuleFile::Adagrad),
        ("beta1", file.beta1.is_some(), RuleFile::Adam),
        ("beta2", file.beta2.is_some(), RuleFile::Adam),
        ("epsilon", file.epsilon.is_some(), RuleFile::Adam),
    ];
    for (name, given, rule) in parameters {
        found.unless(!given || file.rule == rule, format!("program.optimizer.{name}"), || {
            "the optimizer's `rule` has no such parameter".to_owned()
        });
    }
}

fn check_ranges(file: &OptimizerFile, found: &mut Mistakes) {
    let mut check = |name: &str, number: Option<f32>, range: &str, in_range: fn(f32) -> bool| {
        let right = number.is_none_or(|number| number.is_finite() && in_range(number));
        found.unless(right, format!("program.optimizer.{name}"), || format!("must be {range}"));
    };
    check("learning_rate", file.learning_rate, "finite and at least 0", |rate| rate >= 0.0);
    check("momentum", file.momentum, "finite and at least 0", |momentum| momentum >= 0.0);
    check("initial_accumulator_value", file.initial_accumulator_value, "finite and above 0", |value| value > 0.0);
    check("beta1", file.beta1, "at least 0 and below 1", |beta| (0.0..1.0).contains(&beta));
    check("beta2", file.beta2, "at least 0 and below 1", |beta| (0.0..1.0).contains(&beta));
    check("epsilon", file.epsilon, "finite and at least 0", |epsilon| epsilon >= 0.0);
}
