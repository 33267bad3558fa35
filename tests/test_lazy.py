"""Values that are made on first use: once for each key, and no more than are kept."""

import threading
import time
from unittest import mock

import pytest

from ragtrace.base.lazy import Lazy, LazyThread, Recent


def test_the_oldest_value_is_forgotten_first() -> None:
    """Each key has one value; beyond the limit a value is made again."""
    calls: list[str] = []
    lazy: Lazy[None] = Lazy(calls.append, limit=2)
    for name in ("a", "a", "b", "c", "b", "a"):
        lazy.get(name)
    assert calls == ["a", "b", "c", "a"]


def test_a_forgotten_value_is_made_again() -> None:
    """`forget` returns the value, so that its owner can close it."""
    lazy: Lazy[object] = Lazy(object)
    first = lazy.get()
    assert lazy.get() is first
    assert lazy.forget() is first
    assert lazy.forget() is None
    assert lazy.get() is not first


def test_another_way_of_making_holds_until_it_is_taken_back() -> None:
    lazy: Lazy[str] = Lazy(lambda name: f"first {name}")
    assert lazy.get("a") == "first a"
    lazy.use(lambda name: f"second {name}")
    assert lazy.get("a") == "second a"
    lazy.use(None)
    assert lazy.get("a") == "first a"


def test_an_error_is_raised_each_time() -> None:
    """A value that could not be made is tried again: a package may be installed later."""
    errors = [ImportError("no package"), None]

    def make() -> str:
        error = errors.pop(0)
        if error is not None:
            raise error
        return "made"

    lazy: Lazy[str] = Lazy(make)
    with pytest.raises(ImportError):
        lazy.get()
    assert lazy.get() == "made"


def test_recent_results_are_shared_by_their_texts() -> None:
    """Texts joined in another way are others, and the oldest result is forgotten first."""
    recent: Recent[int] = Recent(2)
    computed: list[int] = []

    def compute() -> int:
        computed.append(len(computed))
        return computed[-1]

    results = [recent.get(texts, compute) for texts in (["a", "b"], ["a", "b"], ["ab"], ["c"], ["a", "b"])]
    assert results == [0, 0, 1, 2, 3]


def test_a_thread_that_cannot_be_started_is_tried_again() -> None:
    """The system may give no further thread at present; a thread that has ended is started again."""
    runs: list[int] = []
    thread = LazyThread("test", lambda: runs.append(1))
    with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
        assert not thread.start()
    for expected in (1, 2):
        assert thread.start()
        while thread.is_alive:
            time.sleep(0.001)
        assert len(runs) == expected


def test_a_finalizer_may_ask_for_a_result_while_its_thread_does() -> None:
    """Redaction remembers its results in the application's threads, where a finalizer may end a request at any time."""
    recent: Recent[object] = Recent(2)
    results: list[object] = []

    class AsksAtItsEnd:
        def __del__(self) -> None:
            results.append(recent.get(("a",), lambda: 7))

    def ask() -> None:
        for number in range(5):
            recent.get((str(number),), AsksAtItsEnd)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert set(results) == {7}
