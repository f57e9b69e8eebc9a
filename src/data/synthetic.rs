//! Samples drawn from a seed: categories of which few are frequent, like words or users, and images
//! of noise.

use rand::RngExt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::padded::sparse_split;
use super::{DataError, Dataset, Split};
use crate::kernels::Numerics;
use crate::random;
use crate::tensor::{DType, Tensor};

/// The numbers of samples to train on and to test on.
const SAMPLES: [usize; 2] = [8192, 2048];
/// A prime that spreads ranks over the rows, so that the frequent ones are not all in one shard.
const SPREAD: u64 = 2_654_435_761;

pub(super) fn draw(rows: usize, slots: usize, seed: u64) -> Result<Dataset, DataError> {
    if let Some((_, what)) =
        [(rows, "rows"), (slots, "slots")].into_iter().find(|(count, _)| *count == 0)
    {
        return Err(DataError::Empty { what });
    }
    let mut parts = ["train", "test"].into_iter().zip(SAMPLES).map(|(part, count)| {
        let mut stream = random::stream(seed, &["data", "synthetic", part]);
        let (mut ids, mut labels) = (Vec::with_capacity(count * slots), Vec::with_capacity(count));
        for _ in 0..count {
            let mut weight = 0;
            for _ in 0..slots {
                // Log-uniform: the rank r has a probability of about 1/r.
                let rank = (rows as f64).powf(stream.random::<f64>()) as u64 - 1;
                let id = rank.wrapping_mul(SPREAD) % rows as u64;
                weight += if xxh3_64_with_seed(&id.to_le_bytes(), seed) & 1 == 1 { 1 } else { -1 };
                ids.push(id as i64);
            }
            labels.push(i32::from(weight > 0));
        }
        sparse_split(&ids, &vec![1.0; ids.len()], &labels, slots, 2)
    });
    let mut next = || parts.next().expect("there are two parts");
    Ok(Dataset { train: next()?, test: next()? })
}

/// The numbers of random images to train on and to test on.
const IMAGES: [usize; 2] = [64, 16];

pub(super) fn images(
    image: [usize; 3],
    classes: usize,
    numerics: Numerics,
    seed: u64,
) -> Result<Dataset, DataError> {
    if classes == 0 {
        return Err(DataError::Empty { what: "classes" });
    }
    let part = |name: &str, count: usize| {
        let mut stream = random::stream(seed, &["data", "images", name]);
        let shape = [count, image.iter().product()];
        let labels: Vec<i32> = (0..count).map(|_| stream.random_range(0..classes as i32)).collect();
        let features = match numerics {
            Numerics::Shapes => Tensor::hollow(DType::F32, shape),
            Numerics::Real => {
                let values: Vec<f32> = (0..shape[0] * shape[1]).map(|_| stream.random()).collect();
                Tensor::new(shape, &values)?
            }
        };
        Split::new(features, Tensor::new([count], &labels)?, classes)?.of_images(image)
    };
    Ok(Dataset { train: part("train", IMAGES[0])?, test: part("test", IMAGES[1])? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_samples_of_both_classes_whose_ids_are_rows() {
        let ids = |seed| draw(1000, 9, seed).unwrap().train.whole();
        let (batch, again, other) = (ids(1), ids(1), ids(2));
        assert!(batch == again && batch.ids != other.ids);
        assert!(
            batch.ids.unwrap().values::<i64>().unwrap().iter().all(|id| (0..1000).contains(id))
        );
        let ones =
            batch.labels.values::<i32>().unwrap().iter().filter(|label| **label == 1).count();
        assert!((SAMPLES[0] / 4..3 * SAMPLES[0] / 4).contains(&ones), "{ones}");
        assert!(draw(0, 9, 1).is_err() && draw(9, 0, 1).is_err());
    }
}
