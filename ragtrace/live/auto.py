"""Under `opentelemetry-instrument`: starts evaluation beside the instrumentation, set by the environment."""

import logging
import os
from typing import Any

from ragtrace.settings.value_forms import FRAMEWORKS

_log = logging.getLogger(__name__)


def post_instrument() -> None:
    """Called once all instrumentors are loaded. Never raises: that would abort the application's start."""
    disabled = {n.strip() for n in os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")}
    frameworks = tuple(name for name in FRAMEWORKS if f"ragtrace_{name}" not in disabled)
    options: dict[str, Any] = {} if frameworks == FRAMEWORKS else {"frameworks": frameworks}
    try:
        from ragtrace.live.init import init

        init(**options)
    except Exception:  # noqa: BLE001 see above
        _log.warning("ragtrace: evaluation did not start; spans are recorded without scores", exc_info=True)
