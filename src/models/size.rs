//! The parameters, the outputs and the multiply-adds of a table of layers, counted from the table
//! alone.

use std::iter::Sum;
use std::ops::Add;

use super::table::{Convolve, Layer, Pool, Table};
use crate::graph::Padding;

/// The size of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// The number of trainable values.
    pub(super) parameters: u64,
    /// The values that its layers give out for one image. A normalised convolution gives out two,
    /// its product and the normalised one; relus and the sums of residuals are computed in place.
    pub(super) activations: u64,
    /// Multiply-adds of convolutions and products, forward, for one image.
    pub(super) multiply_adds: u64,
}

impl Add for Size {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            parameters: self.parameters + other.parameters,
            activations: self.activations + other.activations,
            multiply_adds: self.multiply_adds + other.multiply_adds,
        }
    }
}

impl Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), Add::add)
    }
}

impl Size {
    /// A layer without parameters that gives out `image`.
    fn giving(image: &[usize; 3]) -> Self {
        Self { activations: image.iter().product::<usize>() as u64, ..Self::default() }
    }
}

impl Table {
    /// Its size.
    pub(super) fn size(&self) -> Size {
        sequence(&(self.layers)(), &mut self.image.clone())
    }
}

/// The size of `layers`, one after the other; `image` is the shape of their input, then of their
/// output.
fn sequence(layers: &[Layer], image: &mut [usize; 3]) -> Size {
    layers.iter().map(|layer| of(layer, image)).sum()
}

fn of(layer: &Layer, image: &mut [usize; 3]) -> Size {
    let [height, width, channels] = *image;
    match layer {
        Layer::Convolve(convolve) => convolution(convolve, image),
        Layer::MaxPool(Pool { size, stride, padding })
        | Layer::AvgPool(Pool { size, stride, padding }) => {
            *image = [
                slid(height, *size, *stride, *padding),
                slid(width, *size, *stride, *padding),
                channels,
            ];
            Size::giving(image)
        }
        Layer::GlobalAvgPool => {
            *image = [1, 1, channels];
            Size::giving(image)
        }
        Layer::Flatten => {
            *image = [1, 1, height * width * channels];
            Size::default() // the same values
        }
        Layer::Dense { units, .. } => {
            *image = [1, 1, *units];
            let weights = (channels * units) as u64;
            let parameters = weights + *units as u64;
            Size { parameters, multiply_adds: weights, ..Size::giving(image) }
        }
        Layer::Branches(branches) => {
            let (mut sum, mut given) = (Size::default(), [0; 3]);
            for branch in branches {
                let mut own = *image;
                sum = sum + sequence(branch, &mut own);
                given = [own[0], own[1], given[2] + own[2]];
            }
            *image = given;
            sum + Size::giving(image)
        }
        Layer::Residual { branch, shortcut } => {
            let shortcut = sequence(shortcut, &mut image.clone());
            sequence(branch, image) + shortcut
        }
    }
}

fn convolution(convolve: &Convolve, image: &mut [usize; 3]) -> Size {
    let Convolve { filters, kernel, stride, padding, normalised, .. } = *convolve;
    let [height, width, channels] = *image;
    *image = [
        slid(height, kernel[0], stride, padding),
        slid(width, kernel[1], stride, padding),
        filters,
    ];
    let weights = kernel[0] * kernel[1] * channels * filters;
    // A scale and an offset, or a bias.
    let others = if normalised { 2 * filters } else { filters };
    let outputs = if normalised { 2 } else { 1 };
    Size {
        parameters: (weights + others) as u64,
        activations: outputs * Size::giving(image).activations,
        multiply_adds: (weights * image[0] * image[1]) as u64,
    }
}

/// The number of positions of a window.
fn slid(size: usize, window: usize, stride: usize, padding: Padding) -> usize {
    match padding {
        Padding::Valid => (size - window) / stride + 1,
        _ => size.div_ceil(stride),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::DeviceSpec;
    use crate::graph::Graph;
    use crate::models::alexnet::ALEXNET;
    use crate::models::inception_v3::INCEPTION_V3;
    use crate::models::resnet50::RESNET50;
    use crate::models::vgg16::VGG16;
    use crate::models::{Stages, network};
    use crate::tensor::DType;

    #[track_caller]
    fn assert_size(network: &Table, parameters: u64, activations: u64, giga_multiply_adds: f64) {
        let size = network.size();
        assert_eq!((size.parameters, size.activations), (parameters, activations));
        let found = size.multiply_adds as f64 / 1e9;
        assert!(
            (found - giga_multiply_adds).abs() / giga_multiply_adds < 0.02,
            "{found} G multiply-adds"
        );
    }

    #[test]
    fn published_networks_have_the_published_numbers_of_parameters_and_multiply_adds() {
        assert_size(&ALEXNET, 61_100_840, 582_504, 0.71);
        assert_size(&VGG16, 138_357_544, 15_087_080, 15.47);
        assert_size(&RESNET50, 25_557_032, 22_431_720, 4.09);
        assert_size(&INCEPTION_V3, 23_834_568, 23_318_696, 5.71);
    }

    #[test]
    fn the_graph_of_a_table_has_as_many_parameters_as_the_table() {
        for table in [ALEXNET, RESNET50, INCEPTION_V3, VGG16] {
            let g = Graph::new();
            let features = g
                .placeholder("features", DType::F32, [None, Some(table.image.iter().product())])
                .unwrap();
            let stages = Stages::new(vec![DeviceSpec::default()]);
            let (logits, updates) = network::logits(&table, &features, &stages).unwrap();
            assert_eq!(logits.tensor_type().shape.dims(), [None, Some(table.classes)]);
            let elements = g
                .trainable_variables()
                .into_iter()
                .map(|variable| variable.spec().shape.elements() as u64);
            assert_eq!(elements.sum::<u64>(), table.size().parameters);
            assert_eq!(
                updates.is_empty(),
                g.trainable_variables().iter().all(|v| !v.name().contains("gamma"))
            );
        }
    }
}
