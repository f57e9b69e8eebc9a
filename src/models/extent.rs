//! The size of a model before it is built: its parameters, and what a sample's step holds.

use super::Stages;
use super::model::{Embedding, Model, Published};
use super::network;
use super::null::Null;
use crate::cluster::DeviceSpec;
use crate::graph::{Graph, GraphError, Op};
use crate::tensor::DType;

/// The numbers of values that a model has. They are floats: a product of two sizes that a scenario
/// can ask for need not fit an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Extent {
    /// Trainable values.
    pub(crate) parameters: f64,
    /// Outputs of layers, for one sample.
    pub(crate) activations: f64,
    /// Outputs of the widest layer, for one sample; 0 where it is not known.
    pub(crate) widest: f64,
    /// Rows that a step looks up, whatever its batch.
    pub(crate) lookups: f64,
    /// Values of these rows.
    pub(crate) looked_up: f64,
}

impl Extent {
    /// Dense layers from `width` inputs to `widths`.
    fn of_layers(width: f64, widths: impl IntoIterator<Item = usize>) -> Self {
        let mut extent = Self { activations: width, ..Self::default() };
        let mut before = width;
        for units in widths {
            let units = units as f64;
            extent.parameters += (before + 1.0) * units;
            extent.activations += units;
            extent.widest = extent.widest.max(units);
            before = units;
        }
        extent
    }

    /// The extent of a graph: its trainable variables, and the outputs whose first dimension, that
    /// of the samples, is open. Left out are the batch that is fed, and outputs that need no memory
    /// beside their input's for the gradient, such as those of a relu or of a residual sum.
    ///
    /// # Errors
    /// As [`Graph::snapshot`].
    pub(crate) fn of_graph(g: &Graph) -> Result<Self, GraphError> {
        let variables = g.trainable_variables();
        let parameters: usize =
            variables.iter().map(|variable| variable.spec().shape.elements()).sum();
        let of_a_sample = |dims: &[Option<usize>]| match dims {
            [None, rest @ ..] => rest.iter().map(|dim| dim.unwrap_or(1)).product(),
            _ => 0,
        };
        let def = g.snapshot()?;
        let kept = def.iter().filter(|(_, operation)| !is_left_out(&operation.op));
        let outputs = kept.flat_map(|(_, operation)| operation.outputs.iter());
        let activations: usize = outputs.map(|output| of_a_sample(output.shape.dims())).sum();
        let (parameters, activations) = (parameters as f64, activations as f64);
        Ok(Self { parameters, activations, ..Self::default() })
    }
}

/// Whether [`Extent::of_graph`] leaves the outputs of `op` out.
fn is_left_out(op: &Op) -> bool {
    let in_place = ["Relu", "Relu6", "BiasAdd", "Add", "AddN"];
    let same_values =
        ["Identity", "StopGradient", "PlaceholderWithDefault", "Reshape", "ExpandDims", "Squeeze"];
    let kind = op.kind();
    kind == "Placeholder" || in_place.contains(&kind) || same_values.contains(&kind)
}

impl Model {
    /// Its extent for samples of `width` features, or images of `image`, of `classes`.
    pub(crate) fn extent(&self, width: usize, image: Option<[usize; 3]>, classes: usize) -> Extent {
        match self {
            Self::Softmax => Extent::of_layers(width as f64, [classes]),
            Self::Mlp { hidden } => {
                Extent::of_layers(width as f64, hidden.iter().copied().chain([classes]))
            }
            Self::Convnet => {
                let [height, width, channels] = image.unwrap_or_default();
                super::convnet::extent([height, width, channels], classes)
            }
            Self::Embedding(embedding) => of_embedding(embedding, classes),
            Self::Published(published) => of_published(*published),
            Self::GraphDef(graph) => {
                let (parameters, activations) = (graph.parameters, graph.activations);
                let (parameters, activations) = (parameters as f64, activations as f64);
                Extent { parameters, activations, ..Extent::default() }
            }
            Self::Count => Extent::default(), // a few scalars
            Self::Layers(layers) => {
                let parameters = layers.iter().map(|layer| layer.parameters as f64).sum();
                Extent { parameters, ..Extent::default() }
            }
            Self::Null(null) => of_null(null),
        }
    }
}

