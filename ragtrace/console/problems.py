"""Answers to errors, without content of chat logs: problem details (RFC 9457) under /api, pages elsewhere."""

import http
import logging
import traceback
from collections.abc import Mapping
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragtrace.console import template_engine
from ragtrace.errors import DataError, RagtraceError, SettingError, StoreError

_log = logging.getLogger("ragtrace.console")


class Problem(HTTPException):
    """An answer that is an error: its status, a title, and what to do."""

    def __init__(self, status: int, title: str, detail: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        self.title = title


class LoginNeededError(Problem):
    """The route needs a user, and the request has none."""

    def __init__(self) -> None:
        headers = {"WWW-Authenticate": 'Bearer realm="ragtrace"'}
        super().__init__(401, "Sign in", "Send a session's cookie or an API token: Authorization: Bearer …", headers)


def answer(request: Request, status: int, title: str, detail: str = "", **more: object) -> Response:
    """The error as its reader wants it."""
    if is_api(request.url.path):
        content = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
        return JSONResponse(content, status, media_type="application/problem+json")
    try:
        return template_engine.render(
            request, "error.html.j2", status=status, title=title, detail=detail, status_code=status
        )
    except Exception as error:  # noqa: BLE001 what tells of an error must not fail itself
        _log.error("ragtrace console: %s", where(error))
        return PlainTextResponse(f"{title}\n{detail}", status)


def is_api(path: str) -> bool:
    """Whether a program asks."""
    return path == "/healthz" or path.startswith("/api/")


def install(app: FastAPI) -> None:
    """Give the application these answers."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(RagtraceError, _ours)
    app.add_exception_handler(SQLAlchemyError, _database)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, LoginNeededError) and not is_api(request.url.path):
        back = request.url.path if request.method == "GET" else "/"
        query = f"?{request.url.query}" if request.method == "GET" and request.url.query else ""
        return RedirectResponse(f"/login?next={quote(back + query)}", 303)
    title = error.title if isinstance(error, Problem) else http.HTTPStatus(error.status_code).phrase
    # The framework's own details quote what was sent.
    detail = error.detail if isinstance(error, Problem) else ""
    response = answer(request, error.status_code, title, detail)
    response.headers.update(error.headers or {})
    return response


async def _invalid(request: Request, error: Exception) -> Response:
    """Where and why; what was sent (pydantic's `input`) is not sent back."""
    assert isinstance(error, RequestValidationError)
    errors = [{"where": _place(one["loc"]), "why": str(one["msg"])[:200]} for one in error.errors()[:20]]
    text = "; ".join(f"{one['where']}: {one['why']}" for one in errors)
    return answer(request, 422, "The request is invalid", text[:2_000], errors=errors)


def _place(where: tuple[int | str, ...]) -> str:
    # The name of a field that is unknown is the client's own text.
    return ".".join(str(part)[:60] for part in where[:8])


async def _ours(request: Request, error: Exception) -> Response:
    if isinstance(error, StoreError):
        return _away(request, str(error))  # which names the database, for the log alone
    status = 422 if isinstance(error, SettingError) else 409 if isinstance(error, DataError) else 500
    if status == 500:
        _log.error("ragtrace console: %s", type(error).__name__)
    return answer(request, status, "The request cannot be fulfilled", str(error)[:1_000])


async def _database(request: Request, error: Exception) -> Response:
    if isinstance(error, (OperationalError, InterfaceError, PoolTimeoutError)):
        return _away(request, where(error))
    if isinstance(error, IntegrityError):  # two at the same time; the first one won
        return answer(
            request, 409, "Another change came first",
            "Your change does not fit the current state. Load the page again.",
        )  # fmt: skip
    _log.error("ragtrace console: %s", where(error))  # its message may hold the statement and its parameters
    return answer(request, 500, "The console failed", "The server's log has the error. Tell an admin of the console.")


def _away(request: Request, why: str) -> Response:
    _log.error("ragtrace console: %s", why)
    response = answer(request, 503, "The database cannot be reached", "Nothing was changed. Try again in a moment.")
    response.headers["Retry-After"] = "5"
    return response


def where(error: BaseException) -> str:
    """An exception's type and the lines of code it came through, innermost first: no message, no values."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return f"{type(error).__name__} at " + " < ".join(f"{f.filename}:{f.lineno} {f.name}" for f in reversed(frames))


class Catching:
    """ASGI middleware: an unexpected error becomes an answer and one line of log, without its message."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except ClientDisconnect:
            return  # the client has gone, so there is no one to answer
        except Exception as error:  # noqa: BLE001 the last place where it can be kept from the log
            if started:
                _log.error("ragtrace console: %s", where(error))
                return  # the server sees an answer without end, and closes the connection
            request = Request(scope, receive)
            is_away = isinstance(error, StoreError)  # which names the database, for the log alone
            response = _away(request, str(error)) if is_away else await _database(request, error)
            await response(scope, receive, send)
