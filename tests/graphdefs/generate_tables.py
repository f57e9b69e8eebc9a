"""Writes `tables.pb` and `tables.json`: trained tables, whose gradients TensorFlow has of the gathered rows or of all.

Run with TensorFlow 2.21 in this folder: `python generate_tables.py`. The graph is as it was before TensorFlow
differentiated it. Each step of a case feeds `NAME/ids`, fetches `NAME/loss`, and ends with an update of `NAME/table` by
MomentumOptimizer(0.5, 0.8), after which `NAME/now` is fetched:

    {"cases": [{"name": ..., "is_sparse": ..., "steps": [{"ids": tensor, "loss": tensor, "now": tensor}]}]}

A case without `is_sparse` has its first step alone, in which it makes no difference which gradient an import has.
"""

from generate import Group, np, tensor, tf, tf1, values

IDS = [np.int32(ids) for ids in ([1, 4, 1], [0, 2, 2], [4, 4, 3], [0, 1, 5])]


def after_an_update(table, ids):
    with tf.control_dependencies([tf1.scatter_add(table, [2], tf.ones([1, 4]))]):
        return tf.gather(table, ids)


def twice(table, ids):
    return tf.gather(table, ids) + 2 * tf.gather(table, tf.cast(5 - ids, tf.int64))


REFERENCES = {
    "lookup": tf.nn.embedding_lookup,
    "identity": lambda table, ids: tf.gather(tf.identity(table), ids),
    "first_kind": lambda table, ids: tf.raw_ops.Gather(params=table, indices=ids),
    "twice": twice,
    "after_an_update": after_an_update,
    "also_read": lambda table, ids: tf.concat([tf.gather(table, ids), table * 0.5], 0),
    "columns": lambda table, ids: tf.gather(table, ids % 4, axis=1),
    "rows_from_the_end": lambda table, ids: tf.gather(table, ids, axis=-2),
}
ANY_GRADIENT = ["read_before_an_update"]


def read_before_an_update(table, ids):
    before = table.read_value()
    with tf.control_dependencies([before]):
        update = table.assign_add(0.25 * tf.ones([6, 4]), read_value=False)
    with tf.control_dependencies([update]):
        return tf.gather(before, tf.identity(ids))


RESOURCES = {
    "read_before_an_update": read_before_an_update,
    "resource": tf.nn.embedding_lookup,
    "resource_read": lambda table, ids: tf.gather(table.read_value(), ids),
}


class Table:
    """A table of six rows, and a loss of what `rows` gathers of it."""

    def __init__(self, name, rows, is_resource):
        self.name = name
        with tf1.variable_scope(name, use_resource=is_resource):
            self.ids = tf1.placeholder(tf.int32, [None], "ids")
            first = tf1.constant_initializer(values(61, 6, 4))
            self.table = tf1.get_variable("table", [6, 4], initializer=first)
            self.loss = tf.reduce_mean(tf.square(rows(self.table, self.ids)), name="loss")
            self.now = tf.identity(self.table.read_value(), name="now")

    def train(self, session):
        """The case: TensorFlow's losses and tables."""
        optimizer = tf1.train.MomentumOptimizer(0.5, 0.8)
        [(gradient, _)] = gradients = optimizer.compute_gradients(self.loss, [self.table])
        train = optimizer.apply_gradients(gradients)
        session.run([self.table.initializer, optimizer.get_slot(self.table, "momentum").initializer])
        steps = []
        for ids in IDS:
            loss, _ = session.run([self.loss, train], {self.ids: ids})
            now = session.run(self.now)
            steps.append({"ids": tensor(ids), "loss": tensor(loss), "now": tensor(now)})
        if self.name in ANY_GRADIENT:
            return {"name": self.name, "steps": steps[:1]}
        return {"name": self.name, "is_sparse": isinstance(gradient, tf.IndexedSlices), "steps": steps}


def tables():
    g = Group("tables")
    with g.graph.as_default():
        built = [Table(name, rows, False) for name, rows in REFERENCES.items()]
        built += [Table(name, rows, True) for name, rows in RESOURCES.items()]
        definition = g.graph.as_graph_def()
        g.cases = [table.train(g.session) for table in built]
    g.write(definition)


if __name__ == "__main__":
    tables()
