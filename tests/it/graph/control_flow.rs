//! Conditions and loops of the builder: their numbers, gradients, errors, and where they run.

use trainyard::graph::{RandomLaw, dropout};
use trainyard::prelude::*;

use crate::support::fixture::on_actix;

/// Fetches of a graph, with its placeholder `x` fed.
async fn fetch(g: &Graph, x: (&Output, Tensor), values: &[&Output]) -> Result<Vec<Tensor>> {
    let server = Server::create_local();
    let session = Session::new(&server.target(), g).await?;
    let mut run = session.run().feed(x.0, x.1);
    for value in values {
        run = run.fetch(value);
    }
    let fetched = run.await?;
    Ok((0..values.len()).map(|i| fetched[i].clone()).collect())
}

fn vector(values: &[f32]) -> Tensor {
    Tensor::new([values.len()], values).unwrap()
}

fn one() -> Tensor {
    Tensor::scalar(1i32)
}

/// What three conditions, a loop and the dropouts of two more conditions draw in a graph of `seed`.
async fn drawn(seed: u64) -> Result<Vec<Tensor>> {
    let g = Graph::new();
    g.set_random_seed(seed);
    let x = g.placeholder("x", DType::F32, [Some(64)])?;
    let draw = |v: &[Output]| -> std::result::Result<Vec<Output>, GraphError> {
        let law = RandomLaw::Uniform { low: 0.0, high: 1.0 };
        Ok(vec![v[0].add(&v[0].graph().random("noise", law, [64]))?])
    };
    let drop = |v: &[Output]| Ok(vec![dropout(&v[0], 0.5, &v[0].graph().constant(0i64))?]);
    let (yes, no) = (g.constant(true), g.constant(false));
    let mut found = Vec::new();
    for condition in [&yes, &no, &yes] {
        found.extend(g.cond(condition, &[&x], draw, draw)?);
    }
    let always = |v: &[Output]| Ok(v[0].graph().constant(true));
    found.extend(g.while_loop(&[&x], &[], always, draw, Some(1))?);
    for _ in 0..2 {
        found.extend(g.cond(&yes, &[&x], drop, drop)?);
    }
    fetch(&g, (&x, vector(&[1.0; 64])), &found.iter().collect::<Vec<_>>()).await
}

/// `x · 3ⁿ`, with `n` iterations.
fn tripled(g: &Graph, x: &Output, n: i32) -> Result<Output> {
    let start = g.constant(0i32);
    let end = g.while_loop(
        &[&start, x],
        &[],
        |v| v[0].less(&v[0].graph().constant(n)),
        |v| {
            let g = v[0].graph();
            Ok(vec![v[0].add(&g.constant(one()))?, v[1].mul(&g.constant(3f32))?])
        },
        None,
    )?;
    Ok(end[1].clone())
}

#[test]
fn only_the_branch_that_the_condition_chooses_runs_and_gives_a_gradient() {
    on_actix(async {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [None])?;
        let is_large = x.sum().greater(&g.constant(3f32))?;
        let failing = |v: &[Output]| {
            let g = v[0].graph().clone();
            Ok(vec![v[0].mul(&g.constant(f32::NAN))?.check_numerics("the other branch")?])
        };
        let y = g.cond(&is_large, &[&x], |v| Ok(vec![v[0].square()]), failing)?;
        let dx = gradients(&y[0].sum(), std::slice::from_ref(&x))?[0].clone().unwrap();
        let found = fetch(&g, (&x, vector(&[1.0, 4.0])), &[&y[0], &dx]).await?;
        assert_eq!(found[0], vector(&[1.0, 16.0]));
        assert_eq!(found[1], vector(&[2.0, 8.0]));
        let error = fetch(&g, (&x, vector(&[1.0, 1.0])), &[&y[0]]).await.unwrap_err().to_string();
        assert!(error.contains("CheckNumerics: the other branch"), "{error}");
        Ok(())
    });
}

