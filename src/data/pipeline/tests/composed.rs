//! Pipelines that are made of others, and those of a program's own iterators: they give what
//! iterators would, and a reader that passes over elements comes to the same next one.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// The elements of the epoch `number` of `pipeline`.
fn epoch<T: Send + 'static>(pipeline: &Pipeline<T>, number: u64) -> Vec<T> {
    let mut elements = (pipeline.open)(number).unwrap();
    std::iter::from_fn(|| elements.next().unwrap()).collect()
}

/// Checks three epochs of `pipeline`, each of which `model` gives: read from the first element on,
/// and with `skips` before an element each.
fn check<T: PartialEq + Debug + Send + 'static>(
    pipeline: Pipeline<T>,
    model: impl Fn(u64) -> Vec<T>,
    skips: &[u64],
) -> Result<(), TestCaseError> {
    // A repeated sequence ends with an epoch without elements.
    let epochs = (0..3).map(model).take_while(|epoch| !epoch.is_empty());
    let expected: Vec<T> = epochs.flatten().collect();
    let repeated = pipeline.repeat_times(3);
    prop_assert_eq!(&read(&repeated, usize::MAX), &expected);
    let mut reader = repeated.elements().unwrap();
    let mut rest = &expected[..];
    for &skip in skips {
        let passed = reader.skip(skip).unwrap();
        prop_assert_eq!(passed, skip.min(rest.len() as u64));
        rest = &rest[passed as usize..];
        let next = reader.next().unwrap();
        prop_assert_eq!(next.as_ref(), rest.first());
        rest = rest.get(1..).unwrap_or_default();
    }
    Ok(())
}

/// The elements of `all` as TensorFlow's `InterleaveDataset` takes them, place by place.
fn interleaved(all: Vec<Vec<i32>>, cycle_length: usize, block_length: usize) -> Vec<i32> {
    let mut waiting = all.into_iter();
    let mut places: Vec<Option<std::vec::IntoIter<i32>>> = vec![None; cycle_length];
    let (mut elements, mut place, mut idle) = (Vec::new(), 0, 0);
    while idle < cycle_length {
        places[place] = places[place].take().or_else(|| waiting.next().map(Vec::into_iter));
        match &mut places[place] {
            None => idle += 1,
            Some(open) => {
                let block: Vec<i32> = open.by_ref().take(block_length).collect();
                if block.len() < block_length {
                    places[place] = None;
                }
                elements.extend(block);
                idle = 0;
            }
        }
        place = (place + 1) % cycle_length;
    }
    elements
}

proptest! {
    #[test]
    fn composed_pipelines_give_what_iterators_give_also_after_passing_over_elements(
        lengths in (0i32..20, 0i32..20), buffer in 1usize..9, seed: u64,
        cycle in (1usize..5, 1usize..5), skips in prop::collection::vec(0u64..25, 1..6),
    ) {
        // Its epochs are not equally long, and those of `even` are.
        let uneven = numbers(lengths.0).shuffle(buffer, seed).take(9).filter(|n| n % 3 != 1);
        let generated = Pipeline::from_generator(move || Ok((0..lengths.1).map(Ok)));
        let even = generated.map(|n| Ok(n + 100)).shuffle(buffer, seed).take(9);
        check(even.clone(), |number| epoch(&even, number), &skips)?;
        for (first, second) in [(&uneven, &even), (&even, &uneven), (&even, &even)] {
            let of = |number| (epoch(first, number), epoch(second, number));
            let zipped = |number| -> Vec<(i32, i32)> {
                let (first, second) = of(number);
                first.into_iter().zip(second).collect()
            };
            check(first.clone().zip(second.clone()), zipped, &skips)?;
            let both = |number| <[Vec<i32>; 2]>::from(of(number)).concat();
            check(first.clone().concatenate(second.clone()), both, &skips)?;
            let counted = |number| (0..).zip(epoch(first, number)).collect();
            check(first.clone().enumerate(), counted, &skips)?;
            let head = |number| epoch(first, number).into_iter().take_while(|n| n % 5 != 4);
            let taken = first.clone().take_while(|n| n % 5 != 4);
            check(taken, |number| head(number).collect(), &skips)?;

            let inner = move |n: i32| numbers(n % 6).shuffle(4, seed).map(move |m| Ok(9 * n + m));
            let opened = |number| -> Vec<Vec<i32>> {
                epoch(first, number).into_iter().map(|n| epoch(&inner(n), number)).collect()
            };
            let flat = first.clone().flat_map(move |n| Ok(inner(n)));
            check(flat, |number| opened(number).concat(), &skips)?;
            let in_turn = first.clone().interleave(cycle.0, cycle.1 as u64, move |n| Ok(inner(n)));
            check(in_turn, |number| interleaved(opened(number), cycle.0, cycle.1), &skips)?;
        }
    }
}

