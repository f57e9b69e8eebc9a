"""Writes `partitioned.pb` and `partitioned.json`: rows dealt to parts and put together again, and tables in parts.

Run with TensorFlow 2.21 in this folder: `python generate_partitioned.py`. The format is `generate.py`'s.
"""

from generate import Group, np, tf, tf1, values


def first(shape, dtype, partition_info):
    """The first values of one part of a table."""
    begin = partition_info.var_offset[0]
    return tf.constant(values(51, 7, 4)[begin : begin + shape[0]], dtype)


def table(g, name, resource, strategy, optimizer):
    """Steps of training with a table in three parts, ids of an unknown number (tf.nn.embedding_lookup)."""
    with g.graph.as_default():
        parts = tf1.fixed_size_partitioner(3)
        with tf1.variable_scope(name, use_resource=resource, partitioner=parts):
            ids = tf1.placeholder(tf.int64, [None, 2], "ids")
            rows = tf1.get_variable("table", [7, 4], initializer=first)
            found = tf1.nn.embedding_lookup(rows, ids, partition_strategy=strategy)
            loss = tf1.reduce_mean(tf.square(found))
            step = optimizer.minimize(loss, var_list=tf1.trainable_variables(name + "/"))
            init = tf1.variables_initializer(tf1.global_variables(name + "/"))
            read = tf.concat(list(rows), 0)
    steps = [({ids: at}, [step], [loss]) for at in (np.int64([[6, 1], [2, 1]]), np.int64([[0, 0]]), np.int64([[5, 3]]))]
    g.steps(name, [({}, [init], [])] + steps + [({ids: np.int64([[4, 6]])}, [], [found, read])])


def partitioned():
    g = Group("partitioned")
    x, numbers = values(52, 5, 3), np.int32([1, 0, 2, 0, 1])
    part = lambda x, at: tf.concat([tf.reduce_sum(y, 0, keepdims=True) * (i + 1) for i, y in enumerate(tf.dynamic_partition(x, at, 4))], 0)
    g.gradients("parts", part, x, numbers)
    g.gradients("parts_batch", part, x, numbers, batch=True)
    g.case("parts_of_matrices", lambda x, at: tf.dynamic_partition(x, at, 2), values(53, 2, 3, 2), np.int32([[0, 1, 1], [1, 0, 0]]))
    g.case("parts_of_long", lambda x, at: tf.dynamic_partition(x, at, 3), np.int64([7, 8, 9]), np.int32([2, 0, 2]))

    def stitched(x, at):
        order = tf.dynamic_partition(tf.range(tf.size(at)), at, 3)
        return tf.dynamic_stitch(order, [y * (i + 1) for i, y in enumerate(tf.dynamic_partition(x, at, 3))])

    g.gradients("stitched", stitched, x, numbers)
    g.gradients("stitched_batch", stitched, x, numbers, batch=True)
    g.case("stitched_long", stitched, np.int64([7, 8, 9, 4, 5]), numbers)
    descent, adagrad = tf1.train.GradientDescentOptimizer(0.5), tf1.train.AdagradOptimizer(0.3)
    table(g, "by_mod", False, "mod", descent)
    table(g, "by_div", False, "div", adagrad)
    table(g, "resource_by_mod", True, "mod", adagrad)
    table(g, "resource_by_div", True, "div", descent)
    g.write()


if __name__ == "__main__":
    partitioned()
