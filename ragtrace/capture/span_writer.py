"""Gives a span attributes that are made when somebody reads them, and redacts what others wrote on it."""

import itertools
import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.trace import Span, Status

from ragtrace import semconv
from ragtrace.base.background import step_aside
from ragtrace.text.sanitizer import Sanitizer, sendable

_STRIDE = 4
"""Spans whose attributes an exporter's thread makes before it lets requests run: the SDK's exports 512 at once."""
_makes = itertools.count(1)
_PLAIN = frozenset({str, int, float, bool})
NAME_LENGTH, STATUS_LENGTH, MESSAGE = 500, 2_000, "exception.message"
"""Characters of a name and of a status that are kept; what the description of a status is, too."""
_ADDRESSES = re.compile(r"(?:^|[._])(?:referer|target|ur[il](?:[._]\w+)?)$")
_PARAMETER = re.compile(
    r"(?i)((?:^|[?&#])[\w%.\[\]-]*(?:user|name|uid|login|session|token|key|password|secret|mail|phone|sig)[\w%.\[\]-]*=)[^&#]+"
)
_ID = re.compile(r"(?:session|user|thread|conversation)[._]?(?:previous_|pseudo\.)?id$", re.I)


def _put(target: BoundedAttributes, attributes: Mapping[str, Any]) -> None:
    """Where no limit applies and every value is plain, spares the SDK's checks: a third of what recording costs."""
    if _takes(target, attributes):
        with target._lock:
            target._dict.update(attributes)
    else:
        for key, value in attributes.items():
            target[key] = value


def _takes(target: BoundedAttributes, attributes: Mapping[str, Any]) -> bool:
    """Whether the SDK would take these attributes as they are."""
    room = target.maxlen is None or len(target._dict) + len(attributes) <= target.maxlen
    if not room or target.max_value_len is not None or target._immutable:
        return False
    others = set(map(type, attributes.values())) - _PLAIN
    if others == {tuple}:
        lists = (value for value in attributes.values() if type(value) is tuple)
        others = {type(item) for values in lists for item in values} - _PLAIN
    return not others


class DeferredAttributes(BoundedAttributes):
    """The attributes of a span that has ended. They are made when they are first read, usually in an exporter's thread:
    the request does not wait until its texts are written out and redacted. A span processor that reads them in the
    request's thread gets the same ones. The SDK's class reads its items from `_dict`."""

    def __init__(self, written: BoundedAttributes, make: Callable[[], Mapping[str, Any]]) -> None:
        """`make` returns what is added to the attributes that are `written` already. It must not raise."""
        self.__dict__.update(vars(written))
        self.written: dict[str, Any] = written._dict
        """The attributes that can be read without making the others."""
        self._make: Callable[[], Mapping[str, Any]] | None = make
        self._make_lock, self._thread = threading.RLock(), threading.get_ident()

    @property
    def _dict(self) -> dict[str, Any]:  # type: ignore[override]
        if self._make is not None:
            with self._make_lock:
                if self._make is not None:
                    added = self._make()
                    complete = BoundedAttributes(self.maxlen, None, immutable=False, max_value_len=self.max_value_len)
                    _put(complete, {key: value for key, value in self.written.items() if key not in added})
                    _put(complete, added)
                    self.written = self.__dict__["_dict"] = complete._dict
                    self.dropped += complete.dropped
                    self._make = None
                    self.__class__ = BoundedAttributes  # type: ignore[assignment]  # an encoder asks for each item
            if threading.get_ident() != self._thread and next(_makes) % _STRIDE == 0:
                step_aside()
        return self.written

    def __bool__(self) -> bool:
        return True


def defer_attributes(span: Span, make: Callable[[], Mapping[str, Any]]) -> None:
    """Have the attributes of a span that is about to end made when they are read; at once where the span is not the
    SDK's own. Values are texts, numbers, truth values, or tuples of these."""
    written = getattr(span, "_attributes", None)
    if type(written) is BoundedAttributes:
        span._attributes = DeferredAttributes(written, make)  # type: ignore[attr-defined]
    else:
        span.set_attributes(make())


