"""The scores of ended traces on their way to Phoenix, MLflow and Langfuse."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ragtrace.records import Evaluation
from ragtrace.worker.buffer import Buffer
from ragtrace_backends.annotations import Annotation, decode, encode, from_evaluation

if TYPE_CHECKING:
    from ragtrace_backends.score_delivery import ScoreDelivery


class ScoreOutbox:
    """Delivers the scores of a trace once its spans were sent. A durable buffer holds them until each is delivered or
    lost: what a process leaves, the next one delivers, and a repetition changes nothing in the backends."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._deliveries: Sequence[ScoreDelivery] = ()
        self._lock = threading.Lock()
        self._open: Counter[bytes] = Counter()
        """Scores that are neither delivered nor lost, by trace id."""

    def connect(self, deliveries: Sequence[ScoreDelivery]) -> Sequence[ScoreDelivery]:
        """Deliver with these. Returns those that are to be called with each evaluation: none."""
        self._deliveries = deliveries
        if self._buffer.is_durable:
            for delivery in deliveries:
                delivery.on_settled = self._settle
        return ()

    def encoded(self, evaluations: Iterable[Evaluation]) -> bytes:
        """The scores of a trace's evaluations, for its outcome."""
        if not self._deliveries:
            return b""
        form = self._deliveries[0].form
        return encode([one for evaluation in evaluations for one in from_evaluation(evaluation, form)])

    def deliver(self, outcomes: Mapping[bytes, bytes]) -> None:
        """Deliver the encoded scores of traces that were sent, by trace id. Never waits."""
        annotations = {trace_id: decode(content) for trace_id, content in outcomes.items() if content}
        if not self._deliveries:  # the backend was taken out of the settings
            self._buffer.forget(list(annotations))
            return
        with self._lock:
            self._open.update({trace_id: len(self._deliveries) * len(each) for trace_id, each in annotations.items()})
        for each in annotations.values():
            for one in each:
                for delivery in self._deliveries:
                    delivery.put(one)

    def _settle(self, annotations: Sequence[Annotation]) -> None:
        """Have the buffer forget the traces of which this was the last."""
        counts = Counter(bytes.fromhex(one.trace_id) for one in annotations)
        with self._lock:
            self._open.subtract(counts)
            complete = [trace_id for trace_id in counts if self._open[trace_id] <= 0]
            for trace_id in complete:
                del self._open[trace_id]
        if complete:
            self._buffer.forget(complete)

    def close(self, timeout: float) -> None:
        """Deliver for up to `timeout` seconds what waits. A durable buffer holds the rest."""
        if self._deliveries:
            with ThreadPoolExecutor(len(self._deliveries), thread_name_prefix="ragtrace-close") as pool:
                for delivery in self._deliveries:  # at the same time: one that is away costs the others nothing
                    pool.submit(delivery.close, timeout)
