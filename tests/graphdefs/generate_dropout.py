"""Writes `dropout.pb` and `dropout_training.pb`: dropout on batches of unknown size.

Run with TensorFlow 2.21 in this folder: `python generate_dropout.py`. What they draw is TensorFlow's own
affair; the tests ask for shape, share, scale and gradient, and train the second as a scenario's program.
"""

from generate import tf, tf1
from generate_loops import write_graph


def layer(x, name, inputs, outputs):
    with tf1.variable_scope(name, reuse=tf1.AUTO_REUSE):
        w = tf1.get_variable("w", [inputs, outputs], initializer=tf1.glorot_uniform_initializer(seed=7))
        b = tf1.get_variable("b", [outputs], initializer=tf1.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(x, w), b)


@tf.function(autograph=False)
def called(x):
    return tf.nn.dropout(x, 0.25)


def dropouts():
    graph = tf.Graph()
    with graph.as_default():
        tf1.train.get_or_create_global_step()
        x = tf1.placeholder(tf.float32, [None, 50], "x")
        sizes = tf1.placeholder(tf.int32, [2], "sizes")
        is_training = tf1.placeholder_with_default(False, [], "is_training")
        batch = tf.shape(x)[0]
        outputs = {
            "dropped": tf.nn.dropout(x, 0.25),
            "kept": tf1.nn.dropout(x, keep_prob=0.25),
            "rows": tf.nn.dropout(x, 0.5, noise_shape=[batch, 1]),
            "called": called(x),
            "trained": tf.cond(is_training, lambda: tf.nn.dropout(x, 0.25), lambda: tf.identity(x)),
            "noisy": x + tf.random.normal(tf.shape(x), 1.0, 0.5),
            "cut": x + tf.random.truncated_normal(tf.shape(x)),
            "uneven": tf.random.uniform([2 * batch, 3], 2.0, 4.0),
            "asked": tf.random.uniform(sizes),
        }
        for name, output in outputs.items():
            output = tf.identity(output, name)
            if name not in ["uneven", "asked"]:
                gradient = tf1.gradients(tf.reduce_sum(output), [x])[0]
                tf.identity(gradient, f"{name}_by_x")
    write_graph("dropout", graph)


def training():
    """Trains with dropout, measures without it; the optimizer is TensorFlow's."""
    graph = tf.Graph()
    with graph.as_default():
        images = tf1.placeholder(tf.float32, [None, 8, 8, 1], "images")
        labels = tf1.placeholder(tf.int64, [None], "labels")
        hidden = tf.nn.relu(layer(tf.reshape(images, [-1, 64]), "hidden", 64, 64))
        logits = layer(tf.nn.dropout(hidden, 0.5), "logits", 64, 10)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf1.reduce_mean(losses, name="loss")
        measured = layer(hidden, "logits", 64, 10)
        is_right = tf.cast(tf.equal(tf.argmax(measured, 1), labels), tf.float32)
        tf1.reduce_mean(is_right, name="accuracy")
        global_step = tf1.train.get_or_create_global_step()
        tf1.train.AdagradOptimizer(0.05).minimize(loss, global_step=global_step, name="train")
    write_graph("dropout_training", graph)


if __name__ == "__main__":
    dropouts()
    training()
