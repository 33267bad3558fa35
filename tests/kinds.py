"""Kinds of tests: what a test needs beside its own process. `pytest --fast` leaves all of them out.

MODULES names the kind of whole folders and modules; single tests carry the marker. A test for PostgreSQL is a `server`
test by its fixture or parameter. A test without a marker fails if it starts a process or listens at a port."""

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis
import pytest

from tests.row_files import table

KINDS: dict[str, str] = table(__file__, "kinds")
MODULES: dict[str, str] = table(__file__, "modules")
"""The kind of folders and modules below tests/. A module's own line has precedence over its folder's."""
HERE = Path(__file__).parent
_EVENTS = {"subprocess.Popen": "process", "os.fork": "process", "os.posix_spawn": "process", "socket.bind": "server"}
"""Audit events, and the kind of the tests that may cause them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--with-ray", action="store_true", help="run the tests that need Ray, too")
    parser.addoption("--fast", action="store_true", help=f"leave out the tests of these kinds: {', '.join(KINDS)}")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for kind, meaning in KINDS.items():
        config.addinivalue_line("markers", f"{kind}: {meaning}")
    config.pluginmanager.register(_Audit(), "audit")
    if config.getoption("fast"):
        config.pluginmanager.register(_Fast(), "fast")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests that need Ray."""
    is_below = collection_path.is_relative_to(HERE) and not config.getoption("with_ray")
    return True if is_below and _kind(collection_path) == "ray" else None


def pytest_collection_finish() -> None:
    """Keep what the imports of all test modules made out of later garbage collections, which then are cheap."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have slow modules first: the fast ones then fill the time of all test processes to the end."""
    items.sort(key=lambda item: _kind(item.path) is None)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a test the kind of its module and of its fixtures."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if kind := _kind(item.path):
        item.add_marker(kind)
    if "postgresql" in getattr(item, "fixturenames", ()) or "postgresql" in parameters:
        item.add_marker("server")


def _kind(path: Path) -> str | None:
    below = path.relative_to(HERE)
    return MODULES.get(below.as_posix()) or MODULES.get(below.parts[0])


# No test asserts a duration: the first example of a test may load a library, and other programs may run beside it.
# Hypothesis' profile stays the parent: in CI its examples are always the same.
hypothesis.settings.register_profile(
    "untimed", hypothesis.settings.default, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")


class _Fast:
    """Leaves out the tests of all kinds without importing modules of one kind, and tries fewer random inputs."""

    def __init__(self) -> None:
        hypothesis.settings.register_profile("fast", hypothesis.settings.default, max_examples=10)
        hypothesis.settings.load_profile("fast")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return True if collection_path.is_relative_to(HERE) and _kind(collection_path) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        others = [item for item in items if _is_marked(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


class _Audit:
    """Fails a test without a marker that starts a process or listens at a port. Threads that ran before the test are
    not looked at: what they do was begun by another."""

    test: str | None = None
    events: list[str]
    others: frozenset[int]

    def __init__(self) -> None:
        self.events = []
        sys.addaudithook(self._audit)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.events.clear()
        self.others = frozenset(sys._current_frames()) - {threading.get_ident()}
        self.test = None if _is_marked(item) else item.nodeid
        try:
            result = yield
        finally:
            self.test = None
        if self.events:
            pytest.fail(f"this test needs a marker ({', '.join(KINDS)}): it caused {', '.join(set(self.events))}")
        return result

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.test or event not in _EVENTS:
            return
        is_unix_socket = event == "socket.bind" and not isinstance(arguments[1], tuple)
        if not is_unix_socket and not _in_import() and threading.get_ident() not in self.others:
            self.events.append(f"{event} ({_EVENTS[event]}): {arguments!r:.200}")


def _is_marked(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(kind) for kind in KINDS)


def _in_import() -> bool:
    """Whether a module is being imported: some libraries ask a program then what machine this is."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None
