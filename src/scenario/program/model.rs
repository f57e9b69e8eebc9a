//! The model of `[program]`, with its sizes.

use serde::Deserialize;

use super::{LARGEST, ProgramFile};
use crate::models::{Embedding, Lookups, Model, Null, Published};
use crate::scenario::mistakes::Mistakes;

/// The number of variables that the model `null` reads and updates, as in TensorFlow's null step.
const NULL_VARIABLES: usize = 16;

/// The default width of a row.
pub(super) const DIM: usize = 16;

/// The most parts of a kind, each of which is operations of the graph.
pub(super) const MOST_PARTS: usize = 10_000;

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ModelFile {
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

/// The model with its sizes.
pub(super) fn model(file: &ProgramFile, servers: u32, found: &mut Mistakes) -> Model {
    let embedding = embedding(file, servers, found);
    let null = null(file, found);
    let given = file.hidden.clone();
    let model = match file.model.unwrap_or_default() {
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
        _ => {
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
    let has_rows = file.model == Some(ModelFile::Embedding) || file.lookups.is_some();
    found.unless(file.dim.is_none() || has_rows, "program.dim", || {
        "only the model `embedding`, and `null` with `lookups`, have `dim`; use one, or remove this"
            .to_owned()
    });
    found.at_least_1(file.dim.unwrap_or(DIM) as u64, "program.dim");
    let mut size = |key: &str, given: Option<usize>, (default, most): (usize, usize)| {
        let path = format!("program.{key}");
        found.unless(
            given.is_none() || file.model == Some(ModelFile::Embedding),
            path.as_str(),
            || format!("only the model `embedding` has `{key}`; use it, or remove this"),
        );
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
    let is_null = file.model == Some(ModelFile::Null);
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
        found.at_most(lookups, LARGEST, "program.lookups");
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
