"""Values that are made on first use, results that are remembered, threads that are started on demand, and groups of a
bounded size."""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

from ragtrace.base.background import after_fork

T = TypeVar("T")
K = TypeVar("K")


class Latest(OrderedDict[K, T]):
    """A dictionary of the latest entries: one too many takes the place of the oldest."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: T) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)


class Lazy(Generic[T]):
    """Makes a value on first use, once for all threads, and once more in a forked child: sessions hold threads.

    `make` may take arguments that can be hashed, e.g. a model's name: then there is one value for each of them."""

    def __init__(self, make: Callable[..., T], limit: int = 16) -> None:
        """`limit`, at least 2, is the number of values that are kept; the oldest is forgotten first."""
        self._default = self._make = make
        self._limit = limit
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[Hashable, ...], T] = {}

    def get(self, *key: Hashable) -> T:
        """The value of these arguments. What `make` raises is raised each time: a package may be installed later."""
        if key in (values := self._values):
            return values[key]
        with self._lock:
            if key not in self._values:
                value = self._make(*key)
                newest = list(self._values.items())[1 - self._limit :]
                self._values = {**dict(newest), key: value}
            return self._values[key]

    def forget(self, *key: Hashable) -> T | None:
        """Remove and return the value for these arguments; None if no value was made. The next `get` makes one."""
        with self._lock:
            value, self._values = self._values.get(key), {k: v for k, v in self._values.items() if k != key}
        return value

    def use(self, make: Callable[..., T] | None) -> None:
        """Make values this way from now on, in forked children too; None for the first way. All values are removed."""
        with self._lock:
            self._make, self._values = make or self._default, {}


class Recent(Generic[T]):
    """The latest results by the texts that they were computed from: evaluators that need the same one share it. Keeps
    digests of the texts, not the texts. Safe to use from threads, and without a lock: redaction uses it in the
    application's threads, where a finalizer may end a request in the middle of another one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self._results: OrderedDict[bytes, T] = OrderedDict()

    def get(self, texts: Iterable[str], compute: Callable[[], T]) -> T:
        """The result for these texts, computed if it is not among the latest."""
        digest = hashlib.blake2b(digest_size=16)
        for text in texts:
            digest.update(text.encode("utf-8", "replace") + b"\0")
        key, results = digest.digest(), self._results
        with suppress(KeyError):
            results.move_to_end(key)
            return results[key]
        result = results[key] = compute()
        with suppress(KeyError):  # another thread was faster
            while len(results) > self._size:
                results.popitem(last=False)
        return result


class LazyThread:
    """A daemon thread that is started on demand, and again where it could not be started or has ended.

    It is started outside of any lock: a new thread may run finalizers before it says that it has started, and these may
    need that lock."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        """`run` is what the thread does, and `name` its name."""
        self._name, self._run = name, run
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs, or is being started."""
        thread = self._thread
        return thread is not None and (thread.ident is None or thread.is_alive())

    def start(self) -> bool:
        """Start the thread unless it runs; False where the system gives no further thread at present. Never raises."""
        with self._lock:
            if self.is_alive:
                return True
            thread = self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._thread = None
            return False
        return True


def groups_of(items: Iterable[T], size: Callable[[T], int], room: float, most: float = math.inf) -> Iterator[list[T]]:
    """The items in their order, in groups: none has more than `most` items, and their sizes add up to at most `room`.
    An item that is larger than `room` is a group of its own."""
    group: list[T] = []
    used = 0
    for item in items:
        own = size(item)
        if group and (used + own > room or len(group) >= most):
            yield group
            group, used = [], 0
        group.append(item)
        used += own
    if group:
        yield group
