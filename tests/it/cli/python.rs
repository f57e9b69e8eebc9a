//! The Python module in `python/`: what it runs and reads, and the lesson that uses it.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::binary::{folder, scenario};

const SMALL: &str = "name = 'small'\nseed = 3\n[cluster]\nps = 1\nworker = 2\n[program]\n\
                     model = 'softmax'\nbatch = 8\n[stop]\nsteps = 20\n[[run]]\n\
                     name = 'one'\nmode = 'async'\n[[run]]\nname = 'two'\nmode = 'sync'\n";

/// Runs `code` in Python with the module and the program of this build.
fn python(code: &str) -> Option<Output> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/src");
    let mut command = Command::new("python3");
    command.args(["-c", code]).env("PYTHONPATH", module);
    command.env("TRAINYARD_BINARY", env!("CARGO_BIN_EXE_trainyard")).output().ok()
}

/// Whether `modules` can be imported; the test of `what` says so where they can't.
fn has(modules: &str, what: &str) -> bool {
    let found = python(&format!("import {modules}")).is_some_and(|done| done.status.success());
    if !found {
        let skipped = format!("SKIPPED: {what}: there is no Python with {modules} here\n");
        // By `write`, for the test's runner keeps what `eprintln` says to itself.
        io::stderr().write_all(skipped.as_bytes()).unwrap();
    }
    found
}

