"""Draws docs/pictures/console-*.png: python docs/console_pictures.py [--serve]

The logs are the demo's: its two assistants answer their recorded questions once, and all default evaluators score them.
These evaluations are then spread over a week, 14 times each, in the rhythm of a day, with two applications and a new
prompt version; nobody reviewed them, so the verdicts are made up: from the scores, with noise. Needs the extras
langchain, llama-index, models, serve, and Debian's chromium; takes a few minutes.
"""

import argparse
import hashlib
import logging
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from picture_sources import write_digest

import ragtrace
from ragtrace import plugins
from ragtrace.batch.demo import answerer, corpus, traffic
from ragtrace.console import accounts
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.login import local_address
from ragtrace.console.options import ConsoleSettings
from ragtrace.console.review.queue import Policy, fill, next_task, skip, submit
from ragtrace.console.server import serve
from ragtrace.console.topics.grouper import Grouper
from ragtrace.errors import RagtraceError
from ragtrace.records import Evaluation, Evidence, Feedback
from ragtrace.testing import Capture

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.console.conftest import served

PICTURES = Path(__file__).parent / "pictures"
WEEK = 7 * 86_400.0
COPIES = 14
MIDDLES = {"faithfulness": 0.62, "groundedness": 0.5, "answer_relevance": 0.6, "context_relevancy_recall": 0.68}
"""Where half of the made-up people would pass an answer."""


def demo(folder: Path) -> list[Evaluation]:
    """The demo's requests, scored."""
    got, assistants = Capture(), ("langchain", "llama_index")
    calls = traffic.questions_for(assistants, 0)
    answer = answerer(assistants, corpus.build())
    runtime = ragtrace.init(
        app="demo", sample=1.0, sample_per_second=0, sinks=[got], explanations=True, hold_seconds=1.0, workers=2,
        spans_file=str(folder / "spans.jsonl"), capture_content="false",
    )  # fmt: skip
    for i, call in enumerate(calls):
        answer(call, i % 3 == 0)
        time.sleep(0.1)
    got.wait(len(calls), 600.0)
    runtime.close()
    return got.evaluations


def spread(found: Sequence[Evaluation], now: float) -> list[Evaluation]:
    """A week of them, the times with the spans moved; durations as a larger model would take, 40 times as long."""
    chance = random.Random(5)
    made = []
    for one in [*found] * COPIES:
        started = now - _ago(chance, now)
        trace = one.trace
        docs = trace.facts.name == "python-help"
        late = started > now - 2 * 86_400
        slow = (20 + chance.expovariate(1 / 20)) * (1.3 if late and docs else 1.0)
        spans = [
            {**span, "start": started + slow * (span["start"] - trace.started), "duration": slow * span["duration"]}
            for span in trace.facts.spans
        ]
        facts = replace(
            trace.facts,
            app="docs-assistant" if docs else "helpdesk",
            env="prod",
            prompt_version=("v8" if late else "v7") if docs else "2026-10",
            spans=tuple(spans),
        )
        p = 0.25 if chance.random() < 0.8 else 1.0
        failed = "APITimeoutError" if chance.random() < 0.012 else None
        ids = {"trace_id": chance.getrandbits(128), "span_id": chance.getrandbits(64) | 1}
        moved = replace(
            trace, **ids, started=started, duration=slow * trace.duration, facts=facts, error=failed,
            sampling_probability=p,
        )  # fmt: skip
        scores = tuple(replace(score, sampling_probability=p) for score in one.scores)
        made.append(replace(one, trace=moved, scores=scores, lag=0.2 + chance.random()))
    return sorted(made, key=lambda each: each.trace.started)


def _ago(chance: random.Random, now: float) -> float:
    while True:
        ago = chance.random() * WEEK
        hour = ((now - ago) / 3_600) % 24
        if chance.random() < 0.2 + 0.8 * math.exp(-(((hour - 14) / 4.5) ** 2)):
            return ago


