//! `[program]`: the model, its data and its optimizer.

use std::path::Path;

use serde::Deserialize;

use super::mistakes::Mistakes;
use super::optimizer::{OptimizerFile, optimizer};
use super::partitioner::PartitionerFile;
use crate::data::Source;
use crate::models::{Embedding, Lookups, Model, Null, NullGradient, Published};
use crate::optimizer::{GradientDescent, Optimizer};
use crate::runtime::Patience;
use crate::training::{ByTokens, Evaluating, Settings, Stop};
use crate::units::{Bytes, BytesPerSecond};

/// The number of variables that the model `null` reads and updates, as in TensorFlow's null step.
const NULL_VARIABLES: usize = 16;

/// The default width of a row.
const DIM: usize = 16;

/// The largest batch, and the most units of a layer or rows of a table: the product of two still is
/// a number of bytes.
const LARGEST: usize = 1_000_000_000;
/// The most parts of a kind, each of which is operations of the graph.
const MOST_PARTS: usize = 10_000;
/// The most towers of a worker, each of which is a copy of the model in its graph.
const MOST_TOWERS: usize = 1024;

/// The section as it is typed.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProgramFile {
    model: ModelFile,
    hidden: Option<Vec<usize>>,
    rows: Option<usize>,
    dim: Option<usize>,
    slots: Option<usize>,
    partitions: Option<usize>,
    variables: Option<usize>,
    bytes: Option<Bytes>,
    lookups: Option<usize>,
    gradient: Option<NullGradient>,
    partitioner: Option<PartitionerFile>,
    dataset: Option<Source>,
    batch: Option<usize>,
    read_rate: Option<BytesPerSecond>,
    optimizer: Option<OptimizerFile>,
    towers: Option<usize>,
    allow_soft_placement: bool,
    sync_replicas: Option<ByTokens>,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ModelFile {
    #[default]
    Softmax,
    Mlp,
    Convnet,
    Embedding,
    Alexnet,
    #[serde(rename = "vgg16")]
    Vgg16,
    #[serde(rename = "inception_v3")]
    InceptionV3,
    #[serde(rename = "resnet50")]
    Resnet50,
    Null,
    Count,
}

/// The training's settings and data. `origin` is the scenario's file, at which relative paths
/// begin. The cluster has so many parameter servers and workers.
pub(super) fn program(
    file: ProgramFile,
    stop: Stop,
    origin: &str,
    (servers, workers): (u32, u32),
    found: &mut Mistakes,
) -> (Settings, Source) {
    let batch = file.batch.unwrap_or(32);
    found.at_least_1(batch as u64, "program.batch");
    found.at_most(batch, LARGEST, "program.batch");
    found.at_most(file.dim.unwrap_or(DIM), LARGEST, "program.dim");
    for (layer, units) in file.hidden.iter().flatten().enumerate() {
        found.at_most(*units, LARGEST, &format!("program.hidden[{layer}]"));
    }
    let model = model(&file, servers, found);
    let optimizer = match model {
        Model::Count => counting(file.optimizer.as_ref(), found),
        _ => optimizer(&file.optimizer.unwrap_or_default(), found),
    };
    let dataset = match (file.dataset, &model) {
        (None, Model::Embedding(_) | Model::Published(_)) => Source::Synthetic,
        (given, _) => {
            let folder = Path::new(origin).parent().unwrap_or(Path::new(""));
            given.unwrap_or(Source::Digits).beside(folder)
        }
    };
    check_samples(&model, &dataset, found);
    check_read_rate(file.read_rate, &dataset, found);
    let has_layers = !matches!(model, Model::Null(_) | Model::Count);
    found.unless(has_layers || file.partitioner.is_none(), "program.partitioner", || {
        "the models `null` and `count` have no layers to cut; remove the key".to_owned()
    });
    let partitioner = file.partitioner.map(|typed| typed.partitioner(found));
    let sync_replicas = file.sync_replicas;
    check_by_tokens(sync_replicas, (has_layers, workers), found);
    let towers = file.towers.unwrap_or(1);
    check_towers(towers, batch, has_layers && sync_replicas.is_none(), found);
    let settings = Settings {
        towers,
        allow_soft_placement: file.allow_soft_placement,
        model,
        partitioner,
        optimizer,
        batch,
        read_rate: file.read_rate,
        stop,
        sync_replicas,
        evaluator: Evaluating::default(),
        patience: Patience::default(),
        read_ahead: true,
    };
    (settings, dataset)
}

