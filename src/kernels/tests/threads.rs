//! The same bits on 1, 2, 3 and 4 threads, for every kernel that is spread over them.

use super::super::matmul::{self, MatMul, matmul};
use super::super::pad::{self, Padded};
use super::super::parallel::{CHUNK, PARALLEL_FROM};
use super::super::random::{Key, normal, truncated_normal, uniform};
use super::super::scan::{self, Order};
use super::super::softmax::{softmax, sparse_softmax_cross_entropy};
use super::super::strided::{self, View, dense};
use super::super::window::{self, Windows};
use super::super::{convert, elementwise, indexed, reduce, rows};
use super::{applied, bits, values};
use crate::graph::{Op, Padding, Reduction, Sliding};
use crate::operations::{Binary, Broadcast, Compare, Unary};
use crate::tensor::{Shape, Tensor};

/// Asserts that `kernel`, which fills a slice of `len`, gives the same bits on any number of
/// threads.
#[track_caller]
fn assert_invariant(len: usize, kernel: impl Fn(&mut [f32]) + Sync) {
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("a small pool starts");
        let mut out = vec![f32::NAN; len];
        pool.install(|| kernel(&mut out));
        bits(&out)
    };
    let one = on(1);
    for threads in 2..=4 {
        assert!(on(threads) == one, "{threads} threads give other bits than one");
    }
}

#[test]
fn products_do_not_depend_on_threads_whatever_their_shape_and_however_long_their_sums() {
    let shapes = [
        (128, 300, 128),
        (64, 3000, 60),
        (1, 5000, 900),
        (900, 5000, 1),
        (7, 900, 700),
        (1500, 3, 1000),
    ];
    for (m, k, n) in shapes.into_iter().chain([
        (2200, 2, 1000),
        (30, 40_000, 5),
        (163, 163, 163),
        (16, 17_000, 16),
    ]) {
        assert!(
            m * k * n >= matmul::PARALLEL_FROM,
            "smaller products are computed on one thread anyway"
        );
        let (a, b) = (values(1, m * k), values(2, k * n));
        for (transpose_a, transpose_b) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let dims = MatMul { m, k, n, transpose_a, transpose_b };
            assert_invariant(m * n, |out| matmul(&a, &b, out, dims));
        }
    }
}

#[test]
fn elementwise_kernels_do_not_depend_on_threads() {
    let len = PARALLEL_FROM + CHUNK / 3;
    let (a, b) = (values(1, len), values(2, len));
    let [x, y] = [&a, &b].map(|values| Tensor::new([len], values).unwrap());
    let write = |out: &mut [f32], op: &Op, inputs: &[&Tensor]| {
        out.copy_from_slice(applied(op, inputs).slice())
    };
    assert_invariant(len, |out| write(out, &Op::from(Unary::Tanh), &[&x]));
    assert_invariant(len, |out| write(out, &Op::from(Binary::Mul), &[&x, &y]));
    assert_invariant(len, |out| elementwise::add_n(&[&a, &b, &a], 0.3, out));
    assert_invariant(len, |out| convert::fill(0.3, out));
}

#[test]
fn broadcast_kernels_do_not_depend_on_threads() {
    let (rows, columns) = (301, 1777);
    let [x, row, column] = [[rows, columns], [1, columns], [rows, 1]].map(|dims| {
        let shape = Shape::from(dims);
        Tensor::new(shape, &values(1, shape.elements())).unwrap()
    });
    let less = applied(&Op::from(Compare::Less), &[&row, &column]);
    let write = |out: &mut [f32], op: &Op, inputs: &[&Tensor]| {
        out.copy_from_slice(applied(op, inputs).slice())
    };
    for other in [&row, &column] {
        assert_invariant(rows * columns, |out| write(out, &Op::from(Binary::Sub), &[&x, other]));
        assert_invariant(rows * columns, |out| {
            write(out, &Op::from(Broadcast::Select), &[&less, &x, other])
        });
        assert_invariant(other.shape().elements(), |out| {
            write(out, &Op::from(Broadcast::SumToLike), &[&x, other])
        });
    }
}

#[test]
fn moved_elements_do_not_depend_on_threads() {
    let (outer, rows, columns) = (3, 517, 301);
    let x = values(1, outer * rows * columns);
    let axes = dense(&[outer, rows, columns]);
    for order in [[0, 2, 1], [2, 1, 0], [1, 0, 2]] {
        let view = View::new(0, order.map(|axis| axes[axis]));
        assert_invariant(x.len(), |out| strided::copy(&x, &view, out));
    }
    let padded = [
        Padded { before: 1, len: outer * rows, after: 2 },
        Padded { before: 3, len: columns, after: 0 },
    ];
    assert_invariant((outer * rows + 3) * (columns + 3), |out| pad::pad(&x, &padded, 0.5, out));
    assert_invariant(2 * x.len(), |out| pad::concat(&[(&x, columns), (&x, columns)], out));
    let positions: Vec<usize> = (0..rows).map(|i| i * i % rows).collect();
    assert_invariant(x.len(), |out| indexed::gather(&x, rows, &positions, columns, out));
    assert_invariant(x.len(), |out| {
        out.fill(0.0);
        indexed::scatter_add(&x, rows, &positions, columns, out);
    });
    let order = Order { exclusive: false, reverse: true };
    assert_invariant(x.len(), |out| scan::sums(&x, [rows, columns], order, out));
    assert_invariant(x.len(), |out| scan::products(&x, [rows, columns], order, out));
}

