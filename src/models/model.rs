//! Which network the built-in trainer trains, and its sizes.

/// A model of the built-in trainer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// One dense layer.
    Softmax,
    /// Dense layers with relu between them.
    Mlp {
        /// The widths of the layers before the last.
        hidden: Vec<usize>,
    },
    /// Convolutions with relu and pools, then dense layers: for data sets of images. Large ones get
    /// the network of TensorFlow's tutorial for MNIST, small ones a smaller.
    Convnet,
    /// Wide and deep, of sparse samples.
    Embedding(Embedding),
    /// An image model as it was published, of random images: to see what its training costs a
    /// cluster.
    Published(Published),
    /// Next to no arithmetic: scalar variables are read and updated, which shows what a step itself
    /// costs.
    Null {
        /// How many variables there are.
        variables: usize,
    },
}

/// The sizes of [`Model::Embedding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// The rows of its table: how many features there are.
    pub rows: usize,
    /// The width of a row.
    pub dim: usize,
    /// The features of a sample.
    pub slots: usize,
    /// The shards that its tables are cut into.
    pub partitions: usize,
    /// The widths of the dense layers before the last.
    pub hidden: Vec<usize>,
}

/// An image model that many know the size of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
