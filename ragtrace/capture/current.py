"""Makes a run's span OpenTelemetry's current one while the run's own code works, finds the run around a call, and
reads who asks from the context.

A span of an HTTP client then hangs below it, and `traceparent` goes out. The place where a span is attached must also
detach it: in the same thread or task, and before the application's next statement. A token of another context is
refused by Python and then has no effect: nothing is logged, and nothing of that context changes."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any, NamedTuple, TypeAlias

from opentelemetry import context as otel_context
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.trace import Span

from ragtrace import semconv
from ragtrace.capture.content import ContentPolicy, tag_attributes
from ragtrace.capture.on_off import is_on
from ragtrace.capture.request import Place, Run
from ragtrace.text.sanitizer import identity_of

_PLACE = otel_context.create_key("ragtrace-place")
_EXPECTED = otel_context.create_key("ragtrace-expected-start")
_NOWHERE = object()
Attachment: TypeAlias = Token[Context]
"""What `detach` takes back."""
_runtime = otel_context._RUNTIME_CONTEXT
_variable = getattr(_runtime, "_current_context", None)
current_context: Callable[[], Context] = _runtime.get_current
_set_context: Callable[[Context], Attachment] = _runtime.attach
if isinstance(_variable, ContextVar):  # its own methods, without a call around them: a request asks twenty times
    current_context, _set_context = _variable.get, _variable.set


def attach(run: Run | None) -> Attachment | None:
    """Make the run's span the current one. Returns None if it is already, and for no run."""
    if run is None:
        return None
    base, place = current_context(), run.place
    if place is None:
        place = run.place = Place(run)
    elif base.get(_PLACE) is place:
        return None
    origin, context = place.latest
    if origin is not base:
        context = otel.set_span_in_context(run.span, Context({**base, _PLACE: place}))
        place.latest = (base, context)
    return _set_context(context)


def detach(token: Attachment | None) -> None:
    """Undo `attach`. Has no effect in another thread or task than the one that attached."""
    if token is None:
        return
    try:
        _runtime.detach(token)
    except (ValueError, RuntimeError):
        return  # another context, or a second time; OpenTelemetry's own `detach` would log it as an error


def expect_start() -> Attachment:
    """Mark the context: the run that starts next may be attached, because the caller detaches it with this token."""
    context = current_context()
    return _set_context(Context({**context, _EXPECTED: context.get(_PLACE, _NOWHERE)}))


def attach_expected(run: Run | None) -> None:
    """Attach a run that has just started, where a caller expects it. What the run itself starts is not expected."""
    context = current_context()
    if run is not None and context.get(_EXPECTED) is context.get(_PLACE, _NOWHERE):
        attach(run)


def run_here() -> Run | None:
    """The run that this code belongs to, as long as its request is open."""
    place = current_context().get(_PLACE)
    return place.run if isinstance(place, Place) else None


def below(run: Run) -> Context:
    """The context of a run below `run`: that of a span that the application has opened in it, else that of `run`."""
    context = otel_context.get_current()
    place, span = context.get(_PLACE), run.span
    if place is not None and place is run.place:
        inner = otel.get_current_span(context)
        if inner is not span and inner.is_recording():
            span = inner
    return otel.set_span_in_context(span, Context())


def outside() -> tuple[Span, Context | None]:
    """The span around a new request, and the context to start its root in; None stands for the current context.

    A task that outlives the request in which it was created still has that request's span: it is not around the next.
    """
    span = otel.get_current_span()
    place = current_context().get(_PLACE)
    if not isinstance(place, Place) or span.get_span_context() is not place.span_context:
        return span, None
    return place.outside, otel.set_span_in_context(place.outside)


def is_suppressed() -> bool:
    """True where ragtrace is switched off, or instrumentation is suppressed, e.g. by OpenInference's function."""
    return not is_on() or bool(current_context().get(otel_context._SUPPRESS_INSTRUMENTATION_KEY))


_has_no_origin = frozenset({semconv.OI_SESSION, semconv.USER_ID, semconv.OI_TAGS, semconv.OI_METADATA}).isdisjoint


class Provenance(NamedTuple):
    """Where a request comes from."""

    session: str | None = None
    user: str | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, object] = {}


def with_context(origin: Provenance) -> Provenance:
    """The origin, completed by what OpenInference's `using_session`, `using_user`, `using_metadata`, `using_tags` and
    `using_attributes` leave in OpenTelemetry's context. The framework's values take precedence."""
    context = current_context()
    if not context or _has_no_origin(context):
        return origin
    session, user = context.get(semconv.OI_SESSION), context.get(semconv.USER_ID)
    tags, metadata = context.get(semconv.OI_TAGS), context.get(semconv.OI_METADATA)
    labels = [identity_of(tag) for tag in tags] if isinstance(tags, (list, tuple)) else []
    return Provenance(
        origin.session if origin.session is not None or not session else identity_of(session),
        origin.user if origin.user is not None or not user else identity_of(user),
        [*origin.tags, *(label for label in labels if label not in origin.tags)],
        {**_mapping(metadata), **origin.metadata},
    )


def describe(run: Run, provenance: Provenance, capture: ContentPolicy) -> None:
    """Set conversation, user, tags and metadata of the run's request: those of its root, completed by those of the
    first run that names a conversation or a user."""
    request = run.request
    if run.parent is not None and request.session is not None and (provenance.user is None or request.user is not None):
        return
    provenance = with_context(provenance)
    if run.parent is not None:
        if provenance.session is None and provenance.user is None:
            return
        session = request.session if request.session is not None else provenance.session
        user = request.user if request.user is not None else provenance.user
        tags = [*request.tags, *(tag for tag in provenance.tags if tag not in request.tags)]
        provenance = Provenance(session, user, tags, {**provenance.metadata, **request.metadata})
    request.session, request.user, request.tags, request.metadata = provenance
    reference = request.metadata.get("reference") if request.metadata else None
    if isinstance(reference, str):
        request.reference = reference
    if any(provenance):
        request.common = tag_attributes(capture, request.session, request.user, request.metadata)


def _mapping(metadata: Any) -> dict[str, object]:
    """Metadata, which OpenInference keeps as JSON."""
    if isinstance(metadata, str):
        try:
            metadata = json.loads(metadata)
        except (ValueError, RecursionError):
            return {}
    return {str(key): value for key, value in metadata.items()} if isinstance(metadata, Mapping) else {}