/// The example in the documentation of `tf.data.Dataset.interleave`.
#[test]
fn interleaved_elements_come_in_tensorflows_order() {
    let six_times = |n| Ok(Pipeline::from_elements([n]).repeat_times(6));
    let interleaved = Pipeline::from_elements(1..6).interleave(2, 4, six_times);
    let expected =
        [1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5];
    assert_eq!(read(&interleaved, 99), expected);
}

#[test]
fn pipelines_that_are_shuffled_alike_stay_pairs_in_every_epoch() {
    let pairs = numbers(20).shuffle(6, 3).zip(numbers(20).map(|n| Ok(-n)).shuffle(6, 3)).repeat();
    let read = read(&pairs, 60);
    assert!(read.iter().all(|(n, negative)| n + negative == 0), "{read:?}");
    assert_ne!(read[..20], read[20..40]);
}

#[test]
fn passing_over_elements_of_composed_pipelines_calls_no_map() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = || {
        let calls = Arc::clone(&calls);
        numbers(4).map(move |n| {
            calls.fetch_add(1, Ordering::Relaxed);
            Ok(n)
        })
    };
    let (flat, in_turn) = (counted(), counted());
    let composed = [
        counted().zip(counted()).map(|(n, _)| Ok(n)),
        counted().enumerate().map(|(_, n)| Ok(n)),
        counted().concatenate(counted()),
        numbers(3).flat_map(move |_| Ok(flat.clone())),
        numbers(3).interleave(2, 1, move |_| Ok(in_turn.clone())),
    ];
    for pipeline in composed {
        let mut reader = pipeline.repeat().elements().unwrap();
        assert_eq!(reader.skip(30).unwrap(), 30);
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        assert!(reader.next().unwrap().is_some());
        assert!(calls.swap(0, Ordering::Relaxed) > 0);
    }
}

#[test]
fn whole_epochs_of_equally_long_composed_pipelines_are_not_read() {
    let begun = Arc::new(AtomicU64::new(0));
    let generated = || {
        let begun = Arc::clone(&begun);
        Pipeline::from_generator(move || {
            begun.fetch_add(1, Ordering::Relaxed);
            Ok((0..5).map(Ok))
        })
    };
    let composed = [
        generated(),
        generated().zip(numbers(9)).map(|(n, _)| Ok(n)),
        generated().enumerate().map(|(_, n)| Ok(n)),
        generated().concatenate(numbers(0)),
    ];
    for pipeline in composed {
        let mut reader = pipeline.repeat().elements().unwrap();
        reader.skip(5002).unwrap();
        assert_eq!(reader.next().unwrap(), Some(2));
        assert_eq!(begun.swap(0, Ordering::Relaxed), 2, "the first epoch and the last");
    }
}

#[test]
fn a_composed_pipeline_reads_as_far_ahead_as_a_part_of_it_may() {
    let (near, far) = (|| numbers(3), || numbers(3).prefetch(7));
    assert_eq!([near().zip(far()).ahead(), far().zip(near()).ahead()], [7, 7]);
    assert_eq!([near().concatenate(far()).ahead(), far().concatenate(near()).ahead()], [7, 7]);
    assert_eq!(far().enumerate().ahead(), 7);
    assert_eq!(far().take_while(|_| true).flat_map(|n| Ok(numbers(n))).ahead(), 7);
}

#[test]
fn an_iterator_is_not_asked_again_after_its_end() {
    let interrupted = || {
        let mut asked = 0;
        Ok(std::iter::from_fn(move || {
            asked += 1;
            (asked != 3).then_some(Ok(asked))
        }))
    };
    let mut read = read(&Pipeline::from_generator(interrupted).shuffle(4, 0), 9);
    read.sort_unstable();
    assert_eq!(read, [1, 2]);
}

#[test]
fn what_a_program_can_not_begin_or_open_is_an_error_after_the_elements_before_it() {
    let refused = || DataError::program("the index is gone");
    let begin = move || Err::<std::iter::Empty<_>, _>(refused());
    let begun = Pipeline::<i32>::from_generator(begin);
    assert_eq!(begun.iter().err().unwrap().to_string(), "the index is gone");
    let open = move |n| if n == 1 { Err(refused()) } else { Ok(numbers(2)) };
    let opened = numbers(3).flat_map(open);
    let read: Vec<Result<i32, String>> =
        opened.iter().unwrap().map(|n| n.map_err(|error| error.to_string())).collect();
    assert_eq!(read, [Ok(0), Ok(1), Err("the index is gone".to_owned())]);
    assert!(opened.elements().unwrap().skip(3).is_err());
}
