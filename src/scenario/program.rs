//! `[program]`: the model, its data and its optimizer.

mod graph_def;
mod layers;
mod model;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::mistakes::Mistakes;
use super::optimizer::{OptimizerFile, optimizer};
use super::partitioner::PartitionerFile;
use crate::data::Source;
use crate::models::{Model, NullGradient};
use crate::optimizer::{GradientDescent, Optimizer};
use crate::runtime::Patience;
use crate::training::{
    AllReduceKind, AllReduceSettings, EvaluatorSettings, Settings, Stop, SyncReplicasSettings,
};
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond};
use graph_def::{InputsFile, graph_def};
use layers::LayerTable;
use model::{DIM, ModelFile, model};

/// The largest batch, and the most units of a layer or rows of a table: the product of two still is
/// a number of bytes.
const LARGEST: usize = 1_000_000_000;
/// The most towers of a worker, each of which is a copy of the model in its graph.
const MOST_TOWERS: usize = 1024;

/// The most hidden layers, each of which is dozens of operations of the graph.
const MOST_LAYERS: usize = 1000;

/// A limit beyond the cores of any machine.
const MOST_CORES: usize = 4096;

/// The section as it is typed.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProgramFile {
    model: Option<ModelFile>,
    #[serde(deserialize_with = "layers::path")]
    layers: Option<PathBuf>,
    graph_def: Option<PathBuf>,
    inputs: Option<InputsFile>,
    loss: Option<String>,
    accuracy: Option<String>,
    train: Option<String>,
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
    label_concentration: Option<f64>,
    read_rate: Option<BytesPerSecond>,
    optimizer: Option<OptimizerFile>,
    towers: Option<usize>,
    pub(super) all_reduce: Option<AllReduceKind>,
    allow_soft_placement: bool,
    pub(super) num_cores: Option<u32>,
    sync_replicas: Option<SyncReplicasSettings>,
}

/// What a training takes from other sections.
pub(super) struct Surroundings {
    /// The number of parameter servers.
    pub(super) servers: u32,
    /// The number of workers.
    pub(super) workers: u32,
    pub(super) all_reduce: Option<AllReduceSettings>,
    /// The number of batches that a step of a replica has.
    pub(super) batches: usize,
    /// The rate of the devices on which the times of layers were measured.
    pub(super) rate: FlopsPerSecond,
    pub(super) stop: Stop,
    pub(super) evaluator: EvaluatorSettings,
    pub(super) patience: Patience,
    pub(super) read_ahead: bool,
}

/// The training's settings and its data. `origin` is the scenario's file, at which relative paths
/// begin.
pub(super) fn program(
    file: ProgramFile,
    origin: &str,
    others: Surroundings,
    found: &mut Mistakes,
) -> (Settings, Source) {
    let batch = file.batch.unwrap_or(32);
    found.at_least_1(batch as u64, "program.batch");
    found.at_most(batch, LARGEST, "program.batch");
    found.at_most(file.dim.unwrap_or(DIM), LARGEST, "program.dim");
    let layers = file.hidden.as_ref().map_or(0, Vec::len);
    found.unless(layers <= MOST_LAYERS, "program.hidden", || {
        format!("{layers} hidden layers are more than {MOST_LAYERS}, the most that are built")
    });
    for (layer, units) in file.hidden.iter().flatten().enumerate() {
        found.at_most(*units, LARGEST, &format!("program.hidden[{layer}]"));
    }
    let folder = Path::new(origin).parent().unwrap_or(Path::new(""));
    let model = match graph_def(&file, folder, found) {
        Some(graph) => Model::GraphDef(Arc::new(graph)),
        None => model(&file, others.servers, found),
    };
    let other = file.model.is_some() || file.graph_def.is_some();
    found.unless(file.layers.is_none() || !other, "program.layers", || {
        "the table of layers is the model; remove the other".to_owned()
    });
    let whole_batch = batch.saturating_mul(others.batches);
    let layers = LayerTable::of(&file, folder, found);
    let model = layers.map_or(model, |table| table.model(whole_batch, others.rate));
    let optimizer = match model {
        Model::Count => counting(file.optimizer.as_ref(), found),
        _ => optimizer(&file.optimizer.unwrap_or_default(), found),
    };
    let dataset = match (file.dataset, &model) {
        (None, Model::Embedding(_) | Model::Published(_)) => Source::Synthetic,
        (given, _) => given.unwrap_or(Source::Digits).beside(folder),
    };
    check_samples(&model, &dataset, found);
    check_read_rate(file.read_rate, &dataset, found);
    check_labels(file.label_concentration, &model, &dataset, found);
    let learns = model.has_data();
    let has_layers = learns && file.graph_def.is_none();
    found.unless(has_layers || file.partitioner.is_none(), "program.partitioner", || {
        "the models `null` and `count` and an imported graph have no layers to cut; remove the key"
            .to_owned()
    });
    let partitioner = file.partitioner.map(|typed| typed.partitioner(found));
    let sync_replicas = file.sync_replicas;
    check_sync_replicas(sync_replicas, learns, others.workers, found);
    let towers = file.towers.unwrap_or(1);
    let num_cores = file.num_cores.unwrap_or(1);
    found.at_least_1(num_cores.into(), "program.num_cores");
    found.at_most(num_cores as usize, MOST_CORES, "program.num_cores");
    check_towers(towers, batch, has_layers && sync_replicas.is_none(), found);
    let settings = Settings {
        model,
        partitioner,
        optimizer,
        batch: whole_batch,
        label_concentration: file.label_concentration,
        read_rate: file.read_rate,
        towers,
        all_reduce: others.all_reduce,
        allow_soft_placement: file.allow_soft_placement,
        num_cores: file.num_cores.and_then(NonZeroU32::new),
        stop: others.stop,
        sync_replicas,
        evaluator: others.evaluator,
        patience: others.patience,
        read_ahead: others.read_ahead,
    };
    (settings, dataset)
}

