//! A pipeline's elements are those of `tf.data`, and a reader that passes over some comes to the
//! same next one.

mod composed;

use proptest::prelude::*;

use super::*;

fn read<T: Send + 'static>(pipeline: &Pipeline<T>, count: usize) -> Vec<T> {
    pipeline.iter().unwrap().take(count).map(Result::unwrap).collect()
}

fn numbers(count: i32) -> Pipeline<i32> {
    Pipeline::from_elements(0..count)
}

/// How elements are ordered, with a buffer and a seed.
type Order = fn(Pipeline<i32>, usize, u64) -> Pipeline<i32>;

proptest! {
    #[test]
    fn passing_over_elements_comes_to_the_one_after_them(
        elements in 1i32..40, shards in 1u64..5, index in 0u64..5, buffer in 1usize..12,
        skipped in 0u64..100, seed: u64,
    ) {
        let index = index % shards;
        let orders: [Order; 9] = [
            |own, buffer, seed| {
                own.shuffle(9, seed).take(buffer as u64).filter(|n| n % 3 != 1).repeat()
            },
            |own, buffer, seed| own.shuffle(buffer, seed).repeat_times(3),
            |own, buffer, _| own.skip(buffer as u64).repeat_times(2).skip(1),
            |own, buffer, _| own.repeat().take(5 * buffer as u64).filter(|n| n % 3 != 1).repeat(),
            |own, buffer, _| own.filter(|n| n % 2 == 0).take(buffer as u64).repeat_times(7),
            |own, buffer, seed| own.shuffle(buffer, seed).repeat(),
            |own, buffer, seed| own.repeat().shuffle(buffer, seed),
            |own, _, _| own.repeat(),
            |own, buffer, seed| own.shuffle(buffer, seed),
        ];
        for order in orders {
            let own = order(numbers(elements).shard(shards, index), buffer, seed);
            let own = own.map(|n| Ok(n + 1));
            let all = read(&own, skipped as usize + 10);
            let mut reader = own.elements().unwrap();
            let passed = reader.skip(skipped).unwrap();
            prop_assert_eq!(passed, skipped.min(all.len() as u64));
            let mut after = Vec::new();
            while after.len() < 10 && let Some(element) = reader.next().unwrap() {
                after.push(element);
            }
            prop_assert_eq!(&all[passed as usize..], after);
        }
    }

    #[test]
    fn shards_have_each_element_once_and_an_epoch_is_a_permutation(
        elements in 0i32..40, shards in 1u64..5, buffer in 1usize..50, seed: u64
    ) {
        let mut all: Vec<i32> = (0..shards)
            .flat_map(|index| {
                read(&numbers(elements).shard(shards, index).shuffle(buffer, seed), 100)
            })
            .collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..elements).collect::<Vec<_>>());
    }
}

#[test]
fn every_epoch_has_an_order_of_its_own_which_the_seed_decides() {
    let epochs = |seed| read(&numbers(50).shuffle(50, seed).repeat(), 100);
    let (first, second) = (&epochs(7)[..50], &epochs(7)[50..]);
    assert_ne!(first, second);
    assert_eq!(epochs(7), epochs(7));
    assert_ne!(epochs(7), epochs(8));
    assert_ne!(first, (0..50).collect::<Vec<_>>());
}

#[test]
fn an_element_comes_from_the_buffer_of_those_before_it() {
    for (place, element) in read(&numbers(100).shuffle(8, 3), 100).into_iter().enumerate() {
        assert!(element < place as i32 + 8, "element {element} at {place}");
    }
}

#[test]
fn the_last_batch_has_what_is_left_and_batches_go_on_over_epochs_of_a_repeated_sequence() {
    let samples = |count| {
        numbers(count).map(|n| Ok(super::super::Sample { features: vec![n as f32; 2], label: n }))
    };
    let labels = |batches: Vec<super::super::Batch>| -> Vec<Vec<i32>> {
        batches.iter().map(|batch| batch.labels.values::<i32>().unwrap().to_vec()).collect()
    };
    assert_eq!(labels(read(&samples(5).batch(2), 9)), [vec![0, 1], vec![2, 3], vec![4]]);
    let repeated = read(&samples(3).repeat().batch(2), 3);
    assert_eq!(repeated[0].features.shape().dims(), [2, 2]);
    assert_eq!(labels(repeated), [[0, 1], [2, 0], [1, 2]]);
    assert!(read(&numbers(0).repeat(), 1).is_empty());
}

#[test]
fn parts_of_a_sequence_and_of_its_repetitions_are_those_of_tf_data() {
    let all = |pipeline: Pipeline<i32>| read(&pipeline, 99);
    assert_eq!(all(numbers(5).skip(1).take(3)), [1, 2, 3]);
    assert_eq!(all(numbers(3).take(9)), [0, 1, 2]);
    assert!(all(numbers(3).skip(9)).is_empty() && all(numbers(3).take(0).repeat()).is_empty());
    assert_eq!(all(numbers(3).repeat_times(2).filter(|n| *n != 1)), [0, 2, 0, 2]);
    let of_sample = |n| Ok(super::super::Sample { features: vec![0.0], label: n });
    let batches = |count| read(&numbers(count).map(of_sample).whole_batches(2), 9).len();
    assert_eq!([0, 1, 2, 5].map(batches), [0, 0, 1, 2]);
    let mut reader = numbers(5).map(of_sample).whole_batches(2).elements().unwrap();
    assert_eq!((reader.skip(9).unwrap(), reader.next().unwrap().is_none()), (2, true));
}

#[test]
fn sequences_side_by_side_give_an_element_of_each_at_a_time_until_one_ends() {
    let zipped =
        || Pipeline::zipped(vec![numbers(9).skip(4), numbers(3)], |both| both.iter().sum());
    assert_eq!(read(&zipped(), 9), [4, 6, 8]);
    let mut reader = zipped().repeat().elements().unwrap();
    assert_eq!((reader.skip(4).unwrap(), reader.next().unwrap()), (4, Some(6)));
    assert_eq!(zipped().elements().unwrap().skip(9).unwrap(), 3);
}

#[test]
fn after_an_error_there_is_nothing() {
    let bad = |_| Err(DataError::Empty { what: "samples" });
    let read: Vec<_> = numbers(3).map(bad).iter().unwrap().map(|n: Result<i32, _>| n).collect();
    assert_eq!(read.len(), 1);
    assert!(read[0].is_err());
}
