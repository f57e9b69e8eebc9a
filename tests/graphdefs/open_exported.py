"""Opens graphs that trainyard has written, and compares the numbers with those that it was told.

    TRAINYARD_EXPORTED=/tmp/exported cargo test --test it graphdefs::exported
    python tests/graphdefs/open_exported.py /tmp/exported
"""

import glob
import json
import os
import sys

import numpy as np

from generate import tf, tf1

TOLERANCE = 1e-5
NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_}


def array(told):
    return np.array(told["values"], NUMPY[told["dtype"]]).reshape(told["shape"])


def differences(path):
    definition = tf1.GraphDef()
    with open(path, "rb") as file:
        definition.ParseFromString(file.read())
    with open(os.path.splitext(path)[0] + ".json") as file:
        case = json.load(file)["cases"][0]
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        tf1.import_graph_def(definition, name="")
        for step in case["steps"]:
            feeds = {name: array(value) for name, value in step["feeds"].items()}
            names = list(step["fetches"])
            found = session.run([names, step["targets"]], feeds)[0]
            for name, value in zip(names, found):
                expected = array(step["fetches"][name])
                if value.shape != expected.shape or value.dtype != expected.dtype:
                    yield f"{name} is {value.dtype}{value.shape}, not {expected.dtype}{expected.shape}"
                elif value.dtype.kind != "f":
                    if not np.array_equal(value, expected):
                        yield f"{name} is another"
                elif value.size and np.nanmax(np.abs(value - expected)) > TOLERANCE * np.nanmax(np.abs(expected)):
                    yield f"{name} is {value.ravel()[:4]}, not {expected.ravel()[:4]}"


def main(folder):
    paths, wrong = sorted(glob.glob(os.path.join(folder, "*.pb"))), 0
    for path in paths:
        try:
            found = list(differences(path))
        except (ValueError, KeyError, TypeError, tf.errors.OpError) as error:
            found = [f"{type(error).__name__}: {str(error)[:200]}"]
        if found:
            wrong += 1
            print(os.path.basename(path), found)
    print(len(paths) - wrong, "of", len(paths), "right")
    sys.exit(1 if wrong or not paths else 0)


if __name__ == "__main__":
    main(sys.argv[1])
