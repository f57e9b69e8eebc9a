//! Imported tables of which rows are gathered, trained here and held to TensorFlow's training.

use std::fs;

use serde_json::Value;
use trainyard::graph::{Gradient, variable_gradients};
use trainyard::import;
use trainyard::prelude::*;

use super::{difference, file, tensor};
use crate::support::fixture::on_actix;

/// What of a case is not as in TensorFlow.
async fn train(bytes: &[u8], case: &Value) -> Result<Vec<String>> {
    let (g, name) = (Graph::new(), case["name"].as_str().unwrap());
    let own = ["ids", "loss", "now", "table/Assign"].map(|part| format!("{name}/{part}"));
    let [ids, loss, now, first] = own.each_ref().map(String::as_str);
    let imported = import::sub_graph(&g, bytes, &[ids, loss, now, first])?;
    let (ids, loss) = (imported.output(ids)?, imported.output(loss)?);
    let table = g.variables().remove(0);
    let gradient = variable_gradients(&loss, std::slice::from_ref(&table))?
        .remove(0)
        .expect("the loss is of its rows");
    let is_sparse = matches!(gradient, Gradient::Slices(_));
    let train = Momentum::new(0.5, 0.8).apply_gradients(&[(table, gradient)], &g.global_step()?)?;
    let server = Server::create_local();
    let session = Session::new(&server.target(), &g).await?;
    session.run().target(&imported.target(first)?).target(g.initializer()).await?;
    let mut wrong = Vec::new();
    if case["is_sparse"].as_bool().is_some_and(|is_tensorflows| is_tensorflows != is_sparse) {
        wrong.push(format!("the gradient is of gathered rows alone: {is_sparse}"));
    }
    for step in case["steps"].as_array().unwrap() {
        let run = session.run().feed(&ids, tensor(&step["ids"])).fetch(&loss).target(&train);
        let before = run.await?;
        let after = session.run().fetch(&imported.output(now)?).await?;
        wrong.extend(difference("loss", &before[0], &tensor(&step["loss"])));
        wrong.extend(difference("now", &after[0], &tensor(&step["now"])));
    }
    Ok(wrong)
}

#[test]
fn the_gradient_of_an_imported_table_is_of_its_gathered_rows_where_tensorflows_is() {
    on_actix(async {
        let bytes = fs::read(file("tables.pb")).unwrap();
        let told = fs::read(file("tables.json")).unwrap();
        let told: Value = serde_json::from_slice(&told).unwrap();
        for case in told["cases"].as_array().unwrap() {
            let wrong = train(&bytes, case).await?;
            assert!(wrong.is_empty(), "{}: {wrong:#?}", case["name"]);
        }
        Ok(())
    });
}
