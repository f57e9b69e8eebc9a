"""Writes `loops.pb` and `loops.json`: loops and conditions of TensorFlow 1, nodes in frames; and
`functions.pb` and `functions.json`: those of TensorFlow 2, with functions.

Run with TensorFlow 2.21 in this folder: `python generate_loops.py`. The format is `generate.py`'s. Each
graph gives two cases: NAME, which has TensorFlow's gradients to compare ours with, and NAME_gradients,
which fetches the nodes that `tf.gradients` wrote.
"""

import json

import numpy as np

from generate import tensor, tf, tf1, values
from tensorflow.python.framework import meta_graph


def write_graph(group, graph):
    """Writes a graph, without what only TensorFlow needs of it."""
    meta = tf1.train.export_meta_graph(graph=graph)
    meta_graph.strip_graph_default_valued_attrs(meta)
    definition = meta.graph_def
    inner = [node for function in definition.library.function for node in function.node_def]
    for node in list(definition.node) + inner:
        for attribute in ["_class", "_output_shapes"]:
            node.attr.pop(attribute, None)
    keep_called(definition)
    with open(f"{group}.pb", "wb") as file:
        file.write(definition.SerializeToString(deterministic=True))


def write_group(group, graph, cases):
    """Writes a graph and its cases."""
    write_graph(group, graph)
    with open(f"{group}.json", "w") as file:
        json.dump({"cases": cases}, file, separators=(",", ":"))


def keep_called(definition):
    """Keeps the functions of the library that a node, or a node of such a function, names."""
    by_name = {function.signature.name: function for function in definition.library.function}
    called, left = set(), list(definition.node)
    while left:
        named = [attribute.func.name for attribute in left.pop().attr.values()]
        for name in set(named) & set(by_name) - called:
            called.add(name)
            left += by_name[name].node_def
    kept = [by_name[name] for name in sorted(called)]
    del definition.library.function[:]
    definition.library.function.extend(kept)
    del definition.library.gradient[:]
    for node in list(definition.node) + [node for function in kept for node in function.node_def]:
        node.ClearField("experimental_debug_info")
    for function in kept:
        function.arg_attr.clear()
        function.attr.clear()


class Loops:
    """A graph in the making and its cases."""

    def __init__(self, group):
        self.group, self.graph, self.cases = group, tf.Graph(), []
        self.session = tf1.Session(graph=self.graph)

    def case(self, name, build, *feeds, batch=False, written=True):
        with self.graph.as_default(), tf1.name_scope(name):
            feeds = [np.asarray(value) for value in feeds]
            shape = lambda value: [None] + list(value.shape[1:]) if batch and value.ndim else value.shape
            inputs = [tf1.placeholder(value.dtype, shape(value), f"x{i}") for i, value in enumerate(feeds)]
            built = build(*inputs)
            built = list(built) if isinstance(built, (list, tuple)) else [built]
            built = [tf.identity(value, f"y{i}") for i, value in enumerate(built)]
            loss = tf.identity(tf1.reduce_sum(tf.square(built[0])), "loss")
            floats = [x for x in inputs if x.dtype.is_floating]
            found = [tf1.convert_to_tensor(g) for g in tf1.gradients(loss, floats)]
            variables = tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, scope=f"{name}/")
            init = tf1.variables_initializer(variables, "init") if variables else None
        if init:
            self.session.run(init)
        computed, by = self.session.run([built + [loss], found], dict(zip(inputs, feeds)))
        begin = [{"feeds": {}, "targets": [init.name], "fetches": {}}] if init else []
        told = lambda fetched, numbers: {"feeds": {x.name: tensor(v) for x, v in zip(inputs, feeds)}, "targets": [],
                                         "fetches": {x.name: tensor(v) for x, v in zip(fetched, numbers)}}
        case = {"name": name, "loss": loss.name, "steps": [*begin, told(built + [loss], computed)]}
        case["gradients"] = {x.name: tensor(v) for x, v in zip(floats, by)}
        if written:
            self.cases.append({"name": f"{name}_gradients", "steps": [*begin, told(found, by)]})
        self.cases.append(case)

    def write(self):
        write_group(self.group, self.graph, self.cases)


