//! The model of the built-in trainer, and its sizes.

use std::sync::Arc;

use super::{GraphFile, Layer, Null};

/// A model of the built-in trainer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Model {
    /// One dense layer.
    Softmax,
    /// Dense layers with relu between them.
    Mlp {
        /// The widths of the layers before the last.
        hidden: Vec<usize>,
    },
    /// Convolutions with relu and pools, then dense layers: for data sets of images. Large images
    /// get the network of TensorFlow's tutorial for MNIST, small ones a smaller network.
    Convnet,
    /// Wide and deep, of sparse samples.
    Embedding(Embedding),
    /// A published image model, on random images: to measure what its training costs a cluster.
    Published(Published),
    /// A graph that TensorFlow wrote.
    GraphDef(Arc<GraphFile>),
    /// Layers of which only the sizes and costs are known, to be simulated.
    Layers(Vec<Layer>),
    /// Scalar variables on every parameter server, to each of which an update adds 1: to check that
    /// no gradient counts twice.
    Count,
    /// Almost no arithmetic: variables are read and updated, which shows the cost of a step itself.
    Null(Null),
}

impl Model {
    /// The training operation of its own, which no optimizer of the scenario's can replace.
    pub(crate) fn own_train_op(&self) -> Option<&str> {
        match self {
            Self::GraphDef(graph) => graph.train.as_deref(),
            _ => None,
        }
    }

    /// Its name, in a scenario as far as it has one there.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Softmax => "softmax",
            Self::Mlp { .. } => "mlp",
            Self::Convnet => "convnet",
            Self::Embedding(_) => "embedding",
            Self::Published(Published::Alexnet) => "alexnet",
            Self::Published(Published::Vgg16) => "vgg16",
            Self::Published(Published::InceptionV3) => "inception_v3",
            Self::Published(Published::Resnet50) => "resnet50",
            Self::GraphDef(_) => "an imported graph",
            Self::Layers(_) => "a table of layers",
            Self::Count => "count",
            Self::Null(_) => "null",
        }
    }

    /// Whether it is trained on data.
    pub(crate) fn has_data(&self) -> bool {
        !matches!(self, Self::Null(_) | Self::Count | Self::Layers(_))
    }

    /// Whether its accuracy can be measured.
    pub(crate) fn has_accuracy(&self) -> bool {
        match self {
            Self::GraphDef(graph) => graph.accuracy.is_some(),
            other => other.has_data(),
        }
    }
}

/// The sizes of [`Model::Embedding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// The rows of its table: the number of features that exist.
    pub rows: usize,
    /// The width of a row.
    pub dim: usize,
    /// The number of features of a sample.
    pub slots: usize,
    /// The number of shards that its tables are cut into.
    pub partitions: usize,
    /// The widths of the dense layers before the last.
    pub hidden: Vec<usize>,
}

/// A published image model of well-known size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Published {
    /// AlexNet in one column (Krizhevsky 2014): 61.1 million parameters.
    Alexnet,
    /// VGG-16 (Simonyan and Zisserman 2014): 138.4 million.
    Vgg16,
    /// Inception-v3 without its auxiliary head (Szegedy et al. 2015): 23.8 million.
    InceptionV3,
    /// ResNet-50 (He et al. 2015): 25.6 million.
    Resnet50,
}
