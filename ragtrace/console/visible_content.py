"""The one door to the content of chat logs: every page and route reads traces, reviews and exports through it.

What comes through is masked, unless the user's role may read personal data (setting `unmasked_roles`). A search also
tells whether a text is there, so a role that sees masked texts may not search for what is under the masks.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import Request
from sqlalchemy import select

from ragtrace.chatlogs import search
from ragtrace.chatlogs.schema import reviews, users, verdicts
from ragtrace.chatlogs.store_types import Filter, Page, Review, StoredTrace, Verdict
from ragtrace.console.access import User, settings_of, store_of
from ragtrace.console.masks import mask_review, mask_row, mask_trace
from ragtrace.console.problems import Problem
from ragtrace.review import dataset_export
from ragtrace.text.redaction import mask_pii

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_HEX = re.compile(r"[0-9a-f]{32}")
_MAX_DIGITS = 4
"""Digits that a search may hold where texts are masked: a year, an error's code. A long number is found piece by
piece."""


def may_read_personal_data(request: Request, user: User) -> bool:
    """Whether this user sees texts as they are."""
    return user.role in settings_of(request).unmasked_roles


def find_trace(request: Request, user: User, trace: str | int) -> StoredTrace | None:
    """A stored trace by its 32 hexadecimal digits or its id in the store; None if it is not there."""
    key = trace.lower() if isinstance(trace, str) else trace
    if isinstance(key, str) and not _HEX.fullmatch(key):
        return None
    stored = _read_unmasked_trace(store_of(request), key)
    return stored if stored is None or may_read_personal_data(request, user) else mask_trace(stored)


def get_trace(request: Request, user: User, trace: str | int) -> StoredTrace:
    """As `find_trace`. Raises Problem (404) if it is not there."""
    stored = find_trace(request, user, trace)
    if stored is None:
        detail = "It was never stored, or it was deleted when its time was over."
        raise Problem(404, "There is no such trace", detail)
    return stored


def _read_unmasked_trace(store: Store, trace: str | int) -> StoredTrace | None:
    return store.get(trace)


def find_traces(
    request: Request, user: User, filter: Filter, *, after: str | None, order: str, limit: int = 50
) -> Page:
    """A page of a list. Raises Problem (403) for a search that would tell what is under the masks, SettingError for
    one that the store cannot do."""
    masked = not may_read_personal_data(request, user)
    if masked:
        _refuse_personal_search(filter)
    page = search.find(store_of(request), filter, after=after, limit=limit, order=order)
    return replace(page, rows=tuple(map(mask_row, page.rows))) if masked else page


def _refuse_personal_search(filter: Filter) -> None:
    title = "Your role may not read personal data"
    if filter.user_id or filter.session_id:
        raise Problem(403, title, "It cannot search by user or session. Remove these filters.")
    if mask_pii(filter.text) != filter.text or sum(c.isdigit() for c in filter.text) > _MAX_DIGITS:
        raise Problem(403, title, "It cannot search for addresses or long numbers. Search for words.")


def find_reviews(request: Request, user: User, stored: StoredTrace) -> tuple[Review, ...]:
    """The reviews of a trace, oldest first; none for a role that may not read personal data."""
    return _read_unmasked_reviews(store_of(request), stored) if may_read_personal_data(request, user) else ()


def find_own_review(request: Request, user: User, stored: StoredTrace) -> Review | None:
    """The user's own newest review of a trace."""
    own = _read_unmasked_reviews(store_of(request), stored, user.id)
    if not own:
        return None
    return own[-1] if may_read_personal_data(request, user) else mask_review(own[-1])


def _read_unmasked_reviews(store: Store, stored: StoredTrace, user: int | None = None) -> tuple[Review, ...]:
    trace_id = f"{stored.trace.trace_id:032x}"
    query = select(reviews, users.c.name).outerjoin(users, users.c.id == reviews.c.user)
    query = query.where(reviews.c.trace == stored.id).order_by(reviews.c.created)
    if user is not None:
        query = query.where(reviews.c.user == user)
    with store.reading() as connection:
        rows = connection.execute(query).mappings().all()
        labels = connection.execute(select(verdicts).where(verdicts.c.review.in_([row["id"] for row in rows]))).all()
    result = []
    for row in rows:
        texts = store.unseal(trace_id, row, ("comment", "corrected"))
        own = tuple(Verdict(label.evaluator, label.label) for label in labels if label.review == row["id"])
        details = (row["name"], row["seconds"], row["created"], row["source"])
        result.append(Review(trace_id, own, texts["comment"], texts["corrected"], *details))
    return tuple(result)


def export_reviewed(
    request: Request, user: User, file: Path, options: dataset_export.Options, *, mask: bool
) -> tuple[dataset_export.ExportResult, bool]:
    """Write the reviewed logs as a data set; whether its texts are masked, because the user asks for it or must."""
    masked = mask or not may_read_personal_data(request, user)
    options = replace(options, redact=mask_pii if masked else None)
    return dataset_export.export(store_of(request), file, options), masked
