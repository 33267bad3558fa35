"""How fast the console is, as Chromium sees it: python benchmarks/console.py [--traces 100000] [--store FILE]

Fills a store with that many traces (their texts are made of 3,000 words, with 4 scores each), serves it, and measures
with a warm browser: from the key Enter until the next log is painted, over 50 logs, and from the request of each page
until it is loaded and painted. A store that is named is filled once and kept.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.login import local_address
from ragtrace.console.review.queue import Policy, fill
from ragtrace.console.server import served
from ragtrace.evaluation import Evaluator
from ragtrace.records import Document, Evaluation, Evidence, Score, Trace

CHECKS = [
    Evaluator("faithfulness", len, threshold=0.7, method="model"),
    Evaluator("groundedness", len, threshold=0.6, method="model"),
    Evaluator("answer_relevance", len, threshold=0.5, method="model"),
    Evaluator("toxicity", len, threshold=0.8, direction="lower", method="model"),
]
BATCH = 500
JUDGED = 50
VISITS = 15
# A page has been painted when a frame was drawn after its last change.
_PAINTED = "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0)))"

_WATCH = """
  window.times = [];
  addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const began = event.timeStamp;
    const seen = new MutationObserver(() => {
      seen.disconnect();
      requestAnimationFrame(() => setTimeout(() => window.times.push(performance.now() - began), 0));
    });
    seen.observe(document.querySelector("[data-work]"), { childList: true });
  }, true);
"""


def evaluations(count: int, seed: int = 1) -> Iterator[Evaluation]:
    """Traces of the last month."""
    chance, now = random.Random(seed), time.time()
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 10))) for _ in range(3_000)]

    def text(length: int) -> str:
        return " ".join(chance.choices(words, k=length)) + "."

    for n in range(count):
        answer, chunks = f"{text(12)} {text(15)}", tuple(Document(f"d{i}", text(90), 0.9 - i / 10) for i in range(4))
        first = answer.index(".") + 1
        evidence = (
            Evidence(0, first, "supported", 0.9, "d0", 0, 0, 60),
            Evidence(first + 1, len(answer), "unsupported", 0.3, "d1", 1, 20, 90),
        )
        cookies = {
            "app": f"app-{n % 7}", "model": f"model-{n % 4}", "prompt_version": f"v{n % 9}", "user_id": f"u{n % 5_000}"
        }  # fmt: skip
        started = now - 30 * 86_400 * (1 - n / count)
        trace = Trace(
            chance.getrandbits(128), n + 1, text(9), chunks, answer, None, started, chance.expovariate(0.5),
            "TimeoutError" if chance.random() < 0.01 else None, 0.2, cookies,
        )  # fmt: skip
        scores = tuple(_score(check, chance.betavariate(4, 1.3), evidence) for check in CHECKS)
        yield Evaluation(trace, scores, cause="unsupported" if scores[0].label == "fail" else None, lag=0.5)


def _score(check: Evaluator, value: float, evidence: tuple[Evidence, ...]) -> Score:
    value = value if check.direction == "higher" else 1 - value
    good = value >= (check.threshold or 0) if check.direction == "higher" else value <= (check.threshold or 0)
    passages = evidence if check.name == "faithfulness" else ()
    return Score(
        check.name, value, "pass" if good else "fail", evidence=passages, method="model", sampling_probability=0.2
    )


def filled(path: Path, count: int) -> Store:
    """A store of so many traces; one that is there is taken as it is."""
    there = path.exists()
    store = open_store(str(path))
    if not there:
        began, batch = time.monotonic(), []
        for one in evaluations(count):
            batch.append(one)
            if len(batch) == BATCH:
                store.write(batch, CHECKS)
                batch = []
        store.write(batch, CHECKS)
        seconds = time.monotonic() - began
        print(f"{count:,} traces written in {seconds:.0f} s ({count / seconds:,.0f} a second)", flush=True)
    picked = fill(store, Policy(quota=400, shares={"random": 0.5, "worst": 0.25, "threshold": 0.15, "feedback": 0.1}))
    print(f"{picked} logs picked for review", flush=True)
    return store


def review(page: Any, url: str) -> list[float]:
    """Milliseconds from Enter until the next log is painted. A person looks at each one for half a second."""
    page.add_init_script(_WATCH)  # before the page's own script, which lets nobody else hear its keys
    page.goto(f"{url}/review")
    page.wait_for_timeout(1_000)
    for n in range(JUDGED):
        page.keyboard.press("1" if n % 3 else "2")
        page.keyboard.press("Enter")
        page.wait_for_timeout(500)
    return list(page.evaluate("window.times"))


def visit(page: Any, address: str) -> list[float]:
    """Milliseconds from the request of a page until it is loaded and painted."""
    times = []
    for _ in range(VISITS):
        page.goto(address)
        times.append(page.evaluate(_PAINTED))
    return times


def report(name: str, times: list[float]) -> None:
    ranked = sorted(times)
    last = ranked[min(len(ranked) - 1, int(0.99 * len(ranked)))]
    print(f"{name:44} median {statistics.median(ranked):6.0f} ms   p99 {last:6.0f} ms   of {len(ranked)}", flush=True)


def main() -> int:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--store", type=Path, help="a file to keep, or one that is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = filled(options.store or Path(folder) / "logs.db", options.traces)
        with served(store) as url, sync_playwright() as running:
            browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(local_address(store, url))
            report("review: from Enter to the next log", review(page, url))
            newest = page.goto(f"{url}/traces") and page.get_attribute(".log a.cover", "href")
            word = (page.inner_text(".log a.cover").split() or ["the"])[0].strip(".")
            pages = (
                "/", "/?range=30d", "/traces", "/traces?app=app-3&evaluator=faithfulness&label=fail",
                f"/traces?q={word}", "/traces?evaluator=faithfulness&order=worst", str(newest), "/review", "/agreement",
                "/evaluators", "/evaluators/faithfulness", "/health",
            )  # fmt: skip
            for path in pages:
                report(path[:44], visit(page, url + path))
            browser.close()
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
