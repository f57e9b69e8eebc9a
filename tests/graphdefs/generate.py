"""Writes the graphs that the importer is held to, with what TensorFlow computes for them.

Run with TensorFlow 2.21 in this folder: `python generate.py`. It writes, for each group of cases,
`GROUP.pb`, a binary GraphDef, and `GROUP.json`:

    {"cases": [{"name": ..., "steps": [{"feeds": {name: tensor}, "targets": [name], "fetches": {name: tensor}}]}]}

A case of `control_NAME` has "gradients", too: those of `loss` by the feeds.

A case uses a part of the graph; its steps run in order in one session. A tensor is
`{"dtype": "f32", "shape": [...], "values": [...]}`, values in row-major order.
"""

import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # its order of additions is another

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_v2_behavior()
DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "bool"}


def tensor(value):
    value = np.asarray(value)
    values = value.ravel()
    if value.dtype.kind == "f":
        values = [float(f"{v:.9g}") for v in values]
    else:
        values = values.tolist()
    return {"dtype": DTYPES[value.dtype.name], "shape": list(value.shape), "values": values}


def values(seed, *shape):
    """Values of both signs, none near 0 or a half."""
    random = np.random.RandomState(seed)
    value = random.uniform(0.1, 0.4, shape) + random.randint(0, 2, shape)
    return (value * random.choice([-1, 1], shape)).astype(np.float32)


class Group:
    """A graph in the making, its cases, and the session that computes them."""

    def __init__(self, name):
        self.name, self.graph, self.cases = name, tf.Graph(), []
        self.session = tf1.Session(graph=self.graph)

    def case(self, name, build, *feeds, batch=False):
        """One step: `build` of placeholders for `feeds`; with `batch` their first dimension is unknown."""
        with self.graph.as_default(), tf1.name_scope(name):
            shape = lambda value: [None] + list(value.shape[1:]) if batch else value.shape
            feeds = [np.asarray(value) for value in feeds]
            inputs = [tf1.placeholder(value.dtype, shape(value), f"x{i}") for i, value in enumerate(feeds)]
            built = build(*inputs)
            built = list(built) if isinstance(built, (list, tuple)) else [built]
            built = [tf1.convert_to_tensor(value) for value in built]
        self.steps(name, [(dict(zip(inputs, feeds)), [], built)])

    def gradients(self, name, build, *feeds, batch=False):
        """The value, and tf.gradients of the mean of its square."""

        def with_gradients(*inputs):
            value = build(*inputs)
            floats = [x for x in inputs if x.dtype.is_floating]
            found = tf1.gradients(tf1.reduce_mean(value * value), floats)
            return [value] + [tf1.convert_to_tensor(gradient) for gradient in found]

        self.case(name, with_gradients, *feeds, batch=batch)

    def steps(self, name, steps):
        """Steps of feeds, targets and fetches."""
        told = []
        for feeds, targets, fetches in steps:
            fetched, _ = self.session.run([list(fetches), list(targets)], feeds)
            told.append({
                "feeds": {key.name: tensor(value) for key, value in feeds.items()},
                "targets": [target.name for target in targets],
                "fetches": {key.name: tensor(value) for key, value in zip(fetches, fetched)},
            })
        self.cases.append({"name": name, "steps": told})

    def write(self, definition=None):
        """Writes the graph, or `definition` of a part of it, and the cases."""
        with open(f"{self.name}.pb", "wb") as file:
            definition = definition or self.graph.as_graph_def()
            definition.ClearField("library")
            for node in definition.node:
                for attribute in ["_class", "_output_shapes"]:
                    node.attr.pop(attribute, None)
            file.write(definition.SerializeToString(deterministic=True))
        with open(f"{self.name}.json", "w") as file:
            file.write('{"cases": [\n')
            file.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in self.cases))
            file.write("\n]}\n")
        print(self.name, len(self.cases), "cases", os.path.getsize(f"{self.name}.pb"), "bytes of graph")


