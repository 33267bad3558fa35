"""The one door to the content of chat logs: every page and route reads traces, reviews and exports through it.

What comes through is masked, unless the user's role may read personal data (setting `unmasked_roles`). A search also
tells whether a text is there, so the search of a role that sees masked texts looks at the masked texts."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import Request

from ragtrace.console import attempts
from ragtrace.console.access import User, settings_of, store_of
from ragtrace.console.chatlogs import full_text, search, store_types
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Filter, Page, Review, StoredTrace, TraceSummary
from ragtrace.console.masks import mask_review, mask_row, mask_trace, unmask_evidence
from ragtrace.console.problems import Problem
from ragtrace.console.review import dataset_export
from ragtrace.console.review.verdicts import check_evidence, read_reviews, submit
from ragtrace.console.topics.topic_figures import ALL_TOPICS, KnowledgeGap, TopicChoice, knowledge_gaps
from ragtrace.text.redaction import mask_pii

_SEARCH_SECONDS = 2.0
"""Seconds after which a search in masked texts looks at no further page."""


def may_read_personal_data(request: Request, user: User) -> bool:
    """Whether this user sees texts as they are."""
    return user.role in settings_of(request).unmasked_roles


def find_trace(request: Request, user: User, trace: str | int) -> StoredTrace | None:
    """A stored trace by its 32 hexadecimal digits or its id in the store; None if it is not there."""
    stored = store_of(request).get(trace)
    return stored if stored is None or may_read_personal_data(request, user) else mask_trace(stored)


def get_trace(request: Request, user: User, trace: str | int) -> StoredTrace:
    """As `find_trace`. Raises Problem (404) if it is not there."""
    stored = find_trace(request, user, trace)
    if stored is None:
        detail = "It was never stored, or it was deleted when its time was over."
        raise Problem(404, "There is no such trace", detail)
    return stored


def find_traces(
    request: Request, user: User, filter: Filter, *, after: str | None, order: str, limit: int = 50
) -> Page:
    """A page of a list. A role that sees masked texts finds the words that it sees: a word under a mask finds nothing.

    Raises Problem (403) where such a role searches by user, session or tenant, Problem (429) where it searches too
    often, SettingError for a search that the store cannot do."""
    store = store_of(request)
    if may_read_personal_data(request, user):
        return search.find(store, filter, after=after, limit=limit, order=order)
    if filter.user_id or filter.session_id or filter.tenant:
        title = "Your role may not read personal data"
        raise Problem(403, title, "It cannot search by user, session or tenant. Remove these filters.")
    if filter.text and (wait := attempts.begin_search(store, user.id)):
        detail = f"Your role may search {attempts.MASKED_SEARCHES} times in {attempts.WINDOW / 60:.0f} minutes."
        raise Problem(429, "There were too many searches", detail, {"Retry-After": str(wait)})
    phrases, end = full_text.parse_phrases(filter.text), time.monotonic() + _SEARCH_SECONDS
    page = search.find(store, filter, after=after, limit=limit, order=order)
    if filter.text:
        visible = _only_visible(store, page, phrases)
        while not visible.rows and page.after and time.monotonic() < end:
            page = search.find(store, filter, after=page.after, limit=limit, order=order)
            visible = _only_visible(store, page, phrases)
        page = visible
    return replace(page, rows=tuple(map(mask_row, page.rows)))


def _only_visible(store: Store, page: Page, phrases: Sequence[Sequence[str]]) -> Page:
    """The rows whose masked texts contain the phrases. Neither the number of matches nor a cursor after an empty page
    is kept: both would show that the words are under a mask."""
    rows = []
    for row in page.rows:
        stored = store.get(row.id)
        if stored is None:
            continue
        trace = mask_trace(stored).trace
        entry = full_text.index_words(row.id, trace.query, trace.answer, [d.content for d in trace.documents])
        if full_text.contains(entry, phrases):
            rows.append(row)
    return Page(tuple(rows), page.after if rows else None, None)


def find_summaries(request: Request, user: User, ids: Sequence[int]) -> tuple[TraceSummary, ...]:
    """Rows of traces by the store's ids, in their order."""
    rows = search.summaries(store_of(request), ids)
    return rows if may_read_personal_data(request, user) else tuple(map(mask_row, rows))


