//! The workers' batches together cover the split, and each worker's do not depend on the others.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::tensor::DType;

/// A split whose samples carry their index, in the label and in both features.
fn numbered(samples: usize) -> Arc<Split> {
    let labels: Vec<i32> = (0..samples as i32).collect();
    let features: Vec<f32> =
        labels.iter().flat_map(|label| [*label as f32, -*label as f32]).collect();
    let features = Tensor::new([samples, 2], &features).unwrap();
    Arc::new(Split::new(features, Tensor::new([samples], &labels).unwrap(), samples).unwrap())
}

/// The indices of the samples in a batch.
fn indices(batch: &Batch) -> Vec<i32> {
    let labels = batch.labels.values::<i32>().unwrap();
    let features = batch.features.values::<f32>().unwrap();
    for (row, label) in features.chunks(2).zip(labels) {
        assert_eq!(row, [*label as f32, -*label as f32], "features and label are of one sample");
    }
    labels.to_vec()
}

/// The samples of `worker`'s first `count` batches.
fn drawn(
    split: &Arc<Split>,
    seed: u64,
    (worker, workers): (u32, u32),
    batch: usize,
    count: usize,
) -> Vec<i32> {
    let mut batches = Batches::new(Arc::clone(split), seed, worker, workers, batch).unwrap();
    (0..count).flat_map(|_| indices(&batches.next_batch())).collect()
}

