"""`ragtrace rescore`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace.batch.rescore.announcement import confirm, say, task
from ragtrace.errors import DataError, SettingError
from ragtrace.settings.value_forms import is_server

if TYPE_CHECKING:
    from ragtrace.base.rows import Item
    from ragtrace.batch.rescore.file_logs import FileLogs
    from ragtrace.batch.rescore.job import RescoreOutcome, RescoreSuite
    from ragtrace.batch.rescore.ray_cluster import RayCluster, RaySource
    from ragtrace.batch.rescore.stored_logs import ImportedLogs, LogSelection, Missing, StoredLogs


def add_commands(commands: Any) -> None:
    """Adds it to the parser of `ragtrace`. Imports nothing heavy."""
    from ragtrace.console.chatlogs.cli import add_store_option

    rescore = commands.add_parser(
        "rescore", help="evaluate stored logs or spans in a file again, with other evaluators or new versions"
    )
    add = rescore.add_argument
    add("file", nargs="?", type=Path, metavar="FILE",
        help="spans instead of stored logs: ragtrace's spans_file, OTLP in JSON, Phoenix's spans or MLflow's traces",
    )  # fmt: skip
    add_store_option(rescore)
    add("--out", default="", metavar="FILE",
        help="write the scores here, as Parquet or JSON lines by the name (default for spans: standard output)",
    )  # fmt: skip
    add("--evaluators", default="default", metavar="A,B",
        help="names of evaluators, `default` (the default) or `local`",
    )  # fmt: skip
    add_log_options(rescore)
    add("--jobs", type=int, default=0, help="the number of processes; 0 (the default) starts one for each core")
    add("--ray", nargs="?", const="local", metavar="ADDRESS",
        help="evaluate on a cluster of Ray: HOST:PORT, ray://HOST:PORT or auto; without an address on this machine",
    )  # fmt: skip
    add("--judge-batch", type=Path, metavar="FILE",
        help="ask the judge in the provider's batches, which take up to 24 hours; FILE keeps them until the end",
    )  # fmt: skip
    add("--yes", action="store_true", help="let the judge spend what the command says that it will cost")
    rescore.set_defaults(run=_rescore)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose stored logs."""
    add = parser.add_argument
    add("--since", default="", metavar="WHEN", help="only logs from then on: 30m, 24h or 7d before now, or 2026-01-31")
    add("--until", default="", metavar="WHEN", help="only logs before then, in the same form")
    add("--app", default="", help="only logs of this application")


def compare_versions(options: argparse.Namespace) -> int:
    """`ragtrace compare --evaluator`: two versions on the logs of a store."""
    from ragtrace.base import terminal
    from ragtrace.batch.rescore.version_changes import two_versions, version_changes
    from ragtrace.console.chatlogs.cli import open_store_of

    selection = _selection(options)
    with open_store_of(options) as store:
        versions = [version for version in (options.first, options.second) if version is not None]
        pair = two_versions(store, options.evaluator, versions)
        print(version_changes(store, options.evaluator, pair, selection, terminal.width()))
    return 0


def _rescore(options: argparse.Namespace) -> int:
    from ragtrace import settings
    from ragtrace.batch.rescore.job import load_suite
    from ragtrace.batch.rescore.score_table import is_parquet
    from ragtrace.batch.run import check_files

    check_files(options.file, options.out, options.judge_batch)
    suite = load_suite(options.evaluators, settings.load())
    if options.judge_batch is not None and options.ray is not None:
        raise SettingError("--judge-batch asks the judge from one process; leave --ray away, or ask without batches")
    if options.out:
        is_parquet(Path(options.out))  # raises before the work begins where pyarrow is not installed
    with _cluster(options, suite) as cluster:
        rescore = _rescore_store if options.file is None or options.store else _rescore_into_file
        return rescore(options, suite, cluster)


def _cluster(options: argparse.Namespace, suite: RescoreSuite) -> AbstractContextManager[RayCluster | None]:
    """The cluster of --ray; None without the option. Raises SettingError where it does not answer, and as
    `require_shared` does."""
    from ragtrace.batch.rescore.ray_cluster import connect

    if options.ray is None:
        return contextlib.nullcontext()
    cluster = connect(options.ray, options.jobs)
    if cluster.machines > 1:
        require_shared(options, suite, cluster.machines)
    say(f"Ray: {cluster.workers} workers on {cluster.machines} machines")
    return cluster