fn of_embedding(embedding: &Embedding, classes: usize) -> Extent {
    let Embedding { rows, dim, slots, hidden, .. } = embedding;
    let width = (dim + classes) as f64;
    let dense = Extent::of_layers(*dim as f64, hidden.iter().copied().chain([classes]));
    Extent {
        parameters: *rows as f64 * width + dense.parameters,
        activations: *slots as f64 * width + dense.activations,
        widest: dense.widest.max(*slots as f64 * width),
        ..dense
    }
}

fn of_null(Null { variables, elements, lookups, .. }: &Null) -> Extent {
    let (rows, width) = lookups.map_or((0.0, 0.0), |of| (of.rows as f64, of.width as f64));
    Extent {
        parameters: *variables as f64 * *elements as f64,
        lookups: rows,
        looked_up: rows * width,
        ..Extent::default()
    }
}

fn of_published(published: Published) -> Extent {
    let (g, table) = (Graph::new(), published.table());
    let built = || {
        let pixels = table.image.iter().product();
        let features = g.placeholder("features", DType::F32, [None, Some(pixels)])?;
        network::logits(table, &features, &Stages::new(vec![DeviceSpec::default()]))?;
        Extent::of_graph(&g)
    };
    built().expect("the layers of a table fit each other")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Lookups;

    #[test]
    fn the_extent_of_layers_is_that_of_their_kernels_biases_and_outputs() {
        let mlp = Model::Mlp { hidden: vec![128] }.extent(64, None, 10);
        assert_eq!(mlp.parameters, (64 * 128 + 128 + 128 * 10 + 10) as f64);
        assert_eq!(mlp.activations, (64 + 128 + 10) as f64);
        assert_eq!(mlp.widest, 128.0);
        let large = Model::Mlp { hidden: vec![1 << 30; 2] }.extent(64, None, 10);
        assert!(large.parameters > 1e18, "{}", large.parameters);
    }

    #[test]
    fn published_networks_have_the_published_numbers_of_parameters() {
        let of = |published| {
            let extent = Model::Published(published).extent(0, None, 0);
            (extent.parameters, extent.activations)
        };
        assert_eq!(of(Published::Alexnet), (61_100_840.0, 582_504.0));
        assert_eq!(of(Published::Vgg16), (138_357_544.0, 15_087_080.0));
        assert_eq!(of(Published::Resnet50), (25_557_032.0, 22_431_720.0));
        assert_eq!(of(Published::InceptionV3), (23_834_568.0, 23_318_696.0));
    }

    #[test]
    fn the_extent_of_a_graph_has_a_tanh_s_values_and_none_of_a_relu_or_a_sum() {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [None, Some(20)]).unwrap();
        x.tanh().add(&x).unwrap().relu().sigmoid();
        assert_eq!(Extent::of_graph(&g).unwrap().activations, 40.0);
    }

    #[test]
    fn the_extent_of_a_null_model_has_the_rows_that_it_looks_up() {
        let lookups = Some(Lookups { rows: 100, width: 16 });
        let null = Model::Null(Null { lookups, ..Null::scalars(4) }).extent(0, None, 0);
        assert_eq!((null.parameters, null.lookups, null.looked_up), (4.0, 100.0, 1600.0));
    }

    #[test]
    fn the_extent_of_the_convnet_is_that_of_its_graph() {
        let small = Model::Convnet.extent(64, Some([8, 8, 1]), 10);
        // 3x3 kernels to 8 and 16 channels, halved twice to 2x2, then 64 and 10 units.
        let kernels = (9 * 8 + 8) + (9 * 8 * 16 + 16) + (2 * 2 * 16 * 64 + 64) + (64 * 10 + 10);
        assert_eq!(small.parameters, f64::from(kernels));
    }
}