def elementwise():
    g = Group("elementwise")
    a, b, positive = values(1, 3, 5), values(2, 3, 5), np.abs(values(3, 3, 5))
    for name in ["relu", "sigmoid", "tanh", "elu", "selu", "softplus", "softsign", "relu6"]:
        g.gradients(name, getattr(tf.nn, name), a)
    g.gradients("leaky_relu", lambda x: tf.nn.leaky_relu(x, 0.3), a)
    for name in ["exp", "square", "negative", "abs", "sin", "cos", "erf", "expm1"]:
        g.gradients(name, getattr(tf.math, name), a)
    for name in ["log", "sqrt", "rsqrt", "reciprocal", "log1p"]:
        g.gradients(name, getattr(tf.math, name), positive)
    for name in ["sign", "floor", "ceil", "round", "rint"]:
        g.case(name, getattr(tf.math, name), a)
    operands = {"same": (a, b), "scalar": (a, values(4)), "row": (a, values(5, 5)), "column": (values(6, 3, 1), b),
                "outer": (values(7, 3, 1), values(8, 1, 5))}
    for name in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "squared_difference"]:
        for kind, pair in operands.items():
            g.gradients(f"{name}_{kind}", getattr(tf.math, name), *pair)
    g.gradients("add_batch", tf.math.add, a, values(5, 3, 5), batch=True)
    g.gradients("pow", tf.math.pow, positive, b)
    for name in ["floordiv", "floormod"]:
        g.case(name, getattr(tf.math, name), a * 3, b)
        g.case(f"{name}_int", getattr(tf.math, name), np.int32([[7, -7], [9, -9]]), np.int32([[3, 3], [-4, 2]]))
    for name in ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]:
        g.case(name, getattr(tf.math, name), np.int32([1, 2, 3]), np.int32([2, 2, 2]))
        g.case(f"{name}_float", getattr(tf.math, name), a, values(5, 5))
    truths = np.array([True, False, True]), np.array([True, True, False])
    for name in ["logical_and", "logical_or"]:
        g.case(name, getattr(tf.math, name), *truths)
    g.case("logical_not", tf.math.logical_not, truths[0])
    g.gradients("where", lambda x, y: tf1.where_v2(tf.greater(x, y), x, y), a, b)
    g.case("select", lambda x, y: tf1.where(tf.greater(x, y), x, y), a, b)
    g.gradients("clip", lambda x: tf.clip_by_value(x, -0.5, 0.5), a)
    g.gradients("add_n", lambda x, y: tf.add_n([x, y, x]), a, b)
    g.case("is_finite", tf.math.is_finite, a)
    g.case("is_nan", tf.math.is_nan, a)
    g.case("cast_to_int", lambda x: tf.cast(x * 10, tf.int32), a)
    g.case("cast_to_float", lambda x: tf.cast(x, tf.float32), np.int32([1, -2, 3]))
    g.case("cast_to_bool", lambda x: tf.cast(x, tf.bool), np.int32([1, 0, 3]))
    g.case("cast_to_long", lambda x: tf.cast(x, tf.int64), np.int32([1, -2, 3]))
    g.case("stop_gradient", lambda x: tf.gradients(x * tf.stop_gradient(x), x)[0], a)
    g.case("double", lambda x: tf.sin(x) * x, a.astype(np.float64))
    g.write()


