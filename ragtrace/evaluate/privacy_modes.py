"""Turns the setting `redact` into what prepares the texts that leave the process."""

from collections.abc import Callable
from dataclasses import replace

from ragtrace.base.lazy import Recent
from ragtrace.errors import SettingError, require
from ragtrace.settings import Settings
from ragtrace.settings.section import read_secret
from ragtrace.text.redaction import MODES, KeyedHash, TimeLimited, mask_named, mask_pii, redaction_function
from ragtrace.text.sanitizer import Sanitizer

_SHORTEST_KEY = 16


def redact_texts(settings: Settings, function: Callable[[str], str] | None = None) -> tuple[Settings, Sanitizer]:
    """The settings and the sanitizer of the mode that `redact` names, or of the application's function.

    `metadata_only` switches the settings `capture_content` and `explanations` off. Raises SettingError for an unknown
    mode, a function that cannot be called, and a key that is missing, too short or without use; MissingExtraError for
    `names` without the extra `models`."""
    mode = settings.redact
    if function is None and mode and mode not in MODES:
        function = redaction_function(mode, "redact")
    elif function is not None:
        settings = _for_judge(settings, function)
    key = _key(settings)
    hashed = None if key is None else KeyedHash(key)
    identify = None if hashed is None else hashed.identifier
    if function is not None:
        return settings, Sanitizer(_once(TimeLimited(function)), identify=identify)
    if mode == "hash":
        if hashed is None:
            raise SettingError(
                "redact is 'hash', which needs a key: set redact_key to the name of an environment variable, or of a "
                "file, that holds at least 16 characters"
            )
        hashed.text(_WARM_UP)
        return settings, Sanitizer(_once(hashed.text), identify=identify, redact_named=mask_named)
    if mode == "names":
        require("onnxruntime", "models", "redact = names")
        from ragtrace.evaluate.models.person_names import mask_names

        mask_names("Anna Berg lives at 12 Main Street.")  # loads the model at start and not in the first request
        return settings, Sanitizer(_once(mask_names), identify=identify, redact_named=mask_named)
    if mode in ("", "off"):
        return settings, Sanitizer(identify=identify)
    mask_pii(_WARM_UP)
    if mode == "metadata_only":
        settings = replace(settings, capture_content="false", explanations=False)
    return settings, Sanitizer(_once(mask_pii), identify=identify, redact_named=mask_named)


def _for_judge(settings: Settings, function: Callable[[str], str]) -> Settings:
    """The settings with the function's name for the judge, which another process asks."""
    if settings.judge_redact or not settings.judge_model:
        return settings
    module, name = (getattr(function, key, "") for key in ("__module__", "__qualname__"))
    if module in ("", "__main__") or not name or "<" in name:
        raise SettingError(
            f"redact is {function!r}, which the process that asks the judge cannot import; put it into a module, "
            "or set judge_redact to pii, names, off, or module:attribute of a function"
        )
    return replace(settings, judge_redact=f"{module}:{name}")


def _once(redact: Callable[[str], str]) -> Callable[[str], str]:
    """The function with a memory: a question, an answer and a chunk are in many attributes of a request's spans, and
    names of models and tools are in every request. What it raises is not remembered."""
    short: Recent[str] = Recent(_REMEMBERED_SHORT)
    long: Recent[str] = Recent(_REMEMBERED)

    return lambda text: (short if len(text) < _SHORT else long).get((text,), lambda: redact(text))


_REMEMBERED, _REMEMBERED_SHORT = 128, 1_024
"""Redacted texts: those of a few requests, at most 3 MB of ASCII."""
_SHORT = 40
"""Characters: shorter texts, such as names and roles, would push the others out."""
_WARM_UP = "ID number 0 12345678"
"""Compiles the patterns at start and not in the first request."""


def _key(settings: Settings) -> bytes | None:
    text = read_secret("redact_key", settings.redact_key)
    if text is None:
        return None
    if len(text.strip()) < _SHORTEST_KEY:
        raise SettingError(f"the key that redact_key names is too short: give {_SHORTEST_KEY} characters or more")
    return text.strip().encode()
