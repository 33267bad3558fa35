"""Who saw and changed what. A line is written before the answer to the request leaves; where it cannot be written,
nothing leaves. It never holds content: no search text, no comment, no password."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import insert, select
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store

READS: Mapping[str, str] = {
    "/traces": "trace.search", "/traces/{trace_id}": "trace.view", "/traces/{trace_id}/scores": "trace.view",
    "/conversation": "trace.view", "/costs": "cost.list", "/questions": "question.list",
    "/questions/gaps": "question.gaps", "/questions/{topic}": "question.list", "/knowledge-gaps": "question.gaps",
    "/compare": "compare.view", "/review": "review.view", "/review/next": "review.view",
    "/review/evaluators": "review.evaluators", "/review/done": "review.done", "/review/queues": "queue.list",
    "/export": "export", "/audit": "audit.view", "/users": "user.list", "/tokens": "token.list",
}  # fmt: skip
"""Route, without `/api`, → what reading it is called. What changes something is written down in any case."""
CHANGES: Mapping[str, str] = {
    "POST /login": "login", "POST /logout": "logout", "GET /login/oidc/callback": "login",
    "POST /me/password": "user.password", "POST /users": "user.add", "PATCH /users/{name}": "user.change",
    "POST /tokens": "token.add", "DELETE /tokens/{token}": "token.revoke", "POST /feedback": "feedback",
    "POST /review/next": "review.view", "POST /review": "review.submit", "POST /review/fill": "review.fill",
    "POST /review/submit": "review.submit", "POST /review/{item}/skip": "review.skip",
    "POST /review/{item}/release": "review.release", "POST /review/queues": "queue.save",
    "PATCH /review/queues/{name}": "queue.save", "POST /review/queues/{name}/logs": "queue.send",
    "POST /review/send": "queue.send", "POST /review/bulk": "review.submit", "POST /traces/export": "export",
    "POST /review/questions": "question.save", "PATCH /review/questions/{name}": "question.save",
    "POST /labels": "label.import", "POST /evaluators/{name}/calibrations": "calibration.fit",
    "POST /calibrations/{calibration}/activate": "calibration.activate", "POST /views": "view.add",
    "DELETE /views/{view}": "view.delete", "POST /views/{view}/delete": "view.delete",
    "POST /webhooks/alertmanager": "webhook.alertmanager", "POST /alerts": "webhook.alertmanager",
}  # fmt: skip


@dataclass(slots=True)
class Note:
    """What will be written of the request under way."""

    user: str | None = None
    action: str | None = None
    object: str | None = None
    detail: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the log."""

    id: int
    time: float
    user: str | None
    action: str
    object: str | None
    detail: Mapping[str, Any]
    address: str | None


def note(
    request: Request, *, user: str | None = None, object: str | None = None, action: str | None = None, **detail: object
) -> None:
    """Say more of this request's line: whose it is, which object, and numbers or fixed words, never content. `action`
    replaces what its route stands for."""
    entry = _of(request.scope)
    entry.action = action or entry.action
    entry.user = user or entry.user
    entry.object = object or entry.object
    entry.detail = {**(entry.detail or {}), **detail} or None


def failed_login(request: Request, why: str) -> None:
    """Records a failed sign-in, without the name: people type passwords there."""
    note(request, action="login.failed", why=why)


def _of(scope: Scope) -> Note:
    note: Note = scope.setdefault("ragtrace.audit", Note())
    return note


def write(
    store: Store,
    user: str | None,
    action: str,
    object: str | None = None,
    *,
    detail: Mapping[str, Any] | None = None,
    address: str | None = None,
) -> None:
    """One line, now."""
    detail_json = json.dumps(dict(detail), default=str) if detail else None
    row = {"time": time.time(), "user": user, "action": action[:60], "object": object and object[:300]}
    store.execute(insert(schema.audit).values(**row, detail=detail_json, address=address and address[:60]))


def read(
    store: Store, *, user: str = "", action: str = "", before: int | None = None, limit: int = 100
) -> tuple[Line, ...]:
    """The newest lines, of one user or action if named; `before` the id of the last one seen to go on."""
    table = schema.audit
    query = select(table).order_by(table.c.id.desc()).limit(limit)
    if user:
        query = query.where(table.c.user == user)
    if action:
        query = query.where(table.c.action == action)
    if before is not None:
        query = query.where(table.c.id < before)
    rows = store.rows(query)
    return tuple(Line(**{**row._asdict(), "detail": json.loads(row.detail or "{}")}) for row in rows)


class Auditing:
    """ASGI middleware: writes a request's line as soon as its status is known, before anything of the answer leaves."""

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self.app, self.store = app, store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._record(scope, int(message["status"]))
            await send(message)

        await self.app(scope, receive, recorded)

    async def _record(self, scope: Scope, status: int) -> None:
        entry = _of(scope)
        action = entry.action or action_of(scope)
        if action is None or (entry.user is None and entry.action is None):
            return  # a stranger who was not let in; failed logins bring a note of their own
        detail = dict(entry.detail or {})
        if status >= 400:
            detail["status"] = status
        client = scope.get("client")
        parameters = scope.get("path_params") or {}
        subject = entry.object or ", ".join(str(value) for value in parameters.values()) or None
        line = partial(write, self.store, entry.user, action, subject, detail=detail)
        await run_in_threadpool(line, address=client[0] if client else None)


def action_of(scope: Scope) -> str | None:
    """What a request is called in the log; None for one that is not written down."""
    path = getattr(scope.get("route"), "path_format", None)
    if path is None:
        return None
    path = str(path).removeprefix("/api")
    method = str(scope["method"])
    if change := CHANGES.get(f"{method} {path}"):
        return change
    if method in {"GET", "HEAD"}:
        return READS.get(path)
    return f"{method} {path}"
