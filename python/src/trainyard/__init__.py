"""Runs trainyard, and reads what it has written.

The work is done by the program `trainyard`, which the wheel brings. DataFrames need pandas; `Result.rows` does not.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

__all__ = ["Result", "TrainyardError", "binary", "read", "run", "sim"]

# Codes with which `sim` ends and has a result all the same: the target is not reached, a run diverged, a checkpoint
# is not written.
_WITH_RESULT = (0, 3, 7, 9)

# Cells of a table that are neither numbers nor names.
_WORDS = {"": None, "true": True, "false": False}

# A text that TOML takes for nothing else when it has no quotes.
_BARE = re.compile(r"(?!(true|false|inf|nan)$)[A-Za-z_][\w/-]*|\d+(\.\d+)?(?![xob])[A-Za-zµ/]+")


class TrainyardError(RuntimeError):
    """The program has ended with an error: what it said, and `code`, its exit code."""

    def __init__(self, code, said):
        super().__init__(f"{said.strip()} (exit code {code})")
        self.code = code


def binary():
    """The path of the program: `TRAINYARD_BINARY`, or that of the wheel, or the first on `PATH`."""
    named = os.environ.get("TRAINYARD_BINARY")
    beside = Path(sysconfig.get_path("scripts")) / "trainyard"
    found = named or (str(beside) if beside.exists() else shutil.which("trainyard"))
    if not found:
        raise FileNotFoundError("there is no program `trainyard`; name one by the variable TRAINYARD_BINARY")
    if named and not shutil.which(named):
        raise FileNotFoundError(
            f"TRAINYARD_BINARY names {named!r}, which is no program that can be run; name another, or unset it"
        )
    return found


def run(*arguments, codes=(0,)):
    """Runs `trainyard` with `arguments` and returns what it prints. Another exit code than `codes` is an error."""
    # Variables of flags are for who types commands.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    command = [binary(), *map(str, arguments)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise TrainyardError(done.returncode, done.stderr)
    return done.stdout


def sim(scenario=None, *, set=None, sweep=None, runs=(), seed=None, seeds=None, out=None):
    """Simulates a scenario and returns its `Result`.

    `scenario` is a file, or the one in the program. `set` and `sweep` change keys, as in
    `set={"network.latency": "1ms"}` and `sweep={"cluster.worker": [4, 8]}`; a value may be a word, a number, a list or
    a dictionary, which is a table. `runs` names the run or the runs that are wanted. `out` is the folder for the files, or else a temporary one, which goes with the result.
    """
    folder = tempfile.TemporaryDirectory(prefix="trainyard-") if out is None else None
    place = Path(folder.name if folder else out)
    arguments = ["sim"] + ([scenario] if scenario else [])
    for name in [runs] if isinstance(runs, str) else runs:
        arguments += ["--run", name]
    for key, value in (set or {}).items():
        arguments += ["--set", f"{key}={_value(value, key)}"]
    for key, values in (sweep or {}).items():
        values = [values] if isinstance(values, (str, dict)) or not hasattr(values, "__iter__") else values
        arguments += ["--sweep", f"{key}={','.join(_value(value, key) for value in values)}"]
    for flag, value in (("--seed", seed), ("--seeds", seeds)):
        arguments += [] if value is None else [flag, value]
    run(*arguments, "--quiet", "--json", "--out", place, codes=_WITH_RESULT)
    return Result(place, folder)


def read(folder):
    """The `Result` in a folder that `sim`, `launch` or `task` has written with `--out`."""
    return Result(Path(folder))


class Result:
    """What a command has written into a folder with `--out`."""

    def __init__(self, folder, _temporary=None):
        self.folder = folder
        self._temporary = _temporary  # removed with this result
        file = folder / "result.json"
        if not file.exists():
            raise FileNotFoundError(
                f"there is no {file}; name the folder that `trainyard sim`, `launch` or `task` has written with --out"
            )
        self.report = json.loads(file.read_text())

    def rows(self, table):
        """A table as dictionaries, numbers as numbers: `runs`, `steps` or `evaluations`.

        Each has the seed, the swept values and the tuned rate of its run; steps and evaluations with other rates, which
        are in no row of `runs`, lack them. `run` of steps and evaluations is the run's `name` in `runs`.
        """
        runs = [{**entry, "settings": self._settings(entry)} for entry in self.report["runs"]]
        if table == "runs":
            return [_flat(entry) for entry in runs]
        if table not in ("steps", "evaluations"):
            raise ValueError(f"there is no table {table!r}; there are runs, steps and evaluations")
        with open(self.folder / f"{table}.csv", newline="") as file:
            rows = [{key: _value_of(key, cell) for key, cell in row.items()} for row in csv.DictReader(file)]
        of_run = {entry["name"]: {"seed": entry["seed"], **entry["settings"]} for entry in runs}
        return [row | of_run.get(row["run"], {}) for row in rows]

    def _settings(self, entry):
        """The swept values of a run and, if several learning rates were tried, the one that it has."""
        tuned = [one for one in self.report["tuned"] if all(one[key] == entry[key] for key in ("run", "settings"))]
        return entry["settings"] | {one["key"]: one["learning_rate"] for one in tuned}

    def runs(self):
        """A DataFrame with a row for each run: all of `result.json` that is a number or a word.

        Keys that are swept or tuned are columns by their path, nested values by theirs, as in `staleness.mean`.
        """
        return _frame(self.rows("runs"))

    def steps(self, run=None):
        """A DataFrame with a row for each step of each worker, of all runs or of one.

        `run` is a run's name: of the scenario, with all its seeds and swept values, or of one row, as in
        `async (seed=7)`.
        """
        return _frame(self._of(run, "steps"))

    def evaluations(self, run=None):
        """A DataFrame with a row for each look at the test data, of all runs or of one, named as in `steps`."""
        return _frame(self._of(run, "evaluations"))

    def _of(self, run, table):
        rows = self.rows(table)
        if run is None:
            return rows
        wanted = [entry["name"] for entry in self.report["runs"] if run in (entry["name"], entry["run"])]
        if not wanted:
            names = [repr(entry[key]) for key in ("run", "name") for entry in self.report["runs"]]
            raise ValueError(f"there is no run {run!r}; there are {', '.join(dict.fromkeys(names))}")
        return [row for row in rows if row["run"] in wanted]

    def __repr__(self):
        names = ", ".join(entry["name"] for entry in self.report["runs"])
        return f"<trainyard result of {self.report['scenario']}: {names}>"


def _value(value, key):
    """The value of `key` on the command line: words and quantities bare, as they stand in the names of swept runs."""
    return value if isinstance(value, str) and _BARE.fullmatch(value) else _toml(value, key)


def _toml(value, key):
    """The value of `key` as TOML has it."""
    if hasattr(value, "item") and not isinstance(value, (list, tuple, dict)):
        value = value.item()  # NumPy's number
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(str(name), key)} = {_toml(one, key)}" for name, one in value.items()) + "}"
    if hasattr(value, "__iter__"):
        return "[" + ", ".join(_toml(one, key) for one in value) + "]"
    advice = "leave the key out" if value is None else "give a word, a number, a list or a dictionary"
    raise ValueError(f"{key}: {value!r} is no value of a scenario; {advice}")


def _flat(entry, path=""):
    """The words and numbers of a run, nested ones by their path; swept values by the path of their key."""
    row = {}
    for key, value in entry.items():
        if key == "settings" and not path:
            row.update(value)
        elif isinstance(value, dict):
            row.update(_flat(value, f"{path}{key}."))
        elif not isinstance(value, list):
            row[path + key] = value
    return row


def _value_of(column, cell):
    """The value of a cell. Names stay words, since a run may be called `4`."""
    if column in ("run", "worker"):
        return cell
    if cell in _WORDS:
        return _WORDS[cell]
    try:
        return int(cell)
    except ValueError:
        pass
    try:
        return float(cell)
    except ValueError:
        return cell


def _frame(rows):
    try:
        import pandas
    except ImportError as error:
        message = "DataFrames need pandas (pip install pandas); `Result.rows` has the same as dictionaries"
        raise ImportError(message) from error
    return pandas.DataFrame(rows)
