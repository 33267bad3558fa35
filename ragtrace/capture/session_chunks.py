"""The chunks of a session's earlier turns: the context of an answer without a retrieval of its own.

A plain dictionary whose single operations are atomic, without a lock: the application's threads never wait here, and a
fork leaves nothing locked. A race can lose a remembered turn, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ragtrace.capture.request import Request
from ragtrace.records import Document

_SESSIONS = 1_000
"""Sessions that are remembered, the latest."""
_CHARS = 32_000
"""Characters of chunks that are remembered of a session, the latest: at most 32 million characters in all."""
_CHUNKS = 64
"""Chunks that are remembered of a session, the latest: those without text take memory, too."""

_chunks: dict[tuple[str, str | None, str], tuple[Document, ...]] = {}


def earlier_chunks(request: Request, documents: Sequence[Document]) -> tuple[Document, ...]:
    """The chunks of the session's earlier turns for a request that retrieved nothing itself; () for one that searched,
    and for one without a session. Remembers `documents`, which are this request's own."""
    if request.session is None:
        return ()
    key = (request.session, request.user, request.service)
    remembered = _chunks.pop(key, ())  # to the end: the oldest session goes first
    searched = bool(request.retrieved or documents)
    latest = _latest([*documents, *remembered])
    if latest:
        _chunks[key] = latest
    while len(_chunks) > _SESSIONS:
        with suppress(KeyError, RuntimeError, StopIteration):  # another thread was faster
            del _chunks[next(iter(_chunks))]
    return () if searched else remembered


def _latest(documents: Sequence[Document]) -> tuple[Document, ...]:
    """The first of these, each once, that fit into the bounds."""
    chunks: dict[tuple[str, str], Document] = {}
    room = _CHARS
    for document in documents:
        if len(chunks) == _CHUNKS:
            break
        key = (document.id, document.content)
        if key not in chunks and len(document.content) <= room:
            chunks[key] = document
            room -= len(document.content)
    return tuple(chunks.values())
