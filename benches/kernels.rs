//! Matrix products and convolutions as a graph runs them, against the `gemm` crate called directly.
//! Prints one JSON line for each shape.
//!
//! `cargo bench --bench kernels`: the products of the models that `peer` trains, forward and of
//! both gradients. A step runs many of a small one, so that the step itself costs next to nothing.
//! `gemm` has its best setting for each shape: one thread, or all. A convolution is compared with
//! the product of as many operations that `gemm` would have to compute if the windows were a matrix
//! already.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "it measures real time, and prints it"
)]

#[path = "figures/mod.rs"]
mod figures;

use std::sync::LazyLock;
use std::time::Instant;

use figures::Figures;
use gemm_common::Parallelism;
use serde::Serialize;
use trainyard::prelude::*;

static FIGURES: LazyLock<Figures> = LazyLock::new(|| Figures::of("kernels"));

/// The number of multiply-adds in a step, by which the number of its products is chosen.
const STEP: usize = 1 << 29;
/// The most products in a step.
const PRODUCTS: usize = 512;
/// The number of timed steps, and of untimed steps before them.
const STEPS: usize = 100;

/// The shape of a product `op(a)` \[m, k\] times `op(b)` \[k, n\], and which of the two is
/// transposed.
type Product = ([usize; 3], (bool, bool));

const NEITHER: (bool, bool) = (false, false);
const A: (bool, bool) = (true, false);
const B: (bool, bool) = (false, true);

#[rustfmt::skip]
const SHAPES: &[Product] = &[
    ([128, 784, 512], NEITHER), ([128, 512, 512], NEITHER), ([128, 512, 10], NEITHER),
    ([784, 128, 512], A), ([512, 128, 512], A), ([512, 128, 10], A),
    ([128, 512, 512], B), ([128, 10, 512], B),
    ([32, 64, 128], NEITHER), ([32, 128, 10], NEITHER),
    ([64, 32, 128], A), ([128, 32, 10], A), ([32, 10, 128], B),
    ([32, 64, 10], NEITHER), ([64, 32, 10], A),
];

/// Images, `[batch, height, width, channels]`, and the number of 5x5 filters over them.
const CONVOLUTIONS: &[([usize; 4], usize)] = &[([64, 28, 28, 1], 32), ([64, 14, 14, 32], 64)];

/// The number of products of this shape in a step.
fn products(([m, k, n], _): &Product) -> usize {
    (STEP / (m * k * n)).clamp(1, PRODUCTS)
}

/// One result. Times are for one product or convolution.
#[derive(Serialize)]
struct Line {
    case: &'static str,
    shape: [usize; 3],
    transposed: (bool, bool),
    trainyard_us: f64,
    gemm_us: f64,
    ratio: f64,
}

fn main() -> Result<()> {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread().build().expect("a thread can have a runtime")
    };
    actix_rt::System::with_tokio_rt(runtime).block_on(async {
        for product in SHAPES {
            let trainyard_us = in_a_graph(product).await?;
            let gemm_us = [Parallelism::None, Parallelism::Rayon(0)]
                .map(|parallelism| direct(product, parallelism, products(product)))
                .into_iter()
                .fold(f64::INFINITY, f64::min);
            let (shape, transposed) = *product;
            let ratio = trainyard_us / gemm_us;
            let line = Line { case: "matmul", shape, transposed, trainyard_us, gemm_us, ratio };
            line.print();
        }
        for (images, filters) in CONVOLUTIONS {
            convolution(*images, *filters).await?;
        }
        Ok(())
    })
}

impl Line {
    fn print(&self) {
        FIGURES.note(&serde_json::to_value(self).expect("numbers are JSON"));
    }
}

