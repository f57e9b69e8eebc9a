"""Writes `digits_mlp.pb`: a perceptron for the digits, with TensorFlow's own training operation.

Run with TensorFlow 2.21 in this folder: `python digits_mlp.py`. It is the graph that a worker of
TensorFlow's distributed trainer builds; `sims/imported.toml` trains it.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_v2_behavior()

CLUSTER = {"ps": ["ps0:2222", "ps1:2222"], "worker": ["worker0:2222", "worker1:2222"]}


def layer(x, name, inputs, outputs):
    with tf1.variable_scope(name):
        w = tf1.get_variable("w", [inputs, outputs], initializer=tf1.glorot_uniform_initializer(seed=7))
        b = tf1.get_variable("b", [outputs], initializer=tf1.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(x, w), b)


with tf1.device(tf1.train.replica_device_setter(worker_device="/job:worker/task:0", cluster=CLUSTER)):
    images = tf1.placeholder(tf.float32, [None, 8, 8, 1], "images")
    labels = tf1.placeholder(tf.int64, [None], "labels")
    hidden = tf.nn.relu(layer(tf.reshape(images, [-1, 64]), "hidden", 64, 64))
    logits = layer(hidden, "logits", 64, 10)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf1.reduce_mean(losses, name="loss")
    is_right = tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32)
    tf1.reduce_mean(is_right, name="accuracy")
    global_step = tf1.train.get_or_create_global_step()
    tf1.train.AdagradOptimizer(0.05).minimize(loss, global_step=global_step, name="train")

with open("digits_mlp.pb", "wb") as file:
    file.write(tf1.get_default_graph().as_graph_def().SerializeToString(deterministic=True))
