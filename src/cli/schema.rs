//! `schema`: prints the JSON schema of what a command writes.

use std::io::Write;

use super::args::{SchemaArgs, SchemaOf};
use super::failure::Failure;
use super::stdout::raw_stdout;
use crate::deployment::ExitCode;
use crate::report::json;
use crate::report::plan::Plan;

/// Runs the command.
pub(super) fn run(args: &SchemaArgs) -> Result<ExitCode, Failure> {
    let schema = match args.file {
        SchemaOf::Result => json::SCHEMA,
        SchemaOf::Plan => Plan::SCHEMA,
    };
    write!(raw_stdout(), "{schema}").map_err(Failure::writing("the schema"))?;
    Ok(ExitCode::Done)
}