/// A convolution and its two gradients.
async fn convolution(images: [usize; 4], filters: usize) -> Result<()> {
    let server = Server::create_local();
    let g = Graph::new();
    let tensor = |shape: &[usize]| {
        Tensor::new(shape, &values(shape.iter().product()))
            .expect("there is a value for each element")
    };
    let [batch, height, width, channels] = images;
    let (x, filter) = (g.constant(tensor(&images)), g.constant(tensor(&[5, 5, channels, filters])));
    let y = x.conv2d(&filter, Sliding::from(Padding::Same))?;
    let by = gradients(&y.sum(), &[y.clone(), x, filter])?;
    let [dy, dx, df] = [0, 1, 2].map(|i| by[i].as_ref().expect("the sum depends on it"));
    // Fed, so that what comes before it is not computed.
    let fed = tensor(&[batch, height, width, filters]);
    let session = Session::new(&server.target(), &g).await?;
    let shape = [batch * height * width, 25 * channels, filters];
    let gemm_us = direct(&(shape, NEITHER), Parallelism::Rayon(0), 1);
    for (case, target) in
        [("conv2d", &y), ("conv2d by the image", dx), ("conv2d by the filter", df)]
    {
        let mut times = Vec::new();
        for _ in 0..STEPS {
            let begin = Instant::now();
            session.run().feed(dy, fed.clone()).target(target.target()).await?;
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        let trainyard_us = low(times);
        Line {
            case,
            shape,
            transposed: NEITHER,
            trainyard_us,
            gemm_us,
            ratio: trainyard_us / gemm_us,
        }
        .print();
    }
    Ok(())
}

/// The shapes in which `a` and `b` are stored.
fn stored(([m, k, n], (a, b)): &Product) -> [[usize; 2]; 2] {
    let turn = |[rows, columns]: [usize; 2], turn: bool| {
        if turn { [columns, rows] } else { [rows, columns] }
    };
    [turn([*m, *k], *a), turn([*k, *n], *b)]
}

fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i % 17) as f32 / 16.0 - 0.5).collect()
}

/// The time of one product in a step that runs many \[us\].
async fn in_a_graph(product: &Product) -> Result<f64> {
    let server = Server::create_local();
    let g = Graph::new();
    let [a, b] = stored(product).map(|shape| {
        let value = Tensor::new(shape, &values(shape[0] * shape[1]))
            .expect("there is a value for each element");
        g.constant(value)
    });
    let session = Session::new(&server.target(), &g).await?;
    let (transpose_a, transpose_b) = product.1;
    let count = products(product);
    let mut products = Vec::new();
    for _ in 0..count {
        products.push(a.matmul_transposed(&b, transpose_a, transpose_b)?.target());
    }
    let all = g.group("all", &products.iter().collect::<Vec<_>>())?;
    let mut times = Vec::new();
    for step in 0..2 * STEPS {
        let begin = Instant::now();
        session.run().target(&all).await?;
        if step >= STEPS {
            times.push(begin.elapsed().as_secs_f64() * 1e6 / count as f64);
        }
    }
    Ok(low(times))
}

/// The time of one product by `gemm` \[us\].
fn direct(product: &Product, parallelism: Parallelism, products: usize) -> f64 {
    let ([m, k, n], (transpose_a, transpose_b)) = *product;
    let (a, b, mut out) = (values(m * k), values(k * n), vec![0f32; m * n]);
    let (a_row, a_column) = if transpose_a { (1, m) } else { (k, 1) };
    let (b_row, b_column) = if transpose_b { (1, k) } else { (n, 1) };
    let mut multiply = || {
        let (to, a, b) = (out.as_mut_ptr(), a.as_ptr(), b.as_ptr());
        let [a_row, a_column, b_row, b_column] =
            [a_row, a_column, b_row, b_column].map(|step| step as isize);
        #[expect(unsafe_code, reason = "gemm takes pointers")]
        // SAFETY: the three have as many elements as the shape says, by these steps.
        unsafe {
            // The factors are exchanged and transposed, because `gemm` writes columns first.
            gemm_f32::gemm::f32::get_gemm_fn()(
                n,
                m,
                k,
                to,
                n as isize,
                1,
                false,
                b,
                b_row,
                b_column,
                a,
                a_row,
                a_column,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            );
        }
    };
    let mut times = Vec::new();
    // Runs on one of rayon's threads, as a step's kernels do.
    rayon::scope(|_| {
        for step in 0..2 * STEPS {
            let begin = Instant::now();
            (0..products).for_each(|_| multiply());
            if step >= STEPS {
                times.push(begin.elapsed().as_secs_f64() * 1e6 / products as f64);
            }
        }
    });
    low(times)
}

/// The tenth percentile of `times`.
fn low(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}
