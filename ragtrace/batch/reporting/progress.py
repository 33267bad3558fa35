"""A progress bar for a command that evaluates many rows."""

import contextlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(count: Callable[[], int], unit: str) -> Iterator[Callable[[int], None] | None]:
    """Shows a bar with rate and remaining time on standard error; yields the function to call with the number of rows
    of each finished batch. Yields None where standard error is no terminal, or rich is not installed; only else `count`
    is asked for the number of all rows."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    start, done = time.monotonic(), 0
    # redirect_stdout would send the scores to standard error.
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as bar:
        task = bar.add_task("evaluating", total=count(), rate="")

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            bar.update(task, advance=rows, rate=f"{done / max(1e-6, time.monotonic() - start):.1f} {unit}/s")

        yield advance