def require_shared(options: argparse.Namespace, suite: RescoreSuite, machines: int) -> None:
    """Raises SettingError where several machines cannot read the store, or would each spend the judge's budget."""
    from ragtrace.console.chatlogs.cli import store_address
    from ragtrace.console.chatlogs.engine import parse_url

    if options.file is None:
        url = parse_url(store_address(options))
        if url.get_backend_name() == "sqlite":
            raise SettingError(
                f"the store {url.database} is a file, which the {machines} machines of --ray {options.ray} cannot "
                "read; use a store in PostgreSQL, or one machine"
            )
    if suite.asks_judge and not is_server(suite.settings.judge_ledger):
        raise SettingError(
            f"--ray {options.ray} has {machines} machines, each of which would spend the judge's whole budget; "
            "set judge_ledger to a Redis server, a budget for all of them"
        )


def _rescore_store(options: argparse.Namespace, suite: RescoreSuite, cluster: RayCluster | None) -> int:
    """The logs of a store, or the requests of a file, into a store."""
    from ragtrace.batch.rescore.job import local_batches, ray_batches, run_suite
    from ragtrace.batch.rescore.score_table import export_scores
    from ragtrace.batch.rescore.stored_logs import ImportedLogs, StoredLogs
    from ragtrace.console.chatlogs.cli import open_store_of

    file = None if options.file is None else _read_file(options)
    with open_store_of(options, create=file is not None) as store:
        logs: StoredLogs | ImportedLogs
        if file is None:
            logs = StoredLogs(store, suite.checks, _selection(options))
        else:
            logs = ImportedLogs(store, suite.checks, file.rows)
        missing = logs.count()
        if file is None and options.app and not missing.logs:
            raise DataError(f"{store.name} has no logs of the application {options.app!r} in this period")
        unfinished, processes = _announce(options, suite, missing, store.name, logs.rows(), cluster=cluster)
        errors = () if file is None else file.errors
        code = 1 if errors else 0
        if missing.unfinished:
            with _batched(options, unfinished, logs.rows), _progress(missing.unfinished) as progress:
                if cluster is None:
                    batches = local_batches(unfinished, logs.rows(), missing.unfinished, processes)
                else:
                    batches = ray_batches(unfinished, cluster, missing.unfinished, _source(options, suite, logs))
                outcome = run_suite(unfinished, batches, logs.write, progress, parallel=processes > 0)
            code = _conclude(options, outcome, "stored", errors)
        if options.out:  # all scores of these evaluators that the store has
            count = export_scores(store, suite.checks, _selection(options), Path(options.out))
            say(f"{options.out}: {count:,} scores of the store")
        return code


def _source(options: argparse.Namespace, suite: RescoreSuite, logs: StoredLogs | ImportedLogs) -> RaySource:
    """The logs for the processes of a cluster, which read those of a store themselves."""
    from ragtrace.batch.rescore.ray_cluster import RaySource, logs_source
    from ragtrace.batch.rescore.stored_logs import ImportedLogs, StoredLogReader
    from ragtrace.console.chatlogs.cli import store_address
    from ragtrace.console.chatlogs.engine import parse_url

    if isinstance(logs, ImportedLogs):
        return logs_source(list(logs.rows()))
    address = store_address(options)
    url = parse_url(address)
    if url.get_backend_name() == "sqlite":
        address = str(Path(str(url.database)).resolve())  # the cluster's processes have folders of their own
    versions = {check.name: check.version for check in suite.checks}
    return RaySource(iter(logs.ids()), StoredLogReader(address, suite.settings.store_key, versions))


def _rescore_into_file(options: argparse.Namespace, suite: RescoreSuite, cluster: RayCluster | None) -> int:
    """The requests of a file, into a file of JSON lines or to standard output."""
    from ragtrace.base import terminal
    from ragtrace.batch.rescore.job import local_batches, ray_batches, run_suite
    from ragtrace.batch.rescore.ray_cluster import logs_source
    from ragtrace.batch.rescore.result_file import open_results
    from ragtrace.batch.rescore.stored_logs import Missing

    logs = _read_file(options)
    rows = logs.rows
    missing = Missing(len(rows), len(rows), {check.name: len(rows) for check in suite.checks})
    target = None if options.out in ("", "-") else Path(options.out)
    if target is None:
        terminal.write_utf8()
    suite, processes = _announce(options, suite, missing, str(options.file), rows, cluster=cluster)
    if not rows:
        return 1 if logs.errors or logs.left_out["without texts"] else 0
    # In a terminal, scores and a progress bar on the same lines would be unreadable.
    is_visible = target is not None or not sys.stdout.isatty()
    with open_results(target, options.file, suite, rows) as results:
        checkpoint = results.checkpoint
        if checkpoint is not None and checkpoint.done:
            say(f"{checkpoint.done:,} of them were evaluated in an earlier run")
        bar = _progress(len(rows)) if is_visible else contextlib.nullcontext()
        with _batched(options, suite, lambda: iter(rows)), bar as progress:
            if cluster is None:
                batches = local_batches(suite, iter(rows), len(rows), processes, checkpoint)
            else:
                batches = ray_batches(suite, cluster, len(rows), logs_source(rows), checkpoint)
            outcome = run_suite(suite, batches, results.write, progress, parallel=processes > 0, target=target)
    return _conclude(options, outcome, "written", logs.errors)


