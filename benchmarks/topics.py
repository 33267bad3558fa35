"""Processor time to group questions by topic: embedding each one, and finding the groups.

python benchmarks/topics.py [--questions 5000]
"""

import argparse
import itertools
import random
import time

from ragtrace.console.topics import clusters
from ragtrace.console.topics.grouper import LEAST, MOST_TOPICS
from ragtrace.evaluate.models.embedding import OnnxEmbedder

_OPENINGS = ("", "Hello, ", "Please help: ", "Quick question: ", "I wonder: ")
_THINGS = (
    "kettle", "lamp", "jacket", "phone", "toaster", "bicycle", "sofa", "camera", "drill", "tent", "desk", "stove",
)  # fmt: skip
_SENTENCES = (
    "when do I get the refund for the {}?", "the refund for my {} has not arrived yet",
    "where is the parcel with the {}?", "how long does the delivery of the {} take?", "how do I return the {}?",
    "is there a return label for the {}?", "how long is the warranty of the {}?",
    "does the guarantee cover water damage of the {}?", "cancel the order of the {}",
    "where do I download the invoice for the {}?", "can I pay for the {} in instalments?",
    "was my card charged twice for the {}?", "how do I clean the {}?", "which spare parts are there for the {}?",
    "how do I assemble the {}?", "is the {} in stock?", "what does the {} weigh?", "which size of the {} do I need?",
    "does the {} come in another colour?", "the {} makes a noise",
)  # fmt: skip


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=5_000)
    count = parser.parse_args().questions
    chance = random.Random(0)
    all_questions = [
        f"{opening}{sentence.format(thing)} No. {chance.randrange(10_000)}"
        for opening, sentence, thing in itertools.product(_OPENINGS, _SENTENCES, _THINGS)
    ]
    questions = [f"{chance.choice(all_questions)} {n}" for n in range(count)]
    embedder = OnnxEmbedder()
    start, wall = time.process_time(), time.perf_counter()
    vectors = embedder.embed(questions)
    embedding = time.process_time() - start
    print(f"embedding   {embedding:7.1f} s of CPU, {1_000 * embedding / count:.1f} ms a question "
          f"({time.perf_counter() - wall:.1f} s)")  # fmt: skip
    start, wall = time.process_time(), time.perf_counter()
    groups = clusters.find_groups(vectors, LEAST, MOST_TOPICS)
    grouping = time.process_time() - start
    print(f"{len(groups):3} groups  {grouping:7.1f} s of CPU ({time.perf_counter() - wall:.1f} s)")
    start = time.process_time()
    clusters.nearest(vectors[:200], vectors[:MOST_TOPICS])
    print(f"200 new questions and {MOST_TOPICS} centres: {1_000 * (time.process_time() - start):.1f} ms of CPU")


if __name__ == "__main__":
    main()
