"""Writes `programs.pb` and `programs.json`: what ordinary programs do with their optimizers, batches and loops;
`averages.pb`: a classifier of digits whose accuracy reads moving averages; `trained.pb`, with variables that are
trained in all ways, and others; `loop_result.pb`, whose result is a loop's; and `outputs.pb`, which has values that
are other operations' here, and an operation that does not exist here.

Run with TensorFlow 2.21 in this folder: `python generate_programs.py`. The format is `generate.py`'s.
"""

import numpy as np

from generate import Group, tf, tf1, values

FIRST = np.float32([[1, 2], [3, -1], [0.5, 0.2]])


class Programs(Group):
    """Cases of variables by reference and by handle."""

    def training(self, title, build):
        """Steps of the targets that `build` gives for variables `v` and `w`, and the variables after each."""
        for kind, is_resource in {"reference": False, "resource": True}.items():
            name = f"{title}_{kind}"
            with self.graph.as_default(), tf1.variable_scope(name, use_resource=is_resource):
                variable = lambda of, value: tf1.get_variable(of, value.shape, tf.float32, tf1.constant_initializer(value))
                v, w = variable("v", FIRST), variable("w", FIRST[0] * 0.4)
                loss = tf.reduce_sum(tf.square(tf.tanh(v) - 0.3)) + tf.reduce_sum(w * w)
                step = tf1.get_variable("step", [], tf.int64, tf1.zeros_initializer(), trainable=False)
                order = build(loss, v, w, step)
                own = tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, scope=f"{name}/")
                init = tf1.variables_initializer(own, "init")
                now = [tf.identity(v.read_value(), "v_now"), tf.identity(w.read_value(), "w_now")]
            steps = [({}, [init], [])]
            for target in order:
                steps += [({}, [target], []), ({}, [], now)]
            self.steps(name, steps)


def adam_in_turn(loss, v, w, step):
    """Both parts of a network by one optimizer, one after the other."""
    adam = tf1.train.AdamOptimizer(0.1)
    first = adam.minimize(loss, var_list=[v])
    with tf.control_dependencies([first]):
        both = adam.minimize(loss, var_list=[w], global_step=step)
    return [both] * 4


def adam_of_two(loss, v, w, step):
    """A generator and a discriminator with one optimizer."""
    adam = tf1.train.AdamOptimizer(0.1)
    d, g = adam.minimize(loss, var_list=[v], global_step=step), adam.minimize(loss, var_list=[w])
    return [d, d, g, d, g, g]


def adam_again(loss, v, w, step):
    """Powers that are set: as they were at first, and as after ten steps."""
    adam = tf1.train.AdamOptimizer(0.1)
    train = adam.minimize(loss, global_step=step)
    powers = adam._get_beta_accumulators()
    first = tf1.group(*[power.initializer for power in powers])
    tenth = tf1.group(*[power.assign(beta ** 10) for power, beta in zip(powers, [0.9, 0.999])])
    return [train, train, first, train, tenth, train]


def ftrl(beta, **more):
    def build(loss, v, w, step):
        rate = tf1.train.exponential_decay(0.3, step, 2, 0.7)
        optimizer = tf1.train.FtrlOptimizer(rate, **more)
        optimizer._beta = beta
        return [optimizer.minimize(loss, global_step=step)] * 4
    return build


def of_rows(optimizer):
    """Steps for two rows of the table `v`."""
    def build(loss, v, w, step):
        loss = tf.reduce_sum(tf.square(tf1.nn.embedding_lookup(v, [0, 2, 0]) - 0.3)) + tf.reduce_sum(w * w)
        return [optimizer(step).minimize(loss, global_step=step)] * 4
    return build


def ftrl_of_rows(step):
    return tf1.train.FtrlOptimizer(tf1.train.exponential_decay(0.3, step, 2, 0.7), beta=0.5)


