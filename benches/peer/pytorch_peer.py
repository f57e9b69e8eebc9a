#!/usr/bin/env python3
"""The work of `--bench peer` in PyTorch: a JSON line for each result, with the same fields.

    python3 -m venv target/pytorch        # some minutes, 3 GB
    target/pytorch/bin/pip install torch==2.15.0 numpy
    target/pytorch/bin/python benches/peer/pytorch_peer.py

It does it all: steps of one process; those of DistributedDataParallel, and all-reduces of 100 MB,
by 2 and 4 processes over gloo; the null step of one worker by RPC. Processes are on 127.0.0.1.
"""

import json
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn

VARIABLES = [torch.zeros(()) for _ in range(16)]  # of the null step


def report(**row):
    print(json.dumps({"peer": "pytorch", **row}), flush=True)


def timed(run, steps, warm_up=5):
    """The durations of `steps` calls, after some that are not timed."""
    for _ in range(warm_up):
        run()
    took = []
    for _ in range(steps):
        began = time.perf_counter()
        run()
        took.append((time.perf_counter() - began) * 1e3)
    percentiles = (("p10_ms", 10), ("median_ms", 50), ("p90_ms", 90))
    return {name: round(float(np.percentile(took, of)), 4) for name, of in percentiles}


def mlp(*sizes):
    layers = []
    for i, (m, n) in enumerate(zip(sizes, sizes[1:])):
        layers.append(nn.Linear(m, n))
        if i < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


def convnet():
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3136, 1024),
        nn.ReLU(),
        nn.Linear(1024, 10),
    )


def training_step(model, width, batch):
    x = torch.rand(batch, width)
    y = torch.randint(0, 10, (batch,))
    optimizer = torch.optim.Adagrad(model.parameters(), 0.01)
    loss = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return step


def local_steps():
    for name, model, width, batch, steps in [
        ("softmax 64-10", mlp(64, 10), 64, 32, 500),
        ("mlp 64-128-10", mlp(64, 128, 10), 64, 32, 500),
        ("mlp 784-512-512-10", mlp(784, 512, 512, 10), 784, 128, 200),
        ("convnet 28x28 5x5 32-64 fc1024", convnet(), 784, 64, 40),
    ]:
        times = timed(training_step(model, width, batch), steps)
        report(case="local-step", model=name, batch=batch, **times)


def collectives(rank, world):
    """Steps of DistributedDataParallel and an all-reduce, as process `rank` of `world`."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = nn.parallel.DistributedDataParallel(mlp(64, 128, 10))
    times = timed(training_step(model, 64, 32), 500, 20)
    if rank == 0:
        rate = round(1e3 / times["median_ms"], 1)
        report(case="ddp-step", model="mlp 64-128-10", workers=world, steps_per_s=rate, **times)
    values = torch.rand(25_000_000)
    times = timed(lambda: dist.all_reduce(values), 8, 2)
    if rank == 0:
        report(case="all-reduce", megabytes=100, workers=world, **times)
    dist.destroy_process_group()


def pull():
    return VARIABLES


def push(gradients):
    for variable, gradient in zip(VARIABLES, gradients):
        variable.sub_(gradient)


def null_step(rank, world):
    """The null step, as the parameter server (`rank` 0) or its worker."""
    import torch.distributed.rpc as rpc

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29612")
    torch.set_num_threads(1)
    rpc.init_rpc(f"n{rank}", rank=rank, world_size=world)
    if rank == 1:

        def step():
            values = rpc.rpc_sync("n0", pull)
            rpc.rpc_sync("n0", push, args=(values,))

        report(case="null-step", kind="scalar", ps=1, workers=1, **timed(step, 300, 20))
    rpc.shutdown()


if __name__ == "__main__":
    local_steps()
    for workers in (2, 4):
        mp.spawn(collectives, args=(workers,), nprocs=workers)
    mp.spawn(null_step, args=(2,), nprocs=2)
