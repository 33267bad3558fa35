"""Evaluates logs on Ray: a data set of what is to be read, and a pool of actors that read and evaluate it."""

import logging
import os
import pickle
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ragtrace.base.rows import Item, Row
from ragtrace.batch.batches import ScoredBatch, ScoredRow, Workers, score_batches
from ragtrace.batch.rescore.stored_logs import without_texts
from ragtrace.errors import DataError, MissingExtraError, SettingError
from ragtrace.evaluation import Evaluator
from ragtrace.settings import Settings

LOCAL = "local"
"""The address that starts Ray on this machine, for this process."""
_CONNECT_SECONDS = 5.0
_TASK = 256
"""Logs of a task at most."""
_RETRIES = 3
"""How often a task is tried again whose actor or machine died. Ray itself tries without end, also a log that ends
each process that evaluates it."""

Reader = Callable[[Sequence[Any], Sequence[Evaluator]], Sequence[Item]]
"""From the items of a task to the logs, in the actor. It is pickled; so are the items."""


@dataclass(frozen=True, slots=True)
class RaySource:
    """What is evaluated."""

    items: Iterator[Any]
    """Logs, or what `reader` makes logs of: they are pickled and wait in Ray's object store."""
    reader: Reader
    rows: Mapping[Any, Row] = field(default_factory=dict)
    """Logs with their texts, by id: texts do not come back from the actors. Logs that are not here have none."""


def logs_source(rows: Sequence[Row]) -> RaySource:
    """The source of logs that this process has read."""
    return RaySource(iter(rows), _as_they_are, {row.id: row for row in rows})


@dataclass(frozen=True, slots=True)
class RayCluster(AbstractContextManager["RayCluster"]):
    """A cluster that this process is connected to; a context manager that leaves it."""

    workers: int
    """Actors that evaluate."""
    cpus: float
    """That each of them reserves."""
    machines: int

    def __exit__(self, *_: object) -> None:
        import ray

        ray.shutdown()


def connect(address: str, workers: int = 0) -> RayCluster:
    """Connects to the cluster at `HOST:PORT`, `ray://HOST:PORT` or `auto` (RAY_ADDRESS, or the one of this machine), or
    starts Ray on this machine (`local`). `workers` is 0 for one for each CPU.

    Raises SettingError where the address is invalid or does not answer, and MissingExtraError without Ray."""
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtraError("ray[data]>=2.50,<2.64", "", "--ray") from None
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or address
    if address not in (LOCAL, "auto"):
        _require_listener(address)
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        options |= {"num_cpus": workers or None, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(**options)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise SettingError(f"--ray {address}: {_first_line(error)}; {_ADVICE}") from None
    cpus = float(ray.cluster_resources().get("CPU", 1.0))
    count = workers or max(1, int(cpus))
    return RayCluster(count, min(1.0, cpus / count), len(ray.nodes()))


_ADVICE = (
    "check it with `ray status --address HOST:PORT` (a cluster that wants a token: set RAY_AUTH_MODE=token and "
    "RAY_AUTH_TOKEN), or give --ray alone to start Ray on this machine"
)


def _require_listener(address: str) -> None:
    """Raises SettingError where nothing listens at the address: Ray itself tries for a quarter of an hour."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise SettingError(f"invalid --ray {address!r}; give HOST:PORT, ray://HOST:PORT or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise SettingError(f"--ray {address} does not answer ({_first_line(error)}); {_ADVICE}") from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def task_size(logs: int, workers: int, lost: float) -> int:
    """Logs of a task, so that those of all actors, and as many finished ones, are the share `lost` of all."""
    return max(1, min(_TASK, int(lost * logs / (1 + 2 * workers))))


def evaluate_on_ray(
    cluster: RayCluster, source: RaySource, suite: tuple[Sequence[str], Settings], size: int, *, in_order: bool
) -> Iterator[ScoredBatch]:
    """The source's logs with their scores, by the evaluators of these names with these settings, in tasks of `size`
    items: in the order of the items, or each batch as soon as it is there. Raises SettingError where the actors fail.
    """
    import pyarrow
    import ray
    from ray.data import ActorPoolStrategy, DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = in_order
    blocks = []
    while task := list(islice(source.items, size)):
        blocks.append(pyarrow.table({"task": [pickle.dumps(task)]}))
    if not blocks:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # max_task_retries goes with Ray 2.64, and has no successor yet
        scored = ray.data.from_arrow(blocks).map_batches(
            RescoreActor, fn_constructor_args=(*suite, source.reader), batch_size=None, batch_format="pyarrow",
            compute=ActorPoolStrategy(size=min(cluster.workers, len(blocks))), num_cpus=cluster.cpus,
            max_task_retries=_RETRIES,
        )  # fmt: skip
    try:
        for table in scored.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            for payload in table["scores"].to_pylist():
                yield _with_texts(pickle.loads(payload), source.rows)
    except ray.exceptions.RayError as error:
        raise SettingError(f"Ray's workers failed: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    """The last line that says why: Ray's messages are tracebacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _with_texts(batch: ScoredBatch, rows: Mapping[Any, Row]) -> ScoredBatch:
    lines = [
        ScoredRow(rows.get(line.row.id, line.row), line.scores) if isinstance(line, ScoredRow) else line
        for line in batch.lines
    ]
    return ScoredBatch(lines, batch.seconds)


class RescoreActor:
    """Reads and evaluates tasks in a process of the cluster. Its models stay loaded."""

    def __init__(self, names: Sequence[str], settings: Settings, reader: Reader) -> None:
        self._reader = reader
        self._workers = Workers(names, settings, 0, ExitStack())

    def __call__(self, table: Any) -> Any:
        """The scores of the tasks: a column of pickled batches, without texts."""
        import pyarrow

        results = [pickle.dumps(self._evaluate(pickle.loads(task))) for task in table["task"].to_pylist()]
        return pyarrow.table({"scores": pyarrow.array(results, pyarrow.binary())})

    def _evaluate(self, task: Sequence[Any]) -> ScoredBatch:
        checks = self._workers.checks
        batches = list(score_batches(iter(self._reader(task, checks)), self._workers))
        lines = [_without_texts(line) for batch in batches for line in batch.lines]
        return ScoredBatch(lines, {check.name: sum(batch.seconds[check.name] for batch in batches) for check in checks})


def _without_texts(line: ScoredRow | DataError) -> ScoredRow | DataError:
    if isinstance(line, DataError):
        return line
    return ScoredRow(replace(line.row, trace=without_texts(line.row.trace)), line.scores)


def _as_they_are(task: Sequence[Any], _: Sequence[Evaluator]) -> Sequence[Item]:
    """The reader of tasks whose items are the logs."""
    return task
