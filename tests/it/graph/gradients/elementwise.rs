//! Gradients of elementwise operations, broadcast and not, and of clipping.

use trainyard::graph::{GraphError, clip_by_global_norm};
use trainyard::prelude::*;
use trainyard::tensor::Shape;

use super::{Kind, Tally, compare};
use crate::support::fixture::on_actix;

/// A function of `a`, and of `b` where it has two.
type Function = fn(a: &Output, b: &Output) -> Result<Output, GraphError>;

const FUNCTIONS: &[(&str, Function)] = &[
    ("relu6", |a, _| Ok(a.relu6())),
    ("leaky relu", |a, _| Ok(a.leaky_relu(0.3))),
    ("elu", |a, _| Ok(a.elu())),
    ("selu", |a, _| Ok(a.selu())),
    ("gelu", |a, _| Ok(a.gelu(false))),
    ("approximate gelu", |a, _| Ok(a.gelu(true))),
    ("softplus", |a, _| Ok(a.softplus())),
    ("softsign", |a, _| Ok(a.softsign())),
    ("silu", |a, _| Ok(a.silu())),
    ("log sigmoid", |a, _| Ok(a.log_sigmoid())),
    ("expm1", |a, _| Ok(a.tanh().expm1())),
    ("log1p", |a, _| Ok(a.square().log1p())),
    ("sqrt", |a, _| Ok(above_one(a)?.sqrt())),
    ("rsqrt", |a, _| Ok(above_one(a)?.rsqrt())),
    ("reciprocal", |a, _| Ok(above_one(a)?.reciprocal())),
    ("abs", |a, _| Ok(a.abs())),
    ("sign", |a, _| a.sign().add(a)),
    ("sin", |a, _| Ok(a.sin())),
    ("cos", |a, _| Ok(a.cos())),
    ("erf", |a, _| Ok(a.erf())),
    ("add", |a, b| a.tanh().add(&b.tanh())),
    ("sub", |a, b| a.sub(b)),
    ("mul", |a, b| a.tanh().mul(b)),
    ("div", |a, b| a.div(&above_one(b)?)),
    ("pow", |a, b| above_one(a)?.pow(&b.tanh())),
    ("pow of a square", |a, _| a.pow(&a.graph().constant(2f32))),
    ("floor mod", |a, b| a.floor_mod(&above_one(b)?)),
    ("maximum", |a, b| a.maximum(b)),
    ("minimum", |a, b| a.minimum(b)),
    ("squared difference", |a, b| a.squared_difference(b)),
    ("select", |a, b| a.greater(&a.graph().constant(0.7f32))?.select(&a.square(), b)),
    ("clip by value", |a, _| a.clip_by_value(-0.8, 1.1)),
    ("clip by a norm above", |a, _| a.clip_by_norm(100.0)),
    ("clip by a norm below", |a, _| a.clip_by_norm(0.5)),
];

fn above_one(x: &Output) -> Result<Output, GraphError> {
    x.square().add(&x.graph().constant(1f32))
}

/// Function number `index`, squared, so that what arrives differs from element to element.
pub(super) fn apply(index: usize, a: &Output, b: &Output) -> Result<Output, GraphError> {
    let (_, function) = FUNCTIONS[index];
    function(a, b)?.square().mul(&a.graph().constant(0.3f32))
}

#[test]
fn the_gradient_of_each_function_is_what_finite_differences_say_however_it_is_broadcast() {
    for (index, (name, _)) in FUNCTIONS.iter().enumerate() {
        let tally = Tally::default();
        on_actix(async {
            for (a, b) in [(0, 0), (0, 3), (3, 0), (2, 4), (5, 2), (0, 5)] {
                compare(&[(Kind::Elementwise(index), a, b)], &tally).await?;
            }
            Ok(())
        });
        let (compared, unclear) = (tally.compared.get(), tally.unclear.get());
        assert!(
            compared >= 10 && compared > 2 * unclear,
            "{name}: {compared} compared, {unclear} unclear"
        );
    }
}

#[test]
fn gradients_are_those_of_double_precision_where_the_loss_is() {
    on_actix(async {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F64, Shape::SCALAR)?;
        let loss = x.sin().mul(&x.gelu(false).exp())?.add(&x.cast(DType::F32).cast(DType::F64))?;
        let slope =
            gradients(&loss, std::slice::from_ref(&x))?.remove(0).expect("the loss depends on x");
        let server = Server::create_local();
        let session = Session::new(&server.target(), &g).await?;
        let at = async |x_value: f64| {
            session.run().feed(&x, Tensor::scalar(x_value)).fetch(&loss).fetch(&slope).await
        };
        let (here, step) = (0.75, 1e-4);
        let of_function = |x: f64| x - f64::from(x as f32);
        let above = at(here + step).await?.scalar::<f64>(0)? + of_function(here + step);
        let below = at(here - step).await?.scalar::<f64>(0)? + of_function(here - step);
        let (found, wanted) = (at(here).await?.scalar::<f64>(1)?, (above - below) / (2.0 * step));
        assert!((found - wanted).abs() < 1e-7, "{found} is not {wanted}");
        Ok(())
    });
}

/// What clipping the norm of the two vectors to `norm` makes of the first element of each, and the
/// norm before.
async fn clipped(first: [f32; 2], second: f32, norm: f64) -> Result<[f32; 3]> {
    let g = Graph::new();
    let values = [g.constant(Tensor::new([2], &first).expect("two values")), g.constant(second)];
    let (clipped, own) = clip_by_global_norm(&values, norm)?;
    let server = Server::create_local();
    let session = Session::new(&server.target(), &g).await?;
    let fetched = session.run().fetch(&clipped[0]).fetch(&clipped[1]).fetch(&own).await?;
    Ok([fetched[0].values::<f32>()?[0], fetched.scalar(1)?, fetched.scalar(2)?])
}

#[test]
fn a_global_norm_is_cut_to_its_limit_left_where_it_is_below_and_nan_where_it_is_infinite() {
    on_actix(async {
        assert_eq!(clipped([2.0, 4.0], 4.0, 3.0).await?, [1.0, 2.0, 6.0]);
        assert_eq!(clipped([2.0, 4.0], 4.0, 8.0).await?, [2.0, 4.0, 6.0]);
        let [first, second, norm] = clipped([f32::INFINITY, 4.0], 4.0, 3.0).await?;
        assert!(first.is_nan() && second.is_nan() && norm == f32::INFINITY);
        Ok(())
    });
}

#[test]
fn what_is_zero_is_clipped_by_norm_with_a_finite_gradient() {
    on_actix(async {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [Some(2)])?;
        let loss = x.clip_by_norm(2.0)?.sum();
        let slope =
            gradients(&loss, std::slice::from_ref(&x))?.remove(0).expect("the loss depends on x");
        let server = Server::create_local();
        let session = Session::new(&server.target(), &g).await?;
        let fetched = session.run().feed(&x, Tensor::zeros(DType::F32, [2])).fetch(&slope).await?;
        assert_eq!(fetched[0].values::<f32>()?, [1.0, 1.0]);
        Ok(())
    });
}
