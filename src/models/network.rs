//! The graph of a network, built from its table of layers.

use super::stages::Stages;
use super::table::{Convolve, Layer, Pool, Table};
use crate::graph::{
    BatchNorm, GraphError, Output, Sliding, Target, avg_pool2d, concat, conv2d,
    conv2d_without_bias, dense, flatten, max_pool2d,
};

/// The axis of an image's channels.
const CHANNELS: isize = 3;

/// A graph that is being built, with the operations that run with each training step.
#[derive(Default)]
struct Builder {
    updates: Vec<Target>,
}

/// The logits for rows that are images, and the operations that update the moving averages.
pub(super) fn logits(
    network: &Table,
    features: &Output,
    stages: &Stages,
) -> Result<(Output, Vec<Target>), GraphError> {
    let [height, width, channels] = network.image.map(Some);
    let images = features.reshape([None, height, width, channels])?;
    let mut builder = Builder::default();
    let layers = (network.layers)();
    let mut x = images;
    for (at, layer) in layers.iter().enumerate() {
        x = stages.layer(at, layers.len(), || builder.layer(layer, &x))?;
    }
    Ok((x, builder.updates))
}

impl Builder {
    /// Builds `layers`, one after the other.
    fn sequence(&mut self, layers: &[Layer], x: &Output) -> Result<Output, GraphError> {
        layers.iter().try_fold(x.clone(), |x, layer| self.layer(layer, &x))
    }

    fn layer(&mut self, layer: &Layer, x: &Output) -> Result<Output, GraphError> {
        match layer {
            Layer::Convolve(convolve) => self.convolve(convolve, x),
            Layer::MaxPool(Pool { size, stride, padding }) => {
                max_pool2d(x, [*size; 2], [*stride; 2], *padding)
            }
            Layer::AvgPool(Pool { size, stride, padding }) => {
                avg_pool2d(x, [*size; 2], [*stride; 2], *padding)
            }
            Layer::GlobalAvgPool => x.mean_over(&[1, 2]),
            Layer::Flatten => flatten(x),
            Layer::Dense { units, relu } => {
                let y = dense(x, *units)?;
                Ok(if *relu { y.relu() } else { y })
            }
            Layer::Branches(branches) => {
                let branches: Vec<Output> = branches
                    .iter()
                    .map(|branch| self.sequence(branch, x))
                    .collect::<Result<_, _>>()?;
                concat(&branches.iter().collect::<Vec<_>>(), CHANNELS)
            }
            Layer::Residual { branch, shortcut } => {
                let shortcut = self.sequence(shortcut, x)?;
                Ok(self.sequence(branch, x)?.add(&shortcut)?.relu())
            }
        }
    }

    fn convolve(&mut self, convolve: &Convolve, x: &Output) -> Result<Output, GraphError> {
        let Convolve { filters, kernel, stride, padding, normalised, relu } = *convolve;
        let sliding = Sliding::from(padding).strides([stride; 2]);
        let y = if normalised {
            let product = conv2d_without_bias(x, filters, kernel, sliding)?;
            let (y, update) = BatchNorm::new(x.graph(), filters)?.train(&product)?;
            self.updates.push(update);
            y
        } else {
            conv2d(x, filters, kernel, sliding)?
        };
        Ok(if relu { y.relu() } else { y })
    }
}
