//! The program that a scenario means: model, data and optimizer.

use std::path::{Path, PathBuf};

use super::Mistakes;
use super::optimizer::optimizer;
use crate::experiment::scenario::file::{DatasetFile, ModelFile, NpyFile, ProgramFile};
use crate::experiment::scenario::{Dataset, Embedding, Model, Program, Published};

/// `origin` is the scenario's file: relative paths begin where it is. `servers` are the parameter
/// servers.
pub(super) fn program(
    file: ProgramFile,
    origin: &str,
    servers: u32,
    found: &mut Mistakes,
) -> Program {
    let batch = file.batch.unwrap_or(32);
    found.at_least_1(batch as u64, "program.batch");
    let sizes = embedding(&file, servers, found);
    let model = match file.model {
        ModelFile::Mlp => Model::Mlp,
        ModelFile::Embedding => Model::Embedding(sizes),
        ModelFile::Alexnet => Model::Published(Published::Alexnet),
        ModelFile::Vgg16 => Model::Published(Published::Vgg16),
        ModelFile::InceptionV3 => Model::Published(Published::InceptionV3),
        ModelFile::Resnet50 => Model::Published(Published::Resnet50),
        ModelFile::Null => Model::Null,
        ModelFile::Convnet => Model::Convnet,
        ModelFile::Softmax => Model::Softmax,
    };
    let hidden = match (model, file.hidden) {
        (Model::Mlp, None) => vec![128],
        (Model::Embedding(_), None) => vec![32],
        (_, given) => given.unwrap_or_default(),
    };
    match model {
        Model::Mlp => {
            found.unless(!hidden.is_empty() && !hidden.contains(&0), "program.hidden", || {
                "the model `mlp` needs at least one hidden layer, each of width 1 or more; \
                 without one, it is `softmax`"
                    .to_owned()
            })
        }
        Model::Embedding(_) => found.unless(!hidden.contains(&0), "program.hidden", || {
            "a hidden layer is of width 1 or more".to_owned()
        }),
        Model::Softmax | Model::Convnet | Model::Published(_) | Model::Null => {
            found.unless(hidden.is_empty(), "program.hidden", || {
                "only the models `mlp` and `embedding` have hidden layers; use one, or remove \
                 them"
                    .to_owned()
            })
        }
    }
    let optimizer = optimizer(&file.optimizer, found);
    let dataset = match (file.dataset, model) {
        (None, Model::Embedding(_) | Model::Published(_)) => Dataset::Synthetic,
        (given, _) => dataset(given.unwrap_or(DatasetFile::Digits), origin, found),
    };
    check_samples(model, &dataset, found);
    Program { model, hidden, dataset, batch, optimizer }
}

/// Notes a data set whose samples are not what the model takes.
fn check_samples(model: Model, dataset: &Dataset, found: &mut Mistakes) {
    let has_images = matches!(dataset, Dataset::Digits | Dataset::Idx { .. });
    found.unless(model != Model::Convnet || has_images, "program.dataset", || {
        "the model `convnet` needs images; use the embedded \"digits\", or MNIST's files".to_owned()
    });
    let is_random = *dataset == Dataset::Synthetic;
    found.unless(is_random || !matches!(model, Model::Published(_)), "program.dataset", || {
        "a published model has random images of its own size; remove the key".to_owned()
    });
    let is_sparse = matches!(dataset, Dataset::LibSvm { .. } | Dataset::Synthetic);
    found.unless(is_sparse || !matches!(model, Model::Embedding(_)), "program.dataset", || {
        "the model `embedding` needs sparse samples: `{ libsvm = \"FILE\" }`, or no key for \
         synthetic ones"
            .to_owned()
    });
}

/// The sizes of the model `embedding`, which no other model has.
fn embedding(file: &ProgramFile, servers: u32, found: &mut Mistakes) -> Embedding {
    let mut size = |key: &str, given: Option<usize>, default: usize| {
        let path = format!("program.{key}");
        found.unless(given.is_none() || file.model == ModelFile::Embedding, path.as_str(), || {
            format!("only the model `embedding` has `{key}`; use it, or remove this")
        });
        found.at_least_1(given.unwrap_or(default) as u64, &path);
        given.unwrap_or(default)
    };
    Embedding {
        rows: size("rows", file.rows, 10_000),
        dim: size("dim", file.dim, 16),
        slots: size("slots", file.slots, 8),
        partitions: size("partitions", file.partitions, servers.max(1) as usize),
    }
}

fn dataset(file: DatasetFile, origin: &str, found: &mut Mistakes) -> Dataset {
    let folder = Path::new(origin).parent().unwrap_or(Path::new(""));
    let beside = |path: PathBuf| folder.join(path);
    match file {
        DatasetFile::Digits => Dataset::Digits,
        DatasetFile::Idx { directory } => Dataset::Idx { directory: beside(directory) },
        DatasetFile::Csv { file, label, test } => {
            Dataset::Csv { file: beside(file), label, test: test.map(beside) }
        }
        DatasetFile::LibSvm { file, test } => {
            Dataset::LibSvm { file: beside(file), test: test.map(beside) }
        }
        DatasetFile::Npy(NpyFile { features, labels, test_features, test_labels }) => {
            let train = (beside(features), beside(labels));
            found.unless(
                test_features.is_some() == test_labels.is_some(),
                "program.dataset",
                || "samples for testing need both `test_features` and `test_labels`".to_owned(),
            );
            Dataset::Npy { train, test: test_features.map(beside).zip(test_labels.map(beside)) }
        }
    }
}
