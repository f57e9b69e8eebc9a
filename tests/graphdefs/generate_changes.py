"""Writes `changes.pb` and `changes.json`: variables that branches of conditions and bodies of loops
change, in the nodes of TensorFlow 1; and `changes_functions.pb` and `.json`: in functions.

Run with TensorFlow 2.21 in this folder: `python generate_changes.py`. The format is `generate.py`'s.
"""

import numpy as np

from generate import tensor, tf, tf1
from generate_loops import write_group

TRUE, FALSE = np.array(True), np.array(False)
X = np.array([0.5, -1.5], np.float32)


def ordered(first, value):
    with tf.control_dependencies([first]):
        return tf.identity(value)


def now(v):
    """The value that a variable has at this point."""
    return v.read_value()


def both_branches(v, w, p, x):
    return tf1.cond(p, lambda: ordered(v.assign_add(x), x), lambda: ordered(v.assign(x * 2), x + 1))


def one_branch(v, w, p, x):
    return tf1.cond(p, lambda: ordered(tf.group(v.assign_sub(x), w.assign(x)), x), lambda: tf.identity(x))


def value_after(v, w, p, x):
    def change():
        with tf.control_dependencies([v.assign_add(x)]):
            return now(v) * 3
    return tf1.cond(p, change, lambda: now(v) + w)


def nested_branches(v, w, p, x):
    def inner():
        return tf1.cond(tf.reduce_sum(x) > 0, lambda: ordered(v.assign_add(x), x), lambda: ordered(w.assign_add(x), -x))
    return tf1.cond(p, inner, lambda: ordered(v.assign(w * 1.5), x * 2))


def counted_loop(v, w, p, x):
    def body(i, s):
        with tf.control_dependencies([v.assign_add(s)]):
            return i + 1, s * 0.5
    return tf1.while_loop(lambda i, s: i < 3, body, [0, x])[1]


def loop_that_reads(v, w, p, x):
    def body(i, s):
        with tf.control_dependencies([v.assign(now(v) * 2 + s)]):
            return i + 1, s + now(v)
    return tf1.while_loop(lambda i, s: i < 4, body, [0, x])[1]


def condition_that_reads(v, w, p, x):
    def body(s):
        with tf.control_dependencies([v.assign_add([1.0, 1.0])]):
            return s + now(v)
    return tf1.while_loop(lambda s: tf.reduce_sum(now(v)) < 12.0, body, [x])


def branch_in_loop(v, w, p, x):
    def body(i, s):
        odd = lambda: ordered(v.assign_add(s), s)
        even = lambda: ordered(w.assign_sub(s), s * 2)
        return i + 1, tf1.cond(tf.equal(i % 2, 1), odd, even)
    return tf1.while_loop(lambda i, s: i < 5, body, [0, x])[1]


def loop_in_branch(v, w, p, x):
    return tf1.cond(p, lambda: loop_that_reads(v, w, p, x), lambda: x * 1.0)


def loop_in_loop(v, w, p, x):
    def body(i, s):
        return i + 1, counted_loop(v, w, p, s + w)
    return tf1.while_loop(lambda i, s: i < 2, body, [0, x])[1]


def change_before_and_after(v, w, p, x):
    with tf.control_dependencies([v.assign_add(x)]):
        y = loop_that_reads(v, w, p, x)
    with tf.control_dependencies([y]):
        return tf.identity(v.assign(now(v) * 0.5)) + y


def of_optimizer(optimizer):
    def build(v, w, p, x):
        gradient = 2 * (now(v) - x)
        return tf1.cond(p, lambda: ordered(optimizer().apply_gradients([(gradient, v)]), x), lambda: x * 1.0)
    return build


BOTH = [both_branches, one_branch, value_after, nested_branches, counted_loop, loop_that_reads, condition_that_reads,
        branch_in_loop, loop_in_branch, loop_in_loop, change_before_and_after]
# An optimizer's update has a guard in TensorFlow 1; a function's has none, and is refused.
UPDATES = {"descent": lambda: tf1.train.GradientDescentOptimizer(0.1),
           "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
           "adagrad": lambda: tf1.train.AdagradOptimizer(0.1), "adam": lambda: tf1.train.AdamOptimizer(0.1)}


class Changes:
    """A graph in the making and its cases."""

    def __init__(self, group, kinds):
        self.group, self.kinds, self.graph, self.cases = group, kinds, tf.Graph(), []
        self.session = tf1.Session(graph=self.graph)

    def case(self, title, build):
        for kind, is_resource in self.kinds.items():
            self.one(f"{title}_{kind}", build, is_resource)

    def one(self, name, build, is_resource):
        with self.graph.as_default(), tf1.variable_scope(name, use_resource=is_resource):
            p, x = tf1.placeholder(tf.bool, [], "p"), tf1.placeholder(tf.float32, [2], "x")
            variable = lambda of, value: tf1.get_variable(of, [2], tf.float32, tf1.constant_initializer(value))
            v, w = variable("v", [1.0, 2.0]), variable("w", [3.0, -1.0])
            y = tf.identity(build(v, w, p, x), "y")
            read = [tf.identity(now(variable), f"now_{i}") for i, variable in enumerate([v, w])]
            own = tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, scope=f"{name}/")
            init = tf1.variables_initializer(own, "init")
        self.session.run(init)
        steps = [{"feeds": {}, "targets": [init.name], "fetches": {}}]
        for holds in [TRUE, FALSE, FALSE, TRUE, TRUE]:
            feeds = {p: holds, x: X}
            for fetched in [[y], read]:
                found = self.session.run(fetched, feeds)
                told = {one.name: tensor(value) for one, value in zip(fetched, found)}
                fed = {one.name: tensor(value) for one, value in feeds.items()}
                steps.append({"feeds": fed if fetched == [y] else {}, "targets": [], "fetches": told})
        self.cases.append({"name": name, "steps": steps})

    def write(self):
        write_group(self.group, self.graph, self.cases)
        print(f"{self.group}: {len(self.cases)} cases")


def main():
    tf1.disable_control_flow_v2()
    nodes = Changes("changes", {"reference": False, "resource": True})
    for build in BOTH:
        nodes.case(build.__name__, build)
    for name, optimizer in UPDATES.items():
        nodes.case(f"{name}_in_a_branch", of_optimizer(optimizer))
    nodes.write()
    tf1.enable_control_flow_v2()
    functions = Changes("changes_functions", {"function": True})
    # TensorFlow does not say when the condition of such a loop reads a variable that its body changes.
    for build in [build for build in BOTH if build is not condition_that_reads]:
        functions.case(build.__name__, build)
    functions.write()


if __name__ == "__main__":
    main()