/// Checks that a batch can be shared out to `towers`, of a model that can have any or not.
fn check_towers(towers: usize, batch: usize, can_have_any: bool, found: &mut Mistakes) {
    found.at_least_1(towers as u64, "program.towers");
    found.at_most(towers, MOST_TOWERS, "program.towers");
    found.unless(can_have_any || towers <= 1, "program.towers", || {
        "the models `null` and `count`, and training by tokens, have no towers; remove the key"
            .to_owned()
    });
    found.unless(batch.is_multiple_of(towers.max(1)), "program.towers", || {
        format!("a batch of {batch} samples can't be shared out equally to {towers} towers")
    });
}

/// Checks a training by tokens of `workers` workers, whose model has gradients of its own or not.
fn check_by_tokens(given: Option<ByTokens>, (learns, workers): (bool, u32), found: &mut Mistakes) {
    let Some(by_tokens) = given else { return };
    for (key, text) in by_tokens.mistakes(workers) {
        found.note(format!("program.sync_replicas.{key}"), text);
    }
    found.unless(learns, "program.sync_replicas", || {
        "the models `null` and `count` are not trained by tokens; remove the key".to_owned()
    });
}

/// The optimizer of the model `count`, which has no other.
fn counting(given: Option<&OptimizerFile>, found: &mut Mistakes) -> Optimizer {
    found.unless(given.is_none(), "program.optimizer", || {
        "the model `count` adds 1 with each update; remove the key".to_owned()
    });
    GradientDescent::new(1.0).into()
}

/// The model with its sizes.
fn model(file: &ProgramFile, servers: u32, found: &mut Mistakes) -> Model {
    let embedding = embedding(file, servers, found);
    let null = null(file, found);
    let given = file.hidden.clone();
    let model = match file.model {
        ModelFile::Mlp => Model::Mlp { hidden: given.unwrap_or_else(|| vec![128]) },
        ModelFile::Embedding => Model::Embedding(embedding),
        ModelFile::Alexnet => Model::Published(Published::Alexnet),
        ModelFile::Vgg16 => Model::Published(Published::Vgg16),
        ModelFile::InceptionV3 => Model::Published(Published::InceptionV3),
        ModelFile::Resnet50 => Model::Published(Published::Resnet50),
        ModelFile::Null => Model::Null(null),
        ModelFile::Count => Model::Count,
        ModelFile::Convnet => Model::Convnet,
        ModelFile::Softmax => Model::Softmax,
    };
    let path = "program.hidden";
    match &model {
        Model::Mlp { hidden } => {
            found.unless(!hidden.is_empty() && !hidden.contains(&0), path, || {
                "the model `mlp` needs at least one hidden layer, each of width 1 or more; \
                 without one, it is `softmax`"
                    .to_owned()
            });
        }
        Model::Embedding(embedding) => found.unless(!embedding.hidden.contains(&0), path, || {
            "a hidden layer is of width 1 or more".to_owned()
        }),
        Model::Softmax | Model::Convnet | Model::Published(_) | Model::Null(_) | Model::Count => {
            found.unless(file.hidden.as_ref().is_none_or(Vec::is_empty), path, || {
                "only the models `mlp` and `embedding` have hidden layers; use one, or remove them"
                    .to_owned()
            });
        }
    }
    model
}