def batches(g):
    x = values(90, 6, 3)
    g.gradients("split", lambda x: tf.concat([part * (i + 1) for i, part in enumerate(tf.split(x, 3))], 0), x, batch=True)
    deep = values(91, 2, 4, 3)
    g.gradients("split_axis", lambda x: tf.add(*tf.split(x[:, :tf.shape(x)[1]], 2, 1)), deep, batch=True)

    def sizes(x, y):
        first, second = tf.split(tf.concat([x, y], 0) * 2, [tf.shape(x)[0], -1])
        return tf.reduce_sum(first * 3) + second

    g.gradients("split_sizes", sizes, x, values(92, 2, 3), batch=True)
    g.gradients("split_rest", lambda x: tf.split(x, [2, -1])[1] * 2, x, batch=True)
    one_of_all = lambda x: tf.matmul(x[:1], x, transpose_b=True)
    g.gradients("matmul_with_the_first", one_of_all, values(93, 3, 2, 4), batch=True)


def segments(g):
    """Sums and means of rows that are looked up, and of a table of embeddings."""
    ids, places = np.int64([0, 0, 2, 2, 2]), np.int32([3, 1, 1, 0, 3])
    for combiner in ["sum", "mean", "sqrt_n"]:
        combine = getattr(tf.sparse, f"segment_{combiner}")
        g.gradients(f"segment_{combiner}", lambda x, i, s: combine(x, i, s), values(95, 4, 3), places, ids, batch=True)

        def lookup(w, x, i, s):
            entries = tf.SparseTensor(tf.stack([s, tf.range(tf.size(s, tf.int64), dtype=tf.int64)], 1), i, [3, 5])
            combined = tf1.nn.embedding_lookup_sparse(tf1.placeholder_with_default(w, w.shape), entries, None,
                                                      combiner=combiner.replace("_", ""))
            return combined * tf.reduce_sum(x)

        g.gradients(f"embeddings_{combiner}", lambda w, x, i, s: lookup(w, x, i, s), values(96, 4, 2), values(97, 2, 2),
                    places.astype(np.int64), ids, batch=True)
    g.gradients("segments_of_rows", lambda x, s: tf.math.segment_sum(x, s), values(98, 5, 3), ids, batch=True)
    g.case("segment_none", lambda x, i, s: tf.sparse.segment_mean(x, i, s), values(99, 4, 3), places[:0], ids[:0], batch=True)


def sequences(g):
    lengths = np.int32([3, 0, 4])
    for name, x, axes in [("sequences", values(100, 3, 4, 2), (1, 0)), ("sequences_by_time", values(101, 4, 3, 2), (0, 1))]:
        reverse = lambda x, n: tf.reverse_sequence(x, n, *axes) * tf.reshape(tf.range(24.0), x.shape)
        g.gradients(name, reverse, x, lengths)
        g.gradients(f"{name}_batch", lambda x, n: tf.reverse_sequence(x, n, *axes), x, lengths, batch=True)


def loops(g):
    bodies = {
        "other": lambda i, v: tf1.cond(tf.equal(i % 2, 0), lambda: tf.tanh(v), lambda: v * 0.5),
        "kept": lambda i, v: tf1.cond(tf.equal(i % 2, 0), lambda: tf.tanh(v), lambda: v),
        "by_value": lambda i, v: tf1.cond(tf.reduce_sum(v) > 0, lambda: tf.square(v), lambda: tf.sin(v)),
    }
    for name, body in bodies.items():
        loop = lambda x, body=body: tf1.while_loop(lambda i, v: i < 3, lambda i, v: [i + 1, body(i, v)], [0, x])[1]
        g.gradients(f"branch_in_loop_{name}", loop, values(94, 4, 3), batch=True)