def review(store: Store, now: float) -> None:
    """Three people who judge most of what comes to them, alike but not always, and an application's users."""
    from ragtrace.console.review.feedback import add_feedback

    chance = random.Random(3)
    shares = {"random": 0.7, "worst": 0.1, "threshold": 0.1, "disagreement": 0.05, "topic": 0.05}
    policy = Policy(quota=420, shares=shares, double=0.2)
    fill(store, policy, now)
    people = [accounts.add(store, name, "reviewer").id for name in ("anna", "ben", "chiara")]
    for n in range(1_000):
        task = next_task(store, people[n % 3], now)
        if task is None:
            continue
        stored = store.get(task.trace)
        assert stored is not None
        verdicts = tuple(
            Verdict(score.name, "pass" if _good(chance, score.name, score.value, task.trace_id) else "fail")
            for score in stored.evaluation.scores
            if score.label in ("pass", "fail") and score.name in MIDDLES and score.value is not None
        )
        when = now - chance.random() * 5 * 86_400
        if not verdicts:
            skip(store, task.item, people[n % 3], "cannot tell", now)
            continue
        comment = "It mixes up two sections of the reference." if chance.random() < 0.1 else None
        said = Review(task.trace_id, verdicts, comment, seconds=chance.uniform(4, 40))
        submit(store, task, said, people[n % 3], when)
        if chance.random() < 0.15:
            add_feedback(store, Feedback(task.trace_id, chance.choice((-1, 1)), None, "app"), now)
    fill(
        store,
        Policy(
            quota=900, shares={"worst": 0.1, "threshold": 0.05, "disagreement": 0.05, "topic": 0.15, "feedback": 0.1}
        ),
        now + 60,
    )


def _good(chance: random.Random, name: str, value: float, trace_id: str) -> bool:
    own = int.from_bytes(hashlib.blake2b(f"{trace_id}{name}".encode(), digest_size=4).digest(), "big") / 2**32
    good = own < 1 / (1 + math.exp(-7 * (value - MIDDLES[name])))
    return good if chance.random() > 0.05 else not good


def telling(found: Sequence[Evaluation]) -> str:
    """The newest log of which some is supported, some is not, and some is contradicted, from several chunks."""

    def rank(one: Evaluation) -> tuple[int, int, float]:
        evidence: Sequence[Evidence] = next((s.evidence for s in one.scores if s.name == "faithfulness"), ())
        kinds = len({e.verdict for e in evidence})
        chunks = len({e.document_rank for e in evidence})
        return (kinds, min(chunks, 2) + min(len(evidence), 4) - (one.trace.error is not None), one.trace.started)

    return f"{max(found, key=rank).trace.trace_id:032x}"


def shoot(url: str, store: Store, trace_id: str, out: Path) -> None:
    """The pictures: page, file, theme, width, height."""
    from playwright.sync_api import sync_playwright

    wanted = (
        ("/", "overview", "light", 1280, 1040),
        ("/", "overview-dark", "dark", 1280, 1040),
        (f"/traces/{trace_id}", "trace", "light", 1280, 1000),
        (f"/traces/{trace_id}", "trace-dark", "dark", 1280, 1000),
        ("/traces", "traces", "light", 1280, 900),
        ("/review", "review", "light", 1280, 860),
        ("/review", "review-phone", "light", 400, 820),
        (f"/traces/{trace_id}", "trace-phone", "dark", 400, 820),
        ("/questions", "questions", "light", 1280, 900),
        ("/agreement", "agreement", "light", 1280, 1000),
        ("/evaluators/faithfulness?view=reviewed", "evaluator", "light", 1280, 860),
    )
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for path, name, theme, width, height in wanted:
            page: Any = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
            page.goto(local_address(store, url))
            page.goto(url + path)
            if name == "review":
                page.keyboard.press("2")
            file = out / f"console-{name}.png"
            page.screenshot(path=str(file))
            page.close()
            smaller(file)
            print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")
        browser.close()


def smaller(path: Path) -> None:
    """The picture in 256 colours, where Pillow is installed."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        return
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=PICTURES)
    parser.add_argument("--serve", type=int, metavar="PORT", help="serve the store there, and draw nothing")
    options = parser.parse_args()
    now = time.time()
    with tempfile.TemporaryDirectory() as folder:
        found = spread(demo(Path(folder)), now)
        print(f"{len(found)} logs after {time.time() - now:.0f} s", flush=True)
        store = open_store(str(Path(folder) / "logs.db"))
        store.write(found, checks(found), now - 60)
        review(store, now)
        Grouper(store).update(now)
        print(f"filled after {time.time() - now:.0f} s", flush=True)
        settings = ConsoleSettings(port=options.serve or 0, trace_url="https://tracing.example.org/trace/{trace_id}")
        if options.serve:
            logging.basicConfig(level=logging.INFO)  # it says the address
            serve(store, settings)
            return 0
        with served(store, settings) as url:
            shoot(url, store, telling(found), options.out)
            if options.out == PICTURES:
                write_digest("console")
        store.close()
    return 0


def checks(found: Sequence[Evaluation]) -> list[Any]:
    """The evaluators that scored them, as they are built in."""
    made = []
    for name in sorted({score.name for one in found for score in one.scores}):
        try:
            made.append(plugins.load(name))
        except RagtraceError:  # one of several scores of an evaluator
            continue
    return made


if __name__ == "__main__":
    sys.exit(main())
