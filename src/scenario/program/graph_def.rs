//! `program.graph_def`: a graph that TensorFlow wrote, in place of a model.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::ProgramFile;
use crate::graph::{Graph, Op, Output};
use crate::import::{Imported, training_graph, unchanged_variables};
use crate::models::{Extent, GraphFile};
use crate::scenario::mistakes::Mistakes;
use crate::tensor::DType;
use crate::user_file;

/// The names of the placeholders that a batch is fed to.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputsFile {
    images: String,
    labels: String,
}

/// The graph that the section names, beside `folder`; none if it names none, or has mistakes.
pub(super) fn graph_def(
    file: &ProgramFile,
    folder: &Path,
    found: &mut Mistakes,
) -> Option<GraphFile> {
    let Some(path) = &file.graph_def else {
        let others = [
            ("inputs", file.inputs.is_some()),
            ("loss", file.loss.is_some()),
            ("accuracy", file.accuracy.is_some()),
            ("train", file.train.is_some()),
        ];
        for (key, _) in others.into_iter().filter(|(_, is_given)| *is_given) {
            let why = "names a part of an imported graph; give `program.graph_def`, or remove this";
            found.note(format!("program.{key}"), why);
        }
        return None;
    };
    found.unless(file.model.is_none(), "program.model", || {
        "the imported graph is the model; remove one of both".to_owned()
    });
    found.unless(file.train.is_none() || file.optimizer.is_none(), "program.optimizer", || {
        "`program.train` has an optimizer of its own; remove one of both".to_owned()
    });
    let mut needed = |key: &str, name: &Option<String>| {
        found.unless(name.is_some(), "program.graph_def", || {
            format!("the graph needs `program.{key}`, the name of one of its values")
        });
        name.clone()
    };
    let loss = needed("loss", &file.loss);
    let inputs = file.inputs.clone();
    let images = needed("inputs.images", &inputs.as_ref().map(|inputs| inputs.images.clone()))?;
    let labels = needed("inputs.labels", &inputs.map(|inputs| inputs.labels))?;
    let path = folder.join(path);
    let bytes = match user_file::read(&path, user_file::GRAPH) {
        Ok(bytes) => Arc::from(bytes),
        Err(error) => {
            found.note("program.graph_def", format!("{}: {error}", path.display()));
            return None;
        }
    };
    let (accuracy, train) = (file.accuracy.clone(), file.train.clone());
    let file = GraphFile {
        bytes,
        images,
        labels,
        loss: loss?,
        accuracy,
        train,
        unchanged: Vec::new(),
        parameters: 0,
        activations: 0,
    };
    measured(file, &path, found)
}

/// `file`, from `path`, with its sizes, if it can be imported and its ends are of the types that
/// they must have.
fn measured(file: GraphFile, path: &Path, found: &mut Mistakes) -> Option<GraphFile> {
    let path = path.display();
    let g = Graph::new();
    let imported = match training_graph(&g, &file.bytes, &file.ends()) {
        Ok(imported) => imported,
        Err(error) => {
            found.note("program.graph_def", format!("{path}: {error}"));
            return None;
        }
    };
    check_ends(&file, &imported, found);
    let Extent { parameters, activations, .. } = match Extent::of_graph(&g) {
        Ok(extent) => extent,
        Err(error) => {
            found.note("program.graph_def", format!("{path}: {error}"));
            return None;
        }
    };
    found.unless(parameters > 0.0, "program.graph_def", || {
        format!("{path}: the graph has no variable to train; was it frozen?")
    });
    let unchanged = unchanged_variables(&file.bytes, &[&file.loss], &file.measured());
    Some(GraphFile {
        unchanged: unchanged.unwrap_or_default(),
        parameters: parameters as u64,
        activations: activations as u64,
        ..file
    })
}

/// Notes what is wrong with the ends of the graph.
fn check_ends(file: &GraphFile, imported: &Imported, found: &mut Mistakes) {
    let scalar = |value: &Output| {
        let is_it = value.tensor_type().dtype == DType::F32;
        is_it && value.tensor_type().shape.rank() == 0
    };
    let fed = |value: &Output, types: &[DType]| {
        let (graph, given) = (imported.graph(), value.tensor_type());
        let is_fed = |op: &Op| matches!(op, Op::Placeholder { .. });
        graph.with_operation(value.edge().op, |operation| is_fed(&operation.op))
            && types.contains(&given.dtype)
            && given.shape.dims().first() == Some(&None)
    };
    let images = |value: &Output| fed(value, &[DType::F32]);
    let labels = |value: &Output| fed(value, &[DType::I32, DType::I64]);
    type Check<'a> = &'a dyn Fn(&Output) -> bool;
    let ends: [(&str, Option<&String>, Check<'_>, &str); 4] = [
        ("inputs.images", Some(&file.images), &images, "a placeholder of f32 of any batch"),
        ("inputs.labels", Some(&file.labels), &labels, "a placeholder of i32 or i64 of any batch"),
        ("loss", Some(&file.loss), &scalar, "a scalar of f32"),
        ("accuracy", file.accuracy.as_ref(), &scalar, "a scalar of f32"),
    ];
    for (key, name, is_right, needs) in ends {
        let Some(name) = name else { continue };
        let path = format!("program.{key}");
        match imported.output(name) {
            Ok(value) => found.unless(is_right(&value), path, || {
                format!("`{name}` is {}, and must be {needs}", value.tensor_type())
            }),
            Err(error) => found.note(path, error.to_string()),
        }
    }
    if let Some(Err(error)) = file.train.as_ref().map(|name| imported.train_op(name)) {
        found.note("program.train", error.to_string());
    }
}
