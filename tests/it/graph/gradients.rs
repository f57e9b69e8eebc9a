//! The values of gradients, held to finite differences on random graphs of every operation that has
//! one.

mod elementwise;
mod moves;
mod second;
mod windows;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use trainyard::graph::{
    BatchNorm, GraphError, dropout, huber_loss, l2_loss, layer_norm, mean_squared_error, moments,
    sigmoid_cross_entropy, softmax_cross_entropy, stack,
};
use trainyard::prelude::*;

use crate::support::fixture::on_actix;

/// An operation of a random graph. Those that could leave the range where f32 tells a difference
/// are damped, and those with a pole are kept off it.
#[derive(Clone, Copy, Debug)]
enum Kind {
    MatMul { transpose_a: bool, transpose_b: bool },
    BatchMatMul,
    RepeatedMatMul { adj_x: bool, adj_y: bool },
    BiasAdd,
    ScaleRows,
    Relu,
    Sigmoid,
    Tanh,
    Exp,
    Log,
    Square,
    Negate,
    Identity,
    Add,
    Sub,
    Mul,
    Div,
    Sum,
    Mean,
    SumOver,
    MeanKeepDims,
    ProdOver,
    MaxOver,
    Min,
    TopK,
    Softmax,
    LogSoftmax,
    CrossEntropy,
    DenseCrossEntropy,
    SigmoidCrossEntropy,
    L2Loss,
    Huber,
    MeanSquared,
    BatchNorm,
    LayerNorm,
    Variance,
    Dropout,
    Moved(usize),
    Windowed(usize),
    Elementwise(usize),
}

const KINDS: &[Kind] = &[
    Kind::MatMul { transpose_a: false, transpose_b: false },
    Kind::MatMul { transpose_a: true, transpose_b: false },
    Kind::MatMul { transpose_a: false, transpose_b: true },
    Kind::MatMul { transpose_a: true, transpose_b: true },
    Kind::BatchMatMul,
    Kind::RepeatedMatMul { adj_x: false, adj_y: false },
    Kind::RepeatedMatMul { adj_x: true, adj_y: true },
    Kind::BiasAdd,
    Kind::ScaleRows,
    Kind::Relu,
    Kind::Sigmoid,
    Kind::Tanh,
    Kind::Exp,
    Kind::Log,
    Kind::Square,
    Kind::Negate,
    Kind::Identity,
    Kind::Add,
    Kind::Sub,
    Kind::Mul,
    Kind::Div,
    Kind::Sum,
    Kind::Mean,
    Kind::SumOver,
    Kind::MeanKeepDims,
    Kind::ProdOver,
    Kind::MaxOver,
    Kind::Min,
    Kind::TopK,
    Kind::Softmax,
    Kind::LogSoftmax,
    Kind::DenseCrossEntropy,
    Kind::SigmoidCrossEntropy,
    Kind::L2Loss,
    Kind::Huber,
    Kind::MeanSquared,
    Kind::BatchNorm,
    Kind::LayerNorm,
    Kind::Variance,
    Kind::Dropout,
    Kind::CrossEntropy,
];

/// An operation and where to begin to look for operands that fit it.
type Step = (Kind, u8, u8);

/// The size of the last axis.
fn width(x: &Output) -> usize {
    x.tensor_type().shape.dims().last().copied().flatten().unwrap_or(1)
}

