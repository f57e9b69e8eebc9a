//! The networks of the built-in trainer, one file each: from a batch's features to a logit for each
//! class.

mod alexnet;
mod convnet;
pub(crate) mod count;
mod embedding;
mod extent;
mod graph_file;
mod inception_v3;
pub(crate) mod layers;
mod mlp;
mod model;
mod network;
mod null;
mod resnet50;
mod stages;
mod table;
mod vgg16;

use crate::graph::{Output, Target};
use crate::runtime::{Code, Error, Result};
use crate::tensor::DType;

use crate::data::Split;
pub(crate) use extent::Extent;
pub use graph_file::GraphFile;
pub use layers::Layer;
pub use model::{Embedding, Model, Published};
pub use null::{Lookups, Null, NullGradient};
pub(crate) use stages::Stages;
use table::Table;

/// A network in a graph.
pub(crate) struct Network {
    /// A logit for each class, row by row.
    pub(crate) logits: Output,
    /// For sparse samples, the placeholder of the features' numbers, which is fed beside the
    /// features.
    pub(crate) ids: Option<Output>,
    /// The operations that run with each training step.
    pub(crate) updates: Vec<Target>,
}

impl Network {
    fn of(logits: Output) -> Self {
        Self { logits, ids: None, updates: Vec::new() }
    }
}

impl Published {
    fn table(self) -> &'static Table {
        match self {
            Self::Alexnet => &alexnet::ALEXNET,
            Self::Vgg16 => &vgg16::VGG16,
            Self::InceptionV3 => &inception_v3::INCEPTION_V3,
            Self::Resnet50 => &resnet50::RESNET50,
        }
    }

    /// The height, width and channels of its images, and the number of its classes.
    pub fn images(self) -> ([usize; 3], usize) {
        let table = self.table();
        (table.image, table.classes)
    }
}

/// Builds the network of `model` on `features` `[rows, width]`, which are like those of `split`.
/// Its layers are dealt to `stages`.
pub(crate) fn build(
    model: &Model,
    features: &Output,
    split: &Split,
    stages: &Stages,
) -> Result<Network> {
    Ok(match model {
        Model::Softmax => Network::of(mlp::logits(features, &[], split.classes(), stages)?),
        Model::Mlp { hidden } => {
            Network::of(mlp::logits(features, hidden, split.classes(), stages)?)
        }
        Model::Convnet => {
            let no_images =
                "the model `convnet` needs images, but the data set has rows of features";
            let shape =
                split.image_shape().ok_or_else(|| Error::new(Code::InvalidArgument, no_images))?;
            Network::of(convnet::logits(features, shape, split.classes(), stages)?)
        }
        Model::Embedding(embedding) => {
            let g = features.graph();
            let ids = g.placeholder("ids", DType::I64, [None, Some(split.width())])?;
            let logits = embedding::logits(g, &ids, features, embedding, split.classes(), stages)?;
            Network { ids: Some(ids), ..Network::of(logits) }
        }
        Model::Published(published) => {
            let (logits, updates) = network::logits(published.table(), features, stages)?;
            Network { updates, ..Network::of(logits) }
        }
        Model::GraphDef(_) | Model::Layers(_) | Model::Null(_) | Model::Count => {
            return Err(Error::new(Code::Internal, "this model is not built of layers"));
        }
    })
}
