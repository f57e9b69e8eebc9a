#!/usr/bin/env python3
"""Predicted and measured: the tables of docs/validation.md, on this machine.

    cargo build --release
    sims/validation/predictions.py machine      # 90 cells, all tasks on this machine: 10 minutes
    sims/validation/predictions.py hosts        # 8 cells, three hosts with slow links: 3 minutes; as root

Both measure this machine first (`trainyard calibrate`, by other programs than those compared), unless
`--calibration FILE` has that. `--write FILE` keeps the tables. The machine should do nothing else. Of a
cell on this machine, what is predicted and what is measured are the medians of `--rounds` (3). Each round
calibrates anew and then launches all cells: the speed of a shared machine changes within minutes.

A host is a network namespace with a link of a given rate to a switch, a namespace of its own, both
ways. What a sender queues before its own link is bounded by its socket, as before a real card; the
switch keeps at most 250 ms for a host, and drops the rest.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WIDE = "784-512-512-10"
MODELS = {
    "null": "model = 'null', batch = 32",
    "mlp 64-128-10": "model = 'mlp', hidden = [128], batch = 32",
    "mlp 64-512-512-10": "model = 'mlp', hidden = [512, 512], batch = 32",
    f"mlp {WIDE}, 128": "model = 'mlp', hidden = [512, 512], batch = 128, "
    "dataset = { csv = 'wide.csv', label = 'class' }",
    "convnet": "model = 'convnet', batch = 32",
}
MODES = {"async": "'async'", "sync": "'sync'", "k_batch_async 2": "{ k_batch_async = { k = 2 } }"}
PS, WORKERS = [1, 2], [1, 2, 4]
# As a result calls them: what a comparison calls them, and the titles of their tables.
QUANTILES = {
    "p50": ("step, median [ms]", "The median step"),
    "p99": ("step, 99 % [ms]", "The 99 % step"),
}
MACHINE = """name = 'predictions'
seed = 1
[stop]
time = '600ms'
"""
RUN = "[[run]]\nname = \"{name}\"\nmode = {mode}\nset = {{ program = {{ {model} }} }}\n"

HOSTS = """name = 'predictions'
seed = 1
program = {{ {program} }}
[cluster]
ps = 1
worker = 2
[network]
latency = '15us'
bandwidth = '{rate}'
mtu = 1500
silence = '20s'
[stop]
steps = {steps}
[[run]]
name = 'only'
mode = '{mode}'
"""
TASKS = ["ps:0", "worker:0", "worker:1"]  # of hosts 1 to 3
# Of each rate: as `tc` has it, as a scenario has it, and what is sent at once, some 2 ms.
RATES = {
    "100 Mbit/s": ("100mbit", "100Mbps", "32kb"),
    "1 Gbit/s": ("1gbit", "1Gbps", "256kb"),
}
QUEUE = "250ms"  # of the switch, for a host


def call(*command, **more):
    """Runs a command; its standard output."""
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, **more)
    if ended.returncode:
        sys.exit(f"`{' '.join(map(str, command))}` ended with {ended.returncode}")
    return ended.stdout


def write_wide(folder):
    """Samples of 784 values, drawn once and for all."""
    draw = random.Random(1)
    names = ",".join(f"x{at}" for at in range(784))
    rows = (",".join([str(draw.randrange(10)), *draw.choices("01", k=784)]) for _ in range(640))
    (folder / "wide.csv").write_text("\n".join([f"class,{names}", *rows, ""]))


class Errors:
    """The errors of predictions, as shares of what was measured."""

    def __init__(self):
        self.of = {}

    def cell(self, group, predicted, measured):
        """A cell of a table, in ms."""
        error = predicted / measured - 1
        self.of.setdefault(group, []).append(abs(error))
        return f"{1e3 * predicted:.2f} / {1e3 * measured:.2f} ({100 * error:+.0f} %)"

    def summary(self):
        """Lines on all errors, and on those of each group."""
        whole = [error for group in self.of.values() for error in group]
        within = sum(error <= 0.15 for error in whole)
        means = (f"{group} {100 * statistics.mean(of):.1f}" for group, of in self.of.items())
        return (
            f"The mean of the {len(whole)} errors is {100 * statistics.mean(whole):.1f} % "
            f"({', '.join(means)}), the greatest {100 * max(whole):.0f} %; {within} are within 15 % "
            f"({100 * within / len(whole):.0f} %).\n"
        )


def table(columns, rows):
    """A Markdown table; `rows` begin with their names."""
    lines = [["model, mode", *columns], ["---"] * (1 + len(columns)), *rows]
    return "".join("| " + " | ".join(row) + " |\n" for row in lines)


def calibrate(program, folder):
    """Measures this machine; the file that says how it is."""
    calibration = folder / "calibration.toml"
    call(program, "calibrate", "--out", calibration)
    print(*calibration.read_text().splitlines()[:3], sep="\n", file=sys.stderr)
    return calibration


def machine(program, calibration, folder, rounds):
    """The tables of all cells on this machine: the median step, and the 99 % step."""
    runs = (
        RUN.format(name=f"{model}, {mode}", mode=MODES[mode], model=MODELS[model])
        for model, mode in itertools.product(MODELS, MODES)
    )
    scenario = folder / "machine.toml"
    scenario.write_text(MACHINE + "".join(runs))
    launch = [program, "launch", scenario, "--json", "--compare",
              f"--sweep=cluster.ps={','.join(map(str, PS))}",
              f"--sweep=cluster.worker={','.join(map(str, WORKERS))}"]
    predicted, measured = {}, {}
    for _ in range(rounds):
        machine_file = calibration or calibrate(program, folder)
        for run in json.loads(call(*launch, "--calibration", machine_file))["runs"]:
            name = run["name"].split(" (")[0]
            cell = (name, int(run["settings"]["cluster.ps"]), int(run["settings"]["cluster.worker"]))
            for quantile in QUANTILES:
                step = run["step_seconds"][quantile]
                measured.setdefault((*cell, quantile), []).append(step)
            for figure in run["comparison"]["figures"]:
                predicted.setdefault((*cell, figure["name"]), []).append(1e-3 * figure["predicted"])
    text = ""
    for quantile, (figure, title) in QUANTILES.items():
        errors, rows = Errors(), []
        for model, mode in itertools.product(MODELS, MODES):
            name = f"{model}, {mode}"
            cells = ((name, ps, workers) for ps in PS for workers in WORKERS)
            shown = (errors.cell(model, statistics.median(predicted[*cell, figure]),
                                 statistics.median(measured[*cell, quantile])) for cell in cells)
            rows.append([name, *shown])
        columns = [f"{ps} ps, {n} worker{'s' * (n > 1)}" for ps in PS for n in WORKERS]
        text += f"{title}:\n\n{table(columns, rows)}\n{errors.summary()}\n"
    apart = statistics.mean((max(steps) - min(steps)) / statistics.median(steps)
                            for (*_, quantile), steps in measured.items() if quantile == "p50")
    return text + f"{rounds} measurements of one median step lie {100 * apart:.1f} % apart.\n"


def ip(*words):
    call("ip", *words)


@contextlib.contextmanager
def hosts(rate, burst):
    """Three hosts on a switch, each with a link of `rate` both ways; their namespaces."""
    begin = f"trainyard-{os.getpid()}"
    switch, names = f"{begin}-switch", [f"{begin}-{host}" for host in range(1, 4)]
    try:
        for name in [switch, *names]:
            ip("netns", "add", name)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for host, name in enumerate(names, 1):
            port = f"port{host}"
            ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0",
               "netns", name)
            ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            ip("-n", name, "address", "add", f"10.78.0.{host}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            share_card(name, rate, burst)
            call("tc", "-n", switch, "qdisc", "add", "dev", port, "root", "tbf", "rate", rate,
                 "burst", burst, "latency", QUEUE)
        yield names
    finally:
        for name in [switch, *names]:
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def share_card(name, rate, burst):
    """Limits the card of a host, which shares its rate evenly among the other hosts."""
    card = ["dev", "eth0"]
    call("tc", "-n", name, "qdisc", "add", *card, "root", "handle", "1:", "htb", "default", "9")
    whole = ["htb", "rate", rate, "ceil", rate, "burst", burst, "quantum", "15000"]
    call("tc", "-n", name, "class", "add", *card, "parent", "1:", "classid", "1:10", *whole)
    part = ["htb", "rate", "1mbit", "ceil", rate, "cburst", burst, "quantum", "15000"]
    for other in range(1, 4):
        call("tc", "-n", name, "class", "add", *card, "parent", "1:10", "classid", f"1:{other}",
             *part)
        call("tc", "-n", name, "qdisc", "add", *card, "parent", f"1:{other}", "bfifo", "limit",
             "64mb")
        call("tc", "-n", name, "filter", "add", *card, "parent", "1:", "protocol", "ip", "u32",
             "match", "ip", "dst", f"10.78.0.{other}/32", "flowid", f"1:{other}")


def issue_certificates(program, folder):
    """A folder of certificates for each task."""
    call(program, "certs", "new", folder / "authority")
    for host, task in enumerate(TASKS, 1):
        call(program, "certs", "issue", folder / "authority", "--task", task,
             "--host", f"10.78.0.{host}", "--out", folder / f"host-{host}")


def measured_step(program, folder, scenario, names):
    """Runs one task a host; the median step \\[s\\], as the chief reports it."""
    cluster = {"ps": ["10.78.0.1:2222"], "worker": ["10.78.0.2:2222", "10.78.0.3:2222"]}
    (folder / "cluster.json").write_text(json.dumps(cluster))
    tasks = []
    for host, (name, task) in enumerate(zip(names, TASKS), 1):
        command = ["ip", "netns", "exec", name, program, "task", scenario, "--certs",
                   folder / f"host-{host}", "--cluster", folder / "cluster.json", "--task", task,
                   "--json", "-q"]
        # Kernels on one thread, as simulated: the hosts share this machine's cores.
        environment = os.environ | {"RAYON_NUM_THREADS": "1"}
        tasks.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
    said = [task.communicate()[0] for task in tasks]
    if any(task.returncode for task in tasks):
        sys.exit(f"tasks ended with {[task.returncode for task in tasks]}")
    return json.loads(said[1])["runs"][0]["step_seconds"]["p50"]


def without_lanes(calibration, folder):
    """A file with the calibration but for `lanes`: tasks with one thread of kernels have none."""
    lines = calibration.read_text().splitlines(keepends=True)
    bare = folder / "without_lanes.toml"
    bare.write_text("".join(line for line in lines if not line.startswith("lanes = ")))
    return bare


def across_hosts(program, calibration, folder):
    """The table of all cells across three hosts."""
    calibration = without_lanes(calibration, folder)
    issue_certificates(program, folder)
    errors, rows = Errors(), {}
    for rate, (of_link, of_scenario, burst) in RATES.items():
        with hosts(of_link, burst) as names:
            for model, mode in itertools.product(["mlp 64-512-512-10", f"mlp {WIDE}, 128"],
                                                 ["sync", "async"]):
                steps = (20 if mode == "sync" else 40) * (1 if of_link == "100mbit" else 5)
                scenario = folder / "hosts.toml"
                scenario.write_text(HOSTS.format(rate=of_scenario, steps=steps, mode=mode,
                                                 program=MODELS[model]))
                measured = measured_step(program, folder, scenario, names)
                said = call(program, "sim", scenario, "--set", f"calibration='{calibration}'",
                            "--json", "-q")
                predicted = json.loads(said)["runs"][0]["step_seconds"]["p50"]
                cell = errors.cell(rate, predicted, measured)
                print(rate, model, mode, cell, file=sys.stderr)
                rows.setdefault(f"{model}, {mode}", []).append(cell)
    table_rows = [[name, *cells] for name, cells in rows.items()]
    return f"{table(list(RATES), table_rows)}\n{errors.summary()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("where", choices=["machine", "hosts"])
    parser.add_argument("--program", default=ROOT / "target/release/trainyard", type=pathlib.Path)
    parser.add_argument("--calibration", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3, help="of `machine`")
    args = parser.parse_args()
    program = args.program.absolute()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_wide(folder)
        calibration = args.calibration and args.calibration.absolute()
        if args.where == "machine":
            text = machine(program, calibration, folder, args.rounds)
        else:
            text = across_hosts(program, calibration or calibrate(program, folder), folder)
        print(text, end="")
        if args.write:
            args.write.write_text(text)


if __name__ == "__main__":
    main()
