"""Loads litellm when the judge is used, checks a model's name, and returns its prices and its key."""

import os
from typing import Any

from ragtrace.errors import SettingError, package
from ragtrace.evaluate.judge.bounded_client import bounded_client
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