def reductions():
    g = Group("reductions")
    a, cube = values(1, 3, 5), values(2, 2, 3, 4)
    for name in ["sum", "mean", "max", "min"]:
        reduce = getattr(tf1, f"reduce_{name}")
        g.gradients(f"{name}_all", lambda x: reduce(x), a)
        g.gradients(f"{name}_rows", lambda x: reduce(x, 1), a)
        g.gradients(f"{name}_columns", lambda x: reduce(x, 0, keepdims=True), a)
        g.gradients(f"{name}_outer", lambda x: reduce(x, [0, -1]), cube)
    for name in ["sum", "mean"]:
        reduce = getattr(tf1, f"reduce_{name}")
        g.gradients(f"{name}_all_batch", lambda x: reduce(x), a, batch=True)
        g.gradients(f"{name}_rows_batch", lambda x: reduce(x, 1), a, batch=True)
        g.gradients(f"{name}_columns_batch", lambda x: reduce(x, 0), a, batch=True)
    g.case("prod", lambda x: [tf1.reduce_prod(x), tf1.reduce_prod(x, 1)], a)
    for name in ["all", "any"]:
        reduce = getattr(tf1, f"reduce_{name}")
        g.case(name, lambda x: [reduce(x), reduce(x, 1)], np.array([[True, False], [True, True]]))
    g.gradients("logsumexp", lambda x: tf.reduce_logsumexp(x, 1), a)
    for axis in [0, 1]:
        g.case(f"argmax_{axis}", lambda x: tf.argmax(x, axis), a)
        g.case(f"argmin_{axis}", lambda x: tf.argmin(x, axis), a)
    g.case("argmax_int", lambda x: tf.argmax(x, 1, output_type=tf.int32), a)
    g.gradients("softmax", tf.nn.softmax, a)
    g.gradients("softmax_batch", tf.nn.softmax, a, batch=True)
    g.gradients("log_softmax", tf.nn.log_softmax, a)
    labels, classes = np.int32([1, 0, 4]), np.eye(5, dtype=np.float32)[[1, 0, 4]]
    sparse = lambda x, y: tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
    g.gradients("sparse_cross_entropy", sparse, a, labels)
    g.gradients("sparse_cross_entropy_long", sparse, a, labels.astype(np.int64))
    g.gradients("sparse_cross_entropy_batch", sparse, a, labels, batch=True)
    dense = lambda x: tf1.nn.softmax_cross_entropy_with_logits_v2(labels=tf.constant(classes), logits=x)
    g.gradients("cross_entropy", dense, a)
    sigmoid = lambda x: tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.constant(classes), logits=x)
    g.gradients("sigmoid_cross_entropy", sigmoid, a)
    g.gradients("l2_loss", tf.nn.l2_loss, a)
    g.gradients("moments", lambda x: tf.nn.moments(x, [0])[1], a)
    for ta in [False, True]:
        for tb in [False, True]:
            left, right = values(3, *([4, 3] if ta else [3, 4])), values(4, *([5, 4] if tb else [4, 5]))
            multiply = lambda x, y: tf.matmul(x, y, transpose_a=ta, transpose_b=tb)
            g.gradients(f"matmul_{int(ta)}{int(tb)}", multiply, left, right)
            wide = np.stack([left, 2 * left]), np.stack([right, -right])
            g.gradients(f"batch_matmul_{int(ta)}{int(tb)}", multiply, *wide)
    g.gradients("bias_add", tf.nn.bias_add, a, values(5, 5))
    g.write()