proptest! {
    #[test]
    fn in_each_epoch_each_sample_goes_to_one_worker(
        samples in 1usize..50,
        workers in 1u32..8,
        seed: u64,
    ) {
        let split = numbered(samples);
        let mut epochs = BTreeMap::<u64, Vec<i32>>::new();
        for worker in 0..workers {
            let mut batches = Batches::new(Arc::clone(&split), seed, worker, workers, 1).unwrap();
            while batches.epoch() < 3 {
                epochs.entry(batches.epoch()).or_default().extend(indices(&batches.next_batch()));
            }
        }
        prop_assert_eq!(epochs.len(), 3);
        for (_, mut dealt) in epochs {
            dealt.sort_unstable();
            prop_assert_eq!(dealt, (0..samples as i32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn batches_of_any_size_cut_one_sequence(
        samples in 1usize..50, workers in 1u32..8, batch in 1usize..20, seed: u64
    ) {
        let split = numbered(samples);
        for worker in 0..workers {
            let of = (worker, workers);
            prop_assert_eq!(
                drawn(&split, seed, of, batch, 6),
                drawn(&split, seed, of, 1, 6 * batch)
            );
        }
    }

    #[test]
    fn the_workers_batches_together_are_the_batch_of_one_worker(
        samples in 1usize..50, workers in 1u32..8, batch in 1usize..20, seed: u64
    ) {
        let split = numbered(samples);
        let mut one =
            Batches::new(Arc::clone(&split), seed, 0, 1, batch * workers as usize).unwrap();
        let mut all: Vec<Batches> = (0..workers)
            .map(|worker| Batches::new(Arc::clone(&split), seed, worker, workers, batch).unwrap())
            .collect();
        for _ in 0..4 {
            let mut together: Vec<i32> =
                all.iter_mut().flat_map(|batches| indices(&batches.next_batch())).collect();
            let mut alone = indices(&one.next_batch());
            together.sort_unstable();
            alone.sort_unstable();
            prop_assert_eq!(together, alone);
        }
    }
}

#[test]
fn the_seed_decides_the_order_and_every_epoch_has_its_own() {
    let split = numbered(100);
    let epochs = |seed| drawn(&split, seed, (0, 1), 100, 2);
    assert_eq!(epochs(7), epochs(7));
    assert_ne!(epochs(7), epochs(8));
    let both = epochs(7);
    assert_ne!(both[..100], both[100..]);
    assert!(
        both[..100].iter().zip(0..).filter(|(sample, i)| **sample == *i).count() < 10,
        "it is shuffled"
    );
}

#[test]
fn a_workers_batches_are_the_same_whatever_the_others_draw() {
    let split = numbered(20);
    let mut other = Batches::new(Arc::clone(&split), 7, 0, 3, 5).unwrap();
    let mut batches = Batches::new(Arc::clone(&split), 7, 1, 3, 4).unwrap();
    let mut beside = Vec::new();
    for _ in 0..9 {
        other.next_batch();
        beside.extend(indices(&batches.next_batch()));
    }
    assert_eq!(beside, drawn(&split, 7, (1, 3), 4, 9));
}

#[test]
fn batches_of_nothing_or_for_nobody_are_errors_that_say_so() {
    let error = |samples, worker, workers, batch| {
        Batches::new(numbered(samples), 7, worker, workers, batch).unwrap_err().to_string()
    };
    assert!(error(0, 0, 1, 1).contains("no samples;"));
    assert!(error(5, 0, 0, 1).contains("no workers;"));
    assert!(error(5, 0, 1, 0).contains("no samples in a batch;"));
    assert!(error(5, 3, 3, 1).contains("worker 3") && error(5, 3, 3, 1).contains("3 workers"));
}

#[test]
fn a_batch_is_cut_into_no_more_shares_than_it_has_samples() {
    let batch = Batches::new(numbered(9), 1, 0, 1, 5).unwrap().next_batch();
    let shares: Vec<Vec<i32>> = batch.shares(2).unwrap().map(|share| indices(&share)).collect();
    assert_eq!(shares.concat(), indices(&batch)[..4]);
    for count in [0, 6] {
        let error = batch.shares(count).err().expect("some share would be empty").to_string();
        assert!(error.contains(&format!("5 samples can't be cut into {count} shares")), "{error}");
    }
}

#[test]
fn a_batch_of_tensors_of_any_type_and_shape_is_cut_by_its_rows() {
    let numbers = |count: usize| (0..count).map(|n| n as f64).collect::<Vec<f64>>();
    let features = Tensor::new([4, 2, 3, 1], &numbers(24)).unwrap();
    let labels = Tensor::new([4], &[0i64, 1, 2, 3]).unwrap();
    let batch = Batch { features, ids: None, labels };
    let shares: Vec<Batch> = batch.shares(2).unwrap().collect();
    for (share, first) in shares.iter().zip([0, 12]) {
        assert_eq!(share.features.shape(), Shape::from([2, 2, 3, 1]));
        assert_eq!(share.features.values::<f64>().unwrap(), &numbers(24)[first..][..12]);
    }
    assert_eq!(shares[1].labels.values::<i64>().unwrap(), [2, 3]);
    let flat = Tensor::new([4], &[true, false, false, true]).unwrap();
    let shares: Vec<Batch> = Batch { features: flat, ..batch }.shares(4).unwrap().collect();
    let firsts = shares.iter().map(|share| share.features.values::<bool>().unwrap()[0]);
    assert!(firsts.eq([true, false, false, true]));
}

#[test]
fn a_batch_whose_tensors_have_not_a_row_for_each_sample_is_not_cut() {
    let batch = |features: Tensor, labels: Tensor| Batch { features, ids: None, labels };
    let (six, scalar) = (Tensor::zeros(DType::F32, [6, 2]), Tensor::scalar(1i32));
    let odd = [
        batch(six.clone(), Tensor::zeros(DType::I32, [4])),
        batch(six, scalar.clone()),
        batch(Tensor::zeros(DType::F32, Shape::SCALAR), scalar),
    ];
    for batch in odd {
        let error = batch.shares(1).err().expect("there are no rows to cut");
        assert!(matches!(error, DataError::Rows { .. }), "{error}");
    }
}

#[test]
fn a_worker_of_a_skewed_split_takes_its_own_samples_once_an_epoch_and_finds_its_place_again() {
    let split = numbered(60);
    let batches = |worker| Batches::skewed(Arc::clone(&split), 5, (worker, 3), 4, 0.5).unwrap();
    let mut all = Vec::new();
    for worker in 0..3 {
        let mut own = batches(worker);
        let epochs: Vec<Vec<i32>> = (0..2)
            .map(|_| (0..5).flat_map(|_| own.next_batch().labels.slice::<i32>().to_vec()).collect())
            .collect();
        let sorted = epochs.iter().map(|epoch| {
            let mut sorted = epoch.clone();
            sorted.sort_unstable();
            sorted
        });
        let sorted: Vec<Vec<i32>> = sorted.collect();
        assert_eq!(sorted[0], sorted[1], "worker {worker} has the same samples in each epoch");
        assert_ne!(epochs[0], epochs[1], "in another order");
        let mut again = batches(worker);
        again.seek(7);
        assert_eq!(again.next_batch().labels.slice::<i32>(), &epochs[1][8..12]);
        assert_eq!(again.epoch(), 1);
        all.extend(sorted.into_iter().next().unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, Vec::from_iter(0..60), "and no two workers have one");
}
