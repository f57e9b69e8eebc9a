"""Writes random TensorFlow graphs, each from a seed, with what TensorFlow computes for them.

Run with TensorFlow 2.21: `python random_graphs.py FOLDER FIRST COUNT`. It writes `SEED.pb` and
`SEED.json` (the format is `generate.py`'s) for COUNT seeds from FIRST on. The test
`graph::graphdefs::random` imports what is in `random/`, and what is in the folder that
TRAINYARD_GRAPHDEFS names:

    python tests/graphdefs/random_graphs.py /tmp/graphs 0 1000
    TRAINYARD_GRAPHDEFS=/tmp/graphs cargo test --test it graphdefs::random -- --nocapture

A graph has some of the operations below on values of one batch, whose size the graph knows or not;
a loss, its gradients, and in half of the graphs an optimizer that takes three steps. Variables are
by reference or by resource; attributes with default values are there or stripped; loops and conditions
have functions or are nodes in frames. A graph is drawn
again whose numbers are not finite, change by more than rounding when its inputs change in their last
digits, or are others in double precision: of such numbers single precision knows too few digits.
"""

import json
import os
import sys

import numpy as np

from generate import tensor, tf, tf1
from tensorflow.python.framework import meta_graph

BATCH = 6
KINDS = []


def kind(*ranks):
    """Registers an operation of a float value of one of these ranks; any, if none is given."""

    def register(build):
        KINDS.append((build.__name__, ranks, build))
        return build

    return register


