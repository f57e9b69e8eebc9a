//! The networks of the built-in trainer, one file each: from a batch's features to a logit for each class.

mod convnet;
mod mlp;

use crate::graph::Output;
use crate::runtime::{Code, Error, Result};

use super::data::Split;
use super::settings::Model;

/// The logits that `model` gives for `features` `[rows, width]`, which are like those of `split`.
pub(super) fn logits(model: &Model, features: &Output, split: &Split) -> Result<Output> {
    let logits = match model {
        Model::Softmax => mlp::logits(features, &[], split.classes()),
        Model::Mlp { hidden } => mlp::logits(features, hidden, split.classes()),
        Model::Convnet => {
            let no_images = "the model `convnet` needs images, but the data set has rows of features";
            let shape = split.image_shape().ok_or_else(|| Error::new(Code::InvalidArgument, no_images))?;
            convnet::logits(features, shape, split.classes())
        }
        Model::Null { .. } => return Err(Error::new(Code::Internal, "the model `null` gives no logits")),
    };
    Ok(logits?)
}