#[test]
fn sums_do_not_depend_on_threads() {
    for len in [CHUNK + 1, PARALLEL_FROM - 1, PARALLEL_FROM, 3 * PARALLEL_FROM + 17] {
        let x = values(1, len);
        let all = [0].into_iter().collect();
        assert_invariant(1, |out| reduce::numbers(Reduction::Sum, &x, [len].into(), all, out));
    }
    for columns in [1, 10, 500, 20_000] {
        let x = values(1, (PARALLEL_FROM + 50_000) / columns * columns);
        assert_invariant(columns, |out| rows::bias_add_grad(&x, out));
    }
}

#[test]
fn kernels_on_rows_do_not_depend_on_threads() {
    for columns in [10, 1000, 30_000] {
        let count = PARALLEL_FROM / columns + 3;
        let (x, bias, factors) = (values(1, count * columns), values(2, columns), values(3, count));
        let labels: Vec<i32> = (0..count).map(|i| (i % columns) as i32).collect();
        assert_invariant(x.len(), |out| rows::bias_add(&x, &bias, out));
        assert_invariant(x.len(), |out| rows::scale_rows(&x, &factors, out));
        assert_invariant(x.len(), |out| softmax(&x, columns, out));
        assert_invariant(x.len() + count, |out| {
            let (loss, backprop) = out.split_at_mut(count);
            sparse_softmax_cross_entropy(&x, &labels, loss, backprop)
                .expect("the labels are in range");
        });
    }
}

#[test]
fn convolutions_do_not_depend_on_threads_whatever_is_large() {
    let cases = [
        ([20, 30, 30], 5, [8, 40]),
        ([1, 200, 64], 3, [16, 33]),
        ([70, 4, 4], 3, [64, 96]),
        ([15, 28, 28], 5, [3, 32]),
    ];
    for ([images, height, width], size, [c, o]) in cases {
        for stride in [1, 2] {
            let sliding = Sliding::from(Padding::Same).strides([stride, stride]);
            let windows =
                Windows::new(&sliding, Shape::from([images, height, width, c]), [size, size]);
            let (x, filter) =
                (values(1, images * height * width * c), values(2, size * size * c * o));
            let dy = values(3, windows.len() * c.max(o));
            assert!(
                windows.len() * filter.len() >= matmul::PARALLEL_FROM,
                "smaller ones are on one thread anyway"
            );
            let results = &dy[..windows.len() * o];
            assert_invariant(results.len(), |out| {
                window::convolution(&x, &filter, out, &windows, [c, o])
            });
            assert_invariant(x.len(), |out| {
                window::input_gradient(results, &filter, out, &windows, [c, o])
            });
            assert_invariant(filter.len(), |out| {
                window::filter_gradient(&x, results, out, &windows, [c, o])
            });
        }
    }
}

#[test]
fn depthwise_convolutions_and_pools_do_not_depend_on_threads() {
    let windows = Windows::new(&Padding::Same.into(), Shape::from([20, 60, 60, 32]), [3, 3]);
    let (x, filter, dy) =
        (values(1, windows.len() * 32), values(2, 9 * 32), values(3, windows.len() * 32));
    assert!(
        x.len() >= PARALLEL_FROM && x.len() * 9 >= matmul::PARALLEL_FROM,
        "smaller ones are on one thread anyway"
    );
    assert_invariant(dy.len(), |out| window::depthwise(&x, &filter, out, &windows, [32, 1]));
    assert_invariant(x.len(), |out| {
        window::depthwise_input_gradient(&dy, &filter, out, &windows, [32, 1])
    });
    assert_invariant(filter.len(), |out| {
        window::depthwise_filter_gradient(&x, &dy, out, &windows, [32, 1])
    });
    assert_invariant(dy.len(), |out| window::max_pool(&x, out, &windows, 32));
    assert_invariant(dy.len(), |out| window::avg_pool(&x, out, &windows, 32));
    assert_invariant(x.len(), |out| window::max_pool_grad(&x, &dy, &dy, out, &windows, 32));
    assert_invariant(x.len(), |out| window::avg_pool_grad(&dy, out, &windows, 32));
}

#[test]
fn random_values_do_not_depend_on_threads() {
    let key = Key { seed: 1, operation: 2, offset: 0 };
    assert_invariant(PARALLEL_FROM + 1, |out| uniform(key, -1.0, 1.0, out));
    assert_invariant(PARALLEL_FROM + 1, |out| normal(key, 0.0, 1.0, out));
    assert_invariant(PARALLEL_FROM + 1, |out| truncated_normal(key, 0.0, 1.0, out));
}
