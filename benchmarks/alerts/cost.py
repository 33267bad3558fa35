"""What the shipped rules cost a Prometheus:

    python benchmarks/alerts/cost.py [--apps 20] [--evaluators 30] [--minutes 5]

A real Prometheus scrapes simulated applications every 15 seconds, once with the rules and once without, at the same
time, and both begin with a week of what the rules record every five minutes. Printed are the CPU seconds that each of
them takes in a minute, their difference, which is what the rules cost, and the seconds that each group takes. Needs
prometheus and promtool, numpy and pyyaml. The counters grow by what ten evaluations a minute add, 8 % of which fail.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import history
import numpy as np
import shipped

DAY = 86_400
VERDICTS = {"pass": 9.2, "fail": 0.8, "error": 0.0, "none": 0.0, "refusal": 0.0, "not_applicable": 0.1}
"""Evaluations a minute by verdict."""
WEIGHT = 20.0
COUNTERS = {"evaluations": 1.0, "evaluation_weight": WEIGHT, "evaluation_weight_squared": WEIGHT**2}


def names(apps: int, evaluators: int) -> list[tuple[str, str]]:
    """Applications and their evaluators; the first one is the one that pages."""
    some = ["faithfulness", *(f"check{i}" for i in range(1, evaluators))]
    return [(f"app{a}", name) for a in range(apps) for name in some]


def metrics(pairs: list[tuple[str, str]], minutes: float) -> str:
    """What all applications export after so many minutes."""
    lines = []
    for app, evaluator in pairs:
        base = f'app="{app}",env="prod",evaluator="{evaluator}"'
        lines.append(f'ragtrace_evaluator_info{{{base},version="3",threshold="0.8",judge_model=""}} 1')
        for verdict, rate in VERDICTS.items():
            labels = f'{{{base},verdict="{verdict}",model="large",prompt_version="v7"}}'
            for name, times in COUNTERS.items():
                lines.append(f"ragtrace_{name}_total{labels} {times * rate * minutes:.6g}")
        for outcome in ("scored", "sampled_out", "failed", "dropped"):
            lines.append(f'ragtrace_evaluation_outcomes_total{{{base},outcome="{outcome}"}} {10 * minutes:.6g}')
        if evaluator == "faithfulness":
            own = f'app="{app}",env="prod"'
            lines.append(f'ragtrace_build_info{{{own},version="1"}} 1')
            lines.append(f'ragtrace_requests_total{{{own},status="ok",model="large"}} {200 * minutes:.6g}')
            lines.append(f"ragtrace_retrieved_documents_count{{{own}}} {200 * minutes:.6g}")
            lines.append(f"ragtrace_retrieval_empty_total{{{own}}} {minutes:.6g}")
            lines.append(f'ragtrace_sampling_decisions_total{{{own},decision="sampled"}} {10 * minutes:.6g}')
    return "\n".join(sorted(lines)) + "\n"


@contextlib.contextmanager
def exported(pairs: list[tuple[str, str]]) -> Iterator[str]:
    """Serves the metrics; gives host and port."""
    started = time.time()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = metrics(pairs, 1_000 + (time.time() - started) / 60).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def past(pairs: list[tuple[str, str]], days: float, data: Path) -> None:
    """Writes what the rules recorded every five minutes, and two hours of the weights that were scraped, as blocks."""
    times = np.arange(int(time.time()) - int(days * DAY), int(time.time()) - 600, 300)
    writer = history.Writer(times)
    grown = {"fails": 0.8 * WEIGHT, "weight": 10 * WEIGHT, "squares": 10 * WEIGHT**2}
    for app, evaluator in pairs:
        for what, rate in grown.items():
            values = np.round(5 * rate * (1 + 0.1 * np.sin(times / 3_600)), 2)
            name = f"app_evaluator:ragtrace_evaluation_{what}:increase5m"
            writer.add(name, values, "gauge", app=app, env="prod", evaluator=evaluator)
    writer.blocks(data)
    recent = history.Writer(np.arange(int(time.time()) - 7_200, int(time.time()) - 600, 15))
    minutes = (recent.times - recent.times[0]) / 60
    for app, evaluator in pairs:
        for verdict in ("pass", "fail"):
            for name in ("evaluation_weight", "evaluation_weight_squared"):
                values = np.round(VERDICTS[verdict] * COUNTERS[name] * minutes)
                labels = {"app": app, "env": "prod", "evaluator": evaluator, "verdict": verdict}
                recent.add(f"ragtrace_{name}_total", values, **labels)
    recent.blocks(data)


def processor_seconds(pid: int) -> float:
    """The CPU seconds that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def watching(folder: Path, data: Path, target: str, *, rules: bool) -> Iterator[tuple[int, str]]:
    """Runs a Prometheus that scrapes the target; gives its process id and address."""
    shutil.copytree(data, folder / "data")
    read = f"rule_files: ['{shipped.RULES}/*.yml']\n" if rules else ""
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 15s}}\n{read}"
        f"scrape_configs: [{{job_name: ragtrace, static_configs: [{{targets: ['{target}']}}]}}]\n",
        encoding="utf-8",
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               "--storage.tsdb.retention.time=30d", f"--web.listen-address={address}"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process.pid, f"http://{address}"
    finally:
        process.kill()
        process.wait()


