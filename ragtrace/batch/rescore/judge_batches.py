"""`ragtrace rescore --judge-batch`: the judge's questions are collected pass by pass, and asked in batches."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ragtrace.base.rows import Item
from ragtrace.batch.batches import Workers, score_batches
from ragtrace.batch.rescore.batch_file import BatchFile
from ragtrace.batch.rescore.batch_judge import BatchJudge
from ragtrace.batch.rescore.job import RescoreSuite
from ragtrace.evaluate.judge import use_judge

MOST_PASSES = 10
"""The longest chain of questions of one evaluator has three, each asked at most twice."""

PRICE_SHARE = 0.5
"""The price of a batch as a share of that of single calls: OpenAI's in November 2026."""


@contextmanager
def judge_in_batches(
    suite: RescoreSuite, rows: Callable[[], Iterator[Item]], path: Path, share: float, say: Callable[[str], None]
) -> Iterator[None]:
    """Asks the judge all that these evaluators ask about these rows, in batches, and answers from the replies in the
    context. `path` has requests and replies until the context ends without an error; after a kill the same call
    continues with it. A question without a reply fails in the context. Raises SettingError where the provider has no
    batches, where the budget has no room, and for a file that cannot be used."""
    asking = suite.subset({check.name for check in suite.checks if check.asks_judge})
    file = BatchFile(path)
    is_done = False
    try:
        judge = BatchJudge(suite.settings, file, share, say)
        use_judge(judge)
        try:
            file.forget_unanswered()
            judge.wait()
            for _ in range(MOST_PASSES):
                _collect(asking, rows(), file)
                if not judge.send():
                    break
            judge.is_final = True
            yield
            is_done = True
        finally:
            use_judge(None)
            judge.store.close()
    finally:
        file.close(remove=is_done)


def _collect(suite: RescoreSuite, rows: Iterator[Item], file: BatchFile) -> None:
    """Evaluates the rows for the questions alone; the scores are not kept."""
    file.begin()
    with ExitStack() as stack:
        for _ in score_batches(rows, Workers(suite.names, suite.settings, 0, stack)):
            pass
    file.commit()
