"""Objects of an application that raise when they are looked at, as closed connections and unbound proxies do."""

from typing import Any


class Unreadable:
    """Has neither a text nor a truth."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __bool__ = __len__ = __iter__ = __str__


class Unbound:
    """Has no attribute."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no request")


class ClosedMapping(dict[str, Any]):
    """Gives no value."""

    def get(self, *_arguments: Any) -> Any:
        raise RuntimeError("closed")

    keys = items = values = __iter__ = __getitem__ = get
