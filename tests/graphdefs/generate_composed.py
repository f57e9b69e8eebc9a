"""Writes `composed.pb` and `composed.json`: operations that are composed of several here, and arrays
without elements.

Run with TensorFlow 2.21 in this folder: `python generate_composed.py`. The format is `generate.py`'s.
"""

import numpy as np

from generate import tf, values
from generate_loops import Loops

IDS = np.int32([2, 0, -1, 2])
INFINITE = np.float32([1, 0, 0, -2])  # 1 / x has what JSON has not


def scaled(x):
    """An input of either sign that reaches the loss, and whose gradient is told."""
    return x * tf.constant([1.0, -2.0, 0.5, 3.0])


def arithmetic(c, a, b):
    c.case("truncate_div", lambda x, y: x * y + tf.truncatediv(x * 4, y), a, b)
    c.case("truncate_div_int", lambda x: [scaled(x), tf.truncatediv(tf.cast(x * 20, tf.int32), 3)], a)
    c.case("is_inf", lambda x: [scaled(x), tf.math.is_inf(1 / x), tf.math.is_finite(1 / x)], INFINITE)
    c.case("multiply_no_nan", lambda x, y: tf.math.multiply_no_nan(x, y) + y, a, np.float32([1, 0, 0, -2]))
    by_zero = lambda x: tf.math.multiply_no_nan(1 / tf.stop_gradient(x), tf.constant([1.0, 0, 0, 2])) + x
    c.case("multiply_infinity_by_zero", by_zero, INFINITE)
    c.case("euclidean_norm", lambda x: tf.math.reduce_euclidean_norm(x, 1), a)
    c.case("euclidean_norm_kept", lambda x: tf.math.reduce_euclidean_norm(x, [0, 1], keepdims=True), a)
    buckets = lambda x: [scaled(x)] + [tf.raw_ops.Bucketize(input=z, boundaries=[-1.0, 0.0, 0.25, 1.0])
                                       for z in (x, tf.cast(x, tf.float64), tf.cast(x * 3, tf.int32))]
    c.case("bucketize", buckets, a)
    c.case("silu", lambda x: tf.nn.silu(x), a)
    c.case("swish", lambda x, y: tf.nn.silu(x, y), a, np.float32(1.5))


def arrays(c, a, cube):
    c.case("roll_axes", lambda x: tf.roll(x, [1, -3, 1], [0, 2, 0]) * x, cube)
    for name in ["min", "prod"]:
        segments = getattr(tf.math, f"unsorted_segment_{name}")
        c.case(f"segment_{name}", lambda x: tf.tanh(segments(x, IDS, 3)) * x[:3], values(81, 4, 2), written=False)
    none = lambda x: tf.boolean_mask(x, tf.zeros_like(x[:, 0, 0], tf.bool))
    c.case("reshape_none", lambda x: [x, tf.reshape(none(x), [tf.shape(none(x))[0], -1])], cube)
    c.case("reshape_none_to_zero", lambda x: [x, tf.reshape(none(x), [-1, 0, 5]), tf.reshape(x[:0], [0, 5, -1])], cube)
    c.case("tile_none", lambda x: tf.concat([tf.reshape(tf.tile(x, [0, 2, 1]), [-1]), tf.reshape(x, [-1])], 0), cube)
    wide = values(82, 2, 1, 3, 2)
    c.case("tile_none_wide", lambda x: tf.concat([tf.reshape(tf.tile(x, [0, 2, 1, 1]), [-1]), tf.reshape(x, [-1])], 0), wide)
    c.case("scatter_sub", lambda x, u: tf.tensor_scatter_nd_sub(x, [[2], [0], [2]], u) * x, a, values(86, 3, 4))
    pad = lambda x, v: tf.pad(x, [[1, 0], [2, 1]], constant_values=v * 2) * v
    c.case("pad_with_computed", pad, a, np.float32(1.5), batch=True)
    hot = lambda x, v: tf.one_hot(IDS, 3, v * 2, tf.reduce_sum(x)) * v * x[0, 0]
    c.case("one_hot_of_computed", hot, a, np.float32(1.5))
    own = lambda x: [x, tf.pad(x, [[1, 1], [0, 0]], constant_values=x[0, 0]), tf.one_hot(IDS, 3, x[0, 1], 0.0)]
    c.case("computed_numbers", own, a)
    c.case("repeat", lambda x: tf.repeat(x, [2, 0, 3], 0), a)
    c.case("repeat_columns", lambda x: tf.repeat(x, [2, 1, 3], 1) * 2, cube, written=False)


def products(c):
    x, w, q = values(83, 2, 3, 4), values(84, 4, 5), values(85, 2, 5, 4)
    c.case("einsum_ellipsis", lambda x, w: tf.einsum("...i,ij->...j", x, w), x, w)
    c.case("einsum_ellipsis_batch", lambda x, w: tf.einsum("...i,ij->...j", x, w), x, w, batch=True)
    c.case("einsum_ellipses", lambda x, q: tf.einsum("...ij,...kj->...ik", x, q), x, q)
    c.case("einsum_fewer_axes", lambda q, w: tf.einsum("...ij,...ji->...i", q, w), q, w)
    c.case("einsum_spread", lambda x, q: tf.einsum("...i,...i->...", x[:, :1], q[0]), x, q)
    c.case("einsum_ellipsis_of_one", lambda x: tf.einsum("i...->...i", x), x)


def composed():
    c = Loops("composed")
    a, b, cube = values(78, 3, 4), values(79, 3, 4), values(80, 2, 3, 4)
    arithmetic(c, a, b)
    arrays(c, a, cube)
    products(c)
    c.write()


if __name__ == "__main__":
    composed()
