#!/usr/bin/env python3
"""The work of `--bench peer` in TensorFlow: a JSON line for each result, with the same fields.

    python3 -m venv target/tensorflow     # some minutes, 275 MB
    target/tensorflow/bin/pip install tensorflow-cpu==2.21.0
    peer="target/tensorflow/bin/python benches/peer/tensorflow_peer.py"
    $peer local-step                                    # one process, no cluster
    $peer null-step --kind scalar --ps 1 --workers 1
    $peer null-step --kind dense --megabytes 100 --steps 10
    $peer train --mode async --workers 2 --layers 64,128,10 --batch 32

A cluster is one process a task on 127.0.0.1 (gRPC, no encryption). A null step reads 16 variables
of the parameter servers and applies an update of the same size to each. A training is replicated
between graphs, with Adagrad. A training that has not ended after two minutes, or a null step's
cluster after four, is ended, and its line says `hang`.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

VARIABLES = 16  # of a null step
SAMPLES = 4096  # of a training


def report(**row):
    print(json.dumps({"peer": "tensorflow", **row}), flush=True)


def timed(run, steps, warm_up):
    """The durations of `steps` calls, after some that are not timed."""
    import numpy as np

    for _ in range(warm_up):
        run()
    took = []
    for _ in range(steps):
        began = time.perf_counter()
        run()
        took.append((time.perf_counter() - began) * 1e3)
    percentiles = (("p10_ms", 10), ("median_ms", 50), ("p90_ms", 90))
    return {name: round(float(np.percentile(took, of)), 4) for name, of in percentiles}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def spawn_cluster(args, limit_s):
    """Starts a process a task, waits for the workers, and ends the parameter servers."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(args.ps + args.workers)]
    cluster = {"ps": addresses[: args.ps], "worker": addresses[args.ps :]}
    processes = []
    for job, tasks in cluster.items():
        for index in range(len(tasks)):
            config = {"cluster": cluster, "task": {"type": job, "index": index}}
            env = dict(os.environ, TF_CONFIG=json.dumps(config))
            command = [sys.executable, *sys.argv]
            processes.append(subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL))
    end = time.time() + limit_s
    for process in processes[args.ps :]:
        try:
            process.wait(max(0.1, end - time.time()))
        except subprocess.TimeoutExpired:
            report(hang=True, limit_s=limit_s)
            process.kill()
    for process in processes[: args.ps]:
        process.kill()


