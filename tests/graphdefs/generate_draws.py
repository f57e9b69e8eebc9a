"""Writes `draws.pb`: functions, conditions and loops of TensorFlow 2 that draw random values.

Run with TensorFlow 2.21 in this folder: `python generate_draws.py`. What they draw is TensorFlow's own
affair; the tests ask which draws differ.
"""

from generate import tf, tf1
from generate_loops import write_graph


def mask():
    return tf.random.uniform([4], minval=0.5, maxval=1.0)


@tf.function(autograph=False)
def masked(x):
    return x * mask()


@tf.function(autograph=False)
def masked_within(x):
    return masked(x)


def rounds(x, draw):
    """What the last two of three rounds draw."""
    return tf.while_loop(
        lambda i, *_: i < 3, lambda i, before, now: (i + 1, now, draw(x)), (0, tf.zeros([4]), tf.zeros([4])))[1:]


def main():
    tf1.enable_control_flow_v2()
    tf1.enable_tensor_equality()
    graph = tf.Graph()
    with graph.as_default():
        tf1.train.get_or_create_global_step()
        x, holds = tf1.placeholder(tf.float32, [4], "x"), tf1.placeholder(tf.bool, [], "holds")
        tf.identity(masked(x), "once")
        tf.identity(masked(x), "again")
        tf.identity(masked_within(x), "within")
        tf.identity(tf.cond(holds, lambda: x * mask(), lambda: x * mask()), "either")
        for name, draw in [("loop", lambda x: x * mask()), ("calls", masked)]:
            before, now = rounds(x, draw)
            tf.identity(before, f"{name}_before")
            tf.identity(now, f"{name}_now")
        before, now = rounds(x, lambda x: rounds(x, masked)[1])
        tf.identity(before, "nested_before")
        tf.identity(now, "nested_now")
    write_graph("draws", graph)


if __name__ == "__main__":
    main()