def attributes_of(span: Any) -> Any:
    """What can be read of a span's attributes without making those that are deferred. The SDK's own mapping raises an
    exception inside for every absent key, which costs ten times as much as the look-up in the dictionary below it."""
    bounded = getattr(span, "_attributes", None)
    attributes = bounded.written if isinstance(bounded, DeferredAttributes) else getattr(bounded, "_dict", None)
    return attributes if isinstance(attributes, dict) else span.attributes or {}


def redact_written(span: Span, title: str, sanitizer: Any) -> None:
    """Redact, with a `Sanitizer` or a `TextFilter`, what the application and other libraries wrote on an open span of
    ragtrace's, which is the current span while their code works: attributes, events, links, the status and the name,
    where it is not `title` any more.

    A span that is not the SDK's shows nothing of this, and stays as it is."""
    if isinstance(sanitizer, Sanitizer) and sanitizer.redact is None and sanitizer.identify is None:
        return
    written = dict(attributes_of(span)) if hasattr(span, "attributes") else {}
    written.pop(semconv.OPERATION, None)
    if written:
        clean = redacted_attributes(written, sanitizer)
        span.set_attributes(clean)
        for key in written.keys() - clean.keys():
            del span._attributes[key]  # type: ignore[attr-defined]  # the SDK's own; there is no other way
    text = partial(sanitizer.text, limit=NAME_LENGTH)
    _replace(getattr(span, "_events", None), lambda e: type(e)(text(e.name), redacted_item(e, sanitizer), e.timestamp))
    _replace(getattr(span, "_links", None), lambda link: type(link)(link.context, redacted_item(link, sanitizer)))
    if (status := getattr(span, "status", None)) is not None and status.description:
        description = sanitizer.attributes({MESSAGE: status.description}).get(MESSAGE)
        span.set_status(Status(status.status_code, description))
    if (name := getattr(span, "name", title)) != title:
        span.update_name(text(name))


def attributes_for(item: Any, attributes: Any, length: int | None = None) -> BoundedAttributes:
    """Attributes in the place of those of a span, an event or a link, with the number that was dropped of these."""
    copy = BoundedAttributes(attributes=attributes, immutable=True, max_value_len=length)
    copy.dropped = getattr(item, "dropped_attributes", 0)
    return copy


def redacted_item(item: Any, sanitizer: Any) -> BoundedAttributes:
    """The attributes of a span, an event or a link, redacted with a `Sanitizer` or a `TextFilter`."""
    return attributes_for(item, redacted_attributes(item.attributes or {}, sanitizer))


def redacted_attributes(attributes: Mapping[str, Any], sanitizer: Any) -> dict[str, Any]:
    """The attributes redacted, addresses without telling parameters, and with a key the ids of users hashed."""
    values = {key: _named(value) if _ADDRESSES.search(key) else value for key, value in attributes.items()}
    redacted: dict[str, Any] = sanitizer.attributes(values)
    ids = [key for key in redacted if isinstance(values[key], str) and _ID.search(key)] if sanitizer.identify else []
    return redacted | {key: sanitizer.identify(sendable(values[key])) for key in ids}


def _named(address: Any) -> Any:
    """An address without the values of parameters that name a person or open a door."""
    if isinstance(address, (list, tuple)):  # as OpenTelemetry writes headers
        return [_named(each) for each in address]
    return _PARAMETER.sub(r"\1[redacted]", address) if isinstance(address, str) else address


def _replace(items: Any, redacted: Callable[[Any], Any]) -> None:
    """Redact each of the SDK's list of events or links, in its place: the list also counts what it has dropped."""
    if items:
        copies = [redacted(item) for item in items]  # without the lock: a function of the application's may wait here
        with items._lock:
            items._dq.clear()
            items._dq.extend(copies)
