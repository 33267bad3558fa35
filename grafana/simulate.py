"""Simulates a day of traffic as Prometheus data: python grafana/simulate.py FOLDER [--hours 26] [--serve]

Writes every metric of docs/metrics.md for applications with a daily rhythm. In the last hours, retrieval fails in the
first application: the best scores fall, a fifth of the retrievals is empty, and 75 % of the answers are faithful
instead of 93 %. The second one tries a new prompt version for four hours. The data is written as OpenMetrics, and
promtool turns it into blocks, with the results of recording rules and alerts. It is used to view the dashboards and to
run each of their queries.
"""

import argparse
import contextlib
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from simulated_traffic import APPS, history

HERE = Path(__file__).resolve().parent
ALERT_SECONDS = 6 * 3_600
"""How long before the end alerts are evaluated; they take longer than all other rules."""


OBJECTIVES = [
    {"record": "ragtrace_objective", "expr": "vector(0.9)", "labels": {"evaluator": "faithfulness", "app": app}}
    for app in APPS
]
"""Objectives, which rules/objectives.yml has not as shipped, so that the panels on budgets show something."""


STAND_INS = {
    "step": "vector(1)",
    "restart": "",
    "pace": "",
    "usual_fails": "288 * avg_over_time(ragtrace:fails[1d] offset 3h)",
    "usual_evaluations": "288 * avg_over_time(ragtrace:evaluations[1d] offset 3h)",
    "hour_of_day": "",
    "hour_of_week": "",
    "expected": 'clamp(ragtrace:usual_fails{group=""} / ragtrace:usual_evaluations, 0.01, 0.9)',
    "excess": "clamp(1.2528 * ragtrace:fails1h - ragtrace:evaluations1h * ln(1 + 2.5 * ragtrace:expected), 0, 10.4)",
    "rise": "0 * (ragtrace:excess > 0) + time() - 3600",
    "incident": "0 * (ragtrace:excess > 6.5) + time()",
    "incident_before": "ragtrace:expected and ragtrace:incident",
    "wander": "",
}
"""Rules that read their own past, by name, and what is computed in their place: here a whole history is evaluated
at once, rule by rule. `promtool test rules` evaluates the rules themselves, minute by minute. Empty: left out."""


