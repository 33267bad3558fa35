"""The HTTP client of an OpenAI-compatible judge: it ends answers that are too long."""

import time
from collections.abc import Iterator
from typing import Any

_LARGEST_BODY = 16 * 1024 * 1024
"""Bytes of an answer that are read at most: a million tokens have about four million."""
_LARGEST_COMPRESSED_BODY = 64 * 1024
"""The same of a compressed answer, which a few bytes can make a thousand times as long. It is not asked for."""
_LONGEST = 600.0
"""Seconds that an answer may take where its request has no timeout."""


def bounded_client(verify: Any) -> Any:
    """An `httpx.Client` that ends an answer that is too long with `httpx.ReadError`, and one that takes longer than the
    timeout of its request with `httpx.ReadTimeout`. httpx itself limits the wait for each byte alone. `verify` is its
    own argument."""
    import httpx

    class BoundedStream(httpx.SyncByteStream):
        """The bytes of a body, up to a size and a time."""

        def __init__(self, stream: Any, size: int, seconds: float) -> None:
            self._stream, self._size, self._seconds = stream, size, seconds

        def __iter__(self) -> Iterator[bytes]:
            size, end = 0, time.monotonic() + self._seconds
            for piece in self._stream:
                size += len(piece)
                if size > self._size:
                    raise httpx.ReadError(f"the judge's answer has more than {self._size} bytes")
                if time.monotonic() > end:
                    raise httpx.ReadTimeout(f"the judge's answer takes longer than {self._seconds:g} s")
                yield piece

        def close(self) -> None:
            self._stream.close()

    def bound(response: httpx.Response) -> None:
        timeout = response.request.extensions.get("timeout") or {}
        is_compressed = response.headers.get("content-encoding", "identity") != "identity"
        size = _LARGEST_COMPRESSED_BODY if is_compressed else _LARGEST_BODY
        response.stream = BoundedStream(response.stream, size, timeout.get("read") or _LONGEST)

    return httpx.Client(
        verify=verify, follow_redirects=True, headers={"Accept-Encoding": "identity"}, event_hooks={"response": [bound]}
    )
