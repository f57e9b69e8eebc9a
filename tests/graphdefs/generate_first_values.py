"""Writes `first_values.pb` and `first_values.json`: variables whose first values read others, in
conditions of TensorFlow 2; what they hold when they have begun, and after steps of moving averages.

Run with TensorFlow 2.21 in this folder: `python generate_first_values.py`. The format is `generate.py`'s.
"""

from generate import tensor, tf, tf1
from generate_loops import write_group


def first_values():
    tf1.enable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        x = tf1.get_variable("x", initializer=tf.constant([1.0, -2.0]), use_resource=True)
        first = tf.cond(tf1.is_variable_initialized(x), x.read_value, lambda: x.initial_value)
        y = tf1.get_variable("y", initializer=first * 3, use_resource=True)
        averages = tf1.train.ExponentialMovingAverage(0.75)
        with tf.control_dependencies([x.assign_add([1.0, 2.0])]):
            step = averages.apply([x])
        read = [tf.identity(v.read_value(), f"read{i}") for i, v in enumerate([x, y, averages.average(x)])]
        init = tf1.global_variables_initializer()
        steps = []
        with tf1.Session(graph=graph) as session:
            for targets in [[init], [], [step], [step], []]:
                fetches = [] if targets else read
                fetched, _ = session.run([fetches, targets])
                steps.append({"feeds": {}, "targets": [target.name for target in targets],
                              "fetches": {v.name: tensor(value) for v, value in zip(fetches, fetched)}})
    write_group("first_values", graph, [{"name": "first_values", "steps": steps}])


if __name__ == "__main__":
    first_values()
