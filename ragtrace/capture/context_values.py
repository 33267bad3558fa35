"""Says where a request comes from: its conversation, user, tags and metadata.

The framework's values are completed by those that OpenInference's `using_session`, `using_user`, `using_metadata`,
`using_tags` and `using_attributes` leave in OpenTelemetry's context. Only names are read; the package is not needed.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragtrace import semconv
from ragtrace.capture.content import ContentPolicy, tag_attributes
from ragtrace.capture.current import current_context
from ragtrace.capture.request import Run
from ragtrace.text.sanitizer import identity_of

_has_no_origin = frozenset({semconv.OI_SESSION, semconv.USER_ID, semconv.OI_TAGS, semconv.OI_METADATA}).isdisjoint


class Provenance(NamedTuple):
    """Where a request comes from."""

    session: str | None = None
    user: str | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, object] = {}


def with_context(origin: Provenance) -> Provenance:
    """The origin, completed by the current context. The values that the framework has take precedence."""
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