def levels(files: Sequence[Path]) -> list[list[dict[str, Any]]]:
    """Returns the recording rules in passes: a rule is in a later pass than the rules that it reads."""
    left = [_stateless(r) for r in _rules(files) if "record" in r]
    left = [r for i, r in enumerate(left) if r["expr"] and r not in left[:i]]
    passes: list[list[dict[str, Any]]] = []
    while left:
        names = {r["record"] for r in left}
        ready = [r for r in left if not names & set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", r["expr"]))]
        if not ready:
            raise ValueError(f"these rules read each other in a circle: {', '.join(sorted(names))}")
        passes.append(ready)
        left = [r for r in left if r not in ready]
    return passes


def _stateless(rule: Mapping[str, Any]) -> dict[str, Any]:
    name = rule["record"].removeprefix("ragtrace:")
    if name not in STAND_INS:
        return dict(rule)
    return {"record": rule["record"], "expr": STAND_INS[name]}


def _rules(files: Sequence[Path]) -> list[dict[str, Any]]:
    return [r for f in files for g in yaml.safe_load(f.read_text(encoding="utf-8"))["groups"] for r in g["rules"]]


def load(folder: Path, *, rules: Sequence[Path] | None = None, **settings: Any) -> Path:
    """Writes a Prometheus data directory with the history and the results of the recording rules; returns its path."""
    series = history(**settings)
    data, texts = folder / "data", folder / "texts"
    for path in (data, texts):
        path.mkdir(parents=True)
    blocks(series.write(texts), data)
    shutil.rmtree(texts)
    files = sorted((HERE / "rules").glob("*.yml")) if rules is None else rules
    first, last, step = int(series.times[0]), int(series.times[-1]), int(series.times[1] - series.times[0])
    for level in [OBJECTIVES, *levels(files)]:
        with serving(data) as url, ThreadPoolExecutor(2) as pool:
            lines = list(pool.map(lambda rule, at=url: _recorded(at, rule, first, last, step), level))
        texts.mkdir()
        blocks(_written(texts, lines), data)
        shutil.rmtree(texts)
    alerts = [rule for rule in _rules(files) if "alert" in rule]
    with serving(data) as url, ThreadPoolExecutor(2) as pool:
        begin = max(first, last - ALERT_SECONDS)
        lines = list(pool.map(lambda rule, at=url: _firing(at, rule, begin, last, step), alerts))
    if any(lines):
        texts.mkdir()
        blocks(_written(texts, lines), data)
        shutil.rmtree(texts)
    return data


def _firing(url: str, rule: Mapping[str, Any], first: int, last: int, step: int) -> list[str]:
    """Returns what Prometheus would record of an alert, `ALERTS` and `ALERTS_FOR_STATE`, as `_recorded` does.

    An alert fires once its expression has held for its `for`; `keep_firing_for` is left out."""
    lines = []
    wait = _seconds(rule.get("for", "0m"))
    parameters = {"query": rule["expr"], "start": first, "end": last, "step": step}
    for series in ask(url, "query_range", **parameters)["result"]:
        labels = {k: v for k, v in series["metric"].items() if k != "__name__"} | rule["labels"]
        text = ",".join(f'{key}="{value}"' for key, value in {"alertname": rule["alert"], **labels}.items())
        began = before = None
        for at, _ in series["values"]:
            began = at if before is None or at - before > step else began
            before = at
            state = "firing" if at - began >= wait else "pending"
            lines.append(f'ALERTS{{{text},alertstate="{state}"}} 1 {int(at)}\n')
            lines.append(f"ALERTS_FOR_STATE{{{text}}} {int(began)} {int(at)}\n")
    return lines


def _seconds(duration: str) -> int:
    return sum(
        int(n) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[u] for n, u in re.findall(r"(\d+)([smhd])", duration)
    )


def _recorded(url: str, rule: Mapping[str, Any], first: int, last: int, step: int) -> list[str]:
    """Returns what a rule records over the whole time, as lines of OpenMetrics.

    promtool can do the same, but writes a block for each rule and two hours, and takes five times as long."""
    # `@ end()` is the time of a rule's evaluation, and the end of a range: such a rule is asked minute by minute.
    steps = 1 if "@ end()" in rule["expr"] else 10_000
    starts = range(first, last + 1, steps * step)
    if steps == 1 and not ask(url, "query_range", query=rule["expr"], start=first, end=last, step=step)["result"]:
        starts = range(0)
    # Expressions joined by `or` have several names, and are one series without them.
    values: dict[str, dict[float, str]] = {}
    for start in starts:
        parameters = {"query": rule["expr"], "start": start, "end": min(last, start + (steps - 1) * step), "step": step}
        for series in ask(url, "query_range", **parameters)["result"]:
            labels = {k: v for k, v in series["metric"].items() if k != "__name__"} | rule.get("labels", {})
            text = ",".join(f'{key}="{value}"' for key, value in labels.items())
            values.setdefault(text, {}).update(series["values"])
    return [
        f"{rule['record']}{{{text}}} {value} {int(at)}\n"
        for text, samples in values.items()
        for at, value in sorted(samples.items())
    ]


def _written(folder: Path, rules: Sequence[list[str]]) -> list[Path]:
    """Writes what the rules of a level record to one file: promtool takes longer to start than to read it."""
    path = folder / "recorded.om"
    path.write_text("".join(line for lines in rules for line in lines) + "# EOF\n", encoding="utf-8")
    return [path]


def blocks(files: Sequence[Path], data: Path) -> None:
    """Makes OpenMetrics files blocks of a Prometheus's data directory.

    The blocks are as long as promtool allows, because it reads the whole file for each of them."""
    longest = "--max-block-duration=500h"
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda f: _promtool(longest, "openmetrics", str(f), str(data)), files))


def ask(url: str, what: str, **arguments: Any) -> Any:
    """Queries Prometheus's HTTP interface and returns the data of its answer."""
    with urllib.request.urlopen(f"{url}/api/v1/{what}?{urllib.parse.urlencode(arguments)}", timeout=60) as answer:
        return json.load(answer)["data"]


def _promtool(*arguments: str) -> None:
    command = ["promtool", "tsdb", "create-blocks-from", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:4])}: {(done.stdout + done.stderr).strip()}")


@contextlib.contextmanager
def serving(data: Path, *, seconds: float = 30.0) -> Iterator[str]:
    """Runs a Prometheus on this data directory and a free port of this machine; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    config = data.parent / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1m}\n", encoding="utf-8")
    process = subprocess.Popen(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}", "--storage.tsdb.retention.time=100y",
         "--storage.tsdb.max-block-duration=2h", f"--web.listen-address={address}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until = time.monotonic() + seconds
        while True:
            try:
                urllib.request.urlopen(f"http://{address}/-/ready", timeout=1).close()
                break
            except OSError as error:
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(
                        f"Prometheus did not start with the data directory {data} within {seconds:g} s"
                    ) from error
                time.sleep(0.05)
        yield f"http://{address}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="write the data directory to FOLDER/data")
    parser.add_argument("--hours", type=float, default=26, help="the length of the whole simulation")
    parser.add_argument("--step", type=int, default=60, help="the seconds between two samples")
    parser.add_argument("--apps", nargs="+", default=list(APPS))
    parser.add_argument(
        "--incident", type=float, default=2, help="the length of the incident in hours, at the end; 0 for no incident"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--end", type=float, help="the end, in Unix seconds; the default is now")
    parser.add_argument("--serve", action="store_true", help="keep a Prometheus running on the data")
    options = vars(parser.parse_args())
    folder, serve = options.pop("folder"), options.pop("serve")
    data = load(folder, **options)
    print(data)
    if serve:
        with serving(data) as url, contextlib.suppress(KeyboardInterrupt):
            print(url, flush=True)
            while True:
                time.sleep(3_600)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
