//! Batch normalisation. TensorFlow keeps its further outputs for the gradient.

use super::math::channels_last;
use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::import::value::Value;
use crate::operations::{Binary, Norm};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "FusedBatchNorm" | "FusedBatchNormV2" | "FusedBatchNormV3" => Box::new(normalise),
        "FusedBatchNormGrad" | "FusedBatchNormGradV2" | "FusedBatchNormGradV3" => {
            Box::new(|importer, node| {
                let (epsilon, is_training) = attributes(node)?;
                let inputs =
                    (0..5).map(|i| importer.input(node, i)).collect::<Result<Vec<_>, _>>()?;
                importer.emit(node, Norm::BatchGrad { epsilon, is_training }, &inputs)
            })
        }
        _ => return None,
    })
}

/// ε, and whether the moments are those of the batch.
fn attributes(node: &Node<'_>) -> Result<(f32, bool), NodeProblem> {
    channels_last(node.def)?;
    Ok((node.def.float("epsilon", 1e-4)?, node.def.flag_or("is_training", true)?))
}

/// `(x, scale, offset, mean, variance)`
fn normalise(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (epsilon, is_training) = attributes(node)?;
    let factor = node.def.float("exponential_avg_factor", 1.0)?;
    if !is_training {
        let (mean, variance) = (node.value(3)?.clone(), node.value(4)?.clone());
        let inputs = importer.inputs(node)?;
        let y = importer.emit(node, Norm::BatchInference { epsilon }, &inputs)?.remove(0);
        return Ok(vec![y, mean.clone(), variance.clone(), mean.clone(), variance, mean]);
    }
    let inputs = (0..3).map(|i| importer.input(node, i)).collect::<Result<Vec<_>, _>>()?;
    let values = importer.emit(node, Norm::Batch { epsilon }, &inputs)?;
    // The moments that are kept for the gradient are those of the batch itself.
    let [y, mean, of_sample, of_batch] = [0, 1, 2, 3].map(|output| values[output].clone());
    let (new_mean, new_variance) = match factor {
        1.0 => (mean.clone(), of_sample),
        _ => (
            averaged(importer, node, factor, (3, &mean))?,
            averaged(importer, node, factor, (4, &of_sample))?,
        ),
    };
    Ok(vec![y, new_mean, new_variance, mean.clone(), of_batch, mean])
}

/// `(1 − factor) · before + factor · now`, where `before` is this input.
fn averaged(
    importer: &Importer<'_>,
    node: &Node<'_>,
    factor: f32,
    (before, now): (usize, &Value),
) -> Result<Value, NodeProblem> {
    let (before, now) = (importer.input(node, before)?, importer.value(node, now)?);
    let factor = f64::from(factor);
    let kept = importer.scalar(node, "kept", &before, 1.0 - factor)?;
    let new = importer.scalar(node, "new", &now, factor)?;
    let kept = importer.helper(node, "kept", Binary::Mul, &[&before, &kept])?;
    let new = importer.helper(node, "new", Binary::Mul, &[&now, &new])?;
    Ok(importer.helper(node, "average", Binary::Add, &[&kept, &new])?.into())
}