def array():
    g = Group("array")
    a, b, cube = values(1, 3, 4), values(2, 3, 4), values(3, 2, 3, 4)
    ids = np.int32([2, 0, 2])
    g.gradients("reshape", lambda x: tf.reshape(x, [2, -1]), a)
    g.gradients("reshape_batch", lambda x: tf.reshape(x, [-1, 2]), a, batch=True)
    g.gradients("flatten", lambda x: tf.reshape(x, [tf.shape(x)[0], 12]), cube, batch=True)
    g.gradients("reshape_static", lambda x: tf.reshape(x, tf.stack([tf.shape(x)[0] * 2, 6])), cube)
    g.gradients("expand_dims", lambda x: tf.expand_dims(x, -1), a)
    g.gradients("squeeze", lambda x: tf.squeeze(x, [0, 2]), values(4, 1, 3, 1))
    g.case("squeeze_all", tf.squeeze, values(4, 1, 3, 1))
    g.gradients("transpose", lambda x: tf.transpose(x, [2, 0, 1]), cube)
    g.gradients("concat", lambda x, y: tf.concat([x, y, x], 1), a, b)
    g.gradients("split", lambda x: tf.split(x, 2, -1)[1], a)
    g.gradients("split_v", lambda x: tf.split(x, [1, 3], 1)[1], a)
    g.gradients("stack", lambda x, y: tf.stack([x, y], 1), a, b)
    g.gradients("unstack", lambda x: tf.unstack(x, axis=1)[2], a)
    g.gradients("slice", lambda x: tf.slice(x, [1, 0], [-1, 2]), a)
    g.gradients("strided_slice", lambda x: x[::2, -1:0:-2], a)
    g.gradients("strided_slice_shrink", lambda x: x[1, ..., tf.newaxis, 1:], cube)
    g.gradients("strided_slice_batch", lambda x: x[:, 1:3], a, batch=True)
    g.gradients("pad", lambda x: tf.pad(x, [[1, 0], [2, 1]]), a)
    g.gradients("pad_value", lambda x: tf.pad(x, [[1, 0], [2, 1]], constant_values=1.5), a)
    g.gradients("mirror_pad", lambda x: tf.pad(x, [[1, 1], [2, 1]], "REFLECT"), a)
    g.gradients("symmetric_pad", lambda x: tf.pad(x, [[1, 1], [2, 1]], "SYMMETRIC"), a)
    g.gradients("tile", lambda x: tf.tile(x, [2, 3]), a)
    g.gradients("broadcast_to", lambda x: tf.broadcast_to(x, [2, 3, 4]), a)
    g.gradients("reverse", lambda x: tf.reverse(x, [1]), a)
    g.gradients("cumsum", lambda x: tf.cumsum(x, 1, exclusive=True, reverse=True), a)
    g.case("range", lambda: tf.range(2, 11, 3))
    g.case("range_float", lambda: tf.range(0.0, 1.0, 0.25))
    g.case("fill", lambda: [tf.fill([2, 3], 1.5), tf.zeros([2]), tf.ones([3], tf.int32)])
    g.case("shapes", lambda x: [tf.shape(x), tf.size(x), tf.rank(x), tf.zeros_like(x), tf.ones_like(x)], cube)
    g.case("shape_batch", lambda x: [tf.shape(x), tf.size(x)], cube, batch=True)
    g.gradients("gather", lambda x: tf.gather(x, ids), a)
    g.gradients("gather_axis", lambda x: tf.gather(x, ids, axis=1), a)
    g.gradients("gather_nd", lambda x: tf.gather_nd(x, [[0, 1], [2, 3], [0, 1]]), a)
    g.gradients("scatter_nd", lambda x: tf.scatter_nd([[4], [0], [4]], x, [5, 4]), a)
    g.gradients("scatter_add", lambda x, y: tf.tensor_scatter_nd_add(x, [[2], [0], [2]], y), a, b)
    g.gradients("scatter_update", lambda x, y: tf.tensor_scatter_nd_update(x, [[2], [0], [1]], y), a, b)
    g.case("one_hot", lambda i: [tf.one_hot(i, 4), tf.one_hot(i, 4, 2.0, -1.0, axis=0)], ids)
    g.case("identities", lambda x: [tf.identity(x), tf.identity_n([x, x])[1]], a)
    g.case("placeholder_with_default", lambda x: x + tf1.placeholder_with_default(np.float32(3.0), []), a)
    defaults(g)
    g.case("unique", lambda x: tf.unique(x), np.int32([3, 1, 3, 2, 1]))
    g.case("segment_sum", lambda x: tf.math.unsorted_segment_sum(x, ids, 4), a)
    g.write()


def defaults(g):
    """Inputs with defaults of fewer unknown sizes than are declared: as they are, and fed."""
    with g.graph.as_default(), tf1.name_scope("defaults"):
        x = tf1.placeholder_with_default(values(12, 2, 3), [None, 3], "x")
        sizes = tf1.placeholder_with_default(np.int32([3, 2]), [None], "sizes")
        w = tf.constant(values(13, 2, 3))
        given = tf1.placeholder_with_default(w * 2, [None, None], "given")
        gradient = tf1.gradients(tf.reduce_sum(given * given), [w])[0]
        outputs = [x * 2, tf.shape(x), tf.reduce_sum(x, 0), tf.reduce_sum(sizes), gradient]
    fed = {x: values(14, 4, 3), sizes: np.int32([2])}
    g.steps("defaults", [({}, [], outputs), (fed, [], outputs), ({given: values(15, 1, 2)}, [], [given * 1.0])])


DATA = values(11, 6, 3), np.int32([0, 1, 1, 0, 1, 0])


def layers(x, resource, name="mlp"):
    with tf1.variable_scope(name, use_resource=resource):
        random = lambda seed, *shape: tf1.constant_initializer(values(seed, *shape) / 2)
        w0 = tf1.get_variable("w0", [3, 4], initializer=random(1, 3, 4))
        b0 = tf1.get_variable("b0", [4], initializer=tf1.zeros_initializer())
        w1 = tf1.get_variable("w1", [4, 2], initializer=random(2, 4, 2))
        b1 = tf1.get_variable("b1", [2], initializer=random(3, 2))
    hidden = tf.nn.relu(tf.matmul(x, w0) + b0)
    return tf.nn.bias_add(tf.matmul(hidden, w1), b1)