def loop(condition, body, variables, **options):
    return tf1.while_loop(condition, body, variables, **options)


def power(x, w):
    body = lambda i, v: [i + 1, tf.tanh(tf.matmul(v, w))]
    return loop(lambda i, v: i < 4, body, [0, x], parallel_iterations=3)[1]


def no_iteration(x, w):
    return loop(lambda i, v: i < 0, lambda i, v: [i + 1, tf.tanh(tf.matmul(v, w))], [0, x])[1] * x


def until(x):
    body = lambda v, s: [v * 0.7, s + tf.sin(v)]
    return loop(lambda v, s: tf1.reduce_max(tf.abs(v)) > 0.2, body, [x, tf.zeros_like(x)])[1]


def nested(x, w):
    def outer(i, v):
        inner = loop(lambda j, u: j < 2, lambda j, u: [j + 1, tf.tanh(tf.matmul(u, w))], [0, v])[1]
        return [i + 1, inner + x]

    return loop(lambda i, v: i < 3, outer, [0, x])[1]


def cond_in_loop(x, w):
    choose = lambda i, v: tf1.cond(tf.equal(i % 2, 0), lambda: tf.sin(tf.matmul(v, w)), lambda: v * 0.5 + x)
    return loop(lambda i, v: i < 4, lambda i, v: [i + 1, choose(i, v)], [0, x])[1]


def loop_in_cond(x, p):
    double = lambda: loop(lambda i, v: i < 3, lambda i, v: [i + 1, tf.sin(v) * 1.5], [0, x])[1]
    return tf1.cond(p, double, lambda: x * x)


def variable(x):
    w = tf1.get_variable("w", [4, 4], initializer=tf1.constant_initializer(values(62, 4, 4) / 2))
    v = tf1.get_variable("v", [4], initializer=tf1.constant_initializer(values(63, 4)), use_resource=True)
    body = lambda i, h: [i + 1, tf.tanh(tf.matmul(h, w) + v)]
    return loop(lambda i, h: i < 3, body, [0, x])[1]


def grows(x):
    body = lambda i, v: [i + 1, tf.concat([v, x * tf.cast(i, tf.float32)], 0)]
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 4])]
    return loop(lambda i, v: i < 3, body, [0, x], shape_invariants=shapes)[1]


def array(x, w):
    rows = tf.TensorArray(tf.float32, size=3).unstack(tf.transpose(x, [1, 0, 2]))
    written = tf.TensorArray(tf.float32, size=3)

    def body(t, h, out):
        h = tf.tanh(rows.read(t) + tf.matmul(h, w))
        return [t + 1, h, out.write(t, h)]

    start = [0, tf.zeros_like(x[:, 0]), written]
    _, last, out = loop(lambda t, h, out: t < 3, body, start)
    return [out.stack(), last, tf.cast(out.size(), tf.float32)]


def array_grows(x):
    body = lambda i, out: [i + 1, out.write(i, tf.sin(x) * tf.cast(i + 1, tf.float32))]
    start = [0, tf.TensorArray(tf.float32, size=0, dynamic_size=True)]
    return loop(lambda i, out: i < 3, body, start)[1].stack()


def rnn(length):
    def build(x):
        w = tf1.get_variable("w", [8, 4], initializer=tf1.constant_initializer(values(64, 8, 4) / 3))
        cell = lambda x, h: tf.tanh(tf.matmul(tf.concat([x, h], 1), w))

        class Cell:
            state_size = output_size = 4

            def zero_state(self, batch, dtype):
                return tf.zeros([batch, 4], dtype)

            def __call__(self, inputs, state, scope=None):
                state = cell(inputs, state)
                return state, state

        lengths = length and tf.constant(length)
        return tf1.nn.dynamic_rnn(Cell(), x, dtype=tf.float32, sequence_length=lengths)

    return build


def mapped(x):
    return tf.map_fn(lambda row: tf.reduce_sum(tf.square(row)) * row, x)


def scanned(x):
    return tf.scan(lambda a, row: tf.sin(a) + row * 0.5, x)


