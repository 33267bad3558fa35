"""Loads litellm when the judge is used, checks a model's name, returns its prices and its key, bounds answers."""

import os
import time
from collections.abc import Iterator
from typing import Any

from ragtrace.errors import SettingError, package
from ragtrace.settings import Settings
from ragtrace.settings import prices as model_prices


def load() -> Any:
    # Its list of prices comes with the package; nothing is fetched at import.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = package("litellm", "judge", "The judge")
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    if litellm.client_session is None:
        litellm.client_session = bounded_client(_tls(litellm))
    return litellm


def _tls(litellm: Any) -> Any:
    """How litellm checks certificates: `verify` of httpx."""
    try:
        from litellm.llms.custom_httpx.http_handler import get_ssl_configuration
    except ImportError:  # an older release
        return litellm.ssl_verify
    return get_ssl_configuration()


def prices(litellm: Any, settings: Settings) -> tuple[float, float]:
    """US dollars per token of prompt and of answer."""
    if configured := model_prices(settings.model_prices).get(settings.judge_model):
        return configured[0] / 1e6, configured[1] / 1e6
    try:
        listed = litellm.get_model_info(settings.judge_model)
        per_token: tuple[Any, Any] = (listed.get("input_cost_per_token"), listed.get("output_cost_per_token"))
    except Exception:  # noqa: BLE001 litellm's own kinds vary with its versions; whatever it is, there is no price
        per_token = (None, None)
    if None in per_token:
        raise SettingError(
            f"judge_model is {settings.judge_model!r}, which has no listed price, so that no budget could hold; set "
            f"model_prices to {settings.judge_model}=INPUT/OUTPUT (US dollars for a million tokens; 0/0 if it costs "
            "nothing)"
        )
    return float(per_token[0]), float(per_token[1])


def check_provider(litellm: Any, settings: Settings) -> None:
    """Raises SettingError for a model whose provider litellm does not know: each request would be refused."""
    model = settings.judge_model
    try:
        litellm.get_llm_provider(model, api_base=settings.judge_api_base or None)
    except Exception as error:
        own = f"; for the server of judge_api_base it is openai/{model}" if settings.judge_api_base else ""
        raise SettingError(
            f"judge_model is {model!r}, whose provider litellm does not know; write PROVIDER/MODEL, e.g. "
            f"openai/gpt-4o-mini{own}"
        ) from error


def key(litellm: Any, settings: Settings) -> str | None:
    environment = litellm.validate_environment(model=settings.judge_model)
    if environment["keys_in_environment"] or not environment["missing_keys"]:
        return None
    if settings.judge_api_base:
        return "none"  # a server of one's own may want no key, but the client wants one to send
    raise SettingError(
        f"judge_model is {settings.judge_model!r}, whose key is not set; set the environment variable "
        f"{' and '.join(environment['missing_keys'])}"
    )


_LARGEST_BODY = 16 * 1024 * 1024
"""Bytes of an answer that are read at most: a million tokens have about four million."""
_LARGEST_COMPRESSED_BODY = 64 * 1024
"""The same of a compressed answer, which a few bytes can make a thousand times as long. It is not asked for."""
_LONGEST = 600.0
"""Seconds that an answer may take where its request has no timeout."""


def bounded_client(verify: Any) -> Any:
    """An `httpx.Client` that ends an answer that is too long with `httpx.ReadError`, and one that takes longer than the
    timeout of its request with `httpx.ReadTimeout`. httpx itself limits the wait for each byte alone. `verify` is its
    own argument."""
    import httpx

    class BoundedStream(httpx.SyncByteStream):
        """The bytes of a body, up to a size and a time."""

        def __init__(self, stream: Any, size: int, seconds: float) -> None:
            self._stream, self._size, self._seconds = stream, size, seconds

        def __iter__(self) -> Iterator[bytes]:
            size, end = 0, time.monotonic() + self._seconds
            for piece in self._stream:
                size += len(piece)
                if size > self._size:
                    raise httpx.ReadError(f"the judge's answer has more than {self._size} bytes")
                if time.monotonic() > end:
                    raise httpx.ReadTimeout(f"the judge's answer takes longer than {self._seconds:g} s")
                yield piece

        def close(self) -> None:
            self._stream.close()

    def bound(response: httpx.Response) -> None:
        timeout = response.request.extensions.get("timeout") or {}
        is_compressed = response.headers.get("content-encoding", "identity") != "identity"
        size = _LARGEST_COMPRESSED_BODY if is_compressed else _LARGEST_BODY
        response.stream = BoundedStream(response.stream, size, timeout.get("read") or _LONGEST)

    return httpx.Client(
        verify=verify, follow_redirects=True, headers={"Accept-Encoding": "identity"}, event_hooks={"response": [bound]}
    )
