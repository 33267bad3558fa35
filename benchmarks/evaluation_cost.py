"""What evaluating one trace costs: python benchmarks/evaluation_cost.py [--traces N]

Milliseconds of one core for an answer of five sentences over five chunks of 120 words (made from the language reference
that every Python carries): cold, and warm, where the chunks were seen before. For faithfulness alone and for the whole
default suite, one by one and in batches of 32; and their ratio to embedding the same text once with the same encoder.
"""

import argparse
import pydoc_data.topics
import random
import time
from collections.abc import Callable, Sequence

from ragtrace import plugins
from ragtrace.evaluation import Evaluator, run
from ragtrace.plugins import DEFAULT_SUITE
from ragtrace.records import Document, Trace
from ragtrace.text.sentences import prose


def traces(count: int, chance: random.Random) -> list[Trace]:
    """Traces over chunks that no two of them share."""
    text = "\n".join(pydoc_data.topics.topics.values())
    words = text.split()
    sentences = [s for s in (text[p.start : p.end] for p in prose(text, 20_000)) if 8 <= len(s.split()) <= 25]
    traces = []
    for i in range(count):
        start = (i * 600) % (len(words) - 600)
        chunks = [" ".join(words[start + 120 * k : start + 120 * (k + 1)]) for k in range(5)]
        documents = tuple(Document(f"{i}-{k}", chunk) for k, chunk in enumerate(chunks))
        answer = " ".join(" ".join(s.split()) for s in chance.sample(sentences, 5))
        traces.append(Trace(i + 1, 1, "How does this statement work in a class body?", documents, answer))
    return traces


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of processor time."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


def all_of(checks: Sequence[Evaluator], batch: Sequence[Trace]) -> None:
    for check in checks:
        run(check, batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=16)
    count = parser.parse_args().traces
    chance = random.Random(7)
    suites = {
        "faithfulness": [plugins.load("faithfulness")],
        "default suite": [plugins.load(name) for name in DEFAULT_SUITE],
    }
    fresh = traces(4 * count + 65, chance)
    all_of(suites["default suite"], fresh[-1:])  # loads the models
    from ragtrace.evaluate.models.embedding import OnnxEmbedder

    embedder = OnnxEmbedder()
    base = timed(lambda: [embedder.embed([d.content for d in t.documents]) for t in fresh[3 * count :][:count]]) / count
    print(f"embedding the chunks alone: {base:.0f} ms a trace\n")
    print("| | cold ms | / embedding | warm ms | / embedding |\n|---|---|---|---|---|")
    for k, (name, checks) in enumerate(suites.items()):
        mine = fresh[k * count : (k + 1) * count]
        cold = timed(lambda m=mine, c=checks: [all_of(c, [t]) for t in m]) / count  # type: ignore[misc]
        again = [
            Trace(t.trace_id, 1, t.query, t.documents, " ".join(u.answer.split(". ")[::-1]))
            for t, u in zip(mine, traces(count, chance), strict=True)
        ]
        warm = timed(lambda m=again, c=checks: [all_of(c, [t]) for t in m]) / count  # type: ignore[misc]
        print(f"| {name} | {cold:.0f} | {cold / base:.2f} | {warm:.0f} | {warm / base:.2f} |")
    batch = fresh[4 * count : 4 * count + 32]
    together = timed(lambda: all_of(suites["default suite"], batch)) / len(batch)
    print(f"| default suite, batch of 32 | {together:.0f} | {together / base:.2f} | | |")


if __name__ == "__main__":
    main()