def _read_file(options: argparse.Namespace) -> FileLogs:
    """The requests of the file, after a sentence on what it holds."""
    from ragtrace import settings
    from ragtrace.batch.rescore.file_logs import read_file_logs

    logs = read_file_logs(options.file, _selection(options), settings.load().head_sample)
    for error in logs.errors:
        say(str(error))
    requests = len(logs.rows) + logs.left_out.total()
    reasons = "".join(f", {count:,} {reason}" for reason, count in logs.left_out.items())
    say(f"{options.file}: {logs.spans:,} spans, {requests:,} requests{reasons}")
    return logs


def _announce(
    options: argparse.Namespace,
    suite: RescoreSuite,
    missing: Missing,
    name: str,
    items: Iterable[Item],
    *,
    cluster: RayCluster | None,
) -> tuple[RescoreSuite, int]:
    """Says what is to be done with these logs and what it takes, and asks where it costs money. Returns the evaluators
    that have something to do, and the number of processes. Raises SettingError without an agreement."""
    from ragtrace.base.rows import Row
    from ragtrace.batch.rescore.cost_estimate import estimate_cost, sample_size
    from ragtrace.batch.rescore.job import process_count
    from ragtrace.batch.rescore.judge_batches import PRICE_SHARE

    say(task(suite, missing, name))
    suite = suite.subset({name for name, count in missing.evaluations.items() if count})
    processes = cluster.workers if cluster is not None else process_count(options.jobs, missing.unfinished)
    if options.judge_batch is not None and suite.asks_judge:
        processes = 0  # the file of --judge-batch is this process's alone
    if missing.unfinished:
        share = None if options.judge_batch is None else PRICE_SHARE
        rows = (item for item in items if isinstance(item, Row))
        sample = list(islice(rows, sample_size(missing.unfinished)))
        cost = estimate_cost(suite, sample, missing.evaluations, processes)
        confirm(suite, cost, processes, options.yes, share)
    return suite, processes


def _batched(
    options: argparse.Namespace, suite: RescoreSuite, rows: Callable[[], Iterator[Item]]
) -> AbstractContextManager[None]:
    """Asks the judge in batches, with --judge-batch."""
    from ragtrace.batch.rescore.judge_batches import PRICE_SHARE, judge_in_batches

    if options.judge_batch is None or not suite.asks_judge:
        return contextlib.nullcontext()
    return judge_in_batches(suite, rows, options.judge_batch, PRICE_SHARE, say)


def _selection(options: argparse.Namespace) -> LogSelection:
    from ragtrace.batch.reporting.live import parse_time
    from ragtrace.batch.rescore.stored_logs import LogSelection

    now = time.time()
    since = parse_time(options.since, now, "--since") if options.since else 0.0
    until = parse_time(options.until, now, "--until") if options.until else LogSelection().until
    if not since < until:
        raise SettingError(f"the period ends before it begins: --since {options.since}, --until {options.until}")
    return LogSelection(since, until, options.app)


def _progress(logs: int) -> AbstractContextManager[Callable[[int], None] | None]:
    from ragtrace.batch.reporting.progress import progress_bar

    return progress_bar(lambda: logs, "logs")


def _conclude(
    options: argparse.Namespace, outcome: RescoreOutcome, verb: str, line_errors: Sequence[DataError] = ()
) -> int:
    """Prints the figures; returns the exit code. `line_errors` were printed when the file was read."""
    from ragtrace.base import terminal

    for error in outcome.errors:
        say(str(error))
    unreadable = len(outcome.errors) + len(line_errors)
    left_out = f"{unreadable} unreadable {'lines' if line_errors else 'ones'} were left out"
    say(f"{outcome.done:,} logs were evaluated and {verb}, {left_out}, in {outcome.seconds:.1f} s")
    print("\n".join(outcome.figures.lines(terminal.width(sys.stderr))), file=sys.stderr)
    if outcome.failed:
        again = "; the same command tries them again" if verb == "stored" else ""
        say(f"{outcome.failed:,} evaluations failed{again}")
    names = [name.strip() for name in options.evaluators.split(",")]
    # Evaluators that were named themselves: those of `default` and `local` may suit no log.
    required = [name for name in outcome.figures.figures if any(each.rpartition(":")[2] == name for each in names)]
    empty = outcome.figures.without_value(required)
    for line in empty:
        say(line)
    return 1 if unreadable or empty else 0
