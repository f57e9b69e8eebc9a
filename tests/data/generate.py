"""Writes `examples.tfrecord` with TensorFlow 2.21: three `tf.train.Example`s of a feature each kind."""

import os

import tensorflow as tf

Feature, FLOATS, INTS, BYTES = (
    tf.train.Feature,
    tf.train.FloatList,
    tf.train.Int64List,
    tf.train.BytesList,
)

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "examples.tfrecord")
with tf.io.TFRecordWriter(path) as out:
    for i in range(3):
        feature = {
            "x": Feature(float_list=FLOATS(value=[i, i + 0.5, -1.25])),
            "y": Feature(int64_list=INTS(value=[i])),
            "raw": Feature(bytes_list=BYTES(value=[bytes([0, 51, 255])])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        out.write(example.SerializeToString())
