"""Asks a backend's REST API. Credentials are in headers alone: never in a URL, an error or a log line."""

import base64
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from requests import PreparedRequest, Request, RequestException, Response
from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry

from ragtrace._version import __version__
from ragtrace.base.background import after_fork
from ragtrace.errors import RagtraceError, SettingError
from ragtrace.settings.value_forms import check_address
from ragtrace_backends.http_session import BoundedSession

_TIMEOUT = 30.0
"""Seconds of a whole request."""
_BUSY = frozenset({408, 425, 429, 502, 503, 504})
_LONGEST = 600.0
"""Seconds of a Retry-After that are obeyed at most."""


class BackendError(RagtraceError):
    """A backend did not do what it was asked."""


class UnavailableError(BackendError):
    """The backend does not answer, or is busy: the same request may succeed later."""

    retry_after = 0.0
    """Seconds in the header Retry-After; 0 without one."""


class ServerError(BackendError):
    """The backend failed with status 500: it may be broken, or the request may be one that it cannot process."""


class RefusedError(BackendError):
    """The backend refuses the request, now and later."""

    def __init__(self, message: str, status: int, body: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = body

    @property
    def is_for_all(self) -> bool:
        """Whether it would refuse every request: the credentials or the address are wrong."""
        return self.status in (401, 403, 404, 405, 410) or 300 <= self.status < 400

    @property
    def reason(self) -> str:
        """In one word, for a counter."""
        return "unauthorized" if self.status in (401, 403) else "refused"


def check_url(setting: str, url: str) -> str:
    """The URL without a slash at its end. Raises SettingError for one that is not http or https, and for one with a
    user, password, query or fragment; the message does not repeat it."""
    check_address(url.strip(), setting)
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https"):
        raise SettingError(f"{setting} is no URL of a server; give one like http://localhost:6006")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise SettingError(f"{setting} contains a user, a password or a query; keys belong into environment variables")
    return url.strip().rstrip("/")


def find_url(setting: str, url: str, variables: Sequence[str]) -> str:
    """The checked URL of a setting; for `env` the one in the first of these environment variables that is set.

    Raises SettingError as `check_url`, and where none of the variables is set."""
    if url.strip().lower() != "env":
        return check_url(setting, url)
    for variable in variables:
        if value := os.environ.get(variable, "").strip():
            return check_url(variable, value)
    raise SettingError(f"{setting} is env, but {' and '.join(variables)} is not set; give the URL of the server")


def basic(user: str, password: str) -> str:
    """The value of the header `authorization` for a user and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def parse_headers(text: str) -> dict[str, str]:
    """Headers from `name=value,name=value`, where values may be percent-encoded, as OpenTelemetry writes them."""
    pairs = [item.partition("=") for item in text.split(",")]
    return {name.strip().lower(): unquote(value.strip()) for name, sign, value in pairs if sign and name.strip()}


class RestClient:
    """Asks one server, over connections that stay open. Follows no redirect, which would get the credentials."""

    def __init__(self, name: str, url: str, headers: Mapping[str, str]) -> None:
        """`url` is one that `check_url` returned."""
        self.name = name
        self._url = url
        self._headers = {"user-agent": f"ragtrace/{__version__}", "accept": "application/json", **headers}
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self._session = BoundedSession()  # a forked child must not use its parent's connections
        self._session.auth = self._authorize  # else requests would read other credentials from ~/.netrc

    def _authorize(self, request: PreparedRequest) -> PreparedRequest:
        request.headers.update(self._headers)
        return request

    def ask(self, method: str, path: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """The decoded answer. Raises UnavailableError, ServerError or RefusedError."""
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = {} if body is None else {"content-type": "application/json"}
        request = Request(method, self._url + path, headers=headers, data=content, params=params)
        try:
            prepared = self._session.prepare_request(request)
            options = self._session.merge_environment_settings(prepared.url, {}, None, None, None)
            response = self._session.send(prepared, timeout=_TIMEOUT, allow_redirects=False, **options)
        except (RequestException, OSError) as error:
            raise UnavailableError(f"{self.name} at {self._url} does not answer: {type(error).__name__}") from None
        status = response.status_code
        message = f"{self.name} at {self._url} answered {method} {path} with {status}"
        if status in _BUSY:
            busy = UnavailableError(message)
            busy.retry_after = _seconds(response)
            raise busy
        if status >= 500:
            raise ServerError(f"{message}: {response.text[:200]}")
        if status >= 300:
            raise RefusedError(f"{message}: {response.text[:200]}", status, response.text)
        try:
            return json.loads(response.content or b"null")
        except ValueError:
            raise UnavailableError(f"{message}, but not with JSON") from None

    def close(self) -> None:
        """End the requests that are under way, and close the connections."""
        self._session.close()


def _seconds(response: Response) -> float:
    """What the header Retry-After says, a number of seconds or a date; 0 where it says nothing."""
    try:
        return min(Retry().get_retry_after(response) or 0.0, _LONGEST)  # type: ignore[arg-type]  # reads headers alone
    except InvalidHeader:
        return 0.0
