"""Looks at report.html and the dashboard in a browser: the plots hold the numbers of result.json, and
axe-core finds no violation.

    python3 tests/browser/check.py target/debug/trainyard [FOLDER FOR SCREENSHOTS]

Needs Debian's chromium, and npm for axe-core. Without one of them it says so, and does less.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

SCENARIO = """\
name = "browser"
seed = 7
[cluster]
ps = 1
worker = 4
[compute]
slow = { "worker:3" = 2.0 }
[program]
model = "softmax"
dataset = "digits"
batch = 16
optimizer = { rule = "adagrad", learning_rate = 0.2 }
[stop]
steps = 300
accuracy = 0.9
evaluate_every = 20
[[run]]
name = "sync"
mode = "sync"
[[run]]
name = "<async & \\"quoted\\">"
mode = "async"
"""
CHROMIUM = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--virtual-time-budget=10000", "--timeout=30000"]
# How the pages are looked at: width, and whether it is dark.
LOOKS = [(1280, False), (400, True)]


def chromium(page, look, *what):
    """What chromium prints of a page at a width, light or dark."""
    width, is_dark = look
    dark = ["--blink-settings=preferredColorScheme=0"] if is_dark else []
    command = CHROMIUM + dark + [f"--window-size={width},3000", *what, "file://" + page]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def number(value):
    """A number as the report writes it (`number` of src/report/plot.rs)."""
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e6:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if size >= 1000:
        return f"{value:.0f}"
    if size >= 1e-3:
        return f"{value:.{3 if size >= 1 else 5}f}".rstrip("0").rstrip(".")
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def figures(dom):
    """What the marks of each plot tell, by the plot's title."""
    found = {}
    for figure in re.findall(r"<figure.*?</figure>", dom, re.S):
        title = html.unescape(re.search(r"<figcaption[^>]*>(.*?)</figcaption>", figure, re.S)[1])
        found[title] = [html.unescape(told) for told in re.findall(r"<title>(.*?)</title>", figure)]
    return found


def check_report(dom, result):
    """The plots of a report hold the numbers of its result."""
    plots = figures(dom)
    for run in result["runs"]:
        name = run["name"]
        told = [text for text in plots["Accuracy over time"] if text.startswith(f"{name}: ")]
        assert told, f"{name} is not in the plot"
        last = told[-1].removeprefix(f"{name}: ").split(" at ")[0]
        assert last == number(run["test_accuracy"]), (name, last, run["test_accuracy"])
        counts = run["staleness"]["histogram"]
        total = sum(counts.values())
        shares = {f"{name}: {number(100 * count / total)} at {number(int(stale))}"
                  for stale, count in counts.items()}
        drawn = {text for text in plots["Staleness"] if text.startswith(f"{name}: ")}
        assert drawn <= shares and (len(drawn) == len(shares) or len(shares) > 24), (drawn, shares)
        told = [text for text in plots["Global steps over time"] if text.startswith(f"{name}: ")]
        last = told[-1].removeprefix(f"{name}: ").split(" at ")[0]
        assert last == number(run["global_steps"]), (name, last, run["global_steps"])
        assert html.escape(name, quote=False) in dom.replace("&quot;", '"'), f"{name} is not in the table"


def check_dashboard(dom, state):
    """The page of the dashboard shows the tasks and the last numbers of an event."""
    plots = figures(dom)
    assert len(plots["Loss over time"]) >= 2, plots
    at, step = state["points"][-1][0], state["points"][-1][1]
    assert plots["Global steps"], plots
    drawn, when = plots["Global steps"][-1].removesuffix(" s").split(" at ")
    assert float(drawn) == step and abs(float(when) - at) <= 1e-3 * at, (drawn, when, state["points"][-1])
    table = re.search(r'<table id="tasks">.*?</table>', dom, re.S)[0]
    for task in state["tasks"]:
        row = re.search(rf'<th scope="row">{task["task"]}</th>(.*?)</tr>', table, re.S)
        cells = re.findall(r"<td>(.*?)</td>", row[1])
        assert cells[0] == (str(task["steps"]) if task["trains"] else ""), (task, cells)
    assert state["waited"] and state["links"], state
    for name, share in state["waited"][:6]:
        assert html.escape(f"{100 * share:.1f}".removesuffix(".0") + f" % {name}", quote=False) in dom, name
    drawing = re.search(r'<svg id="links-drawn".*?</svg>', dom, re.S)[0]
    told = {html.unescape(title) for title in re.findall(r"<title>(.*?)</title>", drawing)}
    pairs = {tuple(sorted(link[:2])) for link in state["links"]}
    drawn = {tuple(title.split(": ")[0].split(" and ")) for title in told}
    assert drawn == pairs, (drawn, pairs)
    sent, received, rate, _ = state["links"][0]
    assert f"Fastest: {sent} to {received}, " in dom and rate > 0, state["links"][0]


def axe_core(folder):
    """The text of axe-core, or none if it can't be had."""
    try:
        subprocess.run(["npm", "pack", "--silent", "axe-core@4"], cwd=folder, check=True,
                       capture_output=True, timeout=30)
        subprocess.run("tar xzf axe-core-*.tgz package/axe.min.js", shell=True, cwd=folder, check=True)
        with open(os.path.join(folder, "package/axe.min.js"), encoding="utf-8") as file:
            return file.read()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"SKIPPED: axe-core can't be had, so accessibility is NOT tested ({error})", file=sys.stderr)
        return None


