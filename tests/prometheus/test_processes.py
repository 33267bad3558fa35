"""Several processes of one application: whoever is scraped shows the sum, and nothing falls when one of them dies."""

import contextlib
import json
import math
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ragtrace.errors import SettingError
from ragtrace.evaluation import evaluator
from ragtrace.live.counts import Stats
from ragtrace.live.pipeline import Pipeline
from ragtrace.records import Evaluation, Score, Trace
from ragtrace.sampling import ratio
from ragtrace.testing import make_trace
from ragtrace_prometheus import PrometheusSink, processes
from ragtrace_prometheus.families import Family
from ragtrace_prometheus.processes import _as_json, _family
from ragtrace_prometheus.totals import Snapshot, compact, merge

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]
LASTING = ("_total", "_bucket", "_count", "_sum")


@evaluator(needs={"answer"}, threshold=0.6)
def length(trace: Trace) -> float:
    return min(1.0, len(trace.answer) / 100)


def read(text: str) -> Values:
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in parse_text(text) for s in f.samples}


def scraped(sink: PrometheusSink) -> Values:
    return read(generate_latest(sink.registry).decode())


def total(values: Values, name: str, **labels: str) -> float:
    return sum(v for (n, of), v in values.items() if n == name and labels.items() <= dict(of).items())


def assert_whole(before: Values, now: Values) -> None:
    """No counter fell or went, and what became of the requests adds up."""
    for key, value in before.items():
        if key[0].endswith(LASTING):
            assert now[key] >= value, key
    eligible = total(now, "ragtrace_evaluation_eligible_total")
    assert eligible == total(now, "ragtrace_evaluation_outcomes_total")


@contextlib.contextmanager
def scraping(*scrapes: Callable[[], Values]) -> Iterator[None]:
    """While the block runs each of these scrapes in a thread of its own, and no counter falls."""
    done = threading.Event()

    def scrape_again_and_again(scrape: Callable[[], Values]) -> None:
        values: Values = {}
        while not done.is_set():
            now = scrape()
            assert_whole(values, now)
            values = now
            time.sleep(0.01)

    with ThreadPoolExecutor() as pool:
        results = [pool.submit(scrape_again_and_again, scrape) for scrape in scrapes]
        try:
            yield
        finally:
            done.set()
        for result in results:
            result.result(60)


class Worker:
    def __init__(self, directory: Path) -> None:
        self.sink = PrometheusSink(app="shop", env="test", evaluators=[length], directory=directory)
        self.pipeline = Pipeline([length], [self.sink], sampler=ratio(0.5), observers=[self.sink.observe_request])
        self.sink.watch(self.pipeline)

    def work(self, requests: int) -> None:
        for i in range(requests):
            trace_id = random.Random(i).getrandbits(128)
            self.pipeline.submit(make_trace(trace_id=trace_id, answer="x" * (1 + i % 99), duration=0.1 * i))
        assert self.pipeline.flush(60)

    def stop(self) -> None:
        self.pipeline.close(1.0)
        self.sink.close()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[Worker]]:
    made = [Worker(tmp_path / "metrics") for _ in range(3)]
    yield made
    for worker in made:
        worker.stop()


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.json"))


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=30), st.randoms(use_true_random=False))
@example([0.1] * 10, random.Random(1))
@example([1e16, 1.0, 1e-16, 1.0], random.Random(1))
def test_a_sum_is_the_same_however_it_is_grouped(values: list[float], chance: random.Random) -> None:
    """Processes end one after the other, in any order, some of them together: the total stays, to the last bit."""
    cost = Family("counter", "cost", "", ["app"])
    living: list[Snapshot] = [[cost.replaced([("a",)], [value])] for value in values]
    ended: list[Snapshot] = []
    expected = math.fsum(values)
    while living:
        (total,) = merge([*living, *ended])
        assert total.values == [expected]
        chance.shuffle(living)
        count = chance.randint(1, len(living))
        summed = compact([*ended, *living[:count]])
        ended = [[_family(json.loads(json.dumps(_as_json(each)))) for each in snapshot] for snapshot in summed]
        living = living[count:]
    (total,) = merge(ended)
    assert total.values == [expected]


@pytest.mark.parametrize("values", [[], [0.0], [math.inf], [1e308, 1e308], [math.nan], [math.inf, 1.0]])
def test_a_sum_of_odd_values_ends(values: list[float]) -> None:
    cost = Family("counter", "cost", "", ())
    assert len(compact([[cost.replaced([()], [value])] for value in values])) == 1


