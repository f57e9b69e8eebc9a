//! A steady step of a local session asks the allocator for nothing: what it needs, the steps before
//! left behind.
//!
//! A binary of its own, because the allocator is the process's. It counts what the thread of the
//! step asks for: the client's call, the three actors, the executor, the kernels and the updates.
//! The `gemm` crate takes room to pack its operands for each product anew, and so a step with
//! products asks for that much and no more. (Kernels large enough to spread over rayon's threads
//! are not measured here: rayon's queue of outside work grows by a block now and then.)
#![expect(
    unsafe_code,
    reason = "an allocator that counts is an allocator, and gemm takes pointers"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use trainyard::prelude::*;

/// Steps that may allocate: the first registers the partition, the next grow queues and pools.
const WARM_UP: usize = 20;
const STEPS: usize = 50;
const ROWS: usize = 32;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, and how often each thread asks it.
struct Counting;

// SAFETY: all calls are handed to the system's allocator as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a step is asked for.
struct Step<'a> {
    graph: &'a Graph,
    feeds: Vec<(&'a Output, Tensor)>,
    train: &'a TrainOp,
    loss: &'a Output,
}

/// How often each step allocates, once all is warm.
async fn allocations(step: Step<'_>) -> Result<Vec<u64>> {
    let server = Server::create_local();
    let session = Session::new(&server.target(), step.graph).await?;
    session.run().target(step.graph.initializer()).await?;
    let mut counts = Vec::with_capacity(WARM_UP + STEPS);
    for _ in 0..WARM_UP + STEPS {
        let before = ALLOCATIONS.get();
        let fed = step
            .feeds
            .iter()
            .fold(session.run(), |run, (output, value)| run.feed(output, value.clone()));
        let fetched = fed.target(step.train).fetch(step.loss).await?;
        assert!(fetched.scalar::<f32>(0)?.is_finite());
        counts.push(ALLOCATIONS.get() - before);
    }
    counts.drain(..WARM_UP);
    Ok(counts)
}

/// How often the steps of fitting a factor for each element allocate.
async fn of_factors(optimizer: impl IntoOptimizer) -> Result<Vec<u64>> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [Some(1000)])?;
    let factors = g.variable("factors", &g.zeros([1000]))?;
    let loss = x.mul(&factors.read())?.sub(&x)?.square().mean();
    let train = optimizer.minimize(&loss, &g.global_step()?)?;
    let feeds = vec![(&x, Tensor::full([1000], 0.5f32))];
    allocations(Step { graph: &g, feeds, train: &train, loss: &loss }).await
}

/// How often the steps of training a perceptron allocate.
async fn of_perceptron(layers: &[usize]) -> Result<Vec<u64>> {
    let g = Graph::new();
    let (width, classes) = (layers[0], layers[layers.len() - 1]);
    let x = g.placeholder("x", DType::F32, [None, Some(width)])?;
    let y = g.placeholder("y", DType::I32, [None])?;
    let mut logits = dense(&x, layers[1])?;
    for units in &layers[2..] {
        logits = dense(&logits.relu(), *units)?;
    }
    let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
    let train = Adagrad::new(0.1).minimize(&loss, &g.global_step()?)?;
    let labels: Vec<i32> = (0..ROWS).map(|row| (row % classes) as i32).collect();
    let feeds =
        vec![(&x, Tensor::full([ROWS, width], 0.5f32)), (&y, Tensor::new([ROWS], &labels)?)];
    allocations(Step { graph: &g, feeds, train: &train, loss: &loss }).await
}

/// How often `gemm` allocates for the products of one step of training a perceptron.
fn of_products(layers: &[usize]) -> u64 {
    let mut count = 0;
    for (i, pair) in layers.windows(2).enumerate() {
        let (inputs, outputs) = (pair[0], pair[1]);
        count += of_product([ROWS, inputs, outputs], (false, false));
        count += of_product([inputs, ROWS, outputs], (true, false));
        if i > 0 {
            count += of_product([ROWS, outputs, inputs], (false, true));
        }
    }
    count
}

fn of_product([m, k, n]: [usize; 3], (transpose_a, transpose_b): (bool, bool)) -> u64 {
    let (a, b, mut out) = (vec![0f32; m * k], vec![0f32; k * n], vec![0f32; m * n]);
    let (a_row, a_column) = if transpose_a { (1, m as isize) } else { (k as isize, 1) };
    let (b_row, b_column) = if transpose_b { (1, k as isize) } else { (n as isize, 1) };
    let (to, a, b) = (out.as_mut_ptr(), a.as_ptr(), b.as_ptr());
    let one = gemm_common::Parallelism::None;
    let multiply = || {
        // SAFETY: the three have as many elements as the shape says, by these steps.
        unsafe {
            // Of the factors exchanged, each with rows for columns: `gemm` writes down columns.
            gemm_f32::gemm::f32::get_gemm_fn()(
                n, m, k, to, n as isize, 1, false, b, b_row, b_column, a, a_row, a_column, 0.0,
                1.0, false, false, false, one,
            );
        }
    };
    multiply();
    let before = ALLOCATIONS.get();
    multiply();
    ALLOCATIONS.get() - before
}

fn in_a_system(test: impl AsyncFnOnce() -> Result<()>) {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread().build().expect("a thread can have a runtime")
    };
    actix_rt::System::with_tokio_rt(runtime).block_on(test()).expect("the steps run");
}

/// One test: tensors' buffers are the process's, and another test at the same time would take what
/// this one left.
#[test]
fn a_steady_local_step_allocates_nothing_but_what_gemm_does_for_its_products() {
    in_a_system(async || {
        assert_eq!(of_factors(GradientDescent::new(0.1)).await?, [0; STEPS], "gradient descent");
        assert_eq!(of_factors(Adagrad::new(0.1)).await?, [0; STEPS], "Adagrad");
        assert_eq!(of_factors(Adam::new(0.1)).await?, [0; STEPS], "Adam");
        for layers in [&[64, 10][..], &[64, 128, 10]] {
            assert_eq!(of_perceptron(layers).await?, [of_products(layers); STEPS], "{layers:?}");
        }
        Ok(())
    });
}