class Draw:
    """The choices of one graph, and its values: floats of rank 1 to 4 whose first axis is the batch."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.is_batch_known = bool(self.random.randint(2))
        self.is_resource = bool(self.random.randint(2))
        self.is_stripped = bool(self.random.randint(2))
        self.has_functions = bool(self.random.randint(2))
        self.feeds, self.values, self.ops = {}, [], []

    def one(self, *choices):
        return choices[self.random.randint(len(choices))]

    def int(self, low, high):
        return int(self.random.randint(low, high))

    def flag(self):
        return bool(self.random.randint(2))

    def floats(self, *shape):
        value = self.random.uniform(0.1, 0.9, shape) * self.random.choice([-1, 1], shape)
        return value.astype(np.float32)

    def ints(self, low, high, *shape):
        return self.random.randint(low, high, shape).astype(self.one(np.int32, np.int64))

    def feed(self, value, name=None):
        batch = value.shape[0] if self.is_batch_known else None
        x = tf1.placeholder(value.dtype, [batch, *value.shape[1:]], name)
        self.feeds[x] = value
        return x

    def batch(self, x):
        return tf.shape(x)[0]

    def alike(self, x):
        """Another value of the same shape."""
        same = [v for v in self.values if v is not x and v.shape.as_list() == x.shape.as_list()]
        return same[self.int(0, len(same))] if same and self.flag() else tf.sin(x * 1.7 + 0.3)

    def axis(self, x, low=0):
        axis = self.int(low, len(x.shape))
        return axis - len(x.shape) if self.flag() else axis

    def variable(self, *shape):
        name = f"v{len(tf1.global_variables())}"
        initial = tf1.constant_initializer(self.floats(*shape))
        return tf1.get_variable(name, list(shape), tf.float32, initial, use_resource=self.is_resource)


@kind()
def unary(d, x):
    return getattr(tf.math, d.one(
        "sigmoid", "tanh", "softplus", "softsign", "exp", "square", "negative", "abs", "sin", "cos", "erf",
        "erfc", "expm1", "sign", "floor", "ceil", "round", "rint"))(x)


@kind()
def activation(d, x):
    return getattr(tf.nn, d.one("relu", "relu6", "elu", "selu", "leaky_relu", "swish", "crelu"))(x)


@kind()
def positive(d, x):
    y = tf.abs(x) + 0.5
    return getattr(tf.math, d.one("log", "sqrt", "rsqrt", "reciprocal", "log1p", "lgamma", "digamma"))(y)


@kind()
def trigonometry(d, x):
    return getattr(tf.math, d.one("asinh", "atan", "sinh", "cosh", "tan"))(tf.tanh(x))


@kind()
def binary(d, x):
    y = d.one(d.alike(x), 0.7, d.floats(*x.shape.as_list()[-1:]) if len(x.shape) > 1 else 1.3)
    return getattr(tf.math, d.one("add", "subtract", "multiply", "maximum", "minimum", "squared_difference"))(x, y)


@kind()
def division(d, x):
    y = tf.abs(d.alike(x)) + 0.5
    return d.one(tf.divide, tf.math.divide_no_nan, tf.math.floordiv, tf.math.floormod, tf.pow, tf.math.xdivy,
                 tf.atan2)(d.one(x, tf.abs(x) + 0.2), y)


@kind()
def no_nan(d, x):
    return tf.math.divide_no_nan(x, tf.nn.relu(d.alike(x)) * 2)


@kind()
def truncated(d, x):
    a, b = tf.cast(x * 20, tf.int32), d.one(3, -4)
    return tf.cast(d.one(tf.truncatediv, tf.truncatemod, tf.math.floordiv, tf.math.floormod)(a, b), tf.float32) / 9


@kind()
def compared(d, x):
    y = d.alike(x)
    truth = getattr(tf.math, d.one("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"))(x, y)
    if d.flag():
        truth = d.one(tf.logical_and, tf.logical_or)(truth, tf.logical_not(tf.greater(x, 0.2)))
    return d.one(lambda: tf.cast(truth, tf.float32), lambda: tf1.where(truth, x, y * 2),
                 lambda: tf1.where_v2(truth, x, 0.5))()


@kind(2, 3, 4)
def select_rows(d, x):
    return tf1.where(tf.greater(tf.reduce_sum(x, list(range(1, len(x.shape)))), 0.1), x, d.alike(x))


@kind()
def clipped(d, x):
    return d.one(lambda: tf.clip_by_value(x, -0.5, 0.6), lambda: tf.clip_by_norm(x, 1.5),
                 lambda: tf.nn.l2_normalize(x, d.axis(x)), lambda: tf.stop_gradient(x) * x, lambda: tf.identity(x),
                 lambda: tf.add_n([x, d.alike(x), x]), lambda: tf.math.accumulate_n([x, d.alike(x)]))()


@kind(2, 3, 4)
def reduction(d, x):
    reduce = d.one(tf1.reduce_sum, tf1.reduce_mean, tf1.reduce_max, tf1.reduce_min, tf1.reduce_logsumexp,
                   tf1.reduce_prod, tf.math.reduce_std, tf.math.reduce_variance, tf.norm)
    axes = d.one([1], [-1], 1, list(range(1, len(x.shape))))
    if reduce is tf.norm:
        axes = 1
    return reduce(x, axes, keepdims=d.flag())


@kind()
def spread_reduction(d, x):
    reduce = d.one(tf1.reduce_sum, tf1.reduce_mean, tf1.reduce_max, tf1.reduce_logsumexp)
    return x * reduce(x, d.one(0, None, [0]), keepdims=d.flag() or len(x.shape) == 1) if len(x.shape) <= 2 else x * reduce(x)


@kind()
def reduction_of_nothing(d, x):
    return d.one(tf1.reduce_mean, tf1.reduce_sum, tf1.reduce_max)(x, [])


@kind(2, 3, 4)
def reshape(d, x):
    rest = int(np.prod(x.shape.as_list()[1:]))
    n = d.batch(x)
    return d.one(lambda: tf.reshape(x, [n, -1]), lambda: tf.reshape(x, [-1, rest]),
                 lambda: tf.reshape(x, tf.stack([n, rest])), lambda: tf.reshape(x, [n, 1, rest]),
                 lambda: tf.reshape(x, tf.concat([tf.shape(x)[:1], [rest]], 0)),
                 lambda: tf.reshape(tf.reshape(x, [-1]), tf.shape(x)),
                 lambda: tf.reshape(tf.reshape(x, [n * rest]), [n, rest]))()


@kind(1, 2, 3)
def dimensions(d, x):
    y = tf.expand_dims(x, d.one(-1, 1))
    return d.one(lambda: y, lambda: tf.squeeze(y * 2, [d.one(-1, len(x.shape))]) if y.shape[-1] == 1 else y,
                 lambda: tf.tile(y, [1] * len(x.shape) + [2]))()


@kind(2, 3, 4)
def transposed(d, x):
    axes = [0] + [1 + i for i in d.random.permutation(len(x.shape) - 1)]
    if d.flag():
        return tf.transpose(x, axes)
    whole = tf.transpose(x) * 2
    return tf.transpose(whole)


@kind()
def concatenated(d, x):
    y = d.alike(x)
    return d.one(lambda: tf.concat([x, y, x], d.axis(x)) if len(x.shape) > 1 else tf.concat([x, y], 0)[:d.batch(x)],
                 lambda: tf.concat([x, y], 0)[d.batch(x):], lambda: tf.stack([x, y], -1),
                 lambda: tf.stack([x, y], 0)[1], lambda: tf.concat([x, y * 2], 0)[: d.batch(x)])()


@kind(2, 3, 4)
def cut(d, x):
    size = x.shape.as_list()[1]
    begin = [0, d.int(0, size)] + [0] * (len(x.shape) - 2)
    return d.one(lambda: tf.slice(x, begin, [-1] * len(x.shape)), lambda: tf.slice(x, begin, [d.batch(x), 1] + [-1] * (len(x.shape) - 2)),
                 lambda: x[:, ::-1], lambda: x[:, ::2], lambda: x[..., -1:], lambda: x[:, tf.newaxis, 0],
                 lambda: x[::-1], lambda: tf.unstack(x, axis=1)[size - 1], lambda: tf.split(x, size, 1)[0],
                 lambda: tf.split(x, [1, size - 1], 1)[0], lambda: tf.split(x, size, 1)[size - 1])()


@kind(1, 2, 3)
def cut_batch(d, x):
    n = d.batch(x)
    return d.one(lambda: tf.concat([x[1:], x[:1]], 0), lambda: tf.concat([x[n // 2:], x[:n // 2]], 0),
                 lambda: tf.pad(x[1:], [[1, 0]] + [[0, 0]] * (len(x.shape) - 1)), lambda: x * x[:1],
                 lambda: tf.roll(x, 1, 0), lambda: tf.slice(x, [0] * len(x.shape), tf.shape(x)),
                 lambda: tf.concat([x[:-1], x[-1:]], 0))()


@kind(2, 3)
def padded(d, x):
    rest = [[0, 0]] * (len(x.shape) - 2)
    return d.one(lambda: tf.pad(x, [[0, 0], [1, 2]] + rest), lambda: tf.pad(x, [[0, 0], [2, 0]] + rest, constant_values=0.5),
                 lambda: tf.pad(x, [[0, 0], [1, 0]] + rest, "SYMMETRIC"),
                 lambda: tf.pad(x, [[1, 0], [0, 0]] + rest)[1:],
                 lambda: tf.pad(x, [[1, 1], [0, 1]] + rest)[1:-1])()


@kind(1, 2, 3)
def repeated(d, x):
    n, rank = d.batch(x), len(x.shape)
    return d.one(lambda: tf.tile(x, [1] * (rank - 1) + [2]) if rank > 1 else tf.tile(x, [2])[:n],
                 lambda: x + tf.tile(d.floats(1, *x.shape.as_list()[1:]), [n] + [1] * (rank - 1)),
                 lambda: x * tf.reduce_mean(tf.tile(x, [2] + [1] * (rank - 1))),
                 lambda: x + tf.broadcast_to(0.3, tf.shape(x)), lambda: tf.repeat(x, 2, axis=0)[:n],
                 lambda: x * tf.fill(tf.shape(x), 0.4), lambda: x + tf.ones_like(x) * tf.zeros_like(x))()


@kind(2, 3)
def by_batch(d, x):
    n, rank = d.batch(x), len(x.shape)
    column = lambda v: tf.reshape(v, [-1] + [1] * (rank - 1))
    return d.one(lambda: x * column(tf.cast(tf.range(n), tf.float32) / 7), lambda: tf.concat([x, tf.zeros([n] + x.shape.as_list()[1:])], 1),
                 lambda: x + tf.ones([n, 1] + [1] * (rank - 2)), lambda: x / tf.cast(n, tf.float32),
                 lambda: x * tf.cast(tf.size(x), tf.float32) / 50.0, lambda: tf.gather(x, tf.range(n)),
                 lambda: tf.gather(x, n - 1 - tf.range(n)), lambda: x + tf.zeros([n, x.shape[1]] + x.shape.as_list()[2:]),
                 lambda: tf.stack([x, tf.zeros(tf.shape(x))], 1), lambda: tf.linspace(0.0, 1.0, 3)[1] * x,
                 lambda: x * column(tf.range(tf.cast(n, tf.float32)) / 9.0),
                 lambda: tf.boolean_mask(x, tf.fill([n], True)), lambda: tf.gather_nd(x, tf.expand_dims(tf.range(n), 1)))()


@kind(2)
def pairwise(d, x):
    difference = tf.expand_dims(x, 1) - tf.expand_dims(x, 0)
    return d.one(lambda: tf.reduce_sum(tf.square(difference), 2)[:, :1] / 3, lambda: tf.reduce_mean(difference, 1),
                 lambda: tf.matmul(tf.matmul(x, x, transpose_b=True), x) / 5,
                 lambda: tf.matmul(tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), x),
                 lambda: tf.reduce_sum(tf.square(tf.eye(d.batch(x)) - 0.1), 1)[:, tf.newaxis] * x)()


@kind(2, 3)
def gathered(d, x):
    size = x.shape.as_list()[1]
    at = d.ints(0, size, 3)
    return d.one(lambda: tf.gather(x, at, axis=1), lambda: tf.gather(x, d.ints(0, BATCH, BATCH)), lambda: tf.gather(x, d.int(0, size), axis=1),
                 lambda: tf.gather(x, tf.tile(at[None], [d.batch(x), 1]), batch_dims=1),
                 lambda: tf.gather(x, d.feed(d.ints(0, size, BATCH, 2)), batch_dims=1),
                 lambda: tf.gather(x, d.feed(d.ints(0, BATCH, BATCH))),
                 lambda: tf.gather_nd(x, tf.stack([tf.range(d.batch(x)), tf.zeros([d.batch(x)], tf.int32)], 1)))()


@kind(2)
def scattered(d, x):
    ids = d.feed(d.ints(-1, 4, BATCH))
    good = tf.maximum(ids, 0)
    return d.one(lambda: tf.gather(tf.math.unsorted_segment_sum(x, ids, 4), good),
                 lambda: tf.gather(tf.math.unsorted_segment_mean(x, good, 5), good),
                 lambda: tf.gather(tf.math.unsorted_segment_max(x, good, 4), good),
                 lambda: tf.gather(tf.math.segment_sum(x, tf.constant([0, 0, 1, 2, 2, 3])), good),
                 lambda: tf.scatter_nd(tf.expand_dims(good, 1), x, tf.cast([BATCH, x.shape[1]], good.dtype)),
                 lambda: tf.tensor_scatter_nd_add(x, tf.expand_dims(good, 1), x * 0.3),
                 lambda: tf.one_hot(ids, 4) * tf.reduce_mean(x), lambda: tf.one_hot(ids, x.shape[1], 2.0, -1.0) * x)()


@kind(1, 2, 3)
def cumulated(d, x):
    axis = d.axis(x)
    return d.one(tf.math.cumsum, tf.math.cumprod)(x, axis, exclusive=d.flag(), reverse=d.flag())


@kind(2, 3)
def ordered(d, x):
    return d.one(lambda: tf.math.top_k(x, 2)[0] if x.shape.as_list()[-1] > 1 else x, lambda: tf.cast(tf.argmax(x, d.axis(x, 1)), tf.float32) / 5,
                 lambda: tf.cast(tf.argmin(x, 1, output_type=tf.int32), tf.float32) / 5, lambda: tf.sort(x, axis=-1),
                 lambda: tf.cast(tf.argsort(x), tf.float32) / 5, lambda: tf.reverse(x, [d.axis(x)]),
                 lambda: tf.gather(x, tf.math.top_k(tf.reduce_sum(x, list(range(1, len(x.shape)))), d.batch(x))[1]))()


@kind(2, 3)
def soft(d, x):
    return d.one(lambda: tf.nn.softmax(x), lambda: tf.nn.log_softmax(x), lambda: tf.nn.softmax(x, axis=1),
                 lambda: tf.nn.softmax(x, axis=0))()


@kind(2)
def product(d, x):
    columns, more = x.shape.as_list()[1], d.int(1, 5)
    w = d.one(lambda: d.variable(columns, more), lambda: tf.constant(d.floats(columns, more)))()
    y = d.one(lambda: tf.matmul(x, w), lambda: tf.matmul(x, tf.transpose(w), transpose_b=True), lambda: tf.einsum("bi,io->bo", x, w),
              lambda: tf.tensordot(x, w, 1), lambda: tf1.nn.xw_plus_b(x, w, d.floats(more)))()
    return d.one(lambda: y, lambda: tf.nn.bias_add(y, d.variable(more)), lambda: y + d.variable(more))()


@kind(3)
def products(d, x):
    columns, more = x.shape.as_list()[2], d.int(1, 4)
    w = tf.constant(d.floats(columns, more))
    return d.one(lambda: tf.matmul(x, x, transpose_b=True), lambda: tf.matmul(x, x, transpose_a=True),
                 lambda: tf.einsum("bij,jk->bik", x, w), lambda: tf.tensordot(x, w, [[2], [0]]),
                 lambda: tf.einsum("bij,bkj->bik", x, x),
                 lambda: tf.linalg.matmul(x, w))()


@kind(4)
def convolved(d, x):
    depth = x.shape.as_list()[3]
    size, more, padding = d.int(1, 4), d.int(1, 4), d.one("SAME", "VALID")
    if min(x.shape.as_list()[1:3]) < size:
        padding = "SAME"
    filters = lambda *shape: d.one(lambda: d.variable(*shape), lambda: tf.constant(d.floats(*shape)))()
    stride = d.int(1, 3)
    return d.one(lambda: tf.nn.conv2d(x, filters(size, size, depth, more), stride, padding),
                 lambda: tf.nn.conv2d(x, filters(size, size, depth, more), 1, padding, dilations=d.int(1, 3)),
                 lambda: tf.nn.depthwise_conv2d(x, filters(size, size, depth, 2), [1, stride, stride, 1], padding),
                 lambda: tf.nn.conv2d(tf.concat([x, x], 3), filters(size, size, depth, 2 * more), stride, padding),
                 lambda: tf.nn.conv2d_transpose(x, filters(size, size, more, depth),
                                                tf.stack([d.batch(x), x.shape[1] * 2, x.shape[2] * 2, more]), 2, "SAME"),
                 lambda: tf1.nn.conv2d(x, filters(size, size, depth, more), [1, 1, 1, 1], [[0, 0], [1, 1], [1, 2], [0, 0]]))()


@kind(4)
def pooled(d, x):
    padding = "SAME" if min(x.shape.as_list()[1:3]) < 2 else d.one("SAME", "VALID")
    return d.one(tf.nn.max_pool2d, tf.nn.avg_pool2d)(x, 2, d.int(1, 3), padding)


@kind(4)
def normalised_images(d, x):
    depth = x.shape.as_list()[3]
    scale, offset = d.floats(depth), d.floats(depth)
    mean, variance = d.floats(depth), np.abs(d.floats(depth))
    return d.one(lambda: tf1.nn.fused_batch_norm(x, scale, offset, is_training=True)[0],
                 lambda: tf1.nn.fused_batch_norm(x, scale, offset, mean, variance, is_training=False, epsilon=0.01)[0],
                 lambda: tf1.nn.fused_batch_norm(x, scale, offset, mean, variance, is_training=True, exponential_avg_factor=0.7)[1] * x,
                 lambda: tf.nn.batch_normalization(x, mean, variance, offset, scale, 0.01))()


@kind(4)
def images(d, x):
    return d.one(lambda: tf.nn.space_to_depth(x, 2) if x.shape[1] % 2 == 0 and x.shape[2] % 2 == 0 else x,
                 lambda: tf.nn.depth_to_space(tf.concat([x] * 4, 3), 2), lambda: tf.image.flip_left_right(x) if d.is_batch_known else x,
                 lambda: tf1.image.resize_nearest_neighbor(x, [4, 4]),
                 lambda: tf.space_to_batch_nd(x, [2, 1], [[0, x.shape.as_list()[1] % 2], [0, 0]])[:d.batch(x)],
                 lambda: tf.batch_to_space(tf.tile(x, [2, 1, 1, 1]), [2, 1], [[0, 0], [0, 0]]),
                 lambda: tf1.nn.lrn(x), lambda: tf1.nn.dilation2d(x, tf.zeros([2, 2, x.shape[3]]), [1] * 4, [1] * 4, "SAME"))()


@kind(2)
def normalised(d, x):
    mean, variance = tf.nn.moments(x, [d.one(0, 1)], keepdims=True)
    y = (x - mean) * tf1.rsqrt(variance + 0.1)
    return d.one(lambda: y, lambda: tf.nn.batch_normalization(x, mean, variance, d.floats(x.shape[1]), None, 0.1))()


@kind(2)
def looked_up(d, x):
    rows, ids = d.variable(5, 3), d.feed(d.ints(0, 5, BATCH))
    y = tf1.nn.embedding_lookup(rows, ids)
    return tf.concat([x, y], 1) if d.flag() else y


@kind(1, 2)
def strange(d, x):
    n = d.batch(x)
    return d.one(lambda: x * tf.cast(tf.size(tf1.setdiff1d([1, 2, 3, 4], [2, 4])[0]), tf.float32),
                 lambda: x * tf.cast(tf.unique(tf.constant([3, 1, 3]))[1][1], tf.float32),
                 lambda: x * tf.cast(tf.math.invert_permutation([2, 0, 1])[0], tf.float32),
                 lambda: x + tf.reshape(tf.cast(tf.sequence_mask([1, 0], 2), tf.float32), [4])[0],
                 lambda: x * tf.cast(tf.rank(x), tf.float32), lambda: tf.where(tf.math.is_nan(x), tf.zeros_like(x), x),
                 lambda: x * tf.reduce_prod(tf.cast(tf.shape(x), tf.float32)) / 30,
                 lambda: tf.linalg.band_part(tf.reshape(tf.tile(tf.reshape(x, [n, -1])[:, :1], [1, 4]), [n, 2, 2]), 0, -1),
                 lambda: tf.linalg.diag(x)[..., 0] * 2, lambda: tf.debugging.check_numerics(x, "x"),
                 lambda: tf.cast(tf.cast(x, tf.float64) * 2, tf.float32), lambda: x * tf.cast(tf.reduce_any(x > 0), tf.float32),
                 lambda: x + tf.dynamic_stitch([[0], [1]], [[0.1], [0.2]])[1],
                 lambda: tf1.Print(x, [x], "x"), lambda: with_assert(x), lambda: tf.meshgrid(x, tf.range(2.0))[0] if len(x.shape) == 1 else x,
                 lambda: tf.linalg.trace(tf.ones([2, 2])) * x, lambda: tf.math.xlogy(x, tf.abs(x) + 0.5))()


def inside(d, x):
    """Something of the shape of `x`, as a branch or a body computes it."""
    square = len(x.shape) == 2
    a, b = float(d.floats()), float(d.floats())
    return d.one(lambda v: tf.tanh(v * a + b), lambda v: tf.sin(v) * x, lambda v: v * 0.5 + x * a,
                 lambda v: tf.sigmoid(v) - tf.reduce_mean(v), lambda v: tf.nn.relu(v - b) + 0.1,
                 lambda v: v * tf.nn.softmax(v), lambda v: tf.maximum(v, a) * b,
                 *([lambda v, w=tf.constant(d.floats(x.shape[1], x.shape[1])): tf.matmul(v, w)] if square else []))


@kind()
def branched(d, x):
    p = d.one(lambda: tf.reduce_sum(x) > float(d.floats()), lambda: tf.constant(d.flag()), lambda: d.batch(x) > d.int(4, 8))()
    f, g, h = inside(d, x), inside(d, x), inside(d, x)
    return d.one(lambda: tf1.cond(p, lambda: f(x), lambda: g(x)), lambda: tf1.cond(p, lambda: x, lambda: g(x)),
                 lambda: tf1.cond(p, lambda: tf1.cond(tf.reduce_max(x) > 0.5, lambda: f(x), lambda: g(x)), lambda: h(x)),
                 lambda: tf1.cond(p, lambda: [f(x), x * 2], lambda: [x, g(x)])[1],
                 lambda: tf1.case([(p, lambda: f(x)), (tf.reduce_min(x) > 0.1, lambda: g(x))], lambda: h(x)))()


@kind()
def repeated_in_loop(d, x):
    f, g, n = inside(d, x), inside(d, x), d.int(0, 4)
    options = {"parallel_iterations": d.int(1, 11)}
    if d.flag():
        options["maximum_iterations"] = d.int(1, 4)

    def loop(body, start, n=n, **options):
        return tf1.while_loop(lambda i, v: i < n, lambda i, v: [i + 1, body(i, v)], [0, start], **options)[1]

    return d.one(lambda: loop(lambda i, v: f(v), x, **options), lambda: loop(lambda i, v: f(v), g(x), **options),
                 lambda: loop(lambda i, v: g(v) * tf.cast(i + 1, tf.float32), x, **options),
                 lambda: loop(lambda i, v: f(loop(lambda j, u: g(u), v, 2)), x, **options),
                 lambda: loop(lambda i, v: tf1.cond(tf.equal(i % 2, 0), lambda: f(v), lambda: g(v)), x, **options),
                 lambda: tf1.cond(tf.reduce_sum(x) > 0.2, lambda: loop(lambda i, v: f(v), x), lambda: g(x)),
                 lambda: tf1.while_loop(lambda v, s: tf.reduce_max(tf.abs(v)) > 0.1, lambda v, s: [v * 0.4, s + f(v)],
                                        [x, tf.zeros_like(x)], **options)[1])()


@kind()
def changed(d, x):
    """A variable that a branch of a condition or the body of a loop changes."""
    shape = x.shape.as_list()[1:]

    def variable():
        initial = tf1.constant_initializer(d.floats(*shape))
        name = f"v{len(tf1.global_variables())}"
        return tf1.get_variable(name, shape, tf.float32, initial, trainable=False, use_resource=d.is_resource)

    v = variable()
    w = variable() if d.flag() else v
    by, p = tf.stop_gradient(tf.tanh(tf.reduce_mean(x, 0))), tf.reduce_sum(x) > 0.1

    def after(first, value):
        with tf.control_dependencies([first]):
            return tf.stop_gradient(value()) if callable(value) else tf.identity(value)

    add, assign = lambda: after(v.assign_add(by), v.read_value), lambda: after(w.assign(by * 0.5), w.read_value)
    def loop(change):
        # The next iteration waits for the sum: TensorFlow's iterations overlap, and a variable by
        # reference is read where it lies, which the next one changes.
        def body(i, s):
            s = s * 0.5 + change(s)
            with tf.control_dependencies([s]):
                return [i + 1, tf.identity(s)]
        return tf1.while_loop(lambda i, s: i < 3, body, [0, x])[1]

    return d.one(lambda: x * tf1.cond(p, add, lambda: by), lambda: x + tf1.cond(p, assign, add),
                 lambda: tf1.cond(p, lambda: after(v.assign_sub(by), x * 2), lambda: tf.sin(x)),
                 lambda: loop(lambda s: after(v.assign_add(by), v.read_value)),
                 lambda: loop(lambda s: after(v.assign(v.read_value() * 0.5 + by), w.read_value)),
                 lambda: loop(lambda s: tf1.cond(tf.reduce_sum(s) > 0.3, add, lambda: by * 0.5)),
                 lambda: tf1.cond(p, lambda: loop(lambda s: after(v.assign_add(by), v.read_value)), lambda: tf.cos(x)))()


@kind(2, 3)
def over_array(d, x):
    f, size = tf.tanh, x.shape.as_list()[1]
    columns = tf.transpose(x, [1, 0] + list(range(2, len(x.shape))))

    def written(i, out):
        return [i + 1, out.write(i, f(x[:, 0]) * tf.cast(i + 1, tf.float32))]

    def read(t, h, out):
        h = tf.tanh(rows.read(t) + h * 0.5)
        return [t + 1, h, out.write(t, h)]

    if d.flag():
        rows = tf.TensorArray(tf.float32, size=size).unstack(columns)
        start = [0, tf.zeros_like(x[:, 0]), tf.TensorArray(tf.float32, size=size)]
        _, last, out = tf1.while_loop(lambda t, *_: t < size, read, start)
        return d.one(lambda: last, lambda: out.stack()[size - 1], lambda: tf.transpose(out.stack(), [1, 0] + list(range(2, len(x.shape)))))()
    return d.one(lambda: tf.transpose(tf.map_fn(lambda r: tf.sin(r) * r, columns), [1, 0] + list(range(2, len(x.shape)))),
                 lambda: tf.map_fn(lambda r: tf.reduce_sum(r) * r, x), lambda: tf.scan(lambda a, r: tf.tanh(a) + r, columns)[size - 1],
                 lambda: tf.scan(lambda a, r: a * 0.5 + r, x), lambda: tf.foldl(lambda a, r: tf.sin(a) + r, columns),
                 lambda: tf1.while_loop(lambda i, out: i < 2, written, [0, tf.TensorArray(tf.float32, size=0, dynamic_size=True)])[1].stack()[1])()


@kind(3)
def recurrent(d, x):
    columns, units = x.shape.as_list()[2], d.int(1, 4)
    w, is_gated = d.variable(columns + units, units), d.flag()

    class Cell:
        state_size = output_size = units

        def zero_state(self, batch, dtype):
            return tf.zeros([batch, units], dtype)

        def __call__(self, inputs, state, scope=None):
            both = tf.matmul(tf.concat([inputs, state], 1), w)
            state = tf.sigmoid(both) * state + tf.tanh(both) if is_gated else tf.tanh(both)
            return state, state

    lengths = d.one(None, d.feed(d.random.randint(1, x.shape[1] + 1, BATCH).astype(np.int32)))
    outputs, last = tf1.nn.dynamic_rnn(Cell(), x, dtype=tf.float32, sequence_length=lengths)
    return d.one(outputs, last)


def with_assert(x):
    with tf.control_dependencies([tf1.assert_less(x, 1e9, data=[x])]):
        return tf.identity(x)


def losses(d, x):
    """A scalar of a value."""
    rank = len(x.shape)
    if rank == 1:
        x = tf.expand_dims(x, 1)
    if rank > 2:
        x = tf.reshape(x, [d.batch(x), int(np.prod(x.shape.as_list()[1:]))])
    columns = x.shape.as_list()[1]
    labels = d.feed(d.random.randint(0, columns, BATCH).astype(d.one(np.int32, np.int64)))
    target = d.feed(np.abs(d.floats(BATCH, columns)))
    probabilities = target / tf.reduce_sum(target, 1, keepdims=True)
    weights = d.one(1.0, tf.cast(labels > 0, tf.float32) + 0.5)
    column = weights if isinstance(weights, float) else tf.expand_dims(weights, 1)
    reduction = d.one("weighted_mean", "weighted_sum", "weighted_sum_by_nonzero_weights", "weighted_sum_over_batch_size")
    mean = tf1.reduce_mean
    return d.one(
        lambda: mean(tf.square(x - target)), lambda: mean(tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)),
        lambda: mean(tf1.nn.softmax_cross_entropy_with_logits_v2(labels=tf.stop_gradient(probabilities), logits=x)),
        lambda: mean(tf1.nn.softmax_cross_entropy_with_logits(labels=probabilities, logits=x)),
        lambda: mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=x)),
        lambda: mean(tf1.nn.weighted_cross_entropy_with_logits(labels=target, logits=x, pos_weight=2.0)),
        lambda: tf.nn.l2_loss(x), lambda: tf1.losses.mean_squared_error(target, x, column, reduction=reduction),
        lambda: tf1.losses.absolute_difference(target, x, column, reduction=reduction),
        lambda: tf1.losses.huber_loss(target, x, column, reduction=reduction),
        lambda: tf1.losses.log_loss(target, tf.sigmoid(x), column, reduction=reduction),
        lambda: tf1.losses.hinge_loss(tf.round(target), x, column, reduction=reduction),
        lambda: tf1.losses.sigmoid_cross_entropy(target, x, column, reduction=reduction),
        lambda: tf1.losses.sparse_softmax_cross_entropy(labels, x, weights, reduction=reduction),
        lambda: tf1.losses.softmax_cross_entropy(tf.one_hot(labels, columns), x, weights, label_smoothing=d.one(0, 0.1), reduction=reduction),
        lambda: tf1.losses.cosine_distance(tf.nn.l2_normalize(target, 1), tf.nn.l2_normalize(x, 1), axis=1, reduction=reduction),
        lambda: mean(tf1.nn.softmax_cross_entropy_with_logits_v2(labels=tf.constant(np.eye(columns, dtype=np.float32)[:1]) + tf.zeros_like(x), logits=x)),
        lambda: -mean(tf.reduce_sum(tf.one_hot(labels, columns) * tf.nn.log_softmax(x), 1)),
    )()


def optimizers(d):
    train = tf1.train
    return d.one(
        lambda: train.GradientDescentOptimizer(0.3), lambda: train.MomentumOptimizer(0.1, 0.8, use_nesterov=d.flag()),
        lambda: train.AdagradOptimizer(0.2), lambda: train.AdamOptimizer(0.05), lambda: train.RMSPropOptimizer(0.02, momentum=d.one(0.0, 0.5)),
        lambda: train.RMSPropOptimizer(0.02, centered=True),
        lambda: train.FtrlOptimizer(0.3, l1_regularization_strength=d.one(0.0, 0.01), l2_regularization_strength=d.one(0.0, 0.02)),
        lambda: train.FtrlOptimizer(0.3, l2_shrinkage_regularization_strength=0.1),
        lambda: train.AdadeltaOptimizer(0.5, epsilon=1e-3), lambda: train.ProximalGradientDescentOptimizer(0.1, 0.01, 0.02),
        lambda: train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02),
        lambda: train.AdagradDAOptimizer(0.1, train.get_or_create_global_step()),
    )()


def finite(arrays):
    return all(np.isfinite(a).all() and (a.size == 0 or np.abs(a).max() < 1e5) for a in arrays if a.dtype.kind == "f")


def is_steady(one, other):
    """Whether values of floats are alike but for rounding."""
    for a, b in zip(one, other):
        if a.dtype.kind != "f":
            if not np.array_equal(a, b):
                return False
        elif a.size and np.abs(a - b).max() > 3e-6 * max(np.abs(a).max(), 1e-30):
            return False
    return True


def in_double(definition):
    """The same graph with double-precision numbers in place of single-precision ones."""
    single, double = tf.float32.as_datatype_enum, tf.float64.as_datatype_enum
    reference = single + 100
    functions = definition.library.function
    for function in functions:
        for argument in list(function.signature.input_arg) + list(function.signature.output_arg):
            argument.type = double if argument.type == single else argument.type
    for node in list(definition.node) + [node for function in functions for node in function.node_def]:
        for attribute in node.attr.values():
            if attribute.type in (single, reference):
                attribute.type += double - single
            for i, kind in enumerate(attribute.list.type):
                if kind == single:
                    attribute.list.type[i] = double
            if attribute.tensor.dtype == single:
                value = tf.make_ndarray(attribute.tensor).astype(np.float64)
                attribute.tensor.CopyFrom(tf.make_tensor_proto(value))
    return definition


class Steps:
    """What a graph is run with, and TensorFlow's numbers."""

    def __init__(self, d, fetches, gradients, train, init, variables):
        steps = [({}, [init], [])] if init else []
        steps.append((d.feeds, [], fetches + gradients))
        if train:
            steps += [(d.feeds, [train], []) for _ in range(3)]
            steps.append(({}, [], variables))
        self.steps = steps

    def run(self, factor):
        """The fetched arrays of each step; float feeds are multiplied by `factor`."""
        alter = lambda v: (v * factor).astype(v.dtype) if v.dtype.kind == "f" else v
        with tf1.Session() as session:
            return [session.run([fetches, targets], {x: alter(v) for x, v in feeds.items()})[0]
                    for feeds, targets, fetches in self.steps]

    def run_in_double(self):
        """The fetched arrays of each step, computed in double precision."""
        definition = in_double(tf1.get_default_graph().as_graph_def())
        double = lambda v: v.astype(np.float64) if v.dtype.kind == "f" else v
        with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
            tf1.import_graph_def(definition, name="")
            return [session.run([[x.name for x in fetches], [t.name for t in targets]],
                                {x.name: double(v) for x, v in feeds.items()})[0]
                    for feeds, targets, fetches in self.steps]

    def told(self, found):
        return [{
            "feeds": {x.name: tensor(v) for x, v in feeds.items()},
            "targets": [target.name for target in targets],
            "fetches": {x.name: tensor(v) for x, v in zip(fetches, values)},
        } for (feeds, targets, fetches), values in zip(self.steps, found)]