def find_gaps(
    request: Request, user: User, since: float, until: float, app: str, *, topic: TopicChoice = ALL_TOPICS
) -> list[KnowledgeGap]:
    """The questions that the documents do not answer; see `knowledge_gaps`."""
    gaps = knowledge_gaps(store_of(request), since, until, app, topic)
    if may_read_personal_data(request, user):
        return gaps
    return [replace(gap, question=mask_pii(gap.question), document=mask_pii(gap.document)) for gap in gaps]


def find_reviews(request: Request, user: User, stored: StoredTrace) -> tuple[Review, ...]:
    """The reviews of a trace, oldest first; none for a role that may not read personal data."""
    if not may_read_personal_data(request, user):
        return ()
    return tuple(review for _, review in read_reviews(store_of(request), stored))


def find_own_review(request: Request, user: User, stored: StoredTrace) -> Review | None:
    """The user's own newest review of a trace."""
    own = next((review for _, review in reversed(read_reviews(store_of(request), stored, user.id))), None)
    if own is None or may_read_personal_data(request, user):
        return own
    unmasked = store_of(request).get(stored.id)
    return mask_review(own, unmasked.trace.answer if unmasked is not None else "")


def submit_review(
    request: Request, user: User, stored: StoredTrace, review: Review, item: int | None, *, since: float | None = None
) -> int:
    """Store a review, of an item of the queue where there is one. Its marks refer to the answer
    as this user sees it; they are stored in order, with their places in the original answer. `since` is the time of the
    form in Unix seconds. Raises Problem (409) if this user changed the review after it, and as `submit` does."""
    check_evidence(evidence := review.evidence, len(stored.trace.answer))
    own = next((each for _, each in reversed(read_reviews(store_of(request), stored, user.id))), None)
    if not may_read_personal_data(request, user):
        unmasked = store_of(request).get(stored.id)
        evidence = unmask_evidence(unmasked.trace.answer if unmasked is not None else "", evidence)
        review = review if own is None else _with_originals(review, own)
    review = replace(review, evidence=tuple(sorted(set(evidence), key=lambda one: (one.start, one.end))))
    if own and since is not None and (own.created or 0.0) > since and _content_of(review) != _content_of(own):
        raise Problem(409, "The verdict was not kept", "You judged this log since it was shown. Open it again.")
    task = stored.id if item is None else store_types.Task(item, stored.id, review.trace_id, "", 0.0)
    return submit(store_of(request), task, review, user.id)


def _with_originals(review: Review, own: Review) -> Review:
    """The form showed this user masked texts of their earlier review. A text that is unchanged keeps its original."""
    masked = mask_review(own, "")

    def kept(new: Any, mask: object, text: Any) -> Any:
        return text if isinstance(mask, str) and str(new).split() == mask.split() else new  # line ends may differ

    answers = {n: kept(v, masked.answers.get(n), own.answers.get(n)) for n, v in review.answers.items()}
    texts = {n: kept(getattr(review, n), getattr(masked, n), getattr(own, n)) for n in ("comment", "corrected")}
    return replace(review, **texts, answers=answers)


def _content_of(review: Review) -> tuple[object, ...]:
    """What two reviews must have in common to be the same."""
    texts = [" ".join((text or "").split()) for text in (review.comment, review.corrected)]
    return set(review.verdicts), texts, dict(review.answers), set(review.evidence)


def export_reviewed(
    request: Request, user: User, file: Path, options: dataset_export.Options, *, mask: bool
) -> tuple[dataset_export.ExportResult, bool]:
    """Write the reviewed logs as a data set; whether its texts are masked, because the user asks for it or must."""
    masked = mask or not may_read_personal_data(request, user)
    options = replace(options, redact=mask_pii if masked else None)
    return dataset_export.export(store_of(request), file, options), masked