def train(g, name, batch, resource, optimizer, build=layers):
    """Initialises, then takes three steps."""
    with g.graph.as_default():
        x = tf1.placeholder(DATA[0].dtype, [batch, 3], "x")
        y = tf1.placeholder(tf.int32, [batch], "y")
        logits = build(x, resource)
        loss = tf1.reduce_mean(tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits), name="loss")
        step = optimizer.minimize(loss, global_step=tf1.train.get_or_create_global_step())
        init = tf1.global_variables_initializer()
        read = [tf1.convert_to_tensor(v) for v in tf1.trainable_variables()]
    g.session.run(init)
    feeds = dict(zip([x, y], DATA))
    steps = [(feeds, [step], [loss]) for _ in range(3)]
    g.steps(name, [({}, [init], [])] + steps + [({}, [], read), (feeds, [], [loss, logits])])
    g.write()


def training():
    optimizers = {
        "gradient_descent": lambda: tf1.train.GradientDescentOptimizer(0.5),
        "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        "adagrad": lambda: tf1.train.AdagradOptimizer(0.3),
        "adam": lambda: tf1.train.AdamOptimizer(0.05),
    }
    for name, optimizer in optimizers.items():
        train(Group(f"train_{name}"), name, 6, False, optimizer())
        train(Group(f"train_{name}_resource"), name, None, True, optimizer())


def frozen():
    g = Group("frozen_mlp")
    with g.graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 3], "x")
        probabilities = tf.nn.softmax(layers(x, False), name="probabilities")
        g.session.run(tf1.global_variables_initializer())
    definition = tf1.graph_util.convert_variables_to_constants(
        g.session, g.graph.as_graph_def(), [probabilities.op.name])
    g = Group("frozen_mlp")
    with g.graph.as_default():
        x, probabilities = tf1.import_graph_def(definition, name="", return_elements=["x:0", "probabilities:0"])
    g.steps("frozen_mlp", [({x: DATA[0]}, [], [probabilities])])
    g.write()


def convnet():
    g = Group("convnet")
    image = values(21, 2, 8, 8, 3)

    def net(x, f0, f1, w):
        hidden = tf.nn.relu(tf.nn.conv2d(x, f0, 1, "SAME"))
        hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
        hidden = tf.nn.avg_pool2d(tf.nn.conv2d(hidden, f1, [1, 2, 1, 1], "VALID"), 2, 1, "SAME")
        return tf.matmul(tf.reshape(hidden, [2, -1]), w)

    weights = values(22, 3, 3, 3, 4) / 4, values(23, 2, 2, 4, 5) / 4, values(24, 30, 2) / 4
    g.gradients("convnet", net, image, *weights)
    g.gradients("bias_add", tf.nn.bias_add, image, values(25, 3))
    g.gradients("depthwise", lambda x, f: tf.nn.depthwise_conv2d(x, f, [1, 1, 1, 1], "SAME"), image,
                values(26, 3, 3, 3, 1))
    # Times the image: the square of what is normalised alone hardly depends on the image.
    norm = lambda x, s, o: x * tf1.nn.fused_batch_norm(x, s, o, is_training=True)[0]
    g.gradients("batch_norm", norm, image, values(27, 3), values(28, 3))
    g.write()


def embedding():
    ids = np.int32([1, 4, 1])
    for resource in [False, True]:
        for name, optimizer in {
            "gradient_descent": tf1.train.GradientDescentOptimizer(0.5),
            "adagrad": tf1.train.AdagradOptimizer(0.3),
        }.items():
            g = Group(f"embedding_{name}" + ("_resource" if resource else ""))
            with g.graph.as_default(), tf1.variable_scope("model", use_resource=resource):
                at = tf1.placeholder(tf.int32, [3], "ids")
                table = tf1.get_variable("table", [6, 4], initializer=tf1.constant_initializer(values(31, 6, 4)))
                rows = tf.nn.embedding_lookup(table, at)
                loss = tf1.reduce_mean(tf.square(rows))
                step, init = optimizer.minimize(loss), tf1.global_variables_initializer()
                read = tf1.convert_to_tensor(table)
            g.session.run(init)
            steps = [({at: ids}, [step], [loss])] * 2 + [({}, [], [read]), ({at: ids}, [], [rows])]
            g.steps(g.name, [({}, [init], [])] + steps)
            g.write()


