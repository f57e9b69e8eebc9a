"""Writes `reads.pb` and `reads.json`: variables by reference that are read before and after updates.

Run with TensorFlow 2.21 in this folder: `python generate_reads.py`. The format is `generate.py`'s.
"""

from generate import Group, tf, tf1


def variable(name, *values):
    return tf1.get_variable(name, initializer=tf.constant(values), use_resource=False)


def after(operations):
    return tf.control_dependencies(operations)


def trained(name, **averages):
    """A variable, and moving averages of it after each step of training (tf.train.ExponentialMovingAverage)."""
    v = variable(f"{name}_v", 1.0, -2.0)
    step = tf1.get_variable(f"{name}_step", initializer=0, use_resource=False)
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(v * v), step)
    averages = tf1.train.ExponentialMovingAverage(0.9, **{key: step for key in averages})
    with after([train]):
        averaged = averages.apply([v])
        left = tf.reduce_sum(v * v)
    return averaged, [left], [tf.identity(averages.average(v)), tf.identity(v)]


def reads():
    g = Group("reads")
    with g.graph.as_default():
        v = variable("v", 1.0, 2.0)
        with after([v.assign_add([1.0, 1.0])]):
            added = v * 2.0

        w = variable("w", 1.0, 2.0)
        before = w * 2.0
        with after([before]):
            first = w.assign_add([1.0, 1.0])
        with after([first]):
            between = w * 3.0
        with after([between]):
            second = w.assign_sub([0.5, 0.5])
        with after([second]):
            last = w * 5.0

        rows = variable("rows", 1.0, 2.0, 3.0)
        with after([tf1.scatter_add(rows, [1], [5.0])]):
            scattered = tf.concat([rows, rows * 2.0], 0)

        plain, numbered = trained("plain"), trained("numbered", num_updates=True)
        init = tf1.global_variables_initializer()

    begin = ({}, [init], [])
    g.steps("after_an_addition", [begin, ({}, [], [added]), ({}, [], [added])])
    g.steps("between_updates", [begin, ({}, [], [before, between, last]), ({}, [], [before, between, last])])
    g.steps("after_rows_are_added", [begin, ({}, [], [scattered])])
    for name, (averaged, left, values) in [("averages", plain), ("averages_by_steps", numbered)]:
        step, look = ({}, [averaged], left), ({}, [], values)
        g.steps(name, [begin] + 4 * [step, look])
    g.write()


if __name__ == "__main__":
    reads()
