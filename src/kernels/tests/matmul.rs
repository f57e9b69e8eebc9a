//! Products of every shape and transposition against the definition.

use proptest::prelude::*;

use super::super::batch_matmul::{Factor, batch_matmul};
use super::super::matmul::{MatMul, matmul};
use super::super::reference;
use super::{assert_close, bits, values, written};

fn check(dims: MatMul) {
    let (a, b) = (values(1, dims.m * dims.k), values(2, dims.k * dims.n));
    let found = written(dims.m * dims.n, 1, |out| matmul(&a, &b, out, dims));
    // k roundings of sums that grow as the root of k: their errors' deviation grows as k.
    let tolerance = 4.0 * f32::EPSILON * dims.k as f32;
    assert_close(&found, &reference::matmul(&a, &b, dims), tolerance);
}

#[test]
fn every_small_shape_and_transposition_gives_the_product() {
    for (m, k, n) in
        (0..6).flat_map(|m| (0..6).flat_map(move |k| [0, 1, 2, 5, 16, 17].map(|n| (m, k, n))))
    {
        for (transpose_a, transpose_b) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            check(MatMul { m, k, n, transpose_a, transpose_b });
        }
    }
}

#[test]
fn a_product_spread_over_threads_is_still_the_product_where_columns_do_not_divide() {
    for (transpose_a, transpose_b) in [(false, false), (true, false), (false, true), (true, true)] {
        check(MatMul { m: 129, k: 129, n: 261, transpose_a, transpose_b });
    }
}

#[test]
fn a_transposed_second_factor_gives_the_bits_of_the_same_factor_in_rows() {
    for (m, k, n) in
        [(8, 128, 128), (32, 1100, 520), (64, 256, 700), (64, 1024, 1030), (130, 64, 40)]
    {
        let (a, b) = (values(1, m * k), values(2, n * k));
        let turned: Vec<f32> = (0..k * n).map(|i| b[i % n * k + i / n]).collect();
        let product = |b: &[f32], transpose_b| {
            let dims = MatMul { m, k, n, transpose_a: false, transpose_b };
            bits(&written(m * n, 1, |out| matmul(&a, b, out, dims)))
        };
        assert!(product(&b, true) == product(&turned, false), "[{m}, {k}] x [{k}, {n}]");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_shape_and_transposition_gives_the_product(
        m in 0usize..70, k in 0usize..140, n in 0usize..70, transpose_a: bool, transpose_b: bool,
    ) {
        check(MatMul { m, k, n, transpose_a, transpose_b });
    }
}

#[test]
fn a_product_of_f64_keeps_its_digits_whatever_is_transposed() {
    for (m, k, n) in [(0, 3, 2), (2, 0, 2), (5, 17, 9), (170, 160, 180)] {
        for (transpose_a, transpose_b) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let dims = MatMul { m, k, n, transpose_a, transpose_b };
            let (a, b) = (values(1, m * k), values(2, k * n));
            let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
            let mut found = vec![9.0; m * n];
            f64::product(&wide(&a), &wide(&b), &mut found, dims);
            let exact = reference::matmul_wide(&a, &b, dims);
            assert!(
                found.iter().zip(exact).all(|(found, exact)| (found - exact).abs() < 1e-11),
                "{dims:?}"
            );
        }
    }
}

#[test]
fn each_pair_of_a_batch_gives_its_own_product_however_large_the_batch() {
    for (m, k, n, count) in [(3, 5, 4, 7), (64, 64, 64, 20), (2, 0, 3, 2)] {
        let dims = MatMul { m, k, n, transpose_a: false, transpose_b: true };
        let (a, b) = (values(1, count * m * k), values(2, 2 * k * n));
        let pairs: Vec<(usize, usize)> = (0..count).map(|i| (i, i % 2)).collect();
        let found = written(count * m * n, 0, |out| batch_matmul(&a, &b, out, dims, &pairs));
        for (i, j) in pairs {
            let alone = written(m * n, 0, |out| {
                matmul(&a[i * m * k..][..m * k], &b[j * k * n..][..k * n], out, dims)
            });
            assert_eq!(found[i * m * n..][..m * n], alone);
        }
    }
}