def test_buckets_of_another_threshold() -> None:
    """A process with an older threshold has other bounds: its counts go to the next bound above, none is lost."""
    families = [Family("histogram", "score", "", (), buckets=[0.5, bound, 1.0]) for bound in (0.7, 0.62)]
    for family, sum_of_all in zip(families, (2.0, 3.0), strict=True):
        for value in (0.4, 0.6, 0.9):
            family.observe(value)
        family.values[-1] = sum_of_all
    families[1].observe(1.5)
    (total,) = merge([[family] for family in families])
    assert (total.bounds, total.values) == ((0.5, 0.7, 1.0, math.inf), [2.0, 4.0, 6.0, 7.0, 7.0, 6.5])


def test_series_that_only_some_processes_have() -> None:
    first, second = (Family("counter", "requests", "", ["model"]) for _ in range(2))
    for family, models, moment in ((first, ("a", "b"), 1.0), (second, ("c", "b"), 2.0)):
        for model in models:
            family.inc(model, by=moment, source=({"trace_id": f"{model}{moment:.0f}"}, moment))
    (total,) = merge([[first], [second]])
    assert dict(zip(total.keys, total.values, strict=True)) == {("a",): 1.0, ("b",): 3.0, ("c",): 2.0}
    assert [total.exemplars[place].labels["trace_id"] for place in range(3)] == ["a1", "b2", "c2"]


def test_another_releases_metric_is_left_out() -> None:
    """One name with other labels cannot be added up."""
    mine, theirs = Family("counter", "requests", "", ["a"]), Family("counter", "requests", "", ["a", "b"])
    (total,) = merge([[mine.replaced([("x",)], [1.0])], [theirs.replaced([("x", "y")], [5.0])]])
    assert total.values == [1.0]


def test_every_process_shows_the_sum(workers: list[Worker]) -> None:
    for count, worker in enumerate(workers, 1):
        worker.work(10 * count)
    for worker in workers[:2]:
        scraped(worker.sink)  # writes its file, as its thread does each second
    values = scraped(workers[2].sink)
    assert total(values, "ragtrace_requests_total") == 60
    assert total(values, "ragtrace_request_duration_seconds_count") == 60
    assert (total(values, "ragtrace_evaluation_eligible_total"), total(values, "ragtrace_build_info")) == (60, 1)
    assert (total(values, "ragtrace_evaluator_info"), total(values, "ragtrace_evaluation_queue_items")) == (1, 0)
    assert abs(total(values, "ragtrace_last_evaluation_timestamp_seconds") - time.time()) < 60
    assert_whole({}, values)
    workers[0].sink(Evaluation(make_trace(trace_id=0xABC), (Score("length", 0.1, "fail"),)))
    scraped(workers[0].sink)
    families = parse_openmetrics(generate_openmetrics(workers[1].sink.registry).decode())
    assert f"{0xABC:032x}" in {s.exemplar.labels["trace_id"] for f in families for s in f.samples if s.exemplar}


def test_a_process_that_ends_is_remembered(workers: list[Worker], tmp_path: Path) -> None:
    """Its counts stay, to the last bit; its gauges go; its file goes into the one of those that ended."""
    for worker in workers:
        worker.work(20)
    waiting = Stats(7, 0, 0, 7, 0, 0, 0.0, {}, {}, {}, {}, {}, 0)
    workers[0].pipeline.stats = lambda: waiting  # type: ignore[method-assign]
    values = [scraped(worker.sink) for worker in workers][-1]
    assert (total(values, "ragtrace_evaluation_queue_items"), total(values, "ragtrace_judge_budget_usd")) == (7, 0)
    for ended, worker in enumerate(workers[:2], 1):
        worker.stop()
        for _ in range(2):  # before it is compacted, and after
            now = scraped(workers[2].sink)
            assert_whole(values, now)
            values = now
        assert (total(values, "ragtrace_requests_total"), total(values, "ragtrace_evaluation_queue_items")) == (60, 0)
        assert total(values, "ragtrace_last_evaluation_timestamp_seconds") > 0
        assert len(files(tmp_path / "metrics")) == 4 - ended
    assert "ragtrace-ended.json" in files(tmp_path / "metrics")
    assert list((tmp_path / "metrics").glob("*.tmp")) == []


def test_a_file_that_was_added_and_not_taken_away(workers: list[Worker], tmp_path: Path) -> None:
    """A process that is killed between the two leaves a file whose counts are in the sum already: not counted twice."""
    directory = tmp_path / "metrics"
    workers[0].work(10)
    scraped(workers[0].sink)
    (left,) = directory.glob("ragtrace-*-*.json")
    text = left.read_bytes()
    workers[0].stop()
    assert total(scraped(workers[1].sink), "ragtrace_requests_total") == 10
    assert not left.exists()
    left.write_bytes(text)
    for _ in range(2):
        assert total(scraped(workers[1].sink), "ragtrace_requests_total") == 10
    assert not left.exists()