fn apply(kind: Kind, a: &Output, b: &Output) -> Result<Output, GraphError> {
    let g = a.graph();
    let damped = |x: Output| x.mul(&g.constant(0.4f32));
    let above_one = |x: &Output| x.square().add(&g.constant(1f32));
    match kind {
        Kind::MatMul { transpose_a, transpose_b } => {
            damped(a.matmul_transposed(b, transpose_a, transpose_b)?)
        }
        Kind::BatchMatMul => damped(stack(&[a, b], 0)?.matmul(&stack(&[b, a], 0)?)?),
        Kind::RepeatedMatMul { adj_x, adj_y } => {
            damped(stack(&[a, b], 0)?.matmul_transposed(a, adj_x, adj_y)?)
        }
        Kind::BiasAdd => a.bias_add(b),
        Kind::ScaleRows => a.scale_rows(b),
        Kind::Relu => Ok(a.relu()),
        Kind::Sigmoid => Ok(a.sigmoid()),
        Kind::Tanh => Ok(a.tanh()),
        Kind::Exp => Ok(a.tanh().exp()),
        Kind::Log => Ok(above_one(a)?.log()),
        Kind::Square => damped(a.square()),
        Kind::Negate => Ok(a.negate()),
        Kind::Identity => Ok(a.identity()),
        Kind::Add => a.add(b),
        Kind::Sub => a.sub(b),
        Kind::Mul => damped(a.mul(b)?),
        Kind::Div => a.div(&above_one(b)?),
        Kind::Sum => damped(a.sum()),
        Kind::Mean => Ok(a.mean()),
        Kind::SumOver => damped(a.sum_over(&[0])?),
        Kind::MeanKeepDims => a.mean_keep_dims(&[-1]),
        Kind::ProdOver => a.prod_over(&[-1]),
        Kind::MaxOver => a.max_over(&[0]),
        Kind::Min => Ok(a.min()),
        Kind::TopK => Ok(a.top_k(2)?.0),
        Kind::Softmax => a.softmax(),
        Kind::LogSoftmax => damped(a.log_softmax()?),
        Kind::DenseCrossEntropy => softmax_cross_entropy(a, &b.softmax()?),
        Kind::SigmoidCrossEntropy => sigmoid_cross_entropy(a, &b.sigmoid()),
        Kind::L2Loss => damped(l2_loss(a)?),
        Kind::Huber => huber_loss(a, b, 0.7),
        Kind::MeanSquared => damped(mean_squared_error(a, b)?),
        Kind::BatchNorm => BatchNorm::new(g, width(a))?.epsilon(0.1).train(a).map(|(y, _)| y),
        Kind::LayerNorm => layer_norm(a, 0.1),
        Kind::Variance => moments(a, &[-1], false).map(|(_, variance)| variance),
        Kind::Dropout => dropout(a, 0.4, &g.constant(3i64)),
        Kind::Elementwise(index) => elementwise::apply(index, a, b),
        Kind::Moved(index) => moves::apply(index, a, b),
        Kind::Windowed(index) => windows::apply(index, a, b),
        Kind::CrossEntropy => {
            let rows = a.tensor_type().shape.dims().first().copied().flatten().unwrap_or(1);
            let classes = width(a).min(2) as i32;
            let labels: Vec<i32> = (0..rows as i32).map(|row| row % classes).collect();
            sparse_softmax_cross_entropy(a, &g.constant(Tensor::new([rows], &labels).unwrap()))
        }
    }
}

/// The operation on the first operands that fit, from where the step says.
fn add_step(values: &mut Vec<Output>, (kind, a, b): &Step) {
    let (n, a, b) = (values.len(), usize::from(*a), usize::from(*b));
    let pairs = (0..n * n).map(|i| ((a + i / n) % n, (b + i) % n));
    let found = pairs.into_iter().find_map(|(a, b)| apply(*kind, &values[a], &values[b]).ok());
    values.extend(found);
}

/// Variables of several shapes, with values away from zero.
fn variables(g: &Graph) -> Result<Vec<Variable>> {
    let shapes: [&[usize]; 6] = [&[2, 3], &[3, 2], &[2, 2], &[3], &[2], &[]];
    let mut built = Vec::new();
    for (i, shape) in shapes.into_iter().enumerate() {
        let elements: usize = shape.iter().product();
        let values: Vec<f32> =
            (0..elements).map(|j| 0.5 + 0.13 * ((7 * i + 5 * j) % 9) as f32).collect();
        let signed: Vec<f32> = values
            .iter()
            .enumerate()
            .map(|(j, v)| if (i + j) % 3 == 0 { -v } else { *v })
            .collect();
        built
            .push(g.variable(&format!("v{i}"), &g.constant(Tensor::new(shape, &signed).unwrap()))?);
    }
    Ok(built)
}

