//! Tensors by themselves: what they share, what they copy, and how they are read and written.

use super::*;

#[test]
fn writing_a_shared_tensor_leaves_the_other_holder_its_values() {
    let kept = Tensor::new([2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap();
    let mut written = kept.clone();
    written.make_mut::<f32>()[0] = 9.0;
    assert_eq!(kept.values::<f32>().unwrap(), &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(written.values::<f32>().unwrap()[0], 9.0);
}

#[test]
fn a_part_shares_the_memory_of_the_whole_until_one_of_them_is_written() {
    let whole = Tensor::new([4, 16], &(0..64).collect::<Vec<i32>>()).unwrap();
    let part = whole.part(16, [2, 16].into()).unwrap();
    assert_eq!(part.bytes().as_ptr(), whole.bytes()[64..].as_ptr());
    assert!(part.values::<i32>().unwrap().iter().copied().eq(16..48));
    let (mut written, mut inner) = (part.clone(), part.part(16, [16].into()).unwrap());
    written.make_mut::<i32>().fill(-1);
    inner.make_mut::<i32>().fill(-2);
    assert!(written.values::<i32>().unwrap().iter().all(|value| *value == -1));
    assert_eq!(inner.values::<i32>().unwrap(), [-2; 16]);
    assert!(part.values::<i32>().unwrap().iter().copied().eq(16..48));
    assert!(whole.values::<i32>().unwrap().iter().copied().eq(0..64));
}

#[test]
fn the_last_part_of_a_whole_is_written_in_place() {
    let whole = Tensor::zeros(DType::F32, [32]);
    let mut part = whole.part(16, [16].into()).unwrap();
    drop(whole);
    let before = part.bytes().as_ptr();
    part.make_mut::<f32>()[0] = 9.0;
    assert_eq!(before, part.bytes().as_ptr());
}

#[test]
fn a_part_begins_on_a_cache_line_as_all_tensors_do() {
    let whole = Tensor::zeros(DType::F32, [64]);
    let places = (0..64).filter(|first| whole.part(*first, [0].into()).is_some());
    assert!(places.eq([0, 16, 32, 48]));
    assert!(Tensor::hollow(DType::F32, [64]).part(0, [1].into()).is_none());
}

#[test]
fn an_unshared_tensor_is_written_in_place() {
    let mut tensor = Tensor::new([3], &[1f32, 2.0, 3.0]).unwrap();
    let before = tensor.bytes().as_ptr();
    tensor.make_mut::<f32>()[0] = 9.0;
    assert_eq!(before, tensor.bytes().as_ptr());
}

#[test]
fn buffers_are_aligned_for_the_widest_vectors() {
    for n in [1, 3, 100, 5000] {
        assert_eq!(Tensor::full([n], 1u8 == 1).bytes().as_ptr() as usize % 64, 0);
    }
}

#[test]
fn a_tensor_of_an_array_reads_back_as_the_array_whatever_its_layout() {
    let array = ndarray::arr2(&[[1f32, 2.0], [3.0, 4.0]]).reversed_axes();
    let tensor = Tensor::from(array.clone());
    assert_eq!(tensor.view::<f32>().unwrap(), array.into_dyn().view());
}

#[test]
fn wrong_counts_types_and_ranks_are_errors_that_say_so() {
    let error = Tensor::new([2, 3], &[1f32]).unwrap_err().to_string();
    assert!(
        error.contains("1 values") && error.contains("[2,3]") && error.contains('6'),
        "{error}"
    );
    let tensor = Tensor::new([2], &[1i32, 2]).unwrap();
    assert!(tensor.values::<f32>().unwrap_err().to_string().contains("i32, not f32"));
    assert!(tensor.item::<i32>().unwrap_err().to_string().contains("[2]"));
}

#[test]
fn zeros_are_zero_even_where_a_buffer_was_used_before() {
    for _ in 0..3 {
        drop(Tensor::full([1000], 7f32));
        assert!(
            Tensor::zeros(DType::F32, [1000]).values::<f32>().unwrap().iter().all(|v| *v == 0.0)
        );
    }
}

#[test]
fn a_hollow_tensor_is_as_long_as_its_values_would_be_and_says_that_it_has_none() {
    let hollow = Tensor::hollow(DType::F32, [1 << 20, 1 << 20]);
    assert_eq!((hollow.byte_len(), hollow.bytes().len()), (4 << 40, 0));
    assert_eq!(format!("{hollow:?}"), "f32[1048576,1048576] hollow");
    assert!(hollow.values::<f32>().unwrap_err().to_string().contains("no numbers"));
    assert!(matches!(hollow.values::<i32>(), Err(TensorError::DType { .. })));
    assert_eq!(hollow, hollow.reshaped(hollow.shape()));
    assert_ne!(Tensor::hollow(DType::F32, [0]), Tensor::zeros(DType::F32, [0]));
}

#[test]
fn booleans_can_be_written_where_a_buffer_held_other_values_before() {
    for n in [1, 4096] {
        drop(Tensor::full([n], f32::NAN));
        assert!(
            Tensor::full([n * size_of::<f32>()], true)
                .values::<bool>()
                .unwrap()
                .iter()
                .all(|value| *value)
        );
    }
}