#[test]
fn each_branch_and_body_draws_values_of_its_own_and_others_with_another_seed() {
    on_actix(async {
        let (one, two) = (drawn(1).await?, drawn(2).await?);
        assert_eq!(one, drawn(1).await?, "one seed, one draw");
        for (i, value) in one.iter().enumerate() {
            assert!(!two.contains(value), "{i} has the values of another seed");
            assert!(!one[i + 1..].contains(value), "{i} has the values of another function");
        }
        Ok(())
    });
}

#[test]
fn real_results_of_two_types_each_have_their_gradient() {
    on_actix(async {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [Some(2)])?;
        // f32 squared, and f64 by 3, of f32 and of f64.
        let both = |v: &[Output]| -> std::result::Result<Vec<Output>, GraphError> {
            let three = v[1].graph().constant(3f64);
            Ok(vec![v[0].square(), v[1].mul(&three)?])
        };
        let wide = x.cast(DType::F64);
        let chosen = g.cond(&g.constant(true), &[&x, &wide], both, both)?;
        let start = g.constant(0i32);
        let counted = |v: &[Output]| {
            let next = v[0].add(&v[0].graph().constant(one()))?;
            Ok([vec![next], both(&v[1..])?].concat())
        };
        let condition = |v: &[Output]| v[0].less(&v[0].graph().constant(2i32));
        let looped = g.while_loop(&[&start, &x, &wide], &[], condition, counted, None)?;
        let mut slopes = Vec::new();
        for results in [&chosen[..], &looped[1..]] {
            let loss = results[0].sum().cast(DType::F64).add(&results[1].sum())?;
            slopes.push(gradients(&loss, std::slice::from_ref(&x))?[0].clone().unwrap());
        }
        let found = fetch(&g, (&x, vector(&[1.0, -2.0])), &[&slopes[0], &slopes[1]]).await?;
        assert_eq!(found[0], vector(&[2.0 + 3.0, -4.0 + 3.0]));
        assert_eq!(found[1], vector(&[4.0 + 9.0, -32.0 + 9.0]));
        Ok(())
    });
}

#[test]
fn a_loop_runs_as_long_as_its_condition_holds_and_its_gradient_goes_back_through_each_iteration() {
    on_actix(async {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [Some(2)])?;
        let y = tripled(&g, &x, 4)?;
        let none = tripled(&g, &x, 0)?;
        let dx = gradients(&y.square().sum(), std::slice::from_ref(&x))?[0].clone().unwrap();
        let found = fetch(&g, (&x, vector(&[1.0, -2.0])), &[&y, &none, &dx]).await?;
        assert_eq!(found[0], vector(&[81.0, -162.0]));
        assert_eq!(found[1], vector(&[1.0, -2.0]));
        assert_eq!(found[2], vector(&[2.0 * 81.0 * 81.0, -4.0 * 81.0 * 81.0]));
        Ok(())
    });
}

#[test]
fn what_a_branch_or_a_loop_cannot_do_is_refused_when_it_is_built() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [Some(2)]).unwrap();
    let condition = g.constant(true);
    let outside = |_: &[Output]| Ok(vec![x.clone()]);
    let error = g.cond(&condition, &[&x], outside, |v| Ok(vec![v[0].clone()])).unwrap_err();
    assert!(error.to_string().contains("belongs to another graph"), "{error}");
    let types =
        g.cond(&condition, &[&x], |v| Ok(vec![v[0].clone()]), |v| Ok(vec![v[0].cast(DType::I32)]));
    assert!(types.unwrap_err().to_string().contains("same types"));
    let grows = g.while_loop(
        &[&x],
        &[],
        |v| Ok(v[0].graph().constant(true)),
        |v| Ok(vec![v[0].sum()]),
        None,
    );
    assert!(grows.unwrap_err().to_string().contains("keep their types"));
}

#[test]
fn a_loop_ends_after_the_iterations_that_it_may_take() {
    on_actix(async {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [Some(1)])?;
        let always = |v: &[Output]| Ok(v[0].graph().constant(true));
        let body = |v: &[Output]| Ok(vec![v[0].add(&v[0])?]);
        let end = g.while_loop(&[&x], &[], always, body, Some(5))?;
        assert_eq!(fetch(&g, (&x, vector(&[1.0])), &[&end[0]]).await?, [vector(&[32.0])]);
        Ok(())
    });
}