/// The last values of a random graph, added up, so that what is before them is used more than once.
fn loss(g: &Graph, variables: &[Variable], steps: &[Step]) -> Result<Output, GraphError> {
    let mut values: Vec<Output> = variables.iter().map(Variable::read).collect();
    steps.iter().for_each(|step| add_step(&mut values, step));
    values.iter().rev().take(3).try_fold(g.constant(0f32), |sum, value| sum.add(&value.mean()))
}

/// What finite differences say of one element.
enum Slope {
    Is(f64),
    /// The differences of two steps disagree: a kink, or too steep a curve.
    Unclear,
}

/// The slope at 0 of what `at` gives for a shift, from central differences of two steps
/// (Richardson).
///
/// It is unclear where the two disagree, or where the slopes to either side do: there is a kink, as
/// of a relu, nearby.
async fn slope(at: impl AsyncFn(f32) -> Result<f64>) -> Result<Slope> {
    const STEP: f32 = 1.0 / 64.0;
    let (step, here) = (f64::from(STEP), at(0.0).await?);
    let (above, half_above) = (at(STEP).await?, at(STEP / 2.0).await?);
    let (below, half_below) = (at(-STEP).await?, at(-STEP / 2.0).await?);
    let (wide, narrow) = ((above - below) / (2.0 * step), (half_above - half_below) / step);
    let to_one_side = |half: f64, whole: f64| (4.0 * half - whole - 3.0 * here) / step;
    let (right, left) = (to_one_side(half_above, above), -to_one_side(half_below, below));
    let agree = |a: f64, b: f64| (a - b).abs() <= 2e-3 * (1.0 + narrow.abs());
    let is_clear = agree(wide, narrow) && agree(right, left);
    Ok(if is_clear { Slope::Is((4.0 * narrow - wide) / 3.0) } else { Slope::Unclear })
}

/// How many elements were compared, and how many could not be.
#[derive(Default)]
struct Tally {
    compared: Cell<u32>,
    unclear: Cell<u32>,
}

async fn compare(steps: &[Step], tally: &Tally) -> Result<()> {
    let g = Graph::new();
    let variables = variables(&g)?;
    let loss = loss(&g, &variables, steps)?;
    let reads: Vec<Output> = variables.iter().map(Variable::read).collect();
    let gradients = gradients(&loss, &reads)?;
    let server = Server::create_local();
    let session = Session::new(&server.target(), &g).await?;
    session.run().target(g.initializer()).await?;
    for (read, gradient) in reads.iter().zip(gradients) {
        let Some(gradient) = gradient else { continue };
        let fetched = session.run().fetch(read).fetch(&gradient).await?;
        assert_eq!(
            fetched[0].shape(),
            fetched[1].shape(),
            "a gradient has the shape of its variable"
        );
        let (values, analytic) = (fetched[0].values::<f32>()?, fetched[1].values::<f32>()?);
        for (element, analytic) in analytic.iter().enumerate() {
            let shifted = async |shift: f32| {
                let mut values = values.to_vec();
                values[element] += shift;
                let moved = Tensor::new(fetched[0].shape(), &values)?;
                Ok(f64::from(session.run().feed(read, moved).fetch(&loss).await?.scalar::<f32>(0)?))
            };
            let Slope::Is(expected) = slope(shifted).await? else {
                tally.unclear.set(tally.unclear.get() + 1);
                continue;
            };
            let error = (f64::from(*analytic) - expected).abs();
            let name = gradient.name();
            assert!(
                error <= 5e-3 * (1.0 + expected.abs()),
                "{name}[{element}] is {analytic}, but {expected} in {steps:?}"
            );
            tally.compared.set(tally.compared.get() + 1);
        }
    }
    Ok(())
}

