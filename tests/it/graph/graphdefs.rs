//! TensorFlow's graphs, imported and run, held to what TensorFlow computed for them (see
//! `tests/graphdefs`).

mod defaults;
mod draws;
mod dropout;
mod exported;
mod random;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainyard::import::{self, Imported};
use trainyard::prelude::*;

use crate::support::fixture::on_actix;

/// How far a value may be from TensorFlow's, of the greatest value beside it.
const TOLERANCE: f64 = 1e-5;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/graphdefs").join(name)
}

fn tensor(told: &Value) -> Tensor {
    let list = |name: &str| told[name].as_array().unwrap();
    let shape: Vec<usize> =
        list("shape").iter().map(|dim| dim.as_u64().unwrap() as usize).collect();
    let values = list("values");
    let ints = || values.iter().map(|value| value.as_i64().unwrap());
    match told["dtype"].as_str().unwrap() {
        "f32" => Tensor::new(
            &shape[..],
            &values.iter().map(|v| v.as_f64().unwrap() as f32).collect::<Vec<_>>(),
        ),
        "f64" => {
            Tensor::new(&shape[..], &values.iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>())
        }
        "i32" => Tensor::new(&shape[..], &ints().map(|value| value as i32).collect::<Vec<_>>()),
        "i64" => Tensor::new(&shape[..], &ints().collect::<Vec<_>>()),
        "bool" => Tensor::new(
            &shape[..],
            &values.iter().map(|value| value.as_bool().unwrap()).collect::<Vec<_>>(),
        ),
        other => panic!("no tensors of {other} are written"),
    }
    .unwrap()
}

/// What is wrong with `found`, where it is not what TensorFlow computed.
fn difference(name: &str, found: &Tensor, expected: &Tensor) -> Option<String> {
    if (found.dtype(), found.shape()) != (expected.dtype(), expected.shape()) {
        return Some(format!("{name} is {found:?}, not {expected:?}"));
    }
    let (Some(found), Some(expected)) = (numbers(found), numbers(expected)) else {
        return (found != expected).then(|| format!("{name} is {found:?}, not {expected:?}"));
    };
    let greatest = expected.iter().fold(0f64, |greatest, value| greatest.max(value.abs()));
    let is_far =
        |(a, b): (&f64, &f64)| (a - b).abs() > TOLERANCE * greatest || a.is_nan() != b.is_nan();
    let far = found.iter().zip(&expected).position(is_far)?;
    Some(format!("{name}[{far}] is {}, not {}", found[far], expected[far]))
}

/// The values of a tensor of real numbers.
fn numbers(tensor: &Tensor) -> Option<Vec<f64>> {
    match tensor.dtype() {
        DType::F32 => {
            Some(tensor.values::<f32>().ok()?.iter().map(|value| f64::from(*value)).collect())
        }
        DType::F64 => Some(tensor.values::<f64>().ok()?.to_vec()),
        _ => None,
    }
}

/// The names of what a case feeds, runs and fetches.
fn names(case: &Value) -> Vec<&str> {
    let steps = || case["steps"].as_array().unwrap().iter();
    let keys =
        |name: &'static str| steps().flat_map(move |step| step[name].as_object().unwrap().keys());
    let targets = steps()
        .flat_map(|step| step["targets"].as_array().unwrap())
        .map(|target| target.as_str().unwrap());
    keys("feeds").chain(keys("fetches")).map(String::as_str).chain(targets).collect()
}

async fn run(session: &Session, imported: &Imported, step: &Value) -> Result<Vec<String>> {
    let mut run = session.run();
    for (name, value) in step["feeds"].as_object().unwrap() {
        run = run.feed(&imported.output(name)?, tensor(value));
    }
    for target in step["targets"].as_array().unwrap() {
        run = run.target(imported.target(target.as_str().unwrap())?);
    }
    let fetches = step["fetches"].as_object().unwrap();
    for name in fetches.keys() {
        run = run.fetch(&imported.output(name)?);
    }
    let fetched = run.await?;
    let compared = fetches
        .iter()
        .enumerate()
        .map(|(i, (name, value))| difference(name, &fetched[i], &tensor(value)));
    Ok(compared.flatten().collect())
}

/// What is wrong with a case, a line each.
async fn check(bytes: &[u8], case: &Value) -> Result<Vec<String>> {
    let g = Graph::new();
    let imported = import::sub_graph(&g, bytes, &names(case))?;
    let told = case["gradients"].as_object();
    let inputs: Vec<&String> = told.into_iter().flat_map(|told| told.keys()).collect();
    let by = inputs.iter().map(|name| imported.output(name)).collect::<Result<Vec<_>, _>>()?;
    let built = match told {
        Some(_) => gradients(&imported.output(case["loss"].as_str().unwrap_or("loss:0"))?, &by)?,
        None => vec![],
    };
    let server = Server::create_local();
    let session = Session::new(&server.target(), &g).await?;
    let mut wrong = Vec::new();
    let steps = case["steps"].as_array().unwrap();
    for step in steps {
        wrong.extend(run(&session, &imported, step).await?);
    }
    for (name, gradient) in inputs.iter().zip(built) {
        let gradient = gradient.expect("the loss depends on every input");
        let mut run = session.run().fetch(&gradient);
        for (fed, value) in steps.last().unwrap()["feeds"].as_object().unwrap() {
            run = run.feed(&imported.output(fed)?, tensor(value));
        }
        let found = run.await?;
        let expected = tensor(&case["gradients"][name.as_str()]);
        wrong.extend(difference(&format!("the gradient by {name}"), &found[0], &expected));
    }
    Ok(wrong)
}

/// Holds the cases of `group` to TensorFlow, each by itself.
fn check_group(group: &str) {
    on_actix(async {
        let bytes = fs::read(file(&format!("{group}.pb"))).unwrap();
        let told: Value =
            serde_json::from_slice(&fs::read(file(&format!("{group}.json"))).unwrap()).unwrap();
        let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for case in told["cases"].as_array().unwrap() {
            let name = case["name"].as_str().unwrap();
            let outcome = check(&bytes, case).await.unwrap_or_else(|error| vec![error.to_string()]);
            if !outcome.is_empty() {
                wrong.insert(name.to_owned(), outcome);
            }
        }
        assert!(wrong.is_empty(), "{} cases of {group} are wrong: {wrong:#?}", wrong.len());
        Ok(())
    });
}

macro_rules! groups {
    ($($group:ident)*) => {$(
        #[test]
        fn $group() {
            check_group(stringify!($group));
        }
    )*};
}
groups! {
    elementwise reductions array frozen_mlp convnet
    train_gradient_descent train_gradient_descent_resource train_momentum train_momentum_resource
    train_adagrad train_adagrad_resource train_adam train_adam_resource
    embedding_gradient_descent embedding_gradient_descent_resource
    embedding_adagrad embedding_adagrad_resource
    control_cond_true control_cond_false control_cond_nested control_cond_in_while
    control_while_power control_while_until control_while_rnn control_while_no_iteration
    loops functions changes changes_functions images composed first_values reads partitioned
    programs
}