def evaluated(url: str) -> float:
    """The share of the evaluations that were due and took place: a slow machine misses some."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    sums = []
    for name in ("prometheus_rule_group_iterations_total{", "prometheus_rule_group_iterations_missed_total{"):
        sums.append(sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)))
    return 1 - sums[1] / max(1.0, sums[0])


def slowest(url: str) -> list[tuple[str, float]]:
    """Each group of rules and the seconds of its last evaluation, as Prometheus measured it."""
    with urllib.request.urlopen(f"{url}/api/v1/rules", timeout=60) as answer:
        groups = json.load(answer)["data"]["groups"]
    for group in groups:
        for rule in group["rules"]:
            if rule.get("health") == "err":
                raise RuntimeError(f"the rule {rule['name']} fails: {rule.get('lastError')}")
    return sorted(((g["name"], float(g["evaluationTime"])) for g in groups), key=lambda x: -x[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", type=int, default=20)
    parser.add_argument("--evaluators", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--days", type=float, default=7, help="the length of the past")
    options = parser.parse_args()
    pairs = names(options.apps, options.evaluators)
    root = Path(tempfile.mkdtemp(prefix="ragtrace-cost-"))
    try:
        (root / "past").mkdir()
        past(pairs, options.days, root / "past")
        for name in ("with", "without"):
            (root / name).mkdir()
        with (
            exported(pairs) as target,
            watching(root / "with", root / "past", target, rules=True) as (pid, url),
            watching(root / "without", root / "past", target, rules=False) as (other, _),
        ):
            time.sleep(150)  # starting is not counted
            before = [processor_seconds(p) for p in (pid, other)]
            began = time.monotonic()
            time.sleep(60 * options.minutes)
            spent = [processor_seconds(p) - b for p, b in zip((pid, other), before, strict=True)]
            minutes = (time.monotonic() - began) / 60
            rows, share = slowest(url), evaluated(url)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    used, idle = (s / minutes for s in spent)
    print(f"{options.apps} applications with {options.evaluators} evaluators each, {minutes:.1f} minutes")
    print(f"CPU seconds a minute: {used:.2f} with the rules, {idle:.2f} without")
    print(
        f"{share:.0%} of the evaluations took place; for all of them {(used - idle) / share:.2f} CPU seconds a minute"
    )
    for name, seconds in rows:
        print(f"  {name}: {seconds:.2f} s in its last evaluation")


if __name__ == "__main__":
    main()
