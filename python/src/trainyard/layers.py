"""A table of layers for `program.layers` from an ONNX model: `python -m trainyard.layers model.onnx --out layers.csv`.

A row for each node that has parameters or multiplies matrices: the bytes of its parameters, and the operations of one
sample's forward pass. It needs the package `onnx`.
"""

import argparse
import csv
import math
import os
import sys
from collections import Counter

# The longest message that protocol buffers allow.
_LONGEST = 1 << 31
_FLOATS = {"FLOAT": 4, "FLOAT16": 2, "BFLOAT16": 2, "DOUBLE": 8}
# Nodes whose parameters are looked up, or take some operations a value, which are few beside a product's.
_CHEAP = {"Add", "BatchNormalization", "Gather", "InstanceNormalization", "LayerNormalization", "Mul", "PRelu", "Sub"}


class Unknown(ValueError):
    """A node whose operations can't be told."""


def layers(path):
    """The rows `(name, bytes, forward_flops)` of the model at `path`, and a line on what is not counted, or None.

    Raises `Unknown` for a product of matrices, or a node with parameters, whose operations can't be told.
    """
    import onnx
    from google.protobuf.message import DecodeError

    if os.path.getsize(path) >= _LONGEST:
        raise ValueError(f"{path} is longer than 2 GiB; save its values as external data")
    try:
        model = onnx.load(path, load_external_data=False)
    except DecodeError as error:
        raise ValueError(f"{path} is no ONNX model: {error}") from error
    graph = onnx.shape_inference.infer_shapes(model).graph
    parameters = {one.name: one for one in graph.initializer}
    shapes = {one.name: list(one.dims) for one in graph.initializer}
    for one in (*graph.input, *graph.output, *graph.value_info):
        dims = one.type.tensor_type.shape.dim
        shapes.setdefault(one.name, [dim.dim_value or None for dim in dims])
    rows, left_out, counted, names = [], Counter(), set(), Counter()
    for node in graph.node:
        size = 0
        for name in node.input:
            kind = onnx.TensorProto.DataType.Name(parameters[name].data_type) if name in parameters else ""
            if kind in _FLOATS and name not in counted:
                counted.add(name)  # a shared one is the first node's
                size += _FLOATS[kind] * math.prod(parameters[name].dims)
        operations = _operations(node, shapes, onnx.helper, has_parameters=size > 0)
        if operations is None:
            left_out[node.op_type] += 1
            continue
        name = (node.name or node.op_type).strip("/").replace("/", "_")
        names[name] += 1
        rows.append((f"{name}_{names[name]}" if names[name] > 1 else name, size, operations))
    listed = ", ".join(f"{kind} ({count})" for kind, count in sorted(left_out.items()))
    return rows, f"not counted: {listed}" if listed else None


def _operations(node, shapes, helper, has_parameters):
    """The operations of a node for one sample; None of one that has no row."""
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}

    def shape(name):
        if None in (found := shapes.get(name, [None]))[1:] or not found:
            raise Unknown(f"{node.op_type} `{node.name}`: the shape of `{name}` is not known")
        return found

    def of_a_sample(name):
        return math.prod(shape(name)[1:])

    kind = node.op_type
    if kind == "Conv":
        return 2 * of_a_sample(node.output[0]) * math.prod(shape(node.input[1])[1:])
    if kind == "ConvTranspose":
        return 2 * of_a_sample(node.input[0]) * math.prod(shape(node.input[1])[1:])
    if kind == "Gemm":
        weights = shape(node.input[1])
        return 2 * of_a_sample(node.output[0]) * (weights[1] if attributes.get("transB") else weights[0])
    if kind == "MatMul":
        return 2 * of_a_sample(node.output[0]) * shape(node.input[0])[-1]
    if not has_parameters:
        return None
    if kind not in _CHEAP:
        raise Unknown(f"{kind} `{node.name}` has parameters, and its operations are not known")
    return 0 if kind == "Gather" else 2 * of_a_sample(node.output[0])


def main():
    """Writes the table of a model, and says on stderr what is not in it."""
    parser = argparse.ArgumentParser(prog="python -m trainyard.layers", description=__doc__.splitlines()[0])
    parser.add_argument("model", help="the model's file (`.onnx`)")
    parser.add_argument("--out", metavar="FILE", help="the file to write, instead of the standard output")
    args = parser.parse_args()
    try:
        rows, left_out = layers(args.model)
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    if left_out:
        print(left_out, file=sys.stderr)
    with open(args.out, "w", newline="") if args.out else sys.stdout as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["name", "bytes", "forward_flops"])
        table.writerows(rows)


if __name__ == "__main__":
    main()
