//! The contents of a file's graph: its inputs, outputs, trained variables and operations.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::cli::failure::Failure;
use crate::import::Imported;

/// The contents of a graph.
#[derive(Serialize)]
pub(super) struct Contents {
    inputs: Vec<Named>,
    outputs: Vec<Named>,
    variables: Vec<Named>,
    /// The number of operations of each kind, by TensorFlow's names.
    operations: BTreeMap<String, usize>,
    /// The number of values that an optimizer updates.
    parameters: usize,
}

/// A value and its name.
#[derive(Serialize)]
struct Named {
    name: String,
    /// The element type and shape; none for a node without a value.
    #[serde(rename = "type")]
    tensor_type: Option<String>,
}

impl Contents {
    pub(super) fn of(imported: &Imported) -> Result<Self, Failure> {
        let named = |name: &String| {
            let tensor_type =
                imported.output(name).ok().map(|output| output.tensor_type().to_string());
            Named { name: name.clone(), tensor_type }
        };
        let variables = imported.graph().variables();
        let trainable = imported.graph().trainable_variables();
        let listed = variables.iter().map(|variable| Named {
            name: variable.name(),
            tensor_type: Some(variable.spec().tensor_type().to_string()),
        });
        Ok(Self {
            inputs: imported.inputs().iter().map(named).collect(),
            outputs: imported.outputs().iter().map(named).collect(),
            variables: listed.collect(),
            operations: imported.kinds().clone(),
            parameters: trainable.iter().map(|variable| variable.spec().shape.elements()).sum(),
        })
    }

    pub(super) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    pub(super) fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        for (title, list) in
            [("inputs", &self.inputs), ("outputs", &self.outputs), ("variables", &self.variables)]
        {
            writeln!(out, "{title} ({})", list.len())?;
            for Named { name, tensor_type } in list {
                writeln!(out, "  {name}  {}", tensor_type.as_deref().unwrap_or("(no value)"))?;
            }
        }
        writeln!(out, "operations ({})", self.operations.values().sum::<usize>())?;
        for (kind, count) in &self.operations {
            writeln!(out, "  {count:>6} {kind}")?;
        }
        writeln!(out, "parameters {}", self.parameters)
    }
}