def averages():
    with tf.Graph().as_default() as graph:
        x, y = tf1.placeholder(tf.float32, [None, 64], "images"), tf1.placeholder(tf.int64, [None], "labels")
        w = tf1.get_variable("w", [64, 10], tf.float32, tf1.zeros_initializer(), use_resource=False)
        mean = tf1.get_variable("mean", [64], tf.float32, tf1.zeros_initializer(), use_resource=False, trainable=False)
        update = mean.assign_sub((mean - tf.reduce_mean(x, 0)) * 0.1)
        logits = lambda mean: tf.matmul(x - mean, w)
        errors = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits(tf.reduce_mean(x, 0)))
        loss = tf.reduce_mean(errors, name="loss")
        tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits(mean), 1), y), tf.float32), name="accuracy")
        with tf.control_dependencies([update]):
            optimizer = tf1.train.GradientDescentOptimizer(0.1)
            optimizer.minimize(loss, global_step=tf1.train.get_or_create_global_step(), name="train")
        tf1.train.Saver()
        write(graph, "averages")


def write(graph, name):
    with open(f"{name}.pb", "wb") as file:
        file.write(graph.as_graph_def().SerializeToString(deterministic=True))


def trained():
    """Variables that are trained in all ways: `train` has each, beside others that are not."""
    tf1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        x, y = tf1.placeholder(tf.float32, [None, 2], "x"), tf1.placeholder(tf.int64, [None], "y")
        step = tf1.train.get_or_create_global_step()
        losses, own = [], []
        for kind, is_resource in {"reference": False, "resource": True}.items():
            with tf1.variable_scope(kind, use_resource=is_resource):
                variable = lambda name, *shape: tf1.get_variable(name, shape, tf.float32, tf1.ones_initializer())
                rest = lambda name, *shape: tf1.get_variable(name, shape, tf.float32, tf1.ones_initializer(), trainable=False)
                h = tf1.nn.embedding_lookup(variable("table", 3, 2), y) * variable("dense", 2)
                by_hand, center, lives = variable("by_hand", 2), rest("center", 2), rest("lives")
                h = (h - center) * by_hand * tf1.nn.embedding_lookup(variable("scattered", 3, 2), y)
                losses.append(tf.reduce_mean(tf.square(x - h)))
                gradients = tf1.gradients(losses[-1], tf1.trainable_variables(f"{kind}/"))
                table, dense, by_hand, scattered = tf1.trainable_variables(f"{kind}/")
                own += [by_hand.assign_sub(gradients[2] * 0.1), lives.assign_sub(1.0),
                        center.assign_sub((center - tf.reduce_mean(x, 0)) * tf.minimum(tf.reduce_mean(x), 0.1)),
                        tf1.train.GradientDescentOptimizer(0.1).apply_gradients([(gradients[3], scattered)]),
                        tf1.train.AdamOptimizer(0.1).apply_gradients(list(zip(gradients[:2], [table, dense])))]
                with tf.control_dependencies(own):
                    own.append(tf1.train.ExponentialMovingAverage(0.9).apply([table, by_hand]))
        tf.add_n(losses, name="loss")
        with tf.control_dependencies(own):
            step.assign_add(1, name="train")
        write(graph, "trained")


def loop_result():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 3], "x")
        tf1.while_loop(lambda i, v: i < 3, lambda i, v: [i + 1, v * 0.5], [0, x])
        write(graph, "loop_result")


def outputs():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 3], "x")
        tf.raw_ops.IdentityN(input=[x * 2, x], name="both")
        tf.raw_ops.EncodeBase64(input=tf.raw_ops.AsString(input=x), name="text")
        write(graph, "outputs")


def main():
    averages()
    trained()
    loop_result()
    outputs()
    tf1.disable_control_flow_v2()
    g = Programs("programs")
    for build in [adam_in_turn, adam_of_two, adam_again]:
        g.training(build.__name__, build)
    g.training("ftrl_decay", ftrl(0.0))
    g.training("ftrl_beta", ftrl(0.5, l2_regularization_strength=0.01))
    g.training("adam_rows", of_rows(lambda step: tf1.train.AdamOptimizer(0.1)))
    g.training("ftrl_beta_rows", of_rows(ftrl_of_rows))
    batches(g)
    segments(g)
    sequences(g)
    loops(g)
    g.write()


if __name__ == "__main__":
    main()