/// Checks that a batch can be shared out to `towers`, of a model that can have any or not.
fn check_towers(towers: usize, batch: usize, can_have_any: bool, found: &mut Mistakes) {
    found.at_least_1(towers as u64, "program.towers");
    found.at_most(towers, MOST_TOWERS, "program.towers");
    found.unless(can_have_any || towers <= 1, "program.towers", || {
        "the models `null` and `count`, an imported graph and training by tokens have no towers; \
         remove the key"
            .to_owned()
    });
    found.unless(batch.is_multiple_of(towers.max(1)), "program.towers", || {
        format!("a batch of {batch} samples can't be shared out equally to {towers} towers")
    });
}

/// Checks a training by tokens of `workers` workers, whose model has gradients of its own or not.
fn check_sync_replicas(
    given: Option<SyncReplicasSettings>,
    learns: bool,
    workers: u32,
    found: &mut Mistakes,
) {
    let Some(sync_replicas) = given else { return };
    for (key, text) in sync_replicas.mistakes(workers) {
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

/// Notes a mistake if samples that are in memory have a rate of reading.
fn check_read_rate(rate: Option<BytesPerSecond>, dataset: &Source, found: &mut Mistakes) {
    let path = "program.read_rate";
    let is_streamed = matches!(dataset, Source::Streamed(_));
    found.unless(is_streamed || rate.is_none(), path, || {
        "only a data set that is read as it is used takes time; remove the key".to_owned()
    });
    found.above_0(rate.map_or(1.0, |rate| rate.0), path);
}

/// Notes a mistake if the workers' labels can't have this concentration.
fn check_labels(of: Option<f64>, model: &Model, dataset: &Source, found: &mut Mistakes) {
    let path = "program.label_concentration";
    let in_memory = model.has_data() && !matches!(dataset, Source::Streamed(_));
    found.unless(of.is_none() || in_memory, path, || {
        "only samples in memory are shared out by their labels; remove the key".to_owned()
    });
    found.above_0(of.unwrap_or(1.0), path);
}

/// Notes a mistake if the data set's samples are not those that the model takes.
fn check_samples(model: &Model, dataset: &Source, found: &mut Mistakes) {
    let path = "program.dataset";
    let has_images = match dataset {
        Source::Digits | Source::Idx { .. } => true,
        Source::Streamed(stream) => stream.image_shape().is_some(),
        Source::Npy { .. } | Source::Npz { .. } => true, // where their arrays have such a shape
        _ => false,
    };
    found.unless(*model != Model::Convnet || has_images, path, || {
        "the model `convnet` needs images: the embedded \"digits\", MNIST's files, a folder of \
         images, NumPy's arrays [N, HEIGHT, WIDTH] or [N, HEIGHT, WIDTH, CHANNELS], or TFRecords \
         with a shape [HEIGHT, WIDTH, CHANNELS]"
            .to_owned()
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
