//! `graph`: shows the contents of a TensorFlow graph, and how a step's graph is placed and
//! partitioned; writes graphs for TensorFlow.

mod contents;
mod dot;
mod drawing;
mod text;

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::args::{ExportArgs, GraphArgs, GraphCommand, ImportArgs, ShowArgs};
use super::failure::Failure;
use super::stdout::{raw_stdout, stdout};
use crate::cluster::{DeviceSpec, TaskName};
use crate::deployment::ExitCode;
use crate::experiment::{Experiment, ExperimentError};
use crate::graph::{Graph, GraphDef, Op};
use crate::import::{End, Imported, SAVED_MODEL, sub_graph, written};
use crate::partition::Request;
use crate::runtime::{self, Error};
use crate::scenario::Change;
use crate::training::{SharedRecording, Task, step_graph};
use crate::user_file;
use contents::Contents;
use drawing::Drawing;

/// Runs the command.
pub(super) fn run(args: &GraphArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        GraphCommand::Import(args) => import(args),
        GraphCommand::Show(args) => show(args),
        GraphCommand::Export(args) => export(args),
    }
}

fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let contents = Contents::of(&read(&args.file, &args.outputs)?)?;
    let written = match args.json {
        true => contents.write_json(&mut raw_stdout()),
        false => contents.write_text(&mut stdout()),
    };
    written.map_err(Failure::writing("the result"))?;
    Ok(ExitCode::Done)
}

/// Imports the part of the file's graph that `outputs` need; all of it if none is named.
fn read(file: &Path, outputs: &[String]) -> Result<Imported, Failure> {
    let failed = |problem: String| Failure::Graph { path: file.display().to_string(), problem };
    if user_file::is_saved_model(file) {
        return Err(failed(SAVED_MODEL.to_owned()));
    }
    let bytes =
        user_file::read(file, user_file::GRAPH).map_err(|error| failed(error.to_string()))?;
    let wanted: Vec<&str> = outputs.iter().map(String::as_str).collect();
    sub_graph(&Graph::new(), &bytes, &wanted).map_err(|error| failed(error.to_string()))
}

fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let drawing = if is_scenario(&args.source) { of_scenario(args)? } else { of_file(args)? };
    let written = match (args.dot, args.json) {
        (true, _) => write!(raw_stdout(), "{}", dot::render(&drawing)),
        (_, true) => write!(raw_stdout(), "{}", drawing.json()),
        _ => write!(stdout(), "{}", text::render(&drawing)),
    };
    written.map_err(Failure::writing("the result"))?;
    Ok(ExitCode::Done)
}

/// Writes a graph, or the part of it that the named values need, for TensorFlow.
fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let path = args.source.display().to_string();
    let failed = |problem: String| Failure::Graph { path: path.clone(), problem };
    let names = || args.outputs.iter();
    let (graph, ends) = if is_scenario(&args.source) {
        let graph = step_of_scenario(&args.source, &[], None)?.graph;
        let ends: Result<Vec<_>, _> = names().map(|name| operation_of(&graph, name)).collect();
        (graph, ends)
    } else {
        let nodes: Vec<String> = names().map(|name| node_of(name).0.to_owned()).collect();
        let imported = read(&args.source, &nodes)?;
        // A value may need an operation that is not there yet: the read of a variable.
        let ends: Result<Vec<_>, _> = names().map(|name| end_of(&imported, name)).collect();
        let graph = imported.graph().snapshot().map_err(|error| failed(error.to_string()))?;
        (graph, ends)
    };
    let ends = ends.map_err(failed)?;
    let bytes = written(&graph, &ends).map_err(|error| failed(error.to_string()))?;
    let out = args.out.display().to_string();
    std::fs::write(&args.out, bytes).map_err(Failure::writing(out))?;
    Ok(ExitCode::Done)
}

/// The value `name` of a file's graph, as TensorFlow calls it; or the operation, which may have no
/// value.
///
/// # Errors
/// If there is neither; if the value is one of several of an operation that is several here.
fn end_of(imported: &Imported, name: &str) -> Result<End, String> {
    let (node, output) = node_of(name);
    let target = imported.target(node).ok().map(|target| target.op_id());
    let value = match (imported.output(name), target) {
        (Ok(value), _) => value,
        (Err(_), Some(target)) if output == "0" => return Ok(End::of(target)),
        (Err(error), target) => {
            let is_there = |i: &u32| imported.output(&format!("{node}:{i}")).is_ok();
            let outputs = (0..).take_while(is_there).count();
            let is_known = outputs > 0 || target.is_some();
            return Err(if is_known { no_output(name, outputs) } else { error.to_string() });
        }
    };
    let edge = value.edge();
    let own = imported.graph().with_operation(edge.op, |operation| operation.name.to_string());
    match (own == node && output == edge.output.to_string(), output) {
        (true, _) => Ok(End::of(edge.op)),
        (false, "0") => Ok(End::named(edge, node)),
        (false, _) => Err(format!(
            "`{name}` is `{own}:{}` here: write a `tf.identity` of it into the graph, and export \
             that",
            edge.output
        )),
    }
}

