//! Batch normalisation. TensorFlow keeps its further outputs for the gradient.

use super::Translate;
use super::math::channels_last;
use crate::operations::Norm;

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "FusedBatchNorm" | "FusedBatchNormV2" | "FusedBatchNormV3" => Box::new(|importer, node| {
            channels_last(node.def)?;
            let (epsilon, is_training) =
                (node.def.float("epsilon", 1e-4)?, node.def.flag("is_training")?);
            if is_training {
                let inputs = [0, 1, 2]
                    .map(|i| importer.input(node, i))
                    .into_iter()
                    .collect::<Result<Vec<_>, _>>()?;
                let values = importer.emit(node, Norm::Batch { epsilon }, &inputs)?;
                // The moments that are kept for the gradient are those of the batch itself.
                let [y, mean, of_sample, of_batch] =
                    [0, 1, 2, 3].map(|output| values[output].clone());
                return Ok(vec![y, mean.clone(), of_sample, mean.clone(), of_batch, mean]);
            }
            let (mean, variance) = (node.value(3)?.clone(), node.value(4)?.clone());
            let inputs = importer.inputs(node)?;
            let y = importer.emit(node, Norm::BatchInference { epsilon }, &inputs)?.remove(0);
            Ok(vec![y, mean.clone(), variance.clone(), mean.clone(), variance, mean])
        }),
        "FusedBatchNormGrad" | "FusedBatchNormGradV2" | "FusedBatchNormGradV3" => {
            Box::new(|importer, node| {
                channels_last(node.def)?;
                let (epsilon, is_training) =
                    (node.def.float("epsilon", 1e-4)?, node.def.flag("is_training")?);
                let inputs =
                    (0..5).map(|i| importer.input(node, i)).collect::<Result<Vec<_>, _>>()?;
                importer.emit(node, Norm::BatchGrad { epsilon, is_training }, &inputs)
            })
        }
        _ => return None,
    })
}