class ControlFlow:
    """Graphs with functions, before TensorFlow differentiates them, and its gradients' numbers."""

    def __init__(self):
        self.graphs, self.cases = {}, []

    def case(self, name, build, *feeds):
        """`build` of placeholders, and tf.gradients of the sum of its first value's squares by them."""
        with tf.Graph().as_default() as graph:
            feeds = [np.asarray(value) for value in feeds]
            inputs = [tf1.placeholder(value.dtype, value.shape, f"x{i}") for i, value in enumerate(feeds)]
            built = build(*inputs)
            built = list(built) if isinstance(built, (list, tuple)) else [built]
            built = [tf.identity(value, f"y{i}") for i, value in enumerate(built)]
            loss = tf.identity(tf1.reduce_sum(tf.square(built[0])), "loss")
            definition = graph.as_graph_def()
            floats = [x for x in inputs if x.dtype.is_floating]
            found = [tf1.convert_to_tensor(g) for g in tf1.gradients(loss, floats)]
            with tf1.Session(graph=graph) as session:
                values, gradients = session.run([built + [loss], found], dict(zip(inputs, feeds)))
        for node in list(definition.node) + [n for f in definition.library.function for n in f.node_def]:
            for attribute in ["_class", "_output_shapes", "_num_original_outputs", "_lower_using_switch_merge",
                              "_read_only_resource_inputs", "_stateful_parallelism"]:
                node.attr.pop(attribute, None)
        with open(f"control_{name}.pb", "wb") as file:
            file.write(definition.SerializeToString(deterministic=True))
        step = {"feeds": {x.name: tensor(v) for x, v in zip(inputs, feeds)}, "targets": [],
                "fetches": {x.name: tensor(v) for x, v in zip(built + [loss], values)}}
        told = {"name": name, "steps": [step],
                "gradients": {x.name: tensor(v) for x, v in zip(floats, gradients)}}
        with open(f"control_{name}.json", "w") as file:
            json.dump({"cases": [told]}, file, separators=(",", ":"))
        print(name, os.path.getsize(f"control_{name}.pb"), "bytes of graph")


def control_flow():
    tf1.enable_control_flow_v2()
    c = ControlFlow()
    x, w = values(41, 3, 4), values(42, 4, 4) / 2
    branch = lambda x, p: tf.cond(p, lambda: tf.tanh(x) * 2, lambda: tf.square(x) - x)
    c.case("cond_true", branch, x, np.array(True))
    c.case("cond_false", branch, x, np.array(False))
    nested = lambda x, p: tf.cond(p, lambda: tf.cond(tf1.reduce_sum(x) > 100.0, lambda: x, lambda: tf.sin(x)), lambda: x * x)
    c.case("cond_nested", nested, x, np.array(True))

    def power(x, w):
        body = lambda i, v: [i + 1, tf.tanh(tf.matmul(v, w))]
        return tf.while_loop(lambda i, v: i < 5, body, [0, x])[1]

    c.case("while_power", power, x, w)

    def until(x, w):
        body = lambda v, s: [v * 0.7, s + v * w[0]]
        return tf.while_loop(lambda v, s: tf1.reduce_max(tf.abs(v)) > 0.1, body, [x, tf.zeros_like(x)])[1]

    c.case("while_until", until, x, w)

    def rnn(x, w, u):
        rows = tf.transpose(x, [1, 0, 2])

        def body(t, h):
            return [t + 1, tf.tanh(tf.matmul(tf.gather(rows, t), u) + tf.matmul(h, w))]

        return tf.while_loop(lambda t, h: t < 3, body, [0, tf.zeros([2, 4])])[1]

    c.case("while_rnn", rnn, values(43, 2, 3, 5), w, values(44, 5, 4) / 2)

    def in_loop(x, w):
        body = lambda i, v: [i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.sin(tf.matmul(v, w)), lambda: v * 0.5 + x)]
        return tf.while_loop(lambda i, v: i < 4, body, [0, x])[1]

    c.case("cond_in_while", in_loop, x, w)
    c.case("while_no_iteration", lambda x: tf.while_loop(lambda i, v: i < 0, lambda i, v: [i + 1, v * v], [0, x])[1], x)


if __name__ == "__main__":
    elementwise()
    reductions()
    array()
    frozen()
    training()
    convnet()
    embedding()
    control_flow()