def check_axe(page, axe, look, folder):
    """axe-core finds no violation in a page."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    run = """setTimeout(() => axe.run(document).then(found => {
      const told = document.createElement("pre");
      told.id = "axe";
      told.textContent = JSON.stringify(found.violations.map(one =>
        [one.id, one.help, one.nodes.slice(0, 3).map(node => node.html)]));
      document.body.append(told);
    }), 500);"""
    path = os.path.join(folder, "axe.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("</body>", f"<script>{axe}</script><script>{run}</script></body>"))
    found = re.search(r'<pre id="axe">(.*?)</pre>', chromium(path, look, "--dump-dom"), re.S)
    assert found, "axe-core did not run"
    violations = json.loads(html.unescape(found[1]))
    assert not violations, f"{os.path.basename(page)} at {look}: {json.dumps(violations, indent=1)}"


def dashboard(trainyard, folder):
    """The dashboard's page with one event of a simulation in it, and the event."""
    # It goes on until it is stopped.
    scenario = SCENARIO.replace("steps = 300\naccuracy = 0.9", "steps = 100000000\ntime = '100h'")
    path = os.path.join(folder, "endless.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(scenario)
    command = [trainyard, "sim", path, "--run", "sync", "--dashboard=0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        try:
            line = next(line for line in running.stderr if "dashboard at " in line)
            address = line.split("dashboard at ")[1].strip()
            with urllib.request.urlopen(address, timeout=30) as answer:
                page = answer.read().decode()
            state = {}
            with urllib.request.urlopen(address + "events", timeout=30) as events:
                # A first look is at the run's beginning, when no worker has yet waited.
                while len(state.get("points", [])) < 30 or not state["waited"]:
                    line = events.readline().decode()
                    assert line, "the events end"
                    if line.startswith("data: "):
                        state = json.loads(line.removeprefix("data: "))
        finally:
            running.kill()
    stub = """<script>window.EventSource = class {
      constructor() { setTimeout(() => this.onmessage({ data: %s }), 10); }
      addEventListener() {} close() {} };</script>""" % json.dumps(json.dumps(state)).replace("</", "<\\/")
    path = os.path.join(folder, "dashboard.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(page.replace("<script>", stub + "<script>", 1))
    return path, state


def swept(trainyard, scenario, folder):
    """The pages of a sweep with timelines, and of a plan."""
    out = os.path.join(folder, "swept")
    sweep = ["--sweep", "cluster.ps=1,2,3", "--out", out]
    subprocess.run([trainyard, "sim", scenario, *sweep, "--timeline", "5..6"], check=True, capture_output=True)
    price = ["--set", "price.per_hour={ ps = 1, worker = 2 }", "--set", "plan.samples=100000"]
    subprocess.run([trainyard, "plan", scenario, *sweep, *price], check=True, capture_output=True)
    pages = [os.path.join(out, "sweep.html"), os.path.join(out, "plan.html")]
    os.rename(os.path.join(out, "report.html"), pages[0])
    dom = chromium(pages[0], LOOKS[0], "--dump-dom")
    assert dom.index("Over the sweep") < dom.index("Where the time went"), "the answer comes first"
    assert "worker:0 waits for" in dom, "the timelines are drawn"
    assert "Where more stops paying" in chromium(pages[1], LOOKS[0], "--dump-dom")
    return pages


def main(trainyard, screenshots=None):
    if not shutil.which("chromium"):
        print("SKIPPED: chromium is not here; pages are NOT looked at (apt-get install chromium)", file=sys.stderr)
        return
    trainyard = os.path.abspath(trainyard)
    with tempfile.TemporaryDirectory() as folder:
        scenario, out = os.path.join(folder, "scenario.toml"), os.path.join(folder, "out")
        with open(scenario, "w", encoding="utf-8") as file:
            file.write(SCENARIO)
        subprocess.run([trainyard, "sim", scenario, "--out", out], check=True, capture_output=True)
        with open(os.path.join(out, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
        report = os.path.join(out, "report.html")
        check_report(chromium(report, LOOKS[0], "--dump-dom"), result)
        page, state = dashboard(trainyard, folder)
        check_dashboard(chromium(page, LOOKS[0], "--dump-dom"), state)
        pages = [report, page, *swept(trainyard, scenario, folder)]
        axe = axe_core(folder)
        for path in pages if axe else []:
            for look in LOOKS:
                check_axe(path, axe, look, folder)
        if screenshots:
            for path in pages:
                for look in [(width, is_dark) for width in (1280, 400) for is_dark in (False, True)]:
                    name = f"{os.path.basename(path)[:-5]}-{look[0]}-{'dark' if look[1] else 'light'}.png"
                    chromium(path, look, "--screenshot=" + os.path.join(os.path.abspath(screenshots), name))
    print("the pages hold the numbers of the result" + (", and axe-core finds no violation" if axe else ""))


main(*sys.argv[1:])