/// The sizes of the model `embedding`, which no other model has.
fn embedding(file: &ProgramFile, servers: u32, found: &mut Mistakes) -> Embedding {
    let has_rows = file.model == ModelFile::Embedding || file.lookups.is_some();
    found.unless(file.dim.is_none() || has_rows, "program.dim", || {
        "only the model `embedding`, and `null` with `lookups`, have `dim`; use one, or remove this"
            .to_owned()
    });
    found.at_least_1(file.dim.unwrap_or(DIM) as u64, "program.dim");
    let mut size = |key: &str, given: Option<usize>, (default, most): (usize, usize)| {
        let path = format!("program.{key}");
        found.unless(given.is_none() || file.model == ModelFile::Embedding, path.as_str(), || {
            format!("only the model `embedding` has `{key}`; use it, or remove this")
        });
        found.at_least_1(given.unwrap_or(default) as u64, &path);
        found.at_most(given.unwrap_or(default), most, &path);
        given.unwrap_or(default)
    };
    let partitions = (servers.clamp(1, MOST_PARTS as u32) as usize, MOST_PARTS);
    Embedding {
        rows: size("rows", file.rows, (10_000, LARGEST)),
        dim: file.dim.unwrap_or(DIM),
        slots: size("slots", file.slots, (8, MOST_PARTS)),
        partitions: size("partitions", file.partitions, partitions),
        hidden: file.hidden.clone().unwrap_or_else(|| vec![32]),
    }
}

/// The sizes of the model `null`, which no other model has.
fn null(file: &ProgramFile, found: &mut Mistakes) -> Null {
    let is_null = file.model == ModelFile::Null;
    for (key, is_given) in [
        ("variables", file.variables.is_some()),
        ("bytes", file.bytes.is_some()),
        ("lookups", file.lookups.is_some()),
        ("gradient", file.gradient.is_some()),
    ] {
        found.unless(is_null || !is_given, format!("program.{key}"), || {
            format!("only the model `null` has `{key}`; use it, or remove this")
        });
    }
    let variables = file.variables.unwrap_or(NULL_VARIABLES);
    found.at_least_1(variables as u64, "program.variables");
    found.at_most(variables, MOST_PARTS, "program.variables");
    let width = file.dim.unwrap_or(DIM).max(1);
    let of_all = file.bytes.map_or(variables, |bytes| (bytes.0 / 4) as usize);
    found.unless(of_all >= variables, "program.bytes", || {
        format!("{variables} variables have at least 4 bytes each")
    });
    if let Some(lookups) = file.lookups {
        found.unless(lookups >= variables, "program.lookups", || {
            format!("a step looks up at least one row of each of {variables} variables")
        });
    }
    Null {
        variables,
        elements: of_all / variables.max(1),
        lookups: file.lookups.map(|rows| Lookups { rows, width }),
        gradient: file.gradient.unwrap_or_default(),
    }
}

/// Notes a mistake if samples that are in memory have a rate of reading.
fn check_read_rate(rate: Option<BytesPerSecond>, dataset: &Source, found: &mut Mistakes) {
    let path = "program.read_rate";
    let is_streamed = matches!(dataset, Source::Streamed(_));
    found.unless(is_streamed || rate.is_none(), path, || {
        "only a data set that is read as it is used takes time; remove the key".to_owned()
    });
    found.above_0(rate.map_or(1.0, |rate| rate.0), path);
}

/// Notes a mistake if the data set's samples are not those that the model takes.
fn check_samples(model: &Model, dataset: &Source, found: &mut Mistakes) {
    let path = "program.dataset";
    let has_images = match dataset {
        Source::Digits | Source::Idx { .. } => true,
        Source::Streamed(stream) => stream.image_shape().is_some(),
        _ => false,
    };
    found.unless(*model != Model::Convnet || has_images, path, || {
        "the model `convnet` needs images; use the embedded \"digits\", or MNIST's files".to_owned()
    });
    let is_random = *dataset == Source::Synthetic;
    found.unless(is_random || !matches!(model, Model::Published(_)), path, || {
        "a published model has random images of its own size; remove the key".to_owned()
    });
    let is_sparse = matches!(dataset, Source::LibSvm { .. } | Source::Synthetic);
    found.unless(is_sparse || !matches!(model, Model::Embedding(_)), path, || {
        "the model `embedding` needs sparse samples: `{ libsvm = \"FILE\" }`, or no key for \
         synthetic ones"
            .to_owned()
    });
}
