//! Kernels on rows, reductions and softmax against their references.

use proptest::prelude::*;

use super::super::softmax::{softmax, sparse_softmax_cross_entropy};
use super::super::{reference, rows};
use super::{LENGTHS, assert_close, bits, values, written};

#[test]
fn bias_and_row_factors_reach_every_element_bit_for_bit() {
    for columns in LENGTHS.skip(1) {
        for count in [0, 1, 2, 5] {
            let (x, bias, factors) =
                (values(1, count * columns), values(2, columns), values(3, count));
            let found = written(x.len(), 1, |out| rows::bias_add(&x, &bias, out));
            assert_eq!(
                bits(&found),
                bits(&reference::map_columns(&x, columns, |x, c| x + bias[c]))
            );
            let found = written(x.len(), 1, |out| rows::scale_rows(&x, &factors, out));
            assert_eq!(
                bits(&found),
                bits(&reference::map_rows(&x, columns, |x, r| x * factors[r]))
            );
        }
    }
}

#[test]
fn column_sums_take_the_rows_of_a_block_in_order() {
    let swallowed =
        written(2, 0, |out| rows::bias_add_grad(&[1e8, 1.0, 1.0, 1e8, -1e8, -1e8], out));
    assert_eq!(swallowed, [0.0, 0.0], "1 is lost in 1e8 if it is added before -1e8");
}

#[test]
fn softmax_of_limits_is_what_the_docs_say() {
    const INF: f32 = f32::INFINITY;
    let of = |x: &[f32]| written(x.len(), 0, |out| softmax(x, x.len(), out));
    assert_eq!(of(&[1e30, 1e30]), [0.5, 0.5]);
    assert_eq!(of(&[-INF, 0.0]), [0.0, 1.0]);
    for row in [[-INF, -INF], [INF, 0.0], [f32::NAN, 0.0]] {
        assert!(of(&row).iter().all(|x| x.is_nan()), "{row:?}");
    }
}

#[test]
fn a_label_that_names_no_class_is_an_error_that_says_where_and_writes_nothing() {
    for label in [3, -1, i32::MIN] {
        let (mut loss, mut backprop) = ([9.0; 2], [9.0; 6]);
        let error = sparse_softmax_cross_entropy(&[0.0; 6], &[2, label], &mut loss, &mut backprop)
            .unwrap_err();
        let says = format!("the label of row 1 is {label}, but there are 3 classes");
        assert!(error.to_string().starts_with(&says), "{error}");
        assert_eq!((loss, backprop), ([9.0; 2], [9.0; 6]));
    }
}

#[test]
fn cross_entropy_of_an_unlikely_label_keeps_its_digits() {
    let (mut loss, mut backprop) = ([0.0], [0.0; 2]);
    sparse_softmax_cross_entropy(&[0.0, 200.0], &[0i32], &mut loss, &mut backprop).unwrap();
    assert_eq!((loss, backprop), ([200.0], [-1.0, 1.0]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn column_sums_are_those_of_the_reference(count in 1usize..300, columns in 1usize..100) {
        let x = values(count as u64, count * columns);
        let found = written(columns, 1, |out| rows::bias_add_grad(&x, out));
        assert_close(
            &found,
            &reference::column_sums(&x, columns),
            f32::EPSILON * count as f32 * 3.0,
        );
    }

    #[test]
    fn softmax_and_cross_entropy_are_those_of_the_reference(
        count in 0usize..150,
        classes in 1usize..70,
    ) {
        let x = values(count as u64, count * classes);
        let labels: Vec<i32> = (0..count).map(|i| (i * 7 % classes) as i32).collect();
        let exact = reference::log_softmax(&x, classes);
        let probabilities = reference::map(&exact, |x| x.exp() as f32);
        assert_close(&written(x.len(), 1, |out| softmax(&x, classes, out)), &probabilities, 3e-7);

        let mut loss = vec![f32::NAN; count];
        let backprop = written(x.len(), 1, |out| {
            sparse_softmax_cross_entropy(&x, &labels, &mut loss, out).unwrap();
        });
        let wanted =
            |i: usize, p: f32| p - f32::from(u8::from(i % classes == labels[i / classes] as usize));
        let gradient: Vec<f32> =
            probabilities.iter().enumerate().map(|(i, p)| wanted(i, *p)).collect();
        assert_close(&backprop, &gradient, 3e-7);
        let losses: Vec<f32> =
            (0..count).map(|r| -exact[r * classes + labels[r] as usize] as f32).collect();
        assert_close(&loss, &losses, 1e-6);
    }
}
