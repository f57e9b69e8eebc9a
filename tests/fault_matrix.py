#!/usr/bin/env python3
"""Faults on real processes: signals to the tasks of trainings over loopback, a matrix of them.

    cargo build --release && tests/fault_matrix.py --jobs 8 --write docs/faults_as_run.md

A cell is a fault (KILL, STOP for 2 s, 10 s, 60 s or ever, TERM, KILL and start again) that comes to
a task (a parameter server, a worker, the chief) while a training runs, by `task` or by `launch`,
synchronous, asynchronous or of K gradients, with a checkpoint folder or without. A cell is broken
if something of it hangs, if a wait says nothing for 30 s, if the chief or the launcher ends with 0
before the last step, if a process ends with a code that is none of a loss, or if synchronous
weights differ where the same are promised. The script ends with 1 if one is.

Each cell of `task` is also simulated, with the same fault at the same moment; the tables are followed
by the cells that end differently in the two worlds.

`trainyard launch --chaos` draws faults instead.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TASKS = ["ps:0", "ps:1", "worker:0", "worker:1"]
VICTIMS = {"ps": "ps:1", "worker": "worker:1", "chief": "worker:0"}
MODES = {"sync": "'sync'", "async": "'async'", "k_async 2": "{ k_async = { k = 2 } }"}
FAULTS = ["none", "KILL", "STOP 2 s", "STOP 10 s", "STOP 60 s", "STOP", "TERM", "restart"]
SILENCE = 4  # seconds
RECOVERY = 15  # seconds
CODES = {0, 9, 10, 11, 138, 143}
LIMIT = 300.0  # seconds: whatever runs longer hangs
QUIET = 30.0  # seconds: the longest that a task may wait without a word

SCENARIO = """name = 'matrix'
seed = 3
[cluster]
ps = 2
worker = 2
[network]
silence = '{silence}s'
recovery = '{recovery}s'
[program]
model = 'softmax'
batch = 8
optimizer = {{ rule = 'adagrad', learning_rate = 0.05 }}
[stop]
steps = {steps}
{checkpoint}
[[run]]
name = 'only'
mode = {mode}
"""


class Task:
    """A process of a training, with what it has said and when."""

    def __init__(self, name, command, folder, environment):
        self.name, self.ended = name, None
        self.out, self.said, self.times = [], [], [time.monotonic()]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.out),
                                     (self.process.stderr, self.said))]
        for reader in self.readers:
            reader.start()

    def read(self, pipe, lines):
        for line in pipe:
            lines.append(line.rstrip())
            self.times.append(time.monotonic())
        self.ended = time.monotonic()

    def wait(self, until):
        """Its exit code, or None if it still runs at `until`."""
        try:
            self.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        for reader in self.readers:
            reader.join(1)
        return self.process.returncode

    def last_words(self):
        errors = [line for line in self.said if line.startswith("error: ")]
        return (errors or self.said or [""])[-1].removeprefix("error: ")


def silence(tasks, moment):
    """The longest time from `moment` on in which no task has said a word or ended."""
    ends = [task.ended or time.monotonic() for task in tasks]
    times = sorted([moment, *ends, *(at for task in tasks for at in task.times if at > moment)])
    return max((b - a for a, b in zip(times, times[1:])), default=0.0)


class Cell:
    def __init__(self, how, fault, victim, mode, checkpoint):
        self.how, self.fault, self.victim = how, fault, victim
        self.mode, self.checkpoint = mode, checkpoint

    def name(self):
        saved = "with checkpoints" if self.checkpoint else "without"
        return f"{self.how}, {self.mode}, {saved}: {self.fault} of the {self.victim}"

    def twin(self, seconds):
        """The same fault in a scenario, a third into a training of `seconds`; none for a signal
        that a simulation has not."""
        if self.fault == "TERM" or self.victim not in VICTIMS:
            return None
        kind = "crash" if self.fault in ("KILL", "restart") else "freeze"
        lines = ["[[fault]]", f"at = '{seconds / 3}s'", f"{kind} = '{VICTIMS[self.victim]}'"]
        if self.fault == "restart":
            lines.append("restart_after = '0.5s'")
        elif kind == "freeze":
            lines.append(f"for = '{self.fault.split()[1] if ' ' in self.fault else 600}s'")
        return "\n".join(lines) + "\n"


class End:
    """How a training ended in one of the worlds: done or lost, and to which tasks."""

    def __init__(self, outcome, named):
        self.outcome, self.named = outcome, named

    @staticmethod
    def of(codes, words):
        """The end of processes with these exit codes and last words: done if a worker is."""
        workers = {name: code for name, code in codes.items() if name.startswith("worker")}
        if 0 in workers.values():
            return End("done", [])
        named = {name for task in workers for name in TASKS if f"(on {name})" in words[task]}
        return End("lost", sorted(named))

    def __eq__(self, other):
        return (self.outcome, self.named) == (other.outcome, other.named)

    def __str__(self):
        return f"{self.outcome}, to {', '.join(self.named)}" if self.named else self.outcome


class Ports:
    """Addresses that nobody listens on, each given once."""

    def __init__(self):
        self.lock, self.next = threading.Lock(), 21000

    def take(self, count):
        with self.lock:
            found = []
            while len(found) < count:
                self.next += 1
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                    try:
                        one.bind(("127.0.0.1", self.next))
                    except OSError:
                        continue
                found.append(f"127.0.0.1:{self.next}")
            return found


class Runner:
    def __init__(self, program, base, seconds):
        self.program, self.base, self.seconds = program, base, seconds
        self.steps = {(mode, checkpoint): 300 for mode in MODES for checkpoint in (True, False)}
        self.weights, self.lock, self.ports = {}, threading.Lock(), Ports()
        self.certificates = base / "certs"
        for more in (["new", "--run-name", "matrix"], ["issue", "--task", ",".join(TASKS)]):
            subprocess.run([program, "certs", more[0], self.certificates, *more[1:]], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def calibrate(self, jobs):
        """Finds how many steps take `seconds` where `jobs` trainings run side by side."""
        for kind in self.steps:
            cell = Cell("task", "none", "nobody", *kind)
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                rows = list(pool.map(self.attempt, [cell] * jobs))
            rates = [row["rate"] for row in rows if row["rate"]]
            self.steps[kind] = max(300, int(self.seconds * sum(rates) / len(rates)))
            print(f"{kind}: {self.steps[kind]} steps", flush=True)

    def prepare(self, cell, steps):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.base))
        saving = "[checkpoint]\nevery_steps = 50\ndirectory = 'saved'\n"
        (folder / "matrix.toml").write_text(SCENARIO.format(
            silence=SILENCE, recovery=RECOVERY, steps=steps, mode=MODES[cell.mode],
            checkpoint=saving if cell.checkpoint else ""))
        return folder

    def command(self, name, addresses, folder):
        job, index = name.split(":")
        config = {"cluster": addresses, "task": {"type": job, "index": int(index)}}
        environment = dict(os.environ, TF_CONFIG=json.dumps(config), RAYON_NUM_THREADS="1")
        command = [self.program, "task", "matrix.toml", "--certs", self.certificates,
                   "--busy-poll=0us", "--json"]
        return command, folder, environment

    def run(self, cell):
        """A row of the table. A training that was over before the fault came is tried again, a
        longer one."""
        for longer in (1, 3, 9):
            row = self.attempt(cell, longer)
            if row["hit"]:
                break
        return row

    def attempt(self, cell, longer=1):
        steps = self.steps[cell.mode, cell.checkpoint] * longer
        folder, addresses = self.prepare(cell, steps), None
        tasks, pids = {}, {}
        try:
            if cell.how == "task":
                ports = self.ports.take(4)
                addresses = {"ps": ports[:2], "worker": ports[2:]}
                for name in TASKS:
                    tasks[name] = Task(name, *self.command(name, addresses, folder))
                    pids[name] = tasks[name].process.pid
            else:
                environment = dict(os.environ, TMPDIR=str(folder), RAYON_NUM_THREADS="1")
                command = [self.program, "launch", "matrix.toml", "--json", "--out", "out",
                           "--busy-poll=0us"]
                tasks["launch"] = Task("launch", command, folder, environment)
                pids = self.children(tasks["launch"].process.pid)
            began = time.monotonic()
            self.wait_until_it_trains(folder, cell, steps)
            hit = time.monotonic()
            is_hit = all(task.process.poll() is None for task in tasks.values())
            try:
                if is_hit:
                    self.strike(cell, tasks, pids, folder, addresses)
            except ProcessLookupError:
                is_hit = False
            woke = time.monotonic()
            return self.judge(cell, tasks, steps, folder, began, hit, woke) | {"hit": is_hit}
        finally:
            for pid in [*pids.values(), *(task.process.pid for task in tasks.values())]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for task in tasks.values():
                task.process.wait()
            shutil.rmtree(folder, ignore_errors=True)

    def children(self, launcher):
        """The processes of a launch, by task."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            found = {}
            listed = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
            for pid in listed:
                try:
                    variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                config = [one for one in variables if one.startswith(b"TF_CONFIG=")]
                if config:
                    task = json.loads(config[0][10:])["task"]
                    found[f"{task['type']}:{task['index']}"] = int(pid)
            if len(found) == len(TASKS):
                return found
            time.sleep(0.05)
        raise RuntimeError("the tasks of the launch do not start")

    def wait_until_it_trains(self, folder, cell, steps):
        """Waits until a third of the training is over: by its checkpoints, or else by time."""
        until = time.monotonic() + (60 if cell.checkpoint else 1 + self.seconds / 3)
        while time.monotonic() < until:
            saved = (folder / "saved").glob("*/model.ckpt-*.index.json")
            if any(int(re.search(r"ckpt-(\d+)", path.name)[1]) >= steps // 3 for path in saved):
                return
            time.sleep(0.02)

    def strike(self, cell, tasks, pids, folder, addresses):
        victim = VICTIMS.get(cell.victim)
        if cell.fault == "none":
            return None
        if cell.fault in ("KILL", "restart"):
            os.kill(pids[victim], signal.SIGKILL)
        elif cell.fault == "TERM":
            os.kill(pids[victim], signal.SIGTERM)
        else:
            os.kill(pids[victim], signal.SIGSTOP)
            if cell.fault != "STOP":
                time.sleep(float(cell.fault.split()[1]))
                os.kill(pids[victim], signal.SIGCONT)
        if cell.fault == "restart":
            tasks[victim].process.wait()
            time.sleep(0.5)
            again = f"{victim} again"
            tasks[again] = Task(again, *self.command(victim, addresses, folder))

    def undisturbed(self, folder, steps):
        """The weights of the undisturbed synchronous run: those of the simulation."""
        with self.lock:
            if steps not in self.weights:
                said = subprocess.run([self.program, "sim", "matrix.toml", "--json"], cwd=folder,
                                      check=True, capture_output=True, text=True)
                self.weights[steps] = json.loads(said.stdout)["runs"][0]["weights_digest"]
            return self.weights[steps]

    def simulated(self, cell, steps, folder):
        """How the cell ends in a simulation: whether the training was lost, and to whom."""
        twin = cell.twin(self.seconds)
        if cell.how != "task" or twin is None:
            return None
        # Both workers take such a step at a time; each counts where they need not wait.
        each = self.seconds / steps * (2 if cell.mode == "async" else 1)
        pace = f"[compute]\nstep_time = {{ law = 'constant', value = '{each}s' }}\n"
        (folder / "twin.toml").write_text(
            (folder / "matrix.toml").read_text().replace("directory = 'saved'\n", "") + pace + twin)
        said = subprocess.run([self.program, "sim", "twin.toml", "--json"], cwd=folder,
                              capture_output=True, text=True, timeout=LIMIT)
        words = (said.stderr.splitlines() or [""])[-1] if said.returncode else ""
        return End({0: "done", 12: "lost"}.get(said.returncode, f"code {said.returncode}"),
                   [name for name in TASKS if f"(on {name})" in words])

    def judge(self, cell, tasks, steps, folder, began, hit, woke):
        victim = VICTIMS.get(cell.victim)
        if cell.fault in ("KILL", "STOP", "restart") and cell.how == "task":
            tasks = {name: task for name, task in tasks.items() if name != victim}
        codes = {name: task.wait(began + LIMIT) for name, task in tasks.items()}
        codes = {name: code for name, code in codes.items() if code != -signal.SIGKILL}
        broken = []
        for name, code in codes.items():
            if code is None:
                broken.append(f"{name} hangs")
            elif code not in CODES:
                broken.append(f"{name} ends with {code}")
        quiet = max(silence([tasks[name] for name in codes if name != victim], hit),
                    silence([tasks[name] for name in codes if name == victim], woke))
        if quiet > QUIET:
            broken.append(f"nobody says a word for {quiet:.0f} s")
        chief = next((name for name in reversed(codes)
                      if name.startswith(("launch", "worker:0")) and codes[name] == 0), None)
        result = self.result(tasks[chief]) if chief else None
        if chief and (result is None or result["global_steps"] < steps):
            broken.append("a false success")
        same = result and cell.mode == "sync" and (
            result["weights_digest"] == self.undisturbed(folder, steps))
        is_promised = cell.fault in ("none", "STOP 2 s") or (
            cell.fault == "restart" and cell.victim == "ps" and cell.checkpoint)
        if cell.mode == "sync" and result and is_promised and not same:
            broken.append("other weights")
        return {"cell": cell, "codes": codes, "seconds": max(
                    (task.ended or time.monotonic()) - hit for task in tasks.values()),
                "rate": result and result["global_steps"] / result["seconds"],
                "real": End.of(codes, {name: tasks[name].last_words() for name in codes}),
                "simulated": self.simulated(cell, steps, folder),
                "broken": broken, "same": same, "words": {
                    name: tasks[name].last_words() for name, code in codes.items() if code},
                "said": {name: task.said[-15:] for name, task in tasks.items()}}

    @staticmethod
    def result(chief):
        try:
            return json.loads("\n".join(chief.out))["runs"][0]
        except (ValueError, KeyError, IndexError):
            return None


def cells(pattern):
    found = []
    for how, fault, victim, mode, checkpoint in itertools.product(
            ("task", "launch"), FAULTS[1:], VICTIMS, MODES, (True, False)):
        if how == "launch" and fault == "restart":
            continue  # a launcher starts no task again
        if how == "launch" and fault == "STOP 60 s":
            continue  # it kills what stands still for so long
        cell = Cell(how, fault, victim, mode, checkpoint)
        if re.search(pattern, cell.name()):
            found.append(cell)
    return found


def told(row):
    """A cell of a table: its exit codes, and the seconds from the fault to the last end."""
    by_code = {}
    for name, code in row["codes"].items():
        by_code.setdefault("hangs" if code is None else str(code), []).append(name)
    codes = "; ".join(f"**{code}** {', '.join(names)}" for code, names in sorted(by_code.items()))
    same = "; same weights" if row["same"] else ""
    broken = f"; BROKEN: {', '.join(row['broken'])}" if row["broken"] else ""
    broken += "" if row["hit"] else "; over before the fault"
    return f"{codes}; {row['seconds']:.0f} s{same}{broken}"


def tables(rows):
    lines = []
    for how in ("task", "launch"):
        for checkpoint in (True, False):
            lines += ["", f"## `{how}`, {'with' if checkpoint else 'without'} checkpoints", "",
                      "| fault | " + " | ".join(MODES) + " |", "|---|" + "---|" * len(MODES)]
            for victim, fault in itertools.product(VICTIMS, FAULTS[1:]):
                found = {row["cell"].mode: told(row) for row in rows
                         if (row["cell"].how, row["cell"].checkpoint) == (how, checkpoint)
                         and (row["cell"].victim, row["cell"].fault) == (victim, fault)}
                if found:
                    cells_of = " | ".join(found.get(mode, "") for mode in MODES)
                    lines.append(f"| {fault}, {victim} | {cells_of} |")
    return "\n".join(lines + worlds(rows)) + "\n"


def worlds(rows):
    """The cells that end differently in the two worlds."""
    both = [row for row in rows if row["simulated"]]
    differ = [row for row in both if row["simulated"] != row["real"]]
    lines = ["", "## The same faults in simulation", "",
             f"{len(both)} cells of `task` were simulated, too: whether the training is done or lost,",
             f"and the task to which it is lost, differ in {len(differ)}."]
    if differ:
        lines += ["", "| cell | real | simulated |", "|---|---|---|"]
        lines += [f"| {row['cell'].name()} | {row['real']} | {row['simulated']} |" for row in differ]
    return lines


HEAD = """# Faults as run

Real processes over loopback, hit by signals in the midst of a training: what
`tests/fault_matrix.py` has seen. A cell has the exit codes (the guide to deploying says what each
means) with the processes that ended with them, the seconds from the fault to the end of the last,
and "same weights" where a synchronous training ended with those of the undisturbed run. There are
two parameter servers and two workers; a silent task is lost after {silence} s, and a lost one is waited
for {recovery} s (`network.silence` and `network.recovery`, which are 5 s and a minute by default). A
process of `task` that was killed or stands still for ever has no code of its own. A training takes
some 6 s, and parameter servers stay for a lost worker until {recovery} s after its loss: one that stands
still for 60 s has missed the end, and may end with 138 or, without checkpoints, with 10. With checkpoints the fault comes after a third
of the steps; without them at a fixed time, which may be near the end.

{count} cells, {broken} broken. One is broken if something hangs, waits for {quiet} s without a word, ends
with 0 before the last step, or has other weights where the same are promised.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "target/release/trainyard"))
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--only", default="", help="a regular expression of cells' names")
    parser.add_argument("--seconds", type=float, default=6.0, help="the length of a training")
    parser.add_argument("--write", type=pathlib.Path, help="the Markdown file of the tables")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainyard-matrix-") as base:
        runner = Runner(args.program, pathlib.Path(base), args.seconds)
        runner.calibrate(args.jobs)
        rows = []
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for row in pool.map(runner.run, cells(args.only)):
                rows.append(row)
                print(f"{row['cell'].name()}: {told(row)}", flush=True)
                if row["simulated"] and row["simulated"] != row["real"]:
                    print(f"    real: {row['real']}; simulated: {row['simulated']}", flush=True)
                for name, words in row["words"].items():
                    print(f"    {name}: {words}", flush=True)
                if row["broken"]:
                    print(json.dumps(row["said"], indent=4), flush=True)
    broken = sum(bool(row["broken"]) for row in rows)
    print(f"{len(rows)} cells, {broken} broken")
    if args.write:
        head = HEAD.format(silence=SILENCE, recovery=RECOVERY, quiet=f"{QUIET:.0f}",
                           count=len(rows), broken=broken)
        args.write.write_text(head + tables(rows))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
