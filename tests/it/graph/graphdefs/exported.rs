//! Graphs that are imported, written for TensorFlow and imported again; by TensorFlow itself in
//! `tests/graphdefs/open_exported.py`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainyard::import;
use trainyard::prelude::*;

use super::{check, file, names};
use crate::support::fixture::on_actix;

/// The environment variable that names a folder to write the graphs to, for TensorFlow.
const FOLDER: &str = "TRAINYARD_EXPORTED";

/// Writes the part of `group` that a case needs, as it was imported; `None` if it has an operation
/// without a counterpart.
fn exported(bytes: &[u8], case: &Value) -> Result<Option<Vec<u8>>> {
    let g = Graph::new();
    import::sub_graph(&g, bytes, &names(case))?;
    match import::to_graph_def(&g, &[]) {
        Ok(written) => Ok(Some(written)),
        Err(import::ExportError::NoCounterpart { .. }) => Ok(None),
        Err(error) => panic!("the graph has a mistake: {error}"),
    }
}

fn write(stem: &Path, graph: &[u8], case: &Value) {
    fs::write(stem.with_extension("pb"), graph).unwrap();
    let told = serde_json::json!({"cases": [case]});
    fs::write(stem.with_extension("json"), told.to_string()).unwrap();
}

#[test]
fn written_graphs_give_the_same_numbers_when_they_are_imported_again() {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    folder.iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    let (mut right, mut without, mut wrong) = (0, 0, Vec::new());
    on_actix(async {
        for group in ["elementwise", "reductions", "array", "frozen_mlp", "convnet"] {
            let bytes = fs::read(file(&format!("{group}.pb"))).unwrap();
            let told: Value =
                serde_json::from_slice(&fs::read(file(&format!("{group}.json"))).unwrap()).unwrap();
            for case in told["cases"].as_array().unwrap() {
                let name = case["name"].as_str().unwrap();
                let Some(written) = exported(&bytes, case)? else {
                    without += 1;
                    continue;
                };
                match check(&written, case).await {
                    Ok(lines) if lines.is_empty() => {
                        right += 1;
                        if let Some(folder) = &folder {
                            write(&folder.join(format!("{group}_{name}")), &written, case);
                        }
                    }
                    Ok(lines) => wrong.push(format!("{group}/{name}: {lines:?}")),
                    // A shape that the importer knows is no operation, and so has no name.
                    Err(error) if error.to_string().contains("the graph has no") => without += 1,
                    Err(error) => wrong.push(format!("{group}/{name}: {error}")),
                }
            }
        }
        Ok(())
    });
    println!("{right} written and read again, {without} without a counterpart");
    assert!(wrong.is_empty(), "these are wrong: {wrong:#?}");
    assert!(right >= 4 * without, "only {right} graphs can be written, {without} can't");
}