#[test]
fn gradients_are_what_finite_differences_say_whatever_the_graph() {
    let steps = prop::collection::vec((select(KINDS), any::<u8>(), any::<u8>()), 1..9);
    let tally = Tally::default();
    let mut runner =
        TestRunner::new(Config { cases: 96, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&steps, |steps| {
        on_actix(compare(&steps, &tally));
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
    let (compared, unclear) = (tally.compared.get(), tally.unclear.get());
    assert!(compared > 500 && compared > 10 * unclear, "{compared} compared, {unclear} unclear");
}

#[test]
fn the_gradient_of_each_operation_alone_is_what_finite_differences_say() {
    let tally = Tally::default();
    on_actix(async {
        for kind in KINDS {
            for (a, b) in [(0, 1), (2, 2), (3, 5), (5, 0)] {
                compare(&[(*kind, a, b)], &tally).await?;
            }
        }
        Ok(())
    });
    assert!(tally.compared.get() > 300 && tally.unclear.get() < 30, "{}", tally.unclear.get());
}

/// The gradient of `loss²` by `x`, multiplied by `v` and differentiated again, by each of `by`.
async fn second(
    loss: &Output,
    (x, v): (&Output, [f32; 3]),
    by: &[&Output],
) -> Result<Vec<Vec<f32>>> {
    let squared = loss.mul(loss)?.sum();
    let first = gradients(&squared, std::slice::from_ref(x))?[0].clone().unwrap();
    let times = first.mul(&x.graph().constant(Tensor::new([1, 3], &v)?))?.sum();
    let by: Vec<Output> = by.iter().map(|x| (*x).clone()).collect();
    let found = gradients(&times, &by)?;
    let server = Server::create_local();
    let session = Session::new(&server.target(), x.graph()).await?;
    let run = found.iter().flatten().fold(session.run(), |run, slope| run.fetch(slope));
    let fetched = run.await?;
    (0..found.len()).map(|i| Ok(fetched[i].values::<f32>()?.to_vec())).collect()
}

#[test]
fn the_cross_entropies_have_second_derivatives() {
    on_actix(async {
        let g = Graph::new();
        // The softmax is 1/6, 2/6 and 3/6, and the loss ln 6.
        let row = |values: [f32; 3]| g.constant(Tensor::new([1, 3], &values).unwrap()).identity();
        let (x, y) = (row([1f32, 2.0, 3.0].map(f32::ln)), row([1.0, 0.0, 0.0]));
        let label = g.constant(Tensor::new([1], &[0i32]).unwrap());
        let (softmax, rest) = ([1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0], [-5.0 / 6.0, 2.0 / 6.0, 0.5]);
        let v = [6.0, 0.0, 0.0];
        // 2 (r · v) r + 2 loss s (v − s · v), for the gradient r by the logits.
        let twice = 2.0 * 6f32.ln();
        let by_logits = [0, 1, 2].map(|i| -10.0 * rest[i] + twice * softmax[i] * (v[i] - 1.0));
        // 2 (r · v) (−ln s) − 2 loss v
        let by_labels = [0, 1, 2].map(|i| 10.0 * f32::ln(softmax[i]) - twice * v[i]);
        let sparse = sparse_softmax_cross_entropy(&x, &label)?;
        let dense = softmax_cross_entropy(&x, &y)?;
        let of_sparse = second(&sparse, (&x, v), &[&x]).await?;
        let of_dense = second(&dense, (&x, v), &[&x, &y]).await?;
        let all =
            [(&of_sparse[0], by_logits), (&of_dense[0], by_logits), (&of_dense[1], by_labels)];
        for (found, expected) in all {
            let far = found.iter().zip(expected).any(|(a, b)| (a - b).abs() > 1e-5 * b.abs());
            assert!(!far, "{found:?}, not {expected:?}");
        }
        Ok(())
    });
}