def start_server():
    """The server of this process's task; that of a parameter server does not return."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    tf1.logging.set_verbosity(tf1.logging.ERROR)
    config = json.loads(os.environ["TF_CONFIG"])
    job, index = config["task"]["type"], config["task"]["index"]
    spec = tf1.train.ClusterSpec(config["cluster"])
    filters = tf1.ConfigProto(device_filters=["/job:ps", f"/job:{job}/task:{index}"])
    server = tf1.train.Server(spec, job_name=job, task_index=index, config=filters)
    if job == "ps":
        server.join()
    worker = f"/job:worker/task:{index}"
    setter = tf1.train.replica_device_setter(worker_device=worker, cluster=spec)
    return tf, tf1, setter, server, index


def mlp(tf, tf1, x, sizes):
    h = x
    for i, (m, n) in enumerate(zip(sizes, sizes[1:])):
        w = tf1.get_variable(f"w{i}", [m, n], initializer=tf1.glorot_uniform_initializer(seed=i))
        b = tf1.get_variable(f"b{i}", [n], initializer=tf1.zeros_initializer())
        h = tf.matmul(h, w) + b
        if i < len(sizes) - 2:
            h = tf.nn.relu(h)
    return h


def convnet(tf, tf1, x):
    h = tf.reshape(x, [-1, 28, 28, 1])
    for i, (channels, filters) in enumerate([(1, 32), (32, 64)]):
        k = tf1.get_variable(f"k{i}", [5, 5, channels, filters])
        b = tf1.get_variable(f"kb{i}", [filters], initializer=tf1.zeros_initializer())
        h = tf.nn.relu(tf.nn.conv2d(h, k, 1, "SAME") + b)
        h = tf.nn.max_pool2d(h, 2, 2, "SAME")
    return mlp(tf, tf1, tf.reshape(h, [-1, 7 * 7 * 64]), [7 * 7 * 64, 1024, 10])


def mean_loss(tf, labels, logits):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)


def local_step(args):
    import numpy as np
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()

    def perceptron(*sizes):
        return lambda x: mlp(tf, tf1, x, sizes)

    cases = [
        ("softmax 64-10", perceptron(64, 10), 64, 32, 500),
        ("mlp 64-128-10", perceptron(64, 128, 10), 64, 32, 500),
        ("mlp 784-512-512-10", perceptron(784, 512, 512, 10), 784, 128, 200),
        ("convnet 28x28 5x5 32-64 fc1024", lambda x: convnet(tf, tf1, x), 784, 64, 40),
    ]
    for name, net, width, batch, steps in cases:
        tf1.reset_default_graph()
        x = tf1.placeholder(tf.float32, [batch, width])
        y = tf1.placeholder(tf.int32, [batch])
        loss = mean_loss(tf, y, net(x))
        train = tf1.train.AdagradOptimizer(0.01).minimize(loss)
        images = np.random.rand(batch, width).astype("f")
        feed = {x: images, y: np.random.randint(0, 10, batch).astype("i")}
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            times = timed(lambda: session.run([loss, train], feed), steps, 5)
        report(case="local-step", model=name, batch=batch, **times)


def null_step(args):
    if "TF_CONFIG" not in os.environ:
        return spawn_cluster(args, 240)
    tf, tf1, setter, server, index = start_server()
    shape = [] if args.kind == "scalar" else [args.megabytes * 1_000_000 // 4 // VARIABLES]
    zeros = tf1.zeros_initializer()
    with tf1.device(setter):
        step = tf1.train.get_or_create_global_step()
        variables = [tf1.get_variable(f"v{i}", shape, initializer=zeros) for i in range(VARIABLES)]
        pairs = [(tf.identity(variable), variable) for variable in variables]
        train = tf1.train.GradientDescentOptimizer(0.0).apply_gradients(pairs, global_step=step)
    session = tf1.Session(server.target)
    if index == 0:
        session.run(tf1.global_variables_initializer())
    while session.run(tf1.report_uninitialized_variables()).size:
        time.sleep(0.1)
    times = timed(lambda: session.run(train), args.steps, min(20, args.steps))
    report(
        case="null-step",
        kind=args.kind,
        megabytes=args.megabytes,
        ps=args.ps,
        workers=args.workers,
        worker=index,
        **times,
    )
    os._exit(0)


def train(args):
    if "TF_CONFIG" not in os.environ:
        return spawn_cluster(args, 120)
    import numpy as np

    tf, tf1, setter, server, index = start_server()
    sizes = [int(size) for size in args.layers.split(",")]
    random = np.random.RandomState(index)
    images = random.rand(SAMPLES, sizes[0]).astype("f")
    labels = random.randint(0, sizes[-1], SAMPLES).astype("i")
    hooks = [tf1.train.StopAtStepHook(last_step=args.steps)]
    with tf1.device(setter):
        step = tf1.train.get_or_create_global_step()
        x = tf1.placeholder(tf.float32, [None, sizes[0]])
        y = tf1.placeholder(tf.int32, [None])
        loss = mean_loss(tf, y, mlp(tf, tf1, x, sizes))
        optimizer = tf1.train.AdagradOptimizer(0.01)
        if args.mode == "sync":
            workers = dict(replicas_to_aggregate=args.workers, total_num_replicas=args.workers)
            optimizer = tf1.train.SyncReplicasOptimizer(optimizer, **workers)
            hooks.append(optimizer.make_session_run_hook(index == 0))
        train_op = optimizer.minimize(loss, global_step=step)
    quiet = dict(
        save_checkpoint_secs=None,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
    )
    with tf1.train.MonitoredTrainingSession(
        master=server.target, is_chief=index == 0, hooks=hooks, **quiet
    ) as session:
        local, began = 0, None
        while not session.should_stop():
            at = (local * args.batch) % (SAMPLES - args.batch)
            rows = slice(at, at + args.batch)
            now, _ = session.run([step, train_op], {x: images[rows], y: labels[rows]})
            local += 1
            if began is None and now >= args.steps * 0.2:
                began, first = time.perf_counter(), now
        took = time.perf_counter() - began
    if index == 0:
        report(
            case="train",
            mode=args.mode,
            ps=args.ps,
            workers=args.workers,
            layers=args.layers,
            batch=args.batch,
            global_steps_per_s=round((now - first) / took, 1),
        )
    os._exit(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cases = {"local-step": local_step, "null-step": null_step, "train": train}
    parser.add_argument("case", choices=cases)
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--kind", choices=["scalar", "dense"], default="scalar")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--mode", choices=["sync", "async"], default="async")
    parser.add_argument("--layers", default="64,128,10")
    parser.add_argument("--batch", type=int, default=32)
    arguments = parser.parse_args()
    cases[arguments.case](arguments)
