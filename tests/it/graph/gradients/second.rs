//! Second derivatives: gradients of what gradients are made of, as a gradient penalty has them.

use trainyard::graph::{GraphError, softmax_cross_entropy};
use trainyard::prelude::*;

use crate::support::fixture::on_actix;

type Function = fn(x: &Output) -> std::result::Result<Output, GraphError>;

const FUNCTIONS: &[(&str, Function)] = &[
    ("relu", |x| (x * x.relu()).tanh().mul(x)),
    ("leaky relu", |x| x.leaky_relu(0.3).mul(x)),
    ("elu", |x| Ok(x.elu())),
    ("selu", |x| Ok(x.selu())),
    ("gelu", |x| Ok(x.gelu(false))),
    ("sigmoid", |x| Ok(x.sigmoid())),
    ("tanh", |x| Ok(x.tanh())),
    ("softplus", |x| Ok(x.softplus())),
    ("log sigmoid", |x| Ok(x.log_sigmoid())),
    ("softsign", |x| Ok(x.softsign())),
    ("silu", |x| Ok(x.silu())),
    ("exp", |x| Ok(x.exp())),
    ("expm1", |x| Ok(x.expm1())),
    ("log", |x| Ok((x.square() + 1.0).log())),
    ("log1p", |x| Ok(x.square().log1p())),
    ("sqrt", |x| Ok((x.square() + 1.0).sqrt())),
    ("rsqrt", |x| Ok((x.square() + 1.0).rsqrt())),
    ("reciprocal", |x| Ok((x.square() + 1.0).reciprocal())),
    ("square", |x| Ok(x.square())),
    ("abs", |x| x.abs().mul(x)),
    ("sin", |x| Ok(x.sin())),
    ("cos", |x| Ok(x.cos())),
    ("erf", |x| Ok(x.erf())),
    ("bias", |x| Ok(x.bias_add(&x.mean_over(&[0])?)?.tanh())),
    ("broadcast", |x| Ok((x * x.mean_keep_dims(&[1])?).tanh())),
    ("greatest", |x| Ok(x * x.square().max_keep_dims(&[1])?)),
    ("least", |x| Ok(x * x.square().min_over(&[0])?)),
    ("softmax", |x| x.softmax()),
    ("log softmax", |x| x.log_softmax()?.mul(x)),
    ("cross entropy", |x| {
        let labels = x.graph().constant(Tensor::new([2, 3], &[0.2, 0.3, 0.5, 1.0, 0.0, 0.0])?);
        softmax_cross_entropy(x, &labels.cast(DType::F64))
    }),
    ("matrix product", |x| Ok(x.matmul(&x.transpose(&[1, 0])?)?.tanh())),
];

/// The point at which derivatives are taken: no two elements are alike, none is 0.
const X: [f64; 6] = [0.7, -1.2, 0.4, -0.3, 1.6, -0.8];

/// Weights by which elements count, so that each derivative differs.
fn weighed(value: &Output) -> Output {
    (value * (value.cos() + 2.0)).sum()
}

#[test]
fn the_gradient_of_each_gradient_is_what_finite_differences_say() {
    on_actix(async {
        for (name, function) in FUNCTIONS {
            let g = Graph::new();
            let x = g.placeholder("x", DType::F64, [Some(2), Some(3)])?;
            let slope = |of: &Output| {
                let found = gradients(of, std::slice::from_ref(&x))?.remove(0);
                Ok::<_, GraphError>(found.expect("it depends on x"))
            };
            let penalty = weighed(&slope(&weighed(&function(&x)?))?);
            let second = slope(&penalty)?;
            let server = Server::create_local();
            let session = Session::new(&server.target(), &g).await?;
            let at = async |values: &[f64]| {
                let fed = Tensor::new([2, 3], values).expect("six values");
                session.run().feed(&x, fed).fetch(&penalty).fetch(&second).await
            };
            let found = at(&X).await?[1].values::<f64>()?.to_vec();
            for (place, found) in found.into_iter().enumerate() {
                let moved = async |by: f64| {
                    let mut values = X;
                    values[place] += by;
                    at(&values).await?.scalar::<f64>(0)
                };
                const STEP: f64 = 1e-5;
                let wanted = (moved(STEP).await? - moved(-STEP).await?) / (2.0 * STEP);
                let close = (found - wanted).abs() < 1e-5 * wanted.abs().max(1.0);
                assert!(close, "{name}, element {place}: {found} is not {wanted}");
            }
        }
        Ok(())
    });
}

#[test]
fn the_norm_of_a_critics_gradient_can_be_trained() {
    on_actix(async {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [None, Some(4)])?;
        let score = dense(&dense(&x, 8)?.tanh(), 1)?;
        let slope = gradients(&score.sum(), std::slice::from_ref(&x))?.remove(0);
        let norm = slope.expect("the score depends on x").square().sum_over(&[1])?.sqrt();
        let penalty = (norm - 1.0).square().mean();
        let train_op = GradientDescent::new(0.1).minimize(&penalty, &g.global_step()?)?;
        let server = Server::create_local();
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(g.initializer()).await?;
        let values = [0.3f32, -0.2, 0.9, 0.1, -0.5, 0.4, 0.2, -0.7];
        let batch = Tensor::new([2, 4], &values).expect("eight values");
        let mut penalties = Vec::new();
        for _ in 0..200 {
            let step = session.run().feed(&x, batch.clone()).target(&train_op).fetch(&penalty);
            penalties.push(step.await?.scalar::<f32>(0)?);
        }
        assert!(penalties[199] < 1e-3 && penalties[0] > 1e-2, "{penalties:?}");
        Ok(())
    });
}