#[track_caller]
fn assert_passes(code: &str) {
    let done = python(code).unwrap();
    assert!(done.status.success(), "{}\n{code}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn python_runs_a_scenario_and_reads_its_rows_without_other_packages() {
    if !has("csv, json", "the Python module") {
        return;
    }
    let path = scenario("python_module", SMALL);
    let code = format!(
        "import trainyard\n\
         swept = {{'program.batch': [4, 8]}}\n\
         result = trainyard.sim({path:?}, set={{'stop.steps': 10}}, sweep=swept, runs=['one'])\n\
         runs = result.rows('runs')\n\
         assert [run['program.batch'] for run in runs] == [4, 8], runs\n\
         assert all(run['global_steps'] >= 10 and run['gradients.dropped'] >= 0 for run in runs)\n\
         one = trainyard.sim({path:?}, sweep={{'program.batch': 4}}, runs='one',\n    \
         set={{'network.latency': '1ms', 'compute.slow': {{'worker:1': 2}}, 'fault': []}})\n\
         assert [run['run'] for run in one.rows('runs')] == ['one'], one\n\
         try:\n    trainyard.sim({path:?}, set={{'stop.steps': None}})\n\
         except ValueError as error:\n    \
         assert 'stop.steps: None is no value' in str(error), error\n\
         else:\n    raise AssertionError('None is no error')\n\
         steps = result.rows('steps')\n\
         assert len(steps) == sum(run['gradients.computed'] for run in runs), len(steps)\n\
         assert isinstance(steps[0]['end_s'], float) and steps[0]['worker'] == 'worker:0'\n\
         try:\n    trainyard.sim({path:?}, set={{'stop.stepz': 1}})\n\
         except trainyard.TrainyardError as error:\n    \
         assert error.code == 2 and 'stop.stepz' in str(error), error\n\
         else:\n    raise AssertionError('an unknown key is no error')\n"
    );
    assert_passes(&code);
}

#[test]
fn the_rows_of_a_run_are_those_of_all_its_seeds_or_of_the_one_that_is_named() {
    if !has("csv, json", "the Python module") {
        return;
    }
    let path = scenario("python_seeds", SMALL);
    let code = format!(
        "import trainyard\n\
         result = trainyard.sim({path:?}, seeds=2)\n\
         of = lambda name: {{row['run'] for row in result._of(name, 'steps')}}\n\
         assert of('one') == {{'one (seed=3)', 'one (seed=4)'}}, of('one')\n\
         assert of('two (seed=4)') == {{'two (seed=4)'}}, of('two (seed=4)')\n\
         try:\n    result.steps('three')\n\
         except ValueError as error:\n    \
         assert \"'three'; there are 'one', 'two', 'one (seed=3)'\" in str(error), error\n\
         else:\n    raise AssertionError('an unknown run is no error')\n"
    );
    assert_passes(&code);
}

#[test]
fn cells_that_are_true_or_false_are_booleans_and_names_that_are_numbers_stay_names() {
    if !has("csv, json", "the Python module") {
        return;
    }
    let named = SMALL.replace("'one'", "'4'").replace("'two'", "'1e3'");
    let path = scenario("python_cells", &named);
    let code = format!(
        "import trainyard\n\
         result = trainyard.sim({path:?})\n\
         steps = result.rows('steps')\n\
         assert {{row['run'] for row in steps}} == {{'4', '1e3'}}, steps\n\
         for run in result.rows('runs'):\n    \
         of_run = result._of(run['name'], 'steps')\n    \
         assert len(of_run) == run['gradients.computed'], of_run\n\
         assert any(row['applied'] is True for row in steps), steps\n\
         assert all(row['stopped'] is False for row in steps), steps\n"
    );
    assert_passes(&code);
}

#[test]
fn steps_and_evaluations_have_the_seed_the_swept_values_and_the_tuned_rate_of_their_run() {
    if !has("csv, json", "the Python module") {
        return;
    }
    let path = scenario("python_joined", SMALL);
    let code = format!(
        "import trainyard\n\
         rate, workers = 'program.optimizer.learning_rate', 'cluster.worker'\n\
         rates = {{'tune.learning_rate': [0.001, 0.1], 'stop.evaluate_every': 10}}\n\
         sweep = {{workers: [1, 2]}}\n\
         result = trainyard.sim({path:?}, set=rates, sweep=sweep, seeds=2, runs='one')\n\
         runs = {{run['name']: run for run in result.rows('runs')}}\n\
         assert {{(run['seed'], run[workers]) for run in runs.values()}} == \
         {{(3, 1), (4, 1), (3, 2), (4, 2)}}, runs\n\
         best = result.report['tuned']\n\
         best = {{one['settings'][workers]: one['learning_rate'] for one in best}}\n\
         for run in runs.values():\n    \
         assert run[rate] == best[run[workers]], run\n\
         for table in ('steps', 'evaluations'):\n    \
         rows = result._of('one', table)\n    \
         assert {{row['run'] for row in rows}} == set(runs), rows\n    \
         for row in rows:\n        \
         assert all(row[key] == runs[row['run']][key] for key in ('seed', workers, rate)), row\n"
    );
    assert_passes(&code);
}

#[test]
fn a_program_and_a_result_that_are_not_there_are_errors_that_say_what_to_do() {
    if !has("csv, json", "the Python module") {
        return;
    }
    assert_passes(
        "import os, trainyard\n\
         def said(of):\n    \
         try:\n        of()\n    \
         except FileNotFoundError as error:\n        return str(error)\n    \
         raise AssertionError('no error')\n\
         absent = said(lambda: trainyard.read('nope'))\n\
         assert 'nope/result.json' in absent and '--out' in absent, absent\n\
         os.environ['TRAINYARD_BINARY'] = '/nope'\n\
         absent = said(lambda: trainyard.sim())\n\
         assert \"TRAINYARD_BINARY names '/nope'\" in absent and 'unset it' in absent, absent\n",
    );
}

#[test]
fn the_lesson_in_the_notebook_runs_and_shows_what_it_says() {
    if !has("pandas", "the lesson in python/scaling.ipynb") {
        return;
    }
    let notebook = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/scaling.ipynb");
    let notebook: Value = serde_json::from_slice(&std::fs::read(notebook).unwrap()).unwrap();
    let mut code = String::new();
    for cell in notebook["cells"].as_array().unwrap() {
        if cell["cell_type"] == "code" {
            assert!(cell["outputs"].as_array().unwrap().is_empty(), "outputs are not kept: {cell}");
            code.extend(
                cell["source"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()),
            );
            code.push('\n');
        }
    }
    // The text beside the cells says so.
    code += "assert slow == 'worker:3', slow\n\
             assert 4 < speedup[32] < 8, speedup\n\
             shares = causes.div(causes.sum(axis=1), axis=0)\n\
             assert shares['compute'][4] > shares['compute'][32], shares\n\
             servers = shares['server_card'] + shares['server_processor']\n\
             assert servers[32] > servers[4], shares\n";
    assert_passes(&code);
}

/// Writes a model of a convolution and a product into `net.onnx`, and makes its table of layers.
const ONNX: &str = "
import math, os, subprocess, sys
import onnx, trainyard, trainyard.layers
from onnx import TensorProto, helper
place, scenario = sys.argv[1:]
def zeros(name, *dims):
    return helper.make_tensor(name, TensorProto.FLOAT, dims, bytes(4 * math.prod(dims)), raw=True)
def value(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
def save(name, *nodes):
    weights = [zeros('k', 8, 3, 3, 3), zeros('b', 8), zeros('w', 10, 512)]
    x, y = value('x', 'n', 3, 8, 8), value('y', 'n', 10)
    graph = helper.make_graph(nodes, 'net', [x], [y], weights)
    onnx.save(helper.make_model(graph), path := os.path.join(place, name))
    return path
conv = helper.make_node('Conv', ['x', 'k', 'b'], ['c'], name='/stem/conv', pads=[1, 1, 1, 1])
relu = helper.make_node('Relu', ['c'], ['r'])
flat = helper.make_node('Flatten', ['r'], ['f'])
head = helper.make_node('Gemm', ['f', 'w'], ['y'], name='head', transB=1)
model, table = save('net.onnx', conv, relu, flat, head), os.path.join(place, 'net.csv')
command = [sys.executable, '-m', 'trainyard.layers', model, '--out', table]
said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
assert said == 'not counted: Flatten (1), Relu (1)\\n', said
rows = [line.split(',') for line in open(table).read().split()][1:]
# 8 filters of 3x3x3 on 8x8 places; 512 values by 10 outputs; two operations a multiplication.
assert rows == [['stem_conv', '896', str(2 * 8 * 64 * 27)], ['head', '20480', str(2 * 5120)]], rows
odd = helper.make_node('Einsum', ['x', 'w'], ['y'], name='odd', equation='abcd,ef->af')
for wrong, why in (save('odd.onnx', odd), 'operations are not known'), (table, 'no ONNX'):
    try:
        trainyard.layers.layers(wrong)
    except ValueError as error:
        assert why in str(error), error
    else:
        raise AssertionError(wrong)
run = trainyard.sim(scenario, set={'program.layers': table, 'stop.steps': 3}, runs=['sync'])
assert run.rows('runs')[0]['global_steps'] == 3
";

#[test]
fn an_onnx_model_becomes_a_table_of_layers_that_a_simulation_trains() {
    if !has("onnx", "ONNX's models as tables of layers") {
        return;
    }
    let place = folder("python_onnx");
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("sims/layers.toml");
    let arguments = [place.to_str().unwrap(), scenario.to_str().unwrap()];
    assert_passes(&format!("import sys\nsys.argv[1:] = {arguments:?}\n{ONNX}"));
}