@pytest.mark.parametrize("text", [b"", b"{", b'{"families": 1}', b'{"families": [{}]}', b"\xff", b"[]", b"null"])
def test_a_file_that_cannot_be_read(workers: list[Worker], tmp_path: Path, text: bytes) -> None:
    """What a machine that went down left half written costs its own counts and no scrape."""
    directory = tmp_path / "metrics"
    (directory / "ragtrace-1-00.json").write_bytes(text)
    (directory / "ragtrace-ended.json").write_bytes(text)
    workers[0].work(10)
    for _ in range(2):
        assert total(scraped(workers[0].sink), "ragtrace_requests_total") == 10
    assert not (directory / "ragtrace-1-00.json").exists()


def test_a_directory_that_vanishes(workers: list[Worker], tmp_path: Path) -> None:
    """Somebody wipes it while processes run: it is made again, and they show what they have."""
    workers[0].work(10)
    scraped(workers[0].sink)
    shutil.rmtree(tmp_path / "metrics")
    workers[0].work(5)
    assert total(scraped(workers[0].sink), "ragtrace_requests_total") == 15
    assert total(scraped(workers[1].sink), "ragtrace_requests_total") == 15


def test_a_disk_that_is_full(workers: list[Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written is not shown, for it could not be kept; the failure is counted."""
    workers[0].work(10)
    scraped(workers[0].sink)

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(processes, "_replace", full)
        workers[0].work(5)
        assert total(scraped(workers[0].sink), "ragtrace_requests_total") == 10
    values = scraped(workers[0].sink)
    assert total(values, "ragtrace_requests_total") == 15
    assert total(values, "ragtrace_internal_errors_total") >= 1


def test_a_disk_that_is_full_when_a_process_ends(workers: list[Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file cannot be added to the others': it is read by itself until there is room."""
    for worker in workers:
        worker.work(10)
    values = [scraped(worker.sink) for worker in workers][-1]
    workers[0].stop()
    real = processes._replace

    def full(path: Path, *content: Any) -> int:
        if path.name == "ragtrace-ended.json":
            raise OSError(28, "No space left on device")
        return real(path, *content)

    monkeypatch.setattr(processes, "_replace", full)
    for _ in range(2):
        assert_whole(values, scraped(workers[1].sink))
    monkeypatch.undo()
    for _ in range(2):
        assert_whole(values, scraped(workers[1].sink))


def test_files_that_may_not_be_read(workers: list[Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    """No scrape rather than one without the other processes: to Prometheus their counters would start again."""

    def denied(*_: object) -> object:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(processes, "_open", denied)
        workers[1].work(1)
        workers[1].sink._write()
        with pytest.raises(PermissionError):
            workers[0].sink.collect()
    assert total(scraped(workers[0].sink), "ragtrace_requests_total") == 1


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="PROMETHEUS_MULTIPROC_DIR"):
        PrometheusSink(app="a", env="b", evaluators=[], directory=tmp_path / "file")


def test_two_scrapes_at_once(workers: list[Worker], tmp_path: Path) -> None:
    with scraping(lambda: scraped(workers[0].sink), lambda: scraped(workers[1].sink)):
        for _ in range(5):
            short = Worker(tmp_path / "metrics")
            short.work(20)
            short.stop()
            workers[0].work(5)
    scraped(workers[0].sink)  # writes what it counted last
    assert total(scraped(workers[2].sink), "ragtrace_requests_total") == 125


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("killed", [False, True])
def test_a_forked_child_is_a_process_of_its_own(workers: list[Worker], killed: bool) -> None:
    """It begins at 0, counts for itself, and what it wrote stays when it is killed; its parent's file is not its."""
    parent = workers[0]
    parent.work(10)
    scraped(parent.sink)
    child = os.fork()
    if child == 0:
        try:
            parent.work(5)
            scraped(parent.sink)
            if killed:
                os.kill(os.getpid(), signal.SIGKILL)
            parent.stop()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    for _ in range(2):
        values = scraped(workers[1].sink)
        assert total(values, "ragtrace_requests_total") == 15
        assert total(values, "ragtrace_evaluation_eligible_total") == 15
    parent.work(1)
    assert total(scraped(parent.sink), "ragtrace_requests_total") == 16


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_while_the_file_is_replaced(workers: list[Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that is forked as its parent has just closed a file begins like any other, and ends."""
    parent = workers[0]
    parent.work(10)
    scraped(parent.sink)
    close, children = os.close, []

    def close_and_fork(file: int) -> None:
        close(file)
        if not children:
            children.append(os.fork())

    own = os.getpid()
    monkeypatch.setattr(os, "close", close_and_fork)
    assert parent.sink._processes is not None
    parent.sink._processes.write([])
    if os.getpid() != own:
        code = 1
        try:
            parent.work(5)
            parent.stop()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    parent.work(1)
    assert total(scraped(parent.sink), "ragtrace_requests_total") == 16