def called(x, w):
    return tf.function(lambda v: tf.tanh(tf.matmul(v, w)))(x)


def cond(x, p):
    return tf1.cond(p, lambda: tf.tanh(x) * 2, lambda: tf.square(x) - x)


def unlike(x, p):
    """One branch keeps a truth value for its gradient where the other keeps numbers."""
    inner = lambda: tf1.cond(tf1.reduce_max(x) > 0.2, lambda: tf.maximum(x, 0.1) * 2, lambda: tf.sin(x) * x)
    return tf1.cond(p, inner, lambda: tf.nn.softmax(x) * x)


def differentiated_twice(x):
    """Two gradients through one condition, which keeps values of different types for them in its branches."""
    w, u = [tf1.get_variable(name, [4], initializer=tf1.constant_initializer(values(seed, 4)), use_resource=True)
            for name, seed in [("w", 65), ("u", 66)]]
    h = tf1.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(x * w) * u, lambda: tf.sin(x) + w)
    loss = tf.reduce_mean(tf.square(h))
    return [h] + tf1.gradients(loss, [w]) + tf1.gradients(loss + tf.reduce_sum(u), [u])


def functions():
    tf1.enable_control_flow_v2()
    loops, x, w, rows = Loops("functions"), values(71, 3, 4), values(72, 4, 4) / 2, values(73, 2, 3, 4)
    loops.case("called", called, x, w)
    loops.case("cond", cond, x, np.array(True))
    loops.case("other_cond", cond, x, np.array(False))
    loops.case("array", array, rows, w)
    loops.case("array_grows", array_grows, x)
    for name in ["rnn", "rnn_of_batch"]:
        with loops.graph.as_default(), tf1.variable_scope(name):
            loops.case(name, rnn(None), rows, batch=name == "rnn_of_batch")
    loops.case("nested", nested, x, w)
    loops.case("cond_in_loop", cond_in_loop, x, w)
    loops.case("cond_in_loop_of_batch", cond_in_loop, x, w, batch=True)
    for name, holds in [("", True), ("other_", False)]:
        loops.case(f"{name}unlike", unlike, x, np.array(holds), batch=True)
        loops.case(f"loop_in_{name}cond", loop_in_cond, x, np.array(holds), batch=True)
    # The list that a loop without iterations fills for its gradient is empty.
    loops.case("no_iteration", no_iteration, x, w, batch=True)
    for name, rows in [("", x), ("other_", -x)]:
        with loops.graph.as_default(), tf1.variable_scope(f"{name}twice"):
            loops.case(f"{name}twice", differentiated_twice, rows * np.sign(x.sum()), batch=True)
    loops.write()


def frames():
    tf1.disable_control_flow_v2()
    loops, x, w = Loops("loops"), values(51, 3, 4), values(52, 4, 4) / 2
    loops.case("power", power, x, w)
    loops.case("until", until, x)
    loops.case("nested", nested, x, w)
    loops.case("cond_in_loop", cond_in_loop, x, w)
    loops.case("loop_in_cond", loop_in_cond, x, np.array(True))
    loops.case("loop_in_other_cond", loop_in_cond, x, np.array(False))
    with loops.graph.as_default(), tf1.variable_scope("variable"):
        loops.case("variable", variable, x)
    # A stack of values of different shapes is refused.
    loops.case("grows", grows, x, written=False)
    loops.case("batch", power, x, w, batch=True)
    loops.case("no_iteration", no_iteration, x, w, batch=True)
    rows = values(53, 2, 3, 4)
    loops.case("array", array, rows, w)
    loops.case("array_of_batch", array, rows, w, batch=True)
    loops.case("array_grows", array_grows, x)
    loops.case("mapped", mapped, x)
    loops.case("scanned", scanned, x)
    for name, length, batch in [("rnn", None, False), ("rnn_of_batch", None, True), ("rnn_of_lengths", [3, 1], False)]:
        with loops.graph.as_default(), tf1.variable_scope(name):
            loops.case(name, rnn(length), rows, batch=batch)
    loops.write()


if __name__ == "__main__":
    frames()
    functions()