def grow(d):
    """Adds some operations to the graph."""
    shape = [(BATCH,), (BATCH, 4), (BATCH, 3), (BATCH, 2, 3), (BATCH, 4, 4, 2)]
    d.values = [d.feed(d.floats(*shape[d.int(0, len(shape))]), "x")]
    for _ in range(d.int(2, 6)):
        x = d.values[-1] if d.random.rand() < 0.7 else d.values[d.int(0, len(d.values))]
        rank = len(x.shape)
        name, _, build = d.one(*[k for k in KINDS if not k[1] or rank in k[1]])
        with tf1.name_scope(name):
            y = build(d, x)
        shape = y.shape.as_list()
        if y.dtype != tf.float32 or not 1 <= len(shape) <= 4 or None in shape[1:] or shape[0] not in (None, BATCH):
            continue
        if d.flag():
            y = tf.tanh(y)
        d.values.append(y)
        d.ops.append(name)


def draw(seed):
    """The GraphDef's bytes and the JSON of one graph; None if its numbers are no test."""
    tf1.reset_default_graph()
    tf1.set_random_seed(1)
    d = Draw(seed)
    (tf1.enable_control_flow_v2 if d.has_functions else tf1.disable_control_flow_v2)()
    grow(d)
    if not d.ops:
        return None
    loss = losses(d, d.values[-1])
    floats = [x for x in d.feeds if x.dtype == tf.float32]
    trained = tf1.trainable_variables()
    found = [g for g in tf1.gradients(loss, floats) if g is not None]
    gradients = [tf1.convert_to_tensor(g) for g in found]
    train = None
    if trained and d.random.rand() < 0.8:
        train = optimizers(d).minimize(loss, global_step=tf1.train.get_or_create_global_step())
    init = tf1.global_variables_initializer() if tf1.global_variables() else None
    read = [tf1.convert_to_tensor(v) for v in tf1.global_variables() if "beta" not in v.name and "_power" not in v.name]
    fetches = list({x.name: x for x in d.values[1:] + [loss]}.values())
    steps = Steps(d, fetches, gradients, train, init, read)
    one, other = steps.run(1.0), steps.run(1.0 + 2e-7)
    flat = lambda steps: [np.asarray(a) for step in steps for a in step]
    if not finite(flat(one)) or not is_steady(flat(one), flat(other)):
        return None
    if not is_steady(flat(one), flat(steps.run_in_double())):
        return None
    meta = tf1.train.export_meta_graph()
    if d.is_stripped:
        meta_graph.strip_graph_default_valued_attrs(meta)
    name = f"{seed}: {', '.join(d.ops)}"
    return meta.graph_def.SerializeToString(deterministic=True), {"cases": [{"name": name, "steps": steps.told(one)}]}


def main(folder, first, count):
    os.makedirs(folder, exist_ok=True)
    written, errors = 0, {}
    for seed in range(first, first + count):
        for again in range(50):
            try:
                drawn = draw(seed + 1_000_000 * again)
            except (ValueError, TypeError, tf.errors.OpError, LookupError, IndexError, AttributeError) as error:
                text = f"{type(error).__name__}: {str(error)[:80]}"
                errors[text] = errors.get(text, 0) + 1
                continue
            if drawn:
                graph, told = drawn
                with open(os.path.join(folder, f"{seed}.pb"), "wb") as file:
                    file.write(graph)
                with open(os.path.join(folder, f"{seed}.json"), "w") as file:
                    json.dump(told, file, separators=(",", ":"))
                written += 1
                break
    print(written, "graphs in", folder)
    for text, number in sorted(errors.items(), key=lambda e: -e[1])[:15]:
        print(f"  drawn again {number} times: {text}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