/// The operation of the output `name`, as in `split:1`. `name` and `name:0` also name an operation
/// without outputs.
///
/// # Errors
/// What to do if there is no such operation, or if it has no such output.
fn operation_of(graph: &GraphDef, name: &str) -> Result<End, String> {
    let (node, output) = node_of(name);
    let found = graph.iter().find(|(_, operation)| *operation.name == *node);
    let (id, operation) =
        found.ok_or_else(|| format!("the graph has no `{name}`; `graph show` lists all"))?;
    let outputs = operation.outputs.len();
    match output.parse::<usize>() {
        Ok(output) if output == 0 || output < outputs => Ok(End::of(id)),
        _ => Err(no_output(name, outputs)),
    }
}

/// The node and the output that `name` means.
fn node_of(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or((name, "0"))
}

/// What to say of `name`, whose node has so many outputs, and not that one.
fn no_output(name: &str, outputs: usize) -> String {
    let (node, output) = node_of(name);
    match outputs {
        0 => format!("`{node}` has no outputs; write `--outputs {node}`, without `:{output}`"),
        1 => format!("`{node}` has 1 output, `{node}:0`, and no `:{output}`"),
        _ => {
            let last = outputs - 1;
            format!(
                "`{node}` has {outputs} outputs, `{node}:0` to `{node}:{last}`, and no `:{output}`"
            )
        }
    }
}

fn is_scenario(source: &Path) -> bool {
    source.extension().is_some_and(|extension| extension == "toml")
}

/// The step of a scenario's chief.
struct ChiefStep {
    scenario: String,
    run: String,
    chief: TaskName,
    tasks: Vec<TaskName>,
    graph: Arc<GraphDef>,
    request: Request,
}

/// The step of the chief of `run`, or of the first run, with the built-in trainer: another may
/// build its graph in the course of its training.
fn step_of_scenario(
    source: &Path,
    sets: &[Change],
    run: Option<&str>,
) -> Result<ChiefStep, Failure> {
    let mut experiment = Experiment::load(source)?;
    if let Some(run) = run {
        experiment = experiment.only(run);
    }
    for change in sets {
        experiment = experiment.change(change.clone());
    }
    let trial = &experiment.trials()?[0];
    let found: Mutex<Option<_>> = Mutex::new(None);
    let simulated = trial.simulate_on_servers(SharedRecording::default(), |_, task: Task| {
        let built = if task.is_chief() { Some(step_graph(&task)) } else { None };
        let outcome = match built {
            Some(Ok(step)) => {
                let step = (task.name().clone(), step);
                *found.lock().expect("nobody panics while a step is noted") = Some(step);
                Ok(())
            }
            Some(Err(error)) => Err(error),
            None => Ok(()),
        };
        std::future::ready(outcome)
    });
    let failed =
        |error: Error| Failure::Experiment(ExperimentError::Run { run: trial.name.clone(), error });
    simulated.outcome.result.map_err(failed)?;
    let found = found.into_inner().expect("nobody panics while a step is noted");
    let Some((chief, (graph, request))) = found else {
        return Err(Failure::NotSupported(
            "the cluster has no worker: there is no step to show".to_owned(),
        ));
    };
    Ok(ChiefStep {
        scenario: trial.scenario.to_string(),
        run: trial.name.to_string(),
        chief,
        tasks: trial.cluster.spec.tasks().collect(),
        graph,
        request,
    })
}

fn of_scenario(args: &ShowArgs) -> Result<Drawing, Failure> {
    let step = step_of_scenario(&args.source, &args.sets, args.run.as_deref())?;
    let ChiefStep { scenario, run, chief, tasks, graph, request } = step;
    let failed =
        |error: Error| Failure::Experiment(ExperimentError::Run { run: run.clone(), error });
    let partitions = runtime::partitions(&graph, &request, &tasks, &chief).map_err(failed)?;
    let title = format!("{scenario}, run `{run}`: a step of {chief} with the built-in trainer");
    Ok(Drawing::new(title, &graph, &partitions))
}

/// The whole graph of a file, on the tasks that its devices name.
fn of_file(args: &ShowArgs) -> Result<Drawing, Failure> {
    let imported = read(&args.source, &args.outputs)?;
    let path = args.source.display().to_string();
    let failed = |error: Error| Failure::Graph { path: path.clone(), problem: error.to_string() };
    let graph = imported.graph().snapshot().map_err(|error| failed(error.into()))?;
    let (tasks, default) = tasks_of(&graph);
    let mut request = Request::default();
    for (id, operation) in graph.iter() {
        match operation.op {
            Op::Placeholder { .. } => request.feeds.push(crate::graph::Edge { op: id, output: 0 }),
            _ if operation.op.is_declaration() => {}
            _ => request.targets.push(id),
        }
    }
    let partitions = runtime::partitions(&graph, &request, &tasks, &default).map_err(failed)?;
    Ok(Drawing::new(path.clone(), &graph, &partitions))
}

/// The tasks that a graph's devices name, and the task for operations without a device: the first
/// one that is not a parameter server, or `localhost`.
fn tasks_of(graph: &GraphDef) -> (Vec<TaskName>, TaskName) {
    let devices = graph.operations.iter().map(|operation| &operation.device);
    let task = |device: &DeviceSpec| Some(TaskName::new(device.job()?, device.task().unwrap_or(0)));
    let mut tasks: Vec<TaskName> = devices.filter_map(task).collect();
    tasks.sort();
    tasks.dedup();
    let default = tasks.iter().find(|task| task.job() != "ps").cloned();
    let default = default.unwrap_or_else(|| TaskName::new("localhost", 0));
    if !tasks.contains(&default) {
        tasks.push(default.clone());
    }
    (tasks, default)
}
